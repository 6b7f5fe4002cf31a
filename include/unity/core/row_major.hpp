// Positions in multidimensional boxes, in row-major order: the last dimension varies fastest.
#pragma once

#include <concepts>
#include <cstddef>
#include <utility>

#include <unity/core/config.hpp>

namespace unity {

// The index of a position in a box of these sizes.
template <class Sizes, class Position>
[[nodiscard]] constexpr std::size_t offset_of(const Sizes& sizes, const Position& at) {
  UNITY_EXPECTS(at.size() == sizes.size(), "a coordinate for each dimension");
  std::size_t offset = 0;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    offset = offset * static_cast<std::size_t>(sizes[d]) + static_cast<std::size_t>(at[d]);
  }
  return offset;
}

// The inverse. Offsets beyond the last position wrap around.
template <std::integral Offset, class Sizes>
[[nodiscard]] constexpr Sizes position_of(Offset offset, const Sizes& sizes) {
  auto rest = static_cast<typename Sizes::value_type>(offset);
  auto at = sizes;
  for (auto d = sizes.size(); d-- > 0;) {
    at[d] = rest % sizes[d];
    rest /= sizes[d];
  }
  return at;
}

// Calls visit(position) for all positions of a box in order: along dimension d from begin[d] up to end[d], exclusive.
// Without dimensions there is one position.
template <class Position, class Visit>
constexpr void for_each_position(const Position& begin, const Position& end, Visit&& visit) {
  UNITY_EXPECTS(begin.size() == end.size(), "a begin and an end for each dimension");
  for (std::size_t d = 0; d < begin.size(); ++d) {
    if (begin[d] >= end[d]) {
      return;
    }
  }
  auto at = begin;
  while (true) {
    visit(std::as_const(at));
    auto d = at.size();
    while (d > 0 && ++at[d - 1] == end[d - 1]) {
      --d;
      at[d] = begin[d];
    }
    if (d == 0) {
      return;
    }
  }
}
// From zero up to the sizes.
template <class Sizes, class Visit>
constexpr void for_each_position(const Sizes& sizes, Visit&& visit) {
  auto first = sizes;
  for (auto& coordinate : first) {
    coordinate = 0;
  }
  for_each_position(first, sizes, std::forward<Visit>(visit));
}

}  // namespace unity
