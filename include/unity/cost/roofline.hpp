// The analytic cost of an operator on a device: arithmetic or memory traffic, whichever takes longer, plus a launch.
// Source: Williams et al., Roofline, CACM 52(4), 2009; Jia's dissertation (2020), section 2.6.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include <unity/core/units.hpp>
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

// `taso` is the formula of TASO's own analytic mode, under which its published optimizer was measured.
// v100 prices the observation of Jia's dissertation (2020), section 2.9.5: products whose first operand is column-major
// run 1.5 times as fast. Launch overheads are typical of back-to-back kernels on one stream.
inline constexpr std::array<device_rates, 8> device_presets{{
    {"taso", 10e12, 700e9, 5e-6, {{1, 1}, {1, 1}}, true, "TASO's analytic cost, measured in 2026"},
    {"k80",
     4.37e12,
     240e9,
     8e-6,
     {{1, 1}, {1, 1}},
     false,
     "NVIDIA Tesla K80 board specification BD-07317, one GK210, boost"},
    {"p100", 10.6e12, 732e9, 5e-6, {{1, 1}, {1, 1}}, false, "NVIDIA Tesla P100 SXM2 data sheet, 2016"},
    {"v100",
     15.7e12,
     900e9,
     5e-6,
     {{2.0 / 3, 2.0 / 3}, {1, 2.0 / 3}},
     false,
     "NVIDIA Tesla V100 SXM2 data sheet, 2017"},
    {"t4", 8.1e12, 320e9, 5e-6, {{1, 1}, {1, 1}}, false, "NVIDIA T4 data sheet, 2019"},
    {"a100",
     19.5e12,
     1555e9,
     4e-6,
     {{1, 1}, {1, 1}},
     false,
     "NVIDIA A100 40 GB data sheet, 2020; without tensor cores"},
    {"h100", 67e12, 3350e9, 3e-6, {{1, 1}, {1, 1}}, false, "NVIDIA H100 SXM data sheet, 2023; without tensor cores"},
    {"h200", 67e12, 4800e9, 3e-6, {{1, 1}, {1, 1}}, false, "NVIDIA H200 SXM data sheet, 2024; without tensor cores"},
}};

[[nodiscard]] constexpr std::optional<device_rates> find_device(std::string_view name) noexcept {
  for (const auto& d : device_presets) {
    if (d.name == name) {
      return d;
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
