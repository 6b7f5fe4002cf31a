// Which instructions run as one kernel, and which all-reduces run as one.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/fusion/instruction_graph.hpp>

namespace unity::fusion {

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

  [[nodiscard]] fingerprint print() const;

  friend bool operator==(const fusion_strategy&, const fusion_strategy&) = default;
};

namespace detail {

// The hash of one group member. Members' hashes are added up, mixed, and added up over the groups.
[[nodiscard]] constexpr fingerprint print_of_member(instruction_id i, bool is_copy) noexcept {
  const auto low = mix64(2 * std::uint64_t{i} + (is_copy ? 1U : 0U));
  return {low, mix64(low + i)};
}
[[nodiscard]] constexpr fingerprint print_of_group(fingerprint members) noexcept {
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

#include <unity/core/config.hpp>

namespace unity::fusion {

UNITY_INLINE fingerprint fusion_strategy::print() const {
  std::vector<fingerprint> groups(group_of.size());
  for (std::size_t i = 0; i < group_of.size(); ++i) {
    groups[group_of[i]] += detail::print_of_member(static_cast<instruction_id>(i), false);
  }
  for (const auto& c : copies) {
    groups[c.group] += detail::print_of_member(c.instruction, true);
  }
  fingerprint sum{};
  for (const auto& members : groups) {
    sum += members == fingerprint{} ? fingerprint{} : detail::print_of_group(members);
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
