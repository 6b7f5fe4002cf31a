// The time of collectives by measurements, also between and beyond the measured groups.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <unity/core/units.hpp>
#include <unity/machine/link.hpp>

namespace unity::machine {

// The time of a collective: from the link of its group; for a group that was not measured, by interpolation along the
// line through the nearest two, in logarithms of ranks and time. If only one group was measured, its time is used.
// Units: bytes as link counts them, seconds. Precondition: some link has that kind.
// Complexity: linear in the links and their ranges.
[[nodiscard]] double collective_seconds(std::span<const link> groups, exchange kind, int ranks, std::int64_t size);

// The same, or nothing if no link has that kind. Precondition: at least two ranks.
[[nodiscard]] std::optional<picoseconds> measured_time(std::span<const link> groups, exchange kind, std::size_t ranks,
                                                       bytes size);

}  // namespace unity::machine

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_MACHINE_COLLECTIVE_SECONDS)

#include <algorithm>
#include <cmath>
#include <utility>

#include <unity/core/config.hpp>

namespace unity::machine::detail {

// The link of the group nearest to `ranks`, and of the others the nearest on the other side, or just the nearest if all
// are on one side. Null if there is none.
[[nodiscard]] inline std::pair<const link*, const link*> groups_around(std::span<const link> groups, exchange kind,
                                                                       int ranks) {
  const auto distance = [&](const link& l) { return std::abs(std::log2(static_cast<double>(l.ranks) / ranks)); };
  const auto nearest = [&](const auto& may_be) {
    const link* best = nullptr;
    for (const auto& l : groups) {
      if (l.costs.contains(kind) && may_be(l) && (best == nullptr || distance(l) < distance(*best))) {
        best = &l;
      }
    }
    return best;
  };
  const auto* near = nearest([](const link&) { return true; });
  if (near == nullptr) {
    return {};
  }
  const auto* across = nearest([&](const link& l) { return (l.ranks > ranks) != (near->ranks > ranks); });
  return {near, across != nullptr ? across : nearest([&](const link& l) { return l.ranks != near->ranks; })};
}

}  // namespace unity::machine::detail

namespace unity::machine {

UNITY_INLINE double collective_seconds(std::span<const link> groups, exchange kind, int ranks, std::int64_t size) {
  const auto [near, other] = detail::groups_around(groups, kind, ranks);
  UNITY_EXPECTS(near != nullptr && ranks > 1, "a measured kind and at least two ranks");
  const auto first = exchange_seconds(near->costs.at(kind), size);
  if (near->ranks == ranks || other == nullptr) {
    return first;
  }
  const auto second = exchange_seconds(other->costs.at(kind), size);
  if (!(first > 0 && second > 0)) {
    return first;
  }
  const auto share =
      std::log2(static_cast<double>(ranks) / near->ranks) / std::log2(static_cast<double>(other->ranks) / near->ranks);
  return first * std::pow(second / first, share);
}

UNITY_INLINE std::optional<picoseconds> measured_time(std::span<const link> groups, exchange kind, std::size_t ranks,
                                                      bytes size) {
  const auto has = [&](const link& l) { return l.costs.contains(kind); };
  if (std::none_of(groups.begin(), groups.end(), has)) {
    return std::nullopt;
  }
  return from_seconds(collective_seconds(groups, kind, static_cast<int>(ranks), size.count()));
}

}  // namespace unity::machine

#endif
