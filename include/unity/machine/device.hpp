// A device as cost models see it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/cost/roofline.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::machine {

enum class device_kind : std::uint8_t { cpu, gpu };
inline constexpr std::array<std::string_view, 2> device_kind_names{"cpu", "gpu"};

// The highest rate that one operator reached on one element type.
struct peak_rate {
  tensor::dtype element = tensor::dtype::float32;
  std::string operation{};  // "matmul", "conv2d"
  double flops_per_second = 0;

  friend bool operator==(const peak_rate&, const peak_rate&) = default;
};

// Regular. Rates are measured, not nominal.
struct device {
  std::string name{};  // model, and the part of it that is used: "AMD EPYC 9B14, 2 threads"
  device_kind kind = device_kind::cpu;
  std::vector<peak_rate> peaks{};
  double bytes_per_second = 0;  // of memory, reads and writes together
  bytes memory{};
  double launch_seconds = 0;                                    // of the smallest operator
  double collective_start_seconds = 0;                          // before a collective or message moves anything
  double collective_round_seconds = 0;                          // of each round of a collective, besides its transfers
  int units = 0;                                                // multiprocessors or cores; 0: unknown
  double clock_hz = 0;                                          // maximum; 0: unknown
  std::vector<std::pair<std::string, bytes>> caches{};          // by name, the nearest first; L1 is per unit
  std::vector<std::pair<std::string, std::string>> versions{};  // by name: libraries used for the measurement
  std::vector<std::pair<std::string, std::string>> sources{};   // by member: sources of numbers

  friend bool operator==(const device&, const device&) = default;
};

// The rate of the fastest operator on the element type, or nothing if none was measured.
[[nodiscard]] std::optional<double> peak_flops_per_second(const device& d, tensor::dtype element);

// The rates for a roofline on these elements, or nothing if they were not measured. Refers to the device's name.
[[nodiscard]] std::optional<device_rates> roofline_of(const device& d, tensor::dtype element = tensor::dtype::float32);

}  // namespace unity::machine

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_MACHINE_DEVICE)

#include <algorithm>

namespace unity::machine {

UNITY_INLINE std::optional<double> peak_flops_per_second(const device& d, tensor::dtype element) {
  std::optional<double> best;
  for (const auto& p : d.peaks) {
    if (p.element == element) {
      best = std::max(best.value_or(0), p.flops_per_second);
    }
  }
  return best;
}

UNITY_INLINE std::optional<device_rates> roofline_of(const device& d, tensor::dtype element) {
  const auto peak = peak_flops_per_second(d, element);
  if (!peak) {
    return std::nullopt;
  }
  device_rates rates;
  rates.name = d.name;
  rates.flops_per_second = *peak;
  rates.bytes_per_second = d.bytes_per_second;
  rates.launch_seconds = d.launch_seconds;
  rates.source = "measured";
  return rates;
}

}  // namespace unity::machine

#endif
