// The cost of a graph.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>

#include <unity/core/error.hpp>

namespace unity {

// An integer, so that sums do not depend on the order of addition. Smaller is better.
using cost_value = std::int64_t;

// cost(g): the cost of a whole graph.
template <class M, class Graph>
concept cost_model = requires(const M& m, const Graph& g) {
  { m.cost(g) } -> std::same_as<cost_value>;
};

template <class C>
concept additive_cost = std::regular<C> && requires(C a, const C& b) {
  { a += b } -> std::same_as<C&>;
  { a -= b } -> std::same_as<C&>;
};

// total += cost, for the costs of the nodes of a graph.
// Throws: unity::error if integers or quantities exceed 63 bits: a total must not wrap around.
template <additive_cost C>
constexpr void add_cost(C& total, const C& cost) {
  if constexpr (std::signed_integral<C>) {
    if (__builtin_add_overflow(total, cost, &total)) {
      throw error{"cost model", "a sum of costs beyond the range of its integers", "smaller costs, or a larger unit"};
    }
  } else if constexpr (requires {
                         { total.count() } -> std::signed_integral;
                       }) {
    auto sum = total.count();
    add_cost(sum, cost.count());
    total = C{sum};
  } else {
    total += cost;
  }
}

// A cost that is a sum over nodes, so that a rewrite changes it locally.
//   cost_type                      what is summed: an additive group, exact (integers)
//   node_cost(op, inputs, outputs) of one node, from the types of its operands and results; independent of the graph
//   objective(total)               what is minimized
// Laws: node_cost is a pure function; objective is monotone in each component of the total.
template <class M, class Algebra>
concept additive_cost_model =
    additive_cost<typename M::cost_type> &&
    requires(const M& m, const typename Algebra::op_type& op, std::span<const typename Algebra::value_type> types,
             const typename M::cost_type& total) {
      { m.node_cost(op, types, types) } -> std::same_as<typename M::cost_type>;
      { m.objective(total) } -> std::same_as<cost_value>;
    };

// An additive cost model with a bound: lower_bound(total) is at most the objective of every state that can be reached
// from one with that total. Lets exact search prune and certify.
template <class M, class Algebra>
concept bounded_cost_model =
    additive_cost_model<M, Algebra> && requires(const M& m, const typename M::cost_type& total) {
      { m.lower_bound(total) } -> std::same_as<cost_value>;
    };

// An additive cost model that knows which values are computed before the priced run: constant weights and what depends
// only on them. A search leaves alone what only computes such values.
//   computed_before(type)   whether a value of this type is one
// Laws: the results of an operator on such values alone are such values; computing them costs nothing.
template <class M, class Algebra>
concept staged_cost_model =
    additive_cost_model<M, Algebra> && requires(const M& m, const typename Algebra::value_type& type) {
      { m.computed_before(type) } -> std::convertible_to<bool>;
    };

}  // namespace unity
