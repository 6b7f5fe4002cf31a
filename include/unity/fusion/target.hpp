// What kernels of a device can hold and take, and what an all-reduce takes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>

#include <unity/fusion/kernel_description.hpp>
#include <unity/machine/machine.hpp>

namespace unity::fusion {

// What one kernel can hold.
struct kernel_limits {
  std::uint32_t operators = 32;
  std::uint32_t operands = 24;        // values that it reads and writes, together
  bool may_follow_heads = true;       // products and convolutions go on with what reads them
  bool may_follow_reductions = true;  // a reduction along other dimensions than rows is read in the kernel

  bool results_alike = false;  // all that it hands out has the same sizes (instruction::sizes)

  friend bool operator==(const kernel_limits&, const kernel_limits&) = default;
};

// Of a kernel: the sums over its parts, as a roofline needs them. Reads and writes are those that leave the kernel.
struct kernel_sums {
  double arithmetic = 0;  // picoseconds
  double reads = 0;       // bytes
  double writes = 0;
  std::uint32_t parts = 0;
};

// What a kernel of several instructions takes.
struct kernel_model {
  double bytes_per_picosecond = 0;
  std::int64_t launch = 0;  // picoseconds
  // Empty: a launch, and arithmetic or traffic, whichever takes longer. Otherwise asked once for each different kernel.
  std::function<std::int64_t(const kernel_description&)> estimate{};

  [[nodiscard]] std::int64_t time_of(const kernel_sums& s) const {
    const auto traffic = (s.reads + s.writes) / bytes_per_picosecond;
    return launch + static_cast<std::int64_t>(std::max(s.arithmetic, traffic) + 0.5);
  }
};

// By the rates of the machine's first device. Throws: unity::error where it has none for float32.
[[nodiscard]] kernel_model roofline_kernels(const machine::machine& m);

// T = C x + D: what an all-reduce of x bytes takes. Units: picoseconds.
struct reduction_line {
  double per_byte = 0;
  double fixed = 0;

  [[nodiscard]] std::int64_t operator()(double bytes) const {
    return static_cast<std::int64_t>(per_byte * bytes + fixed + 0.5);
  }

  friend bool operator==(const reduction_line&, const reduction_line&) = default;
};

struct fusion_target {
  kernel_limits limits{};
  kernel_model kernels{};
  // What an all-reduce of so many bytes takes, in picoseconds; reduction_line is the paper's. Not less for more bytes.
  std::function<std::int64_t(double)> all_reduce{};
};

}  // namespace unity::fusion

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_FUSION_TARGET)

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/machine/device.hpp>

namespace unity::fusion {

UNITY_INLINE kernel_model roofline_kernels(const machine::machine& m) {
  const auto rates = m.devices.empty() ? std::nullopt : machine::roofline_of(m.devices.front());
  if (!rates) {
    throw error{fmt::format("machine {}", m.name), "no float32 rate", "one, to predict times"};
  }
  return {rates->bytes_per_second * 1e-12, static_cast<std::int64_t>(rates->launch_seconds * 1e12), {}};
}

}  // namespace unity::fusion

#endif
