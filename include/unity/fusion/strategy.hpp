// Decisions of fusion: the instructions that run as one kernel, the all-reduces that run as one, and the limits and
// times of both.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/core/units.hpp>
#include <unity/fusion/instruction_graph.hpp>
#include <unity/hardware/machine.hpp>

namespace unity::fusion {

// Limits and times of a device's kernels, and times of all-reduces.

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
  picoseconds launch{};
  // If empty, the time is a launch plus the longer of arithmetic and traffic. Otherwise called once per distinct
  // kernel.
  std::function<picoseconds(const kernel_description&)> estimate{};

  [[nodiscard]] picoseconds time_of(const kernel_sums& s) const {
    const auto traffic = (s.reads + s.writes) / bytes_per_picosecond;
    return launch + picoseconds{static_cast<std::int64_t>(std::max(s.arithmetic, traffic) + 0.5)};
  }
};

// A model that uses the rates of the machine's first device.
// Throws: unity::error if it has no rate for float32.
[[nodiscard]] kernel_model roofline_kernels(const hardware::machine& m);

// T = C x + D: the time of an all-reduce of x bytes. Units: picoseconds.
struct reduction_line {
  double per_byte = 0;
  double fixed = 0;

  [[nodiscard]] picoseconds operator()(double bytes) const {
    return picoseconds{static_cast<std::int64_t>(per_byte * bytes + fixed + 0.5)};
  }

  friend bool operator==(const reduction_line&, const reduction_line&) = default;
};

struct fusion_target {
  kernel_limits limits{};
  kernel_model kernels{};
  // The time of an all-reduce of this many bytes; reduction_line is the paper's. Must not decrease with bytes.
  std::function<picoseconds(double)> all_reduce{};
};

// An instruction that a kernel recomputes for itself, besides the kernel that provides its result to others.
struct instruction_copy {
  instruction_id instruction = 0;
  std::uint32_t group = 0;

  friend auto operator<=>(const instruction_copy&, const instruction_copy&) = default;
};

// A group is a kernel or a bucket of all-reduces. Its number is that of the first instruction whose result it provides.
// Regular.
struct fusion_strategy {
  std::vector<std::uint32_t> group_of{};   // by instruction; a source: itself
  std::vector<instruction_copy> copies{};  // ascending, each once

  [[nodiscard]] unity::fingerprint fingerprint() const;

  friend bool operator==(const fusion_strategy&, const fusion_strategy&) = default;
};

namespace detail {

// The hash of one group member. Members' hashes are added up, mixed, and added up over the groups.
[[nodiscard]] constexpr fingerprint fingerprint_of_member(instruction_id i, bool is_copy) noexcept {
  const auto low = mix64(2 * std::uint64_t{i} + (is_copy ? 1U : 0U));
  return {low, mix64(low + i)};
}
[[nodiscard]] constexpr fingerprint fingerprint_of_group(fingerprint members) noexcept {
  return {mix64(members.low), mix64(members.high ^ members.low)};
}

}  // namespace detail

// Every instruction in a group of its own.
[[nodiscard]] fusion_strategy unfused(const instruction_graph& g);

// Per group number its instructions, ascending, recomputed ones included. Empty if there is no such group.
[[nodiscard]] std::vector<std::vector<instruction_id>> members_of(const fusion_strategy& s);

// The number of kernels, and of buckets.
struct group_counts {
  std::size_t kernels = 0;
  std::size_t fused = 0;  // kernels of several instructions
  std::size_t copies = 0;
  std::size_t buckets = 0;
};
[[nodiscard]] group_counts count_groups(const instruction_graph& g, const fusion_strategy& s);

}  // namespace unity::fusion

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_FUSION_STRATEGY)

#include <numeric>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>

namespace unity::fusion {

UNITY_INLINE kernel_model roofline_kernels(const hardware::machine& m) {
  const auto rates = m.devices.empty() ? std::nullopt : hardware::roofline_of(m.devices.front());
  if (!rates) {
    throw error{fmt::format("machine {}", m.name), "no float32 rate", "one, to predict times"};
  }
  return {rates->bytes_per_second * 1e-12, picoseconds{static_cast<std::int64_t>(rates->launch_seconds * 1e12)}, {}};
}

UNITY_INLINE unity::fingerprint fusion_strategy::fingerprint() const {
  std::vector<unity::fingerprint> groups(group_of.size());
  for (std::size_t i = 0; i < group_of.size(); ++i) {
    groups[group_of[i]] += detail::fingerprint_of_member(static_cast<instruction_id>(i), false);
  }
  for (const auto& c : copies) {
    groups[c.group] += detail::fingerprint_of_member(c.instruction, true);
  }
  unity::fingerprint sum{};
  for (const auto& members : groups) {
    sum += members == unity::fingerprint{} ? unity::fingerprint{} : detail::fingerprint_of_group(members);
  }
  return sum;
}

UNITY_INLINE fusion_strategy unfused(const instruction_graph& g) {
  fusion_strategy s;
  s.group_of.resize(g.size());
  std::iota(s.group_of.begin(), s.group_of.end(), 0U);
  return s;
}

UNITY_INLINE std::vector<std::vector<instruction_id>> members_of(const fusion_strategy& s) {
  std::vector<std::vector<instruction_id>> all(s.group_of.size());
  auto next = s.copies.begin();
  for (std::size_t i = 0; i < s.group_of.size(); ++i) {
    all[s.group_of[i]].push_back(static_cast<instruction_id>(i));
    for (; next != s.copies.end() && next->instruction == i; ++next) {
      all[next->group].push_back(next->instruction);
    }
  }
  return all;
}

UNITY_INLINE group_counts count_groups(const instruction_graph& g, const fusion_strategy& s) {
  group_counts n;
  const auto members = members_of(s);
  for (std::size_t k = 0; k < members.size(); ++k) {
    const auto i = static_cast<instruction_id>(k);
    n.kernels += !members[k].empty() && g.computes(i) ? 1U : 0U;
    n.fused += members[k].size() > 1 && g.computes(i) ? 1U : 0U;
    n.buckets += !members[k].empty() && g.reduces(i) ? 1U : 0U;
  }
  n.copies = s.copies.size();
  return n;
}

}  // namespace unity::fusion

#endif
