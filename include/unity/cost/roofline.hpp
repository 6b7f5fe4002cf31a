// The analytic cost of an operator on a device: arithmetic or memory traffic, whichever takes longer, plus a launch.
// Source: Williams et al., Roofline, CACM 52(4), 2009; Jia's dissertation (2020), section 2.6.
#pragma once

#include <algorithm>
#include <optional>
#include <string_view>

#include <unity/core/units.hpp>
#include <unity/cost/device_table.hpp>
#include <unity/rewrite/algebra.hpp>

namespace unity {

// What a roofline needs to know of a device. Rates are peaks for float32.
struct device_rates {
  std::string_view name{};
  double flops_per_second = 0;
  double bytes_per_second = 0;
  double launch_seconds = 0;  // per operator that runs
  // Speed of a matrix product relative to its best, by the layout of its operands; [column-major a][column-major b].
  double product_efficiency[2][2] = {{1, 1}, {1, 1}};
  // Operators that only relabel or reorder are taken to be free.
  bool free_movement = false;
  std::string_view source{};
};

// Of a device in machines/devices.json, or `taso`: the formula of TASO's own analytic mode, under which its published
// optimizer was measured. v100 prices the observation of Jia's dissertation (2020), section 2.9.5: products whose first
// operand is column-major run 1.5 times as fast. Nothing for a name that is unknown.
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

// Seconds of `w` on `d`, its launch included, at `efficiency` of the peak arithmetic rate.
[[nodiscard]] constexpr picoseconds roofline_time(const device_rates& d, const work& w,
                                                  double efficiency = 1) noexcept {
  const auto arithmetic = static_cast<double>(w.operations.count()) / (d.flops_per_second * efficiency);
  const auto traffic = static_cast<double>(w.moved.count()) / d.bytes_per_second;
  return from_seconds(std::max(arithmetic, traffic) + d.launch_seconds);
}

}  // namespace unity
