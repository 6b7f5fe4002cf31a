// Dynamic programming over a decomposition: solves every goal once.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/hash.hpp>

namespace unity {

// Problems that decompose into smaller ones, as dynamic programming sees them.

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

// Caches the values of goals by fingerprint across calls: after a part of a problem has changed, only goals that
// contain this part are solved again. Refers to the problem. Not thread-safe.
template <decomposition Problem>
class dynamic_program {
 public:
  using goal_type = typename Problem::goal_type;
  using value_type = typename Problem::value_type;

  explicit dynamic_program(Problem& problem) : problem_{&problem} {}

  // Valid until forget(). Solves goals depth first, in the order of subgoals, on an explicit stack: only memory limits
  // the length of a chain of goals.
  // Complexity: one combine for each goal below that was not solved before; expected constant time for each subgoal.
  // Throws: unity::error if a goal is below itself, and whatever the problem throws; values solved before stay.
  const value_type& solve(const goal_type& goal) {
    ++asked_;
    const auto wanted = number_of(goal);
    if (value_[wanted] == nullptr) {
      stack_.push_back({goal, wanted});
      try {
        solve_stack();
      } catch (...) {
        for (const auto& t : stack_) {
          is_open_[t.number] = false;
        }
        stack_.clear();
        below_.clear();
        awaited_.clear();
        throw;
      }
    }
    return value_[wanted]->value;
  }
  // The decision of combine for a solved goal, whether asked for directly or as a subgoal. Valid as long as the value.
  const auto& decision(const goal_type& goal)
    requires has_decided_combination<Problem>
  {
    const auto number = number_of(goal);
    UNITY_EXPECTS(value_[number] != nullptr, "a goal that was solved");
    return value_[number]->decision;
  }
  void forget() { *this = dynamic_program{*problem_}; }

  [[nodiscard]] std::size_t goals() const noexcept { return values_.size(); }
  [[nodiscard]] std::uint64_t asked() const noexcept { return asked_; }

 private:
  struct no_decision {};
  template <class P>
  struct decision_of {
    using type = no_decision;
  };
  template <has_decided_combination P>
  struct decision_of<P> {
    using type = typename P::decision_type;
  };
  struct solved {
    value_type value;
    [[no_unique_address]] typename decision_of<Problem>::type decision;
  };
  struct slot {
    fingerprint key{};
    std::uint32_t number = free;
  };
  struct task {
    goal_type goal;
    std::uint32_t number = 0;
    std::size_t first = not_expanded;  // index of the first subgoal in below_
  };
  static constexpr std::uint32_t free = ~std::uint32_t{0};
  static constexpr std::size_t not_expanded = ~std::size_t{0};

  void solve_stack() {
    while (!stack_.empty()) {
      const auto number = stack_.back().number;
      if (value_[number] != nullptr) {
        stack_.pop_back();
      } else if (stack_.back().first == not_expanded) {
        expand();
      } else {
        const auto& t = stack_.back();
        for (; !awaited_.empty() && awaited_.back().first >= t.first; awaited_.pop_back()) {
          below_[awaited_.back().first] = &value_[awaited_.back().second]->value;
        }
        values_.push_back(combined(t.goal, std::span<const value_type* const>{below_}.subspan(t.first)));
        value_[number] = &values_.back();
        is_open_[number] = false;
        below_.resize(t.first);
        stack_.pop_back();
      }
    }
  }
  [[nodiscard]] solved combined(const goal_type& goal, std::span<const value_type* const> values) {
    if constexpr (has_decided_combination<Problem>) {
      typename Problem::decision_type decision{};
      auto value = problem_->combine(goal, values, decision);
      return {std::move(value), std::move(decision)};
    } else {
      return {problem_->combine(goal, values), {}};
    }
  }
  // Pushes the unsolved subgoals of the goal on top, the first one on top.
  void expand() {
    const auto number = stack_.back().number;
    const auto subgoals = problem_->subgoals(stack_.back().goal);
    const auto first = below_.size();
    const auto first_awaited = awaited_.size();
    stack_.back().first = first;
    is_open_[number] = true;
    asked_ += subgoals.size();
    below_.resize(first + subgoals.size());
    for (std::size_t i = 0; i < subgoals.size(); ++i) {
      const auto sub = number_of(subgoals[i]);
      if (value_[sub] == nullptr) {
        awaited_.push_back({first + i, sub});
      } else {
        below_[first + i] = &value_[sub]->value;
      }
    }
    for (auto i = awaited_.size(); i-- > first_awaited;) {
      const auto [at, sub] = awaited_[i];
      if (is_open_[sub]) {
        refuse_cycle(sub);
      }
      stack_.push_back({subgoals[at - first], sub});
    }
  }
  [[noreturn]] void refuse_cycle(std::uint32_t number) const {
    std::size_t length = 0;
    fingerprint f{};
    for (const auto& t : stack_) {
      if (t.first != not_expanded && (length > 0 || t.number == number)) {
        f = length++ == 0 ? problem_->fingerprint_of(t.goal) : f;
      }
    }
    throw error{"dynamic program", fmt::format("goal {} below itself, after {}", f, length), "subgoals that end"};
  }

  // The goal's own number, or that of its fingerprint, which is new if it was not asked for before.
  std::uint32_t number_of(const goal_type& goal) {
    if constexpr (numbered_goals<Problem>) {
      const auto number = static_cast<std::uint32_t>(problem_->number_of(goal));
      if (number >= value_.size()) {
        value_.resize(std::max(std::size_t{number} + 1, 2 * value_.size()), nullptr);
        is_open_.resize(value_.size(), false);
      }
      return number;
    }
    const fingerprint f = problem_->fingerprint_of(goal);
    if (2 * (value_.size() + 1) > slots_.size()) {
      grow();
    }
    auto& s = slots_[place(f)];
    if (s.number == free) {
      s = {f, static_cast<std::uint32_t>(value_.size())};
      value_.push_back(nullptr);
      is_open_.push_back(false);
    }
    return s.number;
  }
  [[nodiscard]] std::size_t place(fingerprint f) const {
    const auto mask = slots_.size() - 1;
    auto i = static_cast<std::size_t>(hash_of(f)) & mask;
    while (slots_[i].number != free && slots_[i].key != f) {
      i = (i + 1) & mask;
    }
    return i;
  }
  [[nodiscard]] static std::uint64_t hash_of(fingerprint f) noexcept { return mix64(f.low ^ mix64(f.high)); }
  void grow() {
    std::vector<slot> old(slots_.empty() ? 64 : 2 * slots_.size());
    std::swap(old, slots_);
    for (const auto& s : old) {
      if (s.number != free) {
        slots_[place(s.key)] = s;
      }
    }
  }

  Problem* problem_;
  std::vector<slot> slots_{};           // linear probing, at most half full
  std::deque<solved> values_{};         // in the order of solving; addresses are stable
  std::vector<const solved*> value_{};  // by number; null: not solved
  std::vector<bool> is_open_{};         // by number: expanded and not solved
  std::vector<task> stack_{};
  std::vector<const value_type*> below_{};                        // of subgoals of the expanded goals on the stack
  std::vector<std::pair<std::size_t, std::uint32_t>> awaited_{};  // entries missing in below_: position and number
  std::uint64_t asked_ = 0;
};

}  // namespace unity
