// A parallel computation graph that substitutions change in place.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include <range/v3/view/zip.hpp>

#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/parallel/pcg/chains.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/parallel/rules/rule_lookup.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel::detail {

// Starts as a tensor graph and keeps track of its nodes by their original numbers. A chain's operator exists once per
// value that it is applied to, as rewriting requires.
class traced_graph {
 public:
  traced_graph(const pcg_algebra& a, const tensor::tensor_graph& g);

  // Numbers of values: what an operator of the tensor graph reads now, and the outputs.
  [[nodiscard]] std::size_t operand(node_id n, std::size_t x) const { return nodes_[current_[n.index()]].operands[x]; }
  [[nodiscard]] std::size_t output(std::size_t i) const { return outputs_[i]; }

  // The chain of unary parallelization operators that ends at a value.
  [[nodiscard]] parallel_chain chain_of(std::size_t v) const;

  // Puts parallelization operators around the operator of node n of the tensor graph.
  // Precondition: the operator accepts operands that are divided this way.
  void divide(node_id n, const axis_operators& around);

  // Replaces operators first, ..., first + count - 1 of the chain that ends at v with others that lead to the same
  // type.
  void replace(std::size_t v, std::size_t first, std::size_t count, const parallel_chain& made);

  // The part of the graph that outputs depend on, as a separate graph. Complexity: linear.
  [[nodiscard]] pcg finish() const;

 private:
  struct node {
    tensor::operation operation{};
    std::optional<parallel_operator> chained{};
    std::vector<std::size_t> operands{};
    std::vector<std::size_t> results{};
  };
  struct value {
    parallel_type type{};
    std::size_t producer = 0;
    std::vector<std::size_t> users{};  // nodes; may include some that no longer read it
  };

  std::size_t add(const tensor::operation& op, std::optional<parallel_operator> chained,
                  std::vector<std::size_t> operands);
  [[nodiscard]] std::optional<std::size_t> known_chained(std::size_t v, const parallel_operator& p) const;
  [[nodiscard]] std::size_t chained(std::size_t v, const parallel_operator& p) {
    const auto known = known_chained(v, p);
    return known ? *known : nodes_[add(algebra_->make(p), p, {v})].results[0];
  }

  // Makes all readers of `from` read `to`, and merges operators of chains that become equal.
  void redirect(std::size_t from, std::size_t to);

  void mark(std::size_t n, std::vector<bool>& needed) const;
  // Writes operands first.
  void write(std::size_t n, pcg& g, std::vector<value_id>& there, std::vector<bool>& written) const;

  const pcg_algebra* algebra_;
  std::vector<node> nodes_{};
  std::vector<value> values_{};
  std::vector<std::size_t> outputs_{};
  std::vector<std::size_t> current_{};  // per node of the tensor graph
};

}  // namespace unity::parallel::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RULES_TRACED_GRAPH)

#include <algorithm>

#include <unity/core/config.hpp>

namespace unity::parallel::detail {

UNITY_INLINE traced_graph::traced_graph(const pcg_algebra& a, const tensor::tensor_graph& g) : algebra_{&a} {
  std::vector<std::size_t> values(g.value_count());
  for (const auto n : node_ids(g)) {
    std::vector<std::size_t> operands;
    for (const auto v : g.operands(n)) {
      operands.push_back(values[v.index()]);
    }
    current_.push_back(add(g.operation(n), std::nullopt, std::move(operands)));
    for (const auto& [v, place] : ranges::views::zip(g.results(n), nodes_.back().results)) {
      values[v.index()] = place;
    }
  }
  for (const auto v : g.outputs()) {
    outputs_.push_back(values[v.index()]);
  }
}

UNITY_INLINE parallel_chain traced_graph::chain_of(std::size_t v) const {
  parallel_chain chain;
  for (auto n = values_[v].producer; nodes_[n].chained; n = values_[nodes_[n].operands[0]].producer) {
    chain.push_back(*nodes_[n].chained);
  }
  std::reverse(chain.begin(), chain.end());
  return chain;
}

UNITY_INLINE void traced_graph::divide(node_id n, const axis_operators& around) {
  const auto old = current_[n.index()];
  auto operands = nodes_[old].operands;
  for (std::size_t x = 0; x < operands.size(); ++x) {
    operands[x] = around.operands[x] ? chained(operands[x], *around.operands[x]) : operands[x];
  }
  const auto made = add(nodes_[old].operation, std::nullopt, std::move(operands));
  current_[n.index()] = made;
  for (std::size_t r = 0; r < nodes_[made].results.size(); ++r) {
    const auto inner = nodes_[made].results[r];
    const auto outer = around.results[r] ? chained(inner, *around.results[r]) : inner;
    redirect(nodes_[old].results[r], outer);
  }
}

UNITY_INLINE void traced_graph::replace(std::size_t v, std::size_t first, std::size_t count,
                                        const parallel_chain& made) {
  auto steps = chain_of(v).size();
  for (; steps > first + count; --steps) {
    v = nodes_[values_[v].producer].operands[0];
  }
  auto from = v;
  for (; steps > first; --steps) {
    from = nodes_[values_[from].producer].operands[0];
  }
  for (const auto& p : made) {
    from = chained(from, p);
  }
  redirect(v, from);
}

UNITY_INLINE pcg traced_graph::finish() const {
  pcg g;
  std::vector<value_id> there(values_.size());
  std::vector<bool> needed(nodes_.size());
  for (const auto v : outputs_) {
    mark(values_[v].producer, needed);
  }
  std::vector<bool> written(nodes_.size());
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    if (needed[n]) {
      write(n, g, there, written);
    }
  }
  std::vector<value_id> outputs;
  for (const auto v : outputs_) {
    outputs.push_back(there[v]);
  }
  g.set_outputs(outputs);
  return g;
}

UNITY_INLINE std::size_t traced_graph::add(const tensor::operation& op, std::optional<parallel_operator> chained,
                                           std::vector<std::size_t> operands) {
  std::vector<parallel_type> types;
  for (const auto v : operands) {
    types.push_back(values_[v].type);
    values_[v].users.push_back(nodes_.size());
  }
  const auto results = algebra_->infer(op, types);
  UNITY_EXPECTS(results.has_value(), "an operator that takes its operands");
  node n{op, chained, std::move(operands), {}};
  for (const auto& t : *results) {
    n.results.push_back(values_.size());
    values_.push_back({t, nodes_.size(), {}});
  }
  nodes_.push_back(std::move(n));
  return nodes_.size() - 1;
}

UNITY_INLINE std::optional<std::size_t> traced_graph::known_chained(std::size_t v, const parallel_operator& p) const {
  for (const auto n : values_[v].users) {
    if (nodes_[n].chained == p && nodes_[n].operands[0] == v) {
      return nodes_[n].results[0];
    }
  }
  return std::nullopt;
}

UNITY_INLINE void traced_graph::redirect(std::size_t from, std::size_t to) {
  if (from == to) {
    return;
  }
  std::replace(outputs_.begin(), outputs_.end(), from, to);
  for (const auto n : std::exchange(values_[from].users, {})) {
    if (std::find(nodes_[n].operands.begin(), nodes_[n].operands.end(), from) == nodes_[n].operands.end()) {
      continue;
    }
    const auto known = nodes_[n].chained ? known_chained(to, *nodes_[n].chained) : std::nullopt;
    if (known) {
      redirect(nodes_[n].results[0], *known);
      continue;
    }
    std::replace(nodes_[n].operands.begin(), nodes_[n].operands.end(), from, to);
    values_[to].users.push_back(n);
  }
}

UNITY_INLINE void traced_graph::mark(std::size_t n, std::vector<bool>& needed) const {
  std::vector<std::size_t> open{n};
  while (!open.empty()) {
    const auto next = open.back();
    open.pop_back();
    if (!needed[next]) {
      needed[next] = true;
      for (const auto v : nodes_[next].operands) {
        open.push_back(values_[v].producer);
      }
    }
  }
}

UNITY_INLINE void traced_graph::write(std::size_t n, pcg& g, std::vector<value_id>& there,
                                      std::vector<bool>& written) const {
  std::vector<std::size_t> open{n};
  while (!open.empty()) {
    const auto next = open.back();
    const auto missing = std::find_if(nodes_[next].operands.begin(), nodes_[next].operands.end(),
                                      [&](std::size_t v) { return !written[values_[v].producer]; });
    if (missing != nodes_[next].operands.end()) {
      open.push_back(values_[*missing].producer);
      continue;
    }
    open.pop_back();
    if (written[next]) {
      continue;
    }
    written[next] = true;
    std::vector<value_id> operands;
    for (const auto v : nodes_[next].operands) {
      operands.push_back(there[v]);
    }
    std::vector<parallel_type> types;
    for (const auto v : nodes_[next].results) {
      types.push_back(values_[v].type);
    }
    const auto made = g.add_node(nodes_[next].operation, operands, types);
    for (std::size_t r = 0; r < types.size(); ++r) {
      there[nodes_[next].results[r]] = g.results(made)[r];
    }
  }
}

}  // namespace unity::parallel::detail

#endif
