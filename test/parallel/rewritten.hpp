// Parallel computation graphs rewritten rule by rule, by the search's engine.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/cost/cost_model.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/search/rewrite_space.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel::test {

// A graph up to node numbers and duplicates: its nodes and outputs.
struct graph_meaning {
  std::vector<std::uint64_t> nodes{};
  std::vector<std::uint64_t> outputs{};

  friend bool operator==(const graph_meaning&, const graph_meaning&) = default;
};

template <class Algebra>
graph_meaning meaning_of(const Algebra& a,
                         const compact_graph<typename Algebra::op_type, typename Algebra::value_type>& g) {
  std::vector<std::uint64_t> values(g.value_count());
  std::vector<bool> needed(g.node_count());
  for (const auto v : g.outputs()) {
    needed[g.producer(v).index()] = true;
  }
  for (auto n = g.node_count(); n-- > 0;) {
    for (const auto v : g.operands(node_id{n})) {
      needed[g.producer(v).index()] = needed[g.producer(v).index()] || needed[n];
    }
  }
  graph_meaning m;
  for (const auto n : node_ids(g)) {
    auto h = std::uint64_t{std::hash<tensor::operation>{}(g.operation(n))};
    std::vector<std::uint64_t> operands;
    for (const auto v : g.operands(n)) {
      operands.push_back(values[v.index()]);
    }
    if (a.signature(g.operation(n).kind).commutative) {
      std::sort(operands.begin(), operands.end());
    }
    for (const auto v : operands) {
      h = hash_combine(h, v);
    }
    for (std::size_t r = 0; r < g.results(n).size(); ++r) {
      const auto v = g.results(n)[r];
      values[v.index()] = hash_combine(hash_combine(h, r), std::hash<typename Algebra::value_type>{}(g.type(v)));
    }
    if (needed[n.index()]) {
      m.nodes.push_back(h);
    }
  }
  std::sort(m.nodes.begin(), m.nodes.end());
  m.nodes.erase(std::unique(m.nodes.begin(), m.nodes.end()), m.nodes.end());
  for (const auto v : g.outputs()) {
    m.outputs.push_back(values[v.index()]);
  }
  return m;
}

// A constant cost, for tests of reachability.
struct no_cost {
  using cost_type = std::int64_t;

  [[nodiscard]] cost_type node_cost(const tensor::operation&, std::span<const parallel_type>,
                                    std::span<const parallel_type>) const {
    return 1;
  }
  [[nodiscard]] cost_value objective(cost_type total) const { return static_cast<cost_value>(total); }
};

// The graphs that one application of a rule leads to, each with the rule's name.
inline std::vector<std::pair<std::string, pcg>> rewritten(const pcg_algebra& a, const pcg& g, rule_set rules) {
  rewrite_space space{a, no_cost{}, std::move(rules), g};
  const auto start = space.initial();
  std::vector<std::pair<std::string, pcg>> all;
  for (const auto m : start.matches) {
    decltype(space)::scratch_type from;
    decltype(space)::scratch_type to;
    space.prepare(start, from);
    if (space.price(start, m, from)) {
      all.emplace_back(space.rule_of(m).name, space.graph(space.apply(start, m, from, to)));
    }
  }
  return all;
}

// The graphs that one application of the rule direction `name` leads to.
inline std::vector<pcg> rewritten(const pcg_algebra& a, const pcg& g, const syntax::rule& rule,
                                  const std::string& name) {
  auto rules = compile_rule(a, rule);
  std::erase_if(rules, [&](const auto& s) { return s.name != name; });
  std::vector<pcg> all;
  for (auto& [of, made] : rewritten(a, g, std::move(rules))) {
    all.push_back(std::move(made));
  }
  return all;
}

}  // namespace unity::parallel::test
