// What a graph is worth.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>

#include <unity/core/error.hpp>

namespace unity {

// Searches compare integers, so that sums do not depend on the order of addition. Smaller is better.
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

// total += cost, for costs of a graph's nodes.
// Throws: unity::error where integers or quantities sum to more than 63 bits hold: a total must not turn round.
template <additive_cost C>
constexpr void add_cost(C& total, const C& cost) {
  if constexpr (std::signed_integral<C>) {
    if (__builtin_add_overflow(total, cost, &total)) {
      throw error{"cost model", "a sum of costs beyond the range of its integers", "smaller costs, or a larger unit"};
    }
  } else if constexpr (requires { { total.count() } -> std::signed_integral; }) {
    auto sum = total.count();
    add_cost(sum, cost.count());
    total = C{sum};
  } else {
    total += cost;
  }
}

// A cost that is a sum over nodes, so that a rewrite's effect on it is local.
//   cost_type                      what is summed: an additive group, exact (integers)
//   node_cost(op, inputs, outputs) of one node, from the types of what it reads and yields; never sees the graph
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

// An additive cost model that also knows a bound: lower_bound(total) is at most the objective of every state
// that can be reached from one with that total. Lets exact search prune and certify.
template <class M, class Algebra>
concept bounded_cost_model =
    additive_cost_model<M, Algebra> && requires(const M& m, const typename M::cost_type& total) {
      { m.lower_bound(total) } -> std::same_as<cost_value>;
    };

// An additive cost model that knows which values are there before what it prices runs: weights that stay as they are,
// and what depends on them alone. A search leaves what only makes such values as it is.
//   computed_before(type)   whether a value of this type is one
// Laws: what an operator makes of such values alone is one; what makes one costs nothing.
template <class M, class Algebra>
concept staged_cost_model =
    additive_cost_model<M, Algebra> && requires(const M& m, const typename Algebra::value_type& type) {
      { m.computed_before(type) } -> std::convertible_to<bool>;
    };

}  // namespace unity
