// Measures the time of single operators.
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

// A summary of the times of several runs. The spread is the interquartile range, which contains half of the runs.
struct measurement {
  picoseconds median{};
  picoseconds spread{};
  std::int64_t repetitions = 0;

  friend bool operator==(const measurement&, const measurement&) = default;
};

// Times operators on operands of given types.
//   t.time(op, inputs, outputs)   a measurement; outputs: what the algebra infers from the inputs
//   t.description()               one line: the device, the software and the method of measurement
// Laws: median > 0, spread >= 0, repetitions > 0. Measurements with equal descriptions may be compared and stored.
// Errors: unity::error that names the operator if it cannot run.
// Models: backend::device_timer, tensor::timing_cache. Not a model: an estimate, which repeats nothing (that is a
// duration_model).
template <class T, class Algebra>
concept kernel_timer = requires(T& t, const T& c, const typename Algebra::op_type& op,
                                std::span<const typename Algebra::value_type> types) {
  { t.time(op, types, types) } -> std::same_as<measurement>;
  { c.description() } -> std::convertible_to<std::string>;
};

namespace detail {

// Interpolates linearly between the two nearest of the sorted numbers; 0 <= part <= 1.
[[nodiscard]] inline double quantile(std::span<const double> sorted, double part) noexcept {
  const auto place = part * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const auto above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace detail

// Summarizes the seconds of at least one run. A median below a picosecond counts as one.
[[nodiscard]] inline measurement summarize(std::vector<double> seconds) {
  UNITY_EXPECTS(!seconds.empty(), "a run");
  std::sort(seconds.begin(), seconds.end());
  return {std::max(from_seconds(detail::quantile(seconds, 0.5)), picoseconds{1}),
          from_seconds(detail::quantile(seconds, 0.75) - detail::quantile(seconds, 0.25)),
          static_cast<std::int64_t>(seconds.size())};
}

}  // namespace unity
