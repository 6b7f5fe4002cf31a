// Problems that fall into smaller ones, as dynamic programming sees them.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/core/hash.hpp>

namespace unity {

template <class D>
concept has_goals = std::copyable<typename D::goal_type> && requires(const D& d, const typename D::goal_type& goal) {
  { d.fingerprint_of(goal) } -> std::same_as<fingerprint>;
};
template <class D>
concept has_subgoals = requires(const D& d, const typename D::goal_type& goal) {
  { d.subgoals(goal) } -> std::same_as<std::vector<typename D::goal_type>>;
};
template <class D>
concept has_combination =
    std::movable<typename D::value_type> &&
    requires(D& d, const typename D::goal_type& goal, std::span<const typename D::value_type* const> values) {
      { d.combine(goal, values) } -> std::same_as<typename D::value_type>;
    };

// decision_type: which alternative gave the value, by `combine(goal, values, decision)`, which sets it; a dynamic
// program keeps it beside the value. Default-constructible and movable.
template <class D>
concept has_decided_combination = requires(D& d, const typename D::goal_type& goal,
                                           std::span<const typename D::value_type* const> values,
                                           typename D::decision_type& decision) {
  requires std::movable<typename D::value_type> && std::movable<typename D::decision_type>;
  requires std::default_initializable<typename D::decision_type>;
  { d.combine(goal, values, decision) } -> std::same_as<typename D::value_type>;
};

// number_of(goal): small numbers, equal where fingerprints are. A dynamic program then keeps values in an array instead
// of a hash table: ten times faster where goals are many and cheap to combine.
template <class D>
concept numbered_goals = requires(const D& d, const typename D::goal_type& goal) {
  { d.number_of(goal) } -> std::convertible_to<std::uint32_t>;
};

// A goal's value follows from those of its subgoals.
//   goal_type                copyable
//   value_type               movable: the best outcome, or a table or a Pareto frontier of outcomes
//   fingerprint_of(goal)     equal for goals with equal values, wherever they come from
//   subgoals(goal)           in an order that depends on the goal alone; none for the smallest
//   combine(goal, values)    from the values of its subgoals, in their order; looks at all alternatives of the goal
// Laws: subgoals end: no goal is below itself. combine is monotone: a subgoal's better value makes no value
// worse. Equal fingerprints imply equal values, and equal decisions.
template <class D>
concept decomposition = has_goals<D> && has_subgoals<D> &&(has_combination<D> || has_decided_combination<D>);

}  // namespace unity
