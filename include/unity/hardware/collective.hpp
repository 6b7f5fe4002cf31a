// Collectives: their algorithms, and how bytes and devices are divided.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/hardware/topology.hpp>

namespace unity::hardware {

// ring: each rank sends to the next one, devices of a node are adjacent; an all-to-all shifts by 1, 2, 3, ... instead.
// tree: logarithmic rounds. An all-gather sends to the rank 1, 2, 4, ... positions before, a reduce-scatter does the
// reverse, an all-reduce is both (NCCL calls these PAT), on both levels of a hierarchy if there are two; a broadcast is
// a binomial tree, an all-to-all is Bruck's.
// hierarchical: rings inside the nodes first, then between devices at the same position in their nodes, then inside
// again.
// rails: one ring per position in a node, each with an equal share of the size; each enters and leaves nodes at other
// positions, so that all network adapters of a node are used. For an all-reduce and its two halves.
// in_switch: a switch sums what it receives and sends the result to all. For an all-reduce.
// An algorithm that does not apply (see applies) falls back to the ring.
// Sources: Thakur, Rabenseifner and Gropp, Optimization of collective communication operations in MPICH, IJHPCA 19(1),
// 2005; Bruck et al., Efficient algorithms for all-to-all communications, IEEE TPDS 8(11), 1997; Patarasuk and Yuan,
// Bandwidth optimal all-reduce algorithms, JPDC 69(2), 2009; Träff, Optimal, non-pipelined reduce-scatter and allreduce
// algorithms, 2024 (tree); Klenk et al., An in-network architecture for accelerating shared-memory multiprocessor
// collectives, ISCA 2020 (in_switch).
enum class collective_algorithm : std::uint8_t { ring, tree, hierarchical, rails, in_switch };
inline constexpr std::array<std::string_view, 5> collective_algorithm_names{"ring", "tree", "hierarchical", "rails",
                                                                            "in_switch"};

// An exchange between devices; rank r is devices[r]. `size` counts like in `link`: the message; the vector that is
// reduced or broadcast; the total that a rank sends (reduce_scatter, all_to_all) or receives (all_gather). Refers to
// the devices, which must be distinct; a message goes from the first to the second.
struct collective {
  exchange kind = exchange::all_reduce;
  collective_algorithm algorithm = collective_algorithm::ring;
  std::span<const device_id> devices{};
  bytes size{};
  std::size_t root = 0;  // the rank that broadcasts
};

// Whether the algorithm differs from the ring: hierarchical and rails need several nodes with the same number of
// devices, more than one each; in_switch needs a reducing switch that is connected to all devices.
// Complexity: n log n in the devices, plus the links of reducing switches for in_switch.
[[nodiscard]] bool applies(const topology& t, const collective& c);

// The order in which ring and rails visit devices: node by node, every other one backwards. Then a transfer to another
// node leaves and arrives at the same position in both nodes, which is one rail if each device has its own network
// adapter.
// Complexity: n log n.
[[nodiscard]] std::vector<device_id> ring_order(const topology& t, std::span<const device_id> devices);

// Part i of `size` bytes, divided into `parts` parts as evenly as possible.
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

// Concatenates nodes, every other one backwards.
[[nodiscard]] team around(std::vector<team> nodes);

// A ring through a grid that enters its nodes at other positions than other rails do.
[[nodiscard]] team rail(const std::vector<team>& nodes, std::size_t number);

// The reducing switch of lowest number that is connected to all devices; nothing if there is none.
[[nodiscard]] std::optional<vertex_id> reducing_switch(const topology& t, std::span<const device_id> devices);

// The same ranks, rotated to begin with `first`.
[[nodiscard]] inline team starting_with(team ranks, std::uint32_t first) {
  std::rotate(ranks.begin(), std::find(ranks.begin(), ranks.end(), first), ranks.end());
  return ranks;
}

// Several nodes with the same number of devices, more than one each: two levels then differ from one.
[[nodiscard]] inline bool is_grid(const std::vector<team>& nodes) {
  return nodes.size() > 1 && nodes.front().size() > 1 &&
         std::all_of(nodes.begin(), nodes.end(), [&](const team& n) { return n.size() == nodes.front().size(); });
}

// The ranks at position i in each node of a grid.
[[nodiscard]] team across(const std::vector<team>& nodes, std::size_t i);

// The first rank of each node; for the root's node, the root, which comes first of all. Effects: each of `nodes` then
// begins with that rank.
[[nodiscard]] team leaders(std::vector<team>& nodes, std::uint32_t root);

// The largest power of two below `count`, or 0 for less than 2.
[[nodiscard]] constexpr std::size_t widest_step(std::size_t count) noexcept {
  std::size_t step = 1;
  while (2 * step < count) {
    step *= 2;
  }
  return count < 2 ? 0 : step;
}

// The edges of one round of the binomial tree with root 0, in rounds from the root: f(parent, child). Distant edges
// come first, so that adjacent positions, such as those of a node, are served in the last rounds.
template <class F>
void binomial_round(std::size_t count, std::size_t step, const F& f) {
  for (std::size_t parent = 0; parent + step < count; parent += 2 * step) {
    f(parent, parent + step);
  }
}

}  // namespace detail

}  // namespace unity::hardware

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_HARDWARE_COLLECTIVE)

#include <unity/core/config.hpp>

namespace unity::hardware::detail {

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

UNITY_INLINE team around(std::vector<team> nodes) {
  for (std::size_t n = 1; n < nodes.size(); n += 2) {
    std::reverse(nodes[n].begin(), nodes[n].end());
  }
  return all_of(nodes);
}

// If the number of nodes is a multiple of the positions, each ring enters the next node one position further: rings are
// then equal up to a shift of nodes. Otherwise it alternates between two positions; an odd last node has a third.
UNITY_INLINE team rail(const std::vector<team>& nodes, std::size_t number) {
  const auto places = nodes.front().size();
  const auto entry = [&](std::size_t n) {
    n %= nodes.size();
    const bool is_odd_out = nodes.size() % 2 == 1 && n + 1 == nodes.size();
    return (number + (nodes.size() % places == 0 ? n : is_odd_out ? 2 : n % 2)) % places;
  };
  team ranks;
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const auto in = entry(n);
    const auto out = entry(n + 1) == in ? (in + 1) % places : entry(n + 1);
    const auto step = out == (in + 1) % places ? places - 1 : 1;  // so all others are visited before the exit
    ranks.push_back(nodes[n][in]);
    for (auto i = (in + step) % places; i != in; i = (i + step) % places) {
      if (i != out) {
        ranks.push_back(nodes[n][i]);
      }
    }
    ranks.push_back(nodes[n][out]);
  }
  return ranks;
}

UNITY_INLINE std::optional<vertex_id> reducing_switch(const topology& t, std::span<const device_id> devices) {
  const auto joins = [&](vertex_id s) {
    return t.reduces(s) && std::all_of(devices.begin(), devices.end(), [&](device_id d) {
             const auto v = topology::vertex_of(d);
             return t.link_between(v, s) && t.link_between(s, v);
           });
  };
  std::optional<vertex_id> first;
  for (const auto l : t.links_from(topology::vertex_of(devices.front()))) {
    const auto s = t.target(l);
    if ((!first || s < *first) && joins(s)) {
      first = s;
    }
  }
  return first;
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

}  // namespace unity::hardware::detail

namespace unity::hardware {

UNITY_INLINE bool applies(const topology& t, const collective& c) {
  const bool is_reduced = c.kind == exchange::all_reduce;
  const bool is_half = c.kind == exchange::reduce_scatter || c.kind == exchange::all_gather;
  switch (c.algorithm) {
    case collective_algorithm::ring: return true;
    case collective_algorithm::tree: return c.kind != exchange::message;
    case collective_algorithm::hierarchical:
      return c.kind == exchange::broadcast ||
             (c.kind != exchange::message && detail::is_grid(detail::by_node(t, c.devices)));
    case collective_algorithm::rails: return (is_reduced || is_half) && detail::is_grid(detail::by_node(t, c.devices));
    case collective_algorithm::in_switch: return is_reduced && detail::reducing_switch(t, c.devices).has_value();
  }
  return false;
}

UNITY_INLINE std::vector<device_id> ring_order(const topology& t, std::span<const device_id> devices) {
  std::vector<device_id> ring;
  for (const auto r : detail::around(detail::by_node(t, devices))) {
    ring.push_back(devices[r]);
  }
  return ring;
}

}  // namespace unity::hardware

#endif
