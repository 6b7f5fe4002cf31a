// All divisions of an operator on example operands by one parallelization operator per operand, found by enumeration.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <unity/parallel/operator_grid.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/parallel/pcg/chains.hpp>
#include <unity/parallel/pcg/parallel_operators.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/parallel/rules/operator_forms.hpp>

namespace unity::parallel {

// An operator behind at most one parallelization operator per operand, with the chains that restore its results.
struct divided_example {
  std::vector<std::optional<parallel_operator>> operands{};
  std::vector<parallel_chain> results{};
  operator_grid grid{};
};

namespace detail {

class division_finder {
 public:
  division_finder(const pcg_algebra& a, const operator_example& e, std::int64_t degree);

  [[nodiscard]] std::vector<divided_example> run() &&;
  [[nodiscard]] std::size_t tried() const noexcept { return tried_; }

 private:
  void choose(std::size_t x, bool steps);
  void put(std::size_t x, const parallel_operator& p, bool steps);
  void take(bool steps);

  const pcg_algebra& algebra_;
  const operator_example& example_;
  std::int64_t degree_;
  std::vector<parallel_type> whole_{};
  std::vector<parallel_type> types_{};
  std::vector<std::optional<parallel_operator>> chosen_;
  std::vector<divided_example> found_{};
  std::size_t tried_ = 0;
};

}  // namespace detail

// All divisions into `degree` tasks, then all into `degree` steps. All compute what the operator computes (the law of
// erasure), so only types are checked. Complexity: an inference per combination of choices for the operands.
[[nodiscard]] inline std::vector<divided_example> divided_examples(const pcg_algebra& a, const operator_example& e,
                                                                   std::int64_t degree) {
  return detail::division_finder{a, e, degree}.run();
}

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RULES_DIVIDED_EXAMPLES)

#include <string>

namespace unity::parallel::detail {

UNITY_INLINE division_finder::division_finder(const pcg_algebra& a, const operator_example& e, std::int64_t degree)
    : algebra_{a}, example_{e}, degree_{degree}, chosen_(e.inputs.size()) {
  for (const auto& t : e.inputs) {
    whole_.push_back(undivided(t));
  }
}

UNITY_INLINE std::vector<divided_example> division_finder::run() && {
  types_ = whole_;
  choose(0, false);
  choose(0, true);
  return std::move(found_);
}

UNITY_INLINE void division_finder::choose(std::size_t x, bool steps) {
  if (x == whole_.size()) {
    ++tried_;
    take(steps);
    return;
  }
  const auto rank = static_cast<std::int64_t>(whole_[x].global.rank());
  if (steps) {
    choose(x + 1, steps);
  }
  for (std::int64_t d = 0; d < rank; ++d) {
    put(x, {steps ? parallel_kind::pipeline : parallel_kind::partition, d, degree_}, steps);
  }
  if (!steps) {
    put(x, {parallel_kind::replicate, 0, degree_}, steps);
    put(x, {parallel_kind::inject, 0, degree_}, steps);
  }
}

UNITY_INLINE void division_finder::put(std::size_t x, const parallel_operator& p, bool steps) {
  if (auto t = result_type(p, {&whole_[x], 1})) {
    types_[x] = *std::move(t);
    chosen_[x] = p;
    choose(x + 1, steps);
    types_[x] = whole_[x];
    chosen_[x].reset();
  }
}

UNITY_INLINE void division_finder::take(bool steps) {
  const auto g = algebra_.grid(example_.op, types_);
  const auto results = g ? algebra_.infer(example_.op, types_) : std::nullopt;
  if (!results || (steps && types_ == whole_)) {
    return;
  }
  divided_example e{chosen_, {}, *g};
  for (const auto& t : *results) {
    e.results.push_back(canonical_chain(t, undivided(t.global)));
  }
  found_.push_back(std::move(e));
}

}  // namespace unity::parallel::detail

#endif
