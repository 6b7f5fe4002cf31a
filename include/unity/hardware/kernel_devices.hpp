// Devices in the form of the kernel model.
#pragma once

#include <unity/hardware/kernel_durations.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/tensor/algebra.hpp>

namespace unity::hardware {

// The device as the kernel model sees it, by dtype. Rates of products and bandwidths that `calibrate` measured,
// according to the device's sources, are used as they are; others come from machines/kernels.json if it has a device of
// that name; the rest are data sheet values times the share that devices typically reach. The launch time is always the
// device's own. Types without a rate use that of float32. Units, clock and cache that the device lacks are those of the
// known board in its name, if there is one; otherwise one unit.
// Precondition: a float32 rate.
[[nodiscard]] kernel_devices_by_element kernel_devices_of(const device& d);

// For each of the machine's kinds of devices. The algebra must outlive the result.
// Throws: unity::error for a kind of device without a float32 rate.
[[nodiscard]] kernel_durations kernel_durations_of(const tensor::algebra& a, const machine& m);

}  // namespace unity::hardware

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_HARDWARE_KERNEL_DEVICES)

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/hardware/device_table.hpp>
#include <unity/hardware/kernel_model.hpp>
#include <unity/hardware/kernel_table.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::hardware::detail {

[[nodiscard]] inline bool was_measured(const device& d, std::string_view member) {
  return std::any_of(d.sources.begin(), d.sources.end(),
                     [&](const auto& s) { return s.first == member && s.second.starts_with("measured"); });
}

// Looks up machines/kernels.json; nullptr if it is not there.
[[nodiscard]] inline const measured_kernel_device* find_measured(std::string_view name) {
  const auto known =
      std::find_if(known_devices.begin(), known_devices.end(), [&](const auto& d) { return d.name == name; });
  const auto* const found =
      std::find_if(measured_kernel_devices.begin(), measured_kernel_devices.end(),
                   [&](const auto& d) { return known != known_devices.end() && d.id == known->id; });
  return found == measured_kernel_devices.end() ? nullptr : found;
}

[[nodiscard]] inline product_rates product_rates_of(const device& d, const measured_kernel_device* measured,
                                                    tensor::dtype element) {
  const auto peak = peak_flops_per_second(d, element);
  const auto type = peak ? element : tensor::dtype::float32;
  const auto rate = peak.value_or(peak_flops_per_second(d, tensor::dtype::float32).value_or(0));
  if (was_measured(d, fmt::format("peaks.{}", tensor::name_of(type)))) {
    return {rate, rate, 1};
  }
  const bool is_narrow = tensor::size_of(type) <= 2;
  if (measured != nullptr) {
    const auto& rates = is_narrow ? measured->bfloat16 : measured->float32;
    if (rates.brief > 0 && (is_narrow || type == tensor::dtype::float32)) {
      return rates;
    }
  }
  const auto reached = rate * (is_narrow ? share_of_bfloat16_rate : share_of_float32_rate);
  return {reached, reached, 1};
}

}  // namespace unity::hardware::detail

namespace unity::hardware {

UNITY_INLINE kernel_devices_by_element kernel_devices_of(const device& d) {
  UNITY_EXPECTS(peak_flops_per_second(d, tensor::dtype::float32).has_value(), "a float32 rate");
  constexpr double unknown_clock = 1e15;  // cycles take no time
  const auto* const measured = detail::find_measured(d.name);
  auto k = known_kernel_device(d.name).value_or(kernel_device{1, unknown_clock});
  k.units = d.units > 0 ? d.units : k.units;
  k.clock_hz = d.clock_hz > 0 ? d.clock_hz : k.clock_hz;
  k.l2 = d.caches.empty() ? k.l2 : static_cast<double>(d.caches.back().second.count());
  k.widest_warp_row = 2048;
  k.batched_tile = any_tile;
  k.launch_seconds = d.launch_seconds;
  k.bytes_per_second = detail::was_measured(d, "bytes_per_second") ? d.bytes_per_second
                       : measured != nullptr                       ? measured->bytes_per_second
                                                                   : d.bytes_per_second * share_of_bandwidth;
  kernel_devices_by_element all;
  for (std::size_t e = 0; e < all.size(); ++e) {
    all[e] = k;
    all[e].rates = detail::product_rates_of(d, measured, static_cast<tensor::dtype>(e));
  }
  return all;
}

UNITY_INLINE kernel_durations kernel_durations_of(const tensor::algebra& a, const machine& m) {
  std::vector<kernel_devices_by_element> devices;
  for (const auto& d : m.devices) {
    if (!peak_flops_per_second(d, tensor::dtype::float32)) {
      throw error{fmt::format("machine {}, device {}", m.name, d.name), "no float32 rate", "one, to predict times"};
    }
    devices.push_back(kernel_devices_of(d));
  }
  return {a, std::move(devices)};
}

}  // namespace unity::hardware

#endif
