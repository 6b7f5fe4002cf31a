// Dynamic programming over a decomposition: every goal is solved once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/search/decomposition.hpp>

namespace unity {

// Keeps the values of goals by fingerprint, over calls: a problem of which a part has changed solves what holds that
// part, and nothing else. Refers to the problem. One thread uses one of them.
template <decomposition Problem>
class dynamic_program {
 public:
  using goal_type = typename Problem::goal_type;
  using value_type = typename Problem::value_type;

  explicit dynamic_program(Problem& problem) : problem_{&problem} {}

  // Valid until forget(). Complexity: a combine for each goal below that was not solved before.
  const value_type& solve(const goal_type& goal) {
    ++asked_;
    const auto f = problem_->fingerprint_of(goal);
    if (const auto found = values_.find(f); found != values_.end()) {
      return found->second;
    }
    const auto below = problem_->subgoals(goal);
    std::vector<const value_type*> values;
    for (const auto& g : below) {
      values.push_back(&solve(g));
    }
    return values_.emplace(f, problem_->combine(goal, values)).first->second;
  }
  void forget() { values_.clear(); }

  [[nodiscard]] std::size_t goals() const noexcept { return values_.size(); }  // solved
  [[nodiscard]] std::uint64_t asked() const noexcept { return asked_; }

 private:
  struct hash {
    std::size_t operator()(const fingerprint& f) const noexcept { return f.low; }
  };

  Problem* problem_;
  std::unordered_map<fingerprint, value_type, hash> values_{};  // nodes stay where they are as it grows
  std::uint64_t asked_ = 0;
};

}  // namespace unity
