// Limits and times of a device's kernels, and times of all-reduces.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>

#include <unity/fusion/kernel_description.hpp>
#include <unity/machine/machine.hpp>

namespace unity::fusion {

// The limits of one kernel.
struct kernel_limits {
  std::uint32_t operators = 32;
  std::uint32_t operands = 24;        // most operands and results together
  bool may_follow_heads = true;       // products and convolutions may fuse with their readers
  bool may_follow_reductions = true;  // reductions along dimensions other than rows may be read within the kernel

  bool results_alike = false;  // all results have the same sizes (instruction::sizes)

  friend bool operator==(const kernel_limits&, const kernel_limits&) = default;
};

// Sums over the parts of a kernel, the input of a roofline. Reads and writes are those that cross the kernel's
// boundary.
struct kernel_sums {
  double arithmetic = 0;  // picoseconds
  double reads = 0;       // bytes
  double writes = 0;
  std::uint32_t parts = 0;
};

// The time of a kernel of several instructions.
struct kernel_model {
  double bytes_per_picosecond = 0;
  std::int64_t launch = 0;  // picoseconds
  // Empty: a launch, plus the longer of arithmetic and traffic. Otherwise called once per distinct kernel.
  std::function<std::int64_t(const kernel_description&)> estimate{};

  [[nodiscard]] std::int64_t time_of(const kernel_sums& s) const {
    const auto traffic = (s.reads + s.writes) / bytes_per_picosecond;
    return launch + static_cast<std::int64_t>(std::max(s.arithmetic, traffic) + 0.5);
  }
};

// By the rates of the machine's first device.
// Throws: unity::error if it has no rate for float32.
[[nodiscard]] kernel_model roofline_kernels(const machine::machine& m);

// T = C x + D: the time of an all-reduce of x bytes. Units: picoseconds.
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
  // The time of an all-reduce of this many bytes, in picoseconds; reduction_line is the paper's. Must not decrease with
  // bytes.
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
