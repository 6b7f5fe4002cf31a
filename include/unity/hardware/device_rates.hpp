// Rates of devices by name, for a roofline.
#pragma once

#include <optional>
#include <string_view>

#include <unity/hardware/device_table.hpp>
#include <unity/tensor/cost.hpp>

namespace unity::hardware {

// The rates of a device in machines/devices.json, or of `taso`: the formula of TASO's own analytic mode, with which its
// published optimizer was measured. On v100, products whose first operand is column-major run 1.5 times as fast as
// others (observed in Jia's dissertation, 2020, section 2.9.5). Nothing for an unknown name.
[[nodiscard]] constexpr std::optional<tensor::roofline_rates> find_device(std::string_view name) noexcept {
  if (name == "taso") {
    tensor::roofline_rates rates{device_rates{name, 10e12, 700e9, 5e-6, "TASO's analytic cost, measured in 2026"}};
    rates.free_movement = true;
    return rates;
  }
  for (const auto& d : known_devices) {
    if (d.id == name) {
      tensor::roofline_rates rates{device_rates{d.id, d.float32, d.bytes_per_second, d.launch_seconds, d.source}};
      if (name == "v100") {
        rates.product_efficiency[0][0] = rates.product_efficiency[0][1] = rates.product_efficiency[1][1] = 2.0 / 3;
      }
      return rates;
    }
  }
  return std::nullopt;
}

}  // namespace unity::hardware
