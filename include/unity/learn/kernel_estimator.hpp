// Estimators of kernel times.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>

#include <unity/fusion/kernel_description.hpp>
#include <unity/trace/events.hpp>
#include <unity/trace/fusion_time.hpp>

namespace unity::learn {

// e(k): picoseconds of the kernel, at least 1. Laws: a pure function; safe to call from several threads at once.
// Models: attention_estimator, linear_estimator, sum_of_parts, kernel_time.
template <class E>
concept kernel_estimator = std::copy_constructible<E> && requires(const E& e, const fusion::kernel_description& k) {
  { e(k) } -> std::same_as<std::int64_t>;
};

using kernel_time = std::function<std::int64_t(const fusion::kernel_description&)>;

// The sum of the operators' times; assumed_time for an operator that nobody has timed.
struct sum_of_parts {
  [[nodiscard]] std::int64_t operator()(const fusion::kernel_description& k) const;
};

// Whole picoseconds, at least 1; NaN gives 1.
[[nodiscard]] std::int64_t whole_picoseconds(double x) noexcept;

// An operator of a trace as a kernel of its own: all its reads and writes are outside.
using part_lookup = std::function<fusion::kernel_part(trace::name_id)>;

// Operators of a trace as a chain: each reads the result of the one before, and only the last result leaves. The times
// in the trace replace looked-up ones; for the whole chain they are an upper bound.
[[nodiscard]] trace::fusion_time fusion_time_of(kernel_time estimate, part_lookup parts);

}  // namespace unity::learn

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_LEARN_KERNEL_ESTIMATOR)

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>

#include <unity/learn/kernel_features.hpp>

namespace unity::learn {

UNITY_INLINE std::int64_t whole_picoseconds(double x) noexcept {
  constexpr double most = 1e18;
  return x > 1 ? std::llround(std::min(x, most)) : 1;
}

UNITY_INLINE std::int64_t sum_of_parts::operator()(const fusion::kernel_description& k) const {
  double sum = 0;
  for (const auto& p : k.parts) {
    sum += p.duration > 0 ? static_cast<double>(p.duration) : assumed_time(p);
  }
  return whole_picoseconds(sum);
}

UNITY_INLINE trace::fusion_time fusion_time_of(kernel_time estimate, part_lookup parts) {
  return [estimate = std::move(estimate), parts = std::move(parts)](std::span<const trace::fused_part> fused) {
    fusion::kernel_description k;
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < fused.size(); ++i) {
      auto p = parts(fused[i].name);
      p.duration = fused[i].duration;
      sum += fused[i].duration;
      if (i > 0) {
        p.reads_outside -= std::min(k.parts.back().writes, p.reads_outside);
        k.parts.back().writes_outside = 0;
        k.edges.emplace_back(static_cast<std::uint16_t>(i - 1), static_cast<std::uint16_t>(i));
      }
      k.parts.push_back(p);
    }
    return fused.size() == 1 ? sum : std::min(sum, estimate(k));
  };
}

}  // namespace unity::learn

#endif
