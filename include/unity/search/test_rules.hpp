// Tests rules of any algebra: compares what a graph computes before and after each application. For tests of rules.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/search/rewrite_space.hpp>

namespace unity {

struct rule_test_options {
  std::uint64_t seed = 0;
  std::size_t graphs = 100;
  std::size_t steps = 8;  // consecutive rewrites of each graph, so that rules meet results of rules
};

struct tested_rule {
  std::string name{};
  std::size_t applications = 0;            // applications compared; 0: the rule was not tested
  std::optional<std::uint64_t> counter{};  // seed of a graph for which the rewritten graph computes something else
};

namespace detail {

struct no_costs {
  using cost_type = std::int64_t;
  [[nodiscard]] std::int64_t node_cost(const auto&, const auto&, const auto&) const { return 0; }
  [[nodiscard]] std::int64_t objective(const std::int64_t& total) const { return total; }
};

}  // namespace detail

// Makes graphs by random(engine), rewrites them wherever a rule applies, and compares evaluate(graph) before and after.
// One result per rule, in their order; the last one is for common subexpressions, which follow from equality in the
// algebra.
// Complexity: one evaluation per application.
// Throws: unity::error if a graph does not fit the algebra, or the algebra breaks its laws on it.
template <pattern_algebra A, class Evaluate, std::invocable<random_engine&> Random>
[[nodiscard]] std::vector<tested_rule> test_rules(const A& a, const rule_set& rules, Evaluate&& evaluate,
                                                  Random&& random, const rule_test_options& options = {}) {
  using space_type = rewrite_space<A, detail::no_costs>;
  std::vector<tested_rule> all;
  for (const auto& s : rules) {
    all.push_back({s.name, 0, {}});
  }
  all.push_back({"common_subexpression", 0, {}});
  for (std::uint64_t seed = options.seed; seed < options.seed + options.graphs; ++seed) {
    random_engine engine{seed};
    space_type space{a, detail::no_costs{}, rules, random(engine)};
    typename space_type::scratch_type from;
    typename space_type::scratch_type to;
    auto here = space.initial();
    const auto expected = evaluate(space.graph(here));
    for (std::size_t step = 0; step < options.steps && !space.moves(here).empty(); ++step) {
      auto next = here;
      const std::vector<match_id> moves(space.moves(here).begin(), space.moves(here).end());
      const auto chosen = engine.below(moves.size());
      for (std::size_t i = 0; i < moves.size(); ++i) {
        space.prepare(here, from);
        if (!space.price(here, moves[i], from)) {
          continue;
        }
        auto after = space.apply(here, moves[i], from, to);
        auto& rule = all[space.rule_number(moves[i])];
        ++rule.applications;
        if (const bool equal = evaluate(space.graph(after)) == expected; !equal) {
          rule.counter = rule.counter ? rule.counter : std::optional{seed};
        } else if (i == chosen) {
          next = std::move(after);
        }
      }
      here = std::move(next);
    }
  }
  return all;
}

}  // namespace unity
