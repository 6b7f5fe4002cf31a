// The analytic time of an operator on a device: the longer of arithmetic and memory traffic, plus a launch.
// Source: Williams et al., Roofline, CACM 52(4), 2009; Jia's dissertation (2020), section 2.6.
#pragma once

#include <algorithm>
#include <string_view>

#include <unity/core/units.hpp>
#include <unity/rewrite/algebra.hpp>

namespace unity {

// The parameters of a device for a roofline. Rates are peaks for float32.
struct device_rates {
  std::string_view name{};
  double flops_per_second = 0;
  double bytes_per_second = 0;
  double launch_seconds = 0;  // per executed operator
  std::string_view source{};
};

// The time of `w` on `d` including the launch, at `efficiency` of the peak arithmetic rate.
[[nodiscard]] constexpr picoseconds roofline_time(const device_rates& d, const operator_work& w,
                                                  double efficiency = 1) noexcept {
  const auto arithmetic = static_cast<double>(w.operations.count()) / (d.flops_per_second * efficiency);
  const auto traffic = static_cast<double>(w.moved.count()) / d.bytes_per_second;
  return from_seconds(std::max(arithmetic, traffic) + d.launch_seconds);
}

}  // namespace unity
