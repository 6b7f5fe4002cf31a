// An explicitly listed search space: states are numbers, moves are edges.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/search/search_space.hpp>

namespace unity::test {

// Models only search_space. State 0 is initial; an edge to `nowhere` is a move that never applies.
struct explicit_space {
  using state_type = std::uint32_t;
  using move_type = std::uint32_t;  // where the edge leads
  struct scratch_type {};
  static constexpr std::uint32_t nowhere = 0xffffffff;

  std::vector<cost_value> costs{};
  std::vector<std::vector<std::uint32_t>> edges{};

  [[nodiscard]] state_type initial() const { return 0; }
  [[nodiscard]] cost_value cost(state_type s) const { return costs[s]; }
  [[nodiscard]] fingerprint fingerprint_of(state_type s) const { return {mix64(s), s + 1}; }
  [[nodiscard]] std::span<const move_type> moves(state_type s) const { return edges[s]; }
  void prepare(state_type, scratch_type&) const {}
  [[nodiscard]] std::optional<candidate> price(state_type, move_type to, scratch_type&) const {
    return to == nowhere ? std::nullopt : std::optional<candidate>{{costs[to], fingerprint_of(to)}};
  }
  [[nodiscard]] state_type apply(state_type, move_type to, scratch_type&, scratch_type&) const { return to; }
};

// Also models bounded_space: a state's bound is the least cost reachable from it.
struct bounded_explicit_space : explicit_space {
  std::vector<cost_value> bounds{};
  mutable std::size_t asked = 0;

  explicit bounded_explicit_space(explicit_space s) : explicit_space{std::move(s)}, bounds{costs} {
    for (std::size_t round = 0; round < costs.size(); ++round) {
      for (std::size_t i = 0; i < costs.size(); ++i) {
        for (const auto to : edges[i]) {
          bounds[i] = to == nowhere ? bounds[i] : std::min(bounds[i], bounds[to]);
        }
      }
    }
  }
  [[nodiscard]] cost_value lower_bound(state_type s) const {
    ++asked;
    return bounds[s];
  }
};

// Also models measured_space: every built state counts a kilobyte.
struct measured_explicit_space : explicit_space {
  std::size_t built = 0;

  explicit measured_explicit_space(explicit_space s) : explicit_space{std::move(s)} {}
  [[nodiscard]] state_type apply(state_type, move_type to, scratch_type&, scratch_type&) {
    ++built;
    return to;
  }
  [[nodiscard]] std::size_t memory() const { return built * 1024; }
  [[nodiscard]] std::size_t memory(state_type) const { return 0; }
};

// 0 -> 1 -> .. -> n-1, each state one cheaper than its predecessor.
inline explicit_space staircase(std::uint32_t n) {
  explicit_space s;
  for (std::uint32_t i = 0; i < n; ++i) {
    s.costs.push_back(static_cast<cost_value>(1000 + n - i));
    s.edges.push_back(i + 1 < n ? std::vector{i + 1} : std::vector<std::uint32_t>{});
  }
  return s;
}

}  // namespace unity::test
