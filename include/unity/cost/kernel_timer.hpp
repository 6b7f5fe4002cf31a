// What it takes to run one operator, measured.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/units.hpp>

namespace unity {

// Of the times of several runs. The spread is the interquartile range: half of the runs lie within it.
struct measurement {
  picoseconds median{};
  picoseconds spread{};
  std::int64_t repetitions = 0;

  friend bool operator==(const measurement&, const measurement&) = default;
};

// Times operators on operands of given types.
//   t.time(op, inputs, outputs)   a measurement; outputs: what the algebra infers of the inputs
//   t.description()               one line: on what, with what and how it measures
// Laws: median > 0, spread >= 0, repetitions > 0. Measurements under one description may be compared and kept.
// Errors: unity::error that names the operator where it cannot be run.
// Models: backend::device_timer, tensor::timing_cache. Not a model: an estimate, which repeats nothing (that is a
// duration_model).
template <class T, class Algebra>
concept kernel_timer = requires(T& t, const T& c, const typename Algebra::op_type& op,
                                std::span<const typename Algebra::value_type> types) {
  { t.time(op, types, types) } -> std::same_as<measurement>;
  { c.description() } -> std::convertible_to<std::string>;
};

namespace detail {

// Between the two nearest of sorted numbers, by linear interpolation; 0 <= part <= 1.
[[nodiscard]] inline double quantile(std::span<const double> sorted, double part) noexcept {
  const auto place = part * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const auto above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace detail

// Of the seconds that runs took, one at least. What is shorter than a picosecond counts as one.
[[nodiscard]] inline measurement summarize(std::vector<double> seconds) {
  UNITY_EXPECTS(!seconds.empty(), "a run");
  std::sort(seconds.begin(), seconds.end());
  return {std::max(from_seconds(detail::quantile(seconds, 0.5)), picoseconds{1}),
          from_seconds(detail::quantile(seconds, 0.75) - detail::quantile(seconds, 0.25)),
          static_cast<std::int64_t>(seconds.size())};
}

}  // namespace unity
