// One device as cost models see it.
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
#include <unity/tensor/dtype.hpp>

namespace unity::machine {

enum class device_kind : std::uint8_t { cpu, gpu };
inline constexpr std::array<std::string_view, 2> device_kind_names{"cpu", "gpu"};

// The most that was reached with one operator on one element type.
struct peak_rate {
  tensor::dtype element = tensor::dtype::float32;
  std::string operation{};  // "matmul", "conv2d"
  double flops_per_second = 0;

  friend bool operator==(const peak_rate&, const peak_rate&) = default;
};

// Regular. Rates are what was measured, not what is promised.
struct device {
  std::string name{};  // model, and how much of it is used: "AMD EPYC 9B14, 2 threads"
  device_kind kind = device_kind::cpu;
  std::vector<peak_rate> peaks{};
  double bytes_per_second = 0;  // of memory, reads and writes together
  bytes memory{};
  double launch_seconds = 0;                                    // of the smallest operator
  double collective_start_seconds = 0;                          // before a collective or message moves anything
  double collective_round_seconds = 0;                          // of each round of a collective, besides its transfers
  int units = 0;                                                // multiprocessors or cores; 0: not known
  double clock_hz = 0;                                          // at most; 0: not known
  std::vector<std::pair<std::string, bytes>> caches{};          // by name, the nearest first; an L1 is of each unit
  std::vector<std::pair<std::string, std::string>> versions{};  // of each library that it was measured with, by name
  std::vector<std::pair<std::string, std::string>> sources{};   // of numbers, by member: where they are from

  friend bool operator==(const device&, const device&) = default;
};

// The fastest operator on the element type, or nothing where none was measured.
[[nodiscard]] std::optional<double> peak_flops_per_second(const device& d, tensor::dtype element);

// What a roofline of such elements needs, or nothing where that was not measured. Refers to the device's name.
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
