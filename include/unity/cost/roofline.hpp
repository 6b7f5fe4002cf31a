// The analytic time of an operator on a device: the longer of arithmetic and memory traffic, plus a launch.
// Source: Williams et al., Roofline, CACM 52(4), 2009; Jia's dissertation (2020), section 2.6.
#pragma once

#include <algorithm>
#include <optional>
#include <string_view>

#include <unity/core/units.hpp>
#include <unity/cost/device_table.hpp>
#include <unity/rewrite/algebra.hpp>

namespace unity {

// The parameters of a device for a roofline. Rates are peaks for float32.
struct device_rates {
  std::string_view name{};
  double flops_per_second = 0;
  double bytes_per_second = 0;
  double launch_seconds = 0;  // per executed operator
  // Speed of a matrix product relative to the fastest layout of its operands: [is a column-major][is b column-major].
  double product_efficiency[2][2] = {{1, 1}, {1, 1}};
  // Operators that only relabel or reorder are free.
  bool free_movement = false;
  std::string_view source{};
};

// The rates of a device in machines/devices.json, or of `taso`: the formula of TASO's own analytic mode, with which its
// published optimizer was measured. v100 follows an observation in Jia's dissertation (2020), section 2.9.5: products
// whose first operand is column-major run 1.5 times as fast. Nothing for an unknown name.
[[nodiscard]] constexpr std::optional<device_rates> find_device(std::string_view name) noexcept {
  if (name == "taso") {
    return device_rates{name, 10e12, 700e9, 5e-6, {{1, 1}, {1, 1}}, true, "TASO's analytic cost, measured in 2026"};
  }
  for (const auto& d : known_devices) {
    if (d.id == name) {
      device_rates rates{d.id, d.float32, d.bytes_per_second, d.launch_seconds, {{1, 1}, {1, 1}}, false, d.source};
      if (name == "v100") {
        rates.product_efficiency[0][0] = rates.product_efficiency[0][1] = rates.product_efficiency[1][1] = 2.0 / 3;
      }
      return rates;
    }
  }
  return std::nullopt;
}

// The time of `w` on `d` including the launch, at `efficiency` of the peak arithmetic rate.
[[nodiscard]] constexpr picoseconds roofline_time(const device_rates& d, const work& w,
                                                  double efficiency = 1) noexcept {
  const auto arithmetic = static_cast<double>(w.operations.count()) / (d.flops_per_second * efficiency);
  const auto traffic = static_cast<double>(w.moved.count()) / d.bytes_per_second;
  return from_seconds(std::max(arithmetic, traffic) + d.launch_seconds);
}

}  // namespace unity
