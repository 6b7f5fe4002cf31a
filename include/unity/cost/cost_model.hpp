// The cost of a graph: what a cost model is, any of them, and combinations of others.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>

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

// Any cost model of whole graphs that can stop early on expensive graphs: f(g, limit) is the cost of g if that is below
// the limit, otherwise any number from the limit up to the cost. Pure. Models cost_model.
template <class Graph>
class any_cost_model {
 public:
  template <class F>
    requires std::is_invocable_r_v<cost_value, const F&, const Graph&, cost_value>
  any_cost_model(F f) : cost_below_{std::move(f)} {}

  [[nodiscard]] cost_value cost(const Graph& g) const { return cost_below_(g, std::numeric_limits<cost_value>::max()); }
  [[nodiscard]] cost_value cost_below(const Graph& g, cost_value limit) const { return cost_below_(g, limit); }

 private:
  std::function<cost_value(const Graph&, cost_value)> cost_below_;
};

template <class First, class Second>
struct cost_pair {
  First first{};
  Second second{};
  cost_pair& operator+=(const cost_pair& o) {
    add_cost(first, o.first);
    add_cost(second, o.second);
    return *this;
  }
  cost_pair& operator-=(const cost_pair& o) {
    first -= o.first;
    second -= o.second;
    return *this;
  }
  friend bool operator==(const cost_pair&, const cost_pair&) = default;
};

namespace detail {

// Both models, summed separately.
template <class First, class Second>
class paired_cost {
 public:
  using cost_type = cost_pair<typename First::cost_type, typename Second::cost_type>;

  paired_cost(First first, Second second) : first_{std::move(first)}, second_{std::move(second)} {}

  template <class Op, class Type>
  [[nodiscard]] cost_type node_cost(const Op& op, std::span<const Type> inputs, std::span<const Type> outputs) const {
    return {first_.node_cost(op, inputs, outputs), second_.node_cost(op, inputs, outputs)};
  }
  template <class Type>
  [[nodiscard]] bool computed_before(const Type& type) const
    requires requires(const First& a, const Second& b) { a.computed_before(type) && b.computed_before(type); }
  {
    return first_.computed_before(type) && second_.computed_before(type);
  }

 protected:
  First first_;
  Second second_;
};

}  // namespace detail

// Minimizes `First` while the objective of `Second` is at most a limit (time under a memory limit). Beyond the limit,
// the objective is worse than any within it and grows with the excess, so a search that starts outside finds its way
// in.
// Source: Jia's dissertation (2020), section 2.6 (there the cost is infinite).
template <class First, class Second>
class constrained_cost : public detail::paired_cost<First, Second> {
 public:
  using typename detail::paired_cost<First, Second>::cost_type;

  constrained_cost(First first, Second second, cost_value limit)
      : detail::paired_cost<First, Second>{std::move(first), std::move(second)}, limit_{limit} {}

  [[nodiscard]] cost_value objective(const cost_type& total) const {
    constexpr cost_value most = std::numeric_limits<cost_value>::max();
    constexpr cost_value infeasible = most / 4 * 3;  // the rest of the range is for the excess
    const auto used = this->second_.objective(total.second);
    if (used <= limit_) {
      return std::min(this->first_.objective(total.first), infeasible);
    }
    cost_value worse = 0;
    return __builtin_sub_overflow(used, limit_, &worse) || __builtin_add_overflow(infeasible, worse, &worse) ? most
                                                                                                             : worse;
  }

 private:
  cost_value limit_;
};

// Minimizes weight * First + (1 - weight) * Second of the unscaled objectives; 0 <= weight <= 1.
template <class First, class Second>
class weighted_cost : public detail::paired_cost<First, Second> {
 public:
  using typename detail::paired_cost<First, Second>::cost_type;

  weighted_cost(First first, Second second, double weight)
      : detail::paired_cost<First, Second>{std::move(first), std::move(second)}, weight_{weight} {}

  [[nodiscard]] cost_value objective(const cost_type& total) const {
    return static_cast<cost_value>(weight_ * static_cast<double>(this->first_.objective(total.first)) +
                                   (1.0 - weight_) * static_cast<double>(this->second_.objective(total.second)));
  }

 private:
  double weight_;
};

}  // namespace unity
