// What devices exchange together, and how its bytes and devices are divided.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/machine/link.hpp>
#include <unity/machine/topology.hpp>

namespace unity::machine {

// ring: each rank talks to the next one, devices of a node side by side; an all-to-all shifts by 1, 2, 3, ... instead.
// tree: logarithmic rounds: binomial trees, and for all-to-all those of Bruck.
// hierarchical: inside the nodes first, then between devices of the same place in their nodes, then inside again. Where
//   nodes take part with different numbers of devices it is the ring, save a broadcast.
// Sources: Thakur, Rabenseifner and Gropp, Optimization of collective communication operations in MPICH, IJHPCA 19(1),
// 2005; Bruck et al., Efficient algorithms for all-to-all communications, IEEE TPDS 8(11), 1997; Patarasuk and Yuan,
// Bandwidth optimal all-reduce algorithms, JPDC 69(2), 2009.
enum class collective_algorithm : std::uint8_t { ring, tree, hierarchical };
inline constexpr std::array<std::string_view, 3> collective_algorithm_names{"ring", "tree", "hierarchical"};

// An exchange between devices; rank r is devices[r]. `size` is that of link: of the message; of the vector that is
// reduced or broadcast; of the whole that a rank gives (reduce_scatter, all_to_all) or gets (all_gather).
// Refers to the devices, which are distinct; a message goes from the first of two to the second.
struct collective {
  exchange kind = exchange::all_reduce;
  collective_algorithm how = collective_algorithm::ring;
  std::span<const device_id> devices{};
  bytes size{};
  std::size_t root = 0;  // the rank that broadcasts
};

// Part i of `size` bytes cut into so many parts, as even as can be.
[[nodiscard]] constexpr bytes part_size(bytes size, std::size_t parts, std::size_t i) noexcept {
  __extension__ using wide = unsigned __int128;
  const auto end = [&](std::size_t k) {
    return static_cast<std::int64_t>(static_cast<wide>(size.count()) * k / parts);
  };
  return bytes{end(i + 1) - end(i)};
}

namespace detail {

// Ranks in the order in which they are visited.
using team = std::vector<std::uint32_t>;

void check_collective(const topology& t, const collective& c);

// The ranks of each node, nodes by number, ranks ascending.
[[nodiscard]] std::vector<team> by_node(const topology& t, std::span<const device_id> devices);

[[nodiscard]] team all_of(const std::vector<team>& nodes);

// The same ranks in turn, from `first` on.
[[nodiscard]] inline team starting_with(team ranks, std::uint32_t first) {
  std::rotate(ranks.begin(), std::find(ranks.begin(), ranks.end(), first), ranks.end());
  return ranks;
}

// Several nodes with the same number of devices, more than one each: where two levels differ from one.
[[nodiscard]] inline bool is_grid(const std::vector<team>& nodes) {
  return nodes.size() > 1 && nodes.front().size() > 1 &&
         std::all_of(nodes.begin(), nodes.end(), [&](const team& n) { return n.size() == nodes.front().size(); });
}

// The ranks of place i in each node of a grid.
[[nodiscard]] team across(const std::vector<team>& nodes, std::size_t i);

// The first rank of each node and, first of all, the root for its own. `nodes`: each begins with its first rank then.
[[nodiscard]] team leaders(std::vector<team>& nodes, std::uint32_t root);

// The largest power of two below `count`, or 0 for less than 2.
[[nodiscard]] constexpr std::size_t widest_step(std::size_t count) noexcept {
  std::size_t step = 1;
  while (2 * step < count) {
    step *= 2;
  }
  return count < 2 ? 0 : step;
}

// The edges of the binomial tree whose root is place 0, in rounds from the root: f(round's step, parent, child). The
// far ones come first, so that places side by side, as those of a node, are served in the last rounds.
template <class F>
void binomial_round(std::size_t count, std::size_t step, const F& f) {
  for (std::size_t parent = 0; parent + step < count; parent += 2 * step) {
    f(parent, parent + step);
  }
}

}  // namespace detail

}  // namespace unity::machine

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_MACHINE_COLLECTIVE)

#include <unity/core/config.hpp>

namespace unity::machine::detail {

UNITY_INLINE void check_collective(const topology& t, const collective& c) {
  UNITY_EXPECTS(!c.devices.empty() && c.root < c.devices.size() && c.size.count() >= 0,
                "devices, one of them the root, and bytes");
  UNITY_EXPECTS(c.kind != exchange::message || c.devices.size() == 2, "two devices for a message");
  auto sorted = std::vector<device_id>(c.devices.begin(), c.devices.end());
  std::sort(sorted.begin(), sorted.end());
  UNITY_EXPECTS(
      std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end() && sorted.back().index() < t.device_count(),
      "distinct devices of the topology");
}

UNITY_INLINE std::vector<team> by_node(const topology& t, std::span<const device_id> devices) {
  team order(devices.size());
  for (std::size_t r = 0; r < order.size(); ++r) {
    order[r] = static_cast<std::uint32_t>(r);
  }
  const auto node = [&](std::uint32_t r) { return t[devices[r]].node; };
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return node(a) != node(b) ? node(a) < node(b) : a < b; });
  std::vector<team> nodes;
  for (const auto r : order) {
    if (nodes.empty() || node(nodes.back().front()) != node(r)) {
      nodes.emplace_back();
    }
    nodes.back().push_back(r);
  }
  return nodes;
}

UNITY_INLINE team all_of(const std::vector<team>& nodes) {
  team all;
  for (const auto& n : nodes) {
    all.insert(all.end(), n.begin(), n.end());
  }
  return all;
}

UNITY_INLINE team across(const std::vector<team>& nodes, std::size_t i) {
  team ranks;
  for (const auto& n : nodes) {
    ranks.push_back(n[i]);
  }
  return ranks;
}

UNITY_INLINE team leaders(std::vector<team>& nodes, std::uint32_t root) {
  team first;
  for (auto& n : nodes) {
    if (std::find(n.begin(), n.end(), root) != n.end()) {
      n = starting_with(std::move(n), root);
    }
    first.push_back(n.front());
  }
  return starting_with(std::move(first), root);
}

}  // namespace unity::machine::detail

#endif
