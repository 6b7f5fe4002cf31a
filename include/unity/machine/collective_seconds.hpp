// What measured collectives take, between and beyond the groups that were measured.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <unity/core/units.hpp>
#include <unity/machine/link.hpp>

namespace unity::machine {

// What a collective takes: by the link of its group; of a group that was not measured, along the line through the
// nearest two, in logarithms of ranks and time. Where one group alone was measured it is that one's.
// Units: bytes as link counts them, seconds. Preconditions: some link has that kind.
// Complexity: linear in the links and their ranges.
[[nodiscard]] double collective_seconds(std::span<const link> groups, exchange kind, int ranks, std::int64_t size);

// The same, or nothing where no link has that kind. Precondition: at least two ranks.
[[nodiscard]] std::optional<picoseconds> measured_time(std::span<const link> groups, exchange kind, std::size_t ranks,
                                                       bytes size);

}  // namespace unity::machine

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_MACHINE_COLLECTIVE_SECONDS)

#include <algorithm>
#include <cmath>
#include <utility>

#include <unity/core/config.hpp>

namespace unity::machine::detail {

// The link of the group nearest to so many ranks and, of the others, the nearest on the other side, or the nearest
// where all are on one. Null where there is none.
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
