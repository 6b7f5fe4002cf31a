// Problems that decompose into smaller ones, as dynamic programming sees them.
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

// decision_type: the alternative that gave the value; `combine(goal, values, decision)` sets it, and a dynamic program
// stores it with the value. Default-constructible and movable.
template <class D>
concept has_decided_combination =
    requires(D& d, const typename D::goal_type& goal, std::span<const typename D::value_type* const> values,
             typename D::decision_type& decision) {
      requires std::movable<typename D::value_type> && std::movable<typename D::decision_type>;
      requires std::default_initializable<typename D::decision_type>;
      { d.combine(goal, values, decision) } -> std::same_as<typename D::value_type>;
    };

// number_of(goal): small numbers, equal if and only if fingerprints are equal. A dynamic program then stores values in
// an array instead of a hash table: ten times faster if goals are many and cheap to combine.
template <class D>
concept numbered_goals = requires(const D& d, const typename D::goal_type& goal) {
  { d.number_of(goal) } -> std::convertible_to<std::uint32_t>;
};

// The value of a goal follows from the values of its subgoals.
//   goal_type                copyable
//   value_type               movable: the best outcome, or a table or a Pareto frontier of outcomes
//   fingerprint_of(goal)     equal for goals with equal values, wherever they come from
//   subgoals(goal)           in an order that depends only on the goal; none for the smallest goals
//   combine(goal, values)    from the values of its subgoals, in their order; considers all alternatives of the goal
// Laws: subgoals are acyclic: no goal is below itself. combine is monotone: a better value of a subgoal makes no value
// worse. Equal fingerprints imply equal values and equal decisions.
template <class D>
concept decomposition = has_goals<D> && has_subgoals<D> && (has_combination<D> || has_decided_combination<D>);

}  // namespace unity
