// Divides vertices into ranges such that the most expensive range is as cheap as possible.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <unity/gnn/csr_graph.hpp>
#include <unity/gnn/vertex_partition.hpp>

namespace unity::gnn {

// The cost of a range of vertices on the device of a part.
//   c(part, range)   an integer, in any unit
// Law: a range costs at least as much as any range within it on the same device; an empty range costs 0. Models:
// range_costs. Non-model: what a range reads from other devices (a larger range may read less).
template <class C>
concept range_cost = requires(const C& c, std::size_t part, vertex_range r) {
  { c(part, r) } -> std::same_as<std::uint64_t>;
};

// The cost of the most expensive part.
template <range_cost C>
[[nodiscard]] std::uint64_t bottleneck(const vertex_partition& p, const C& cost) {
  std::uint64_t most = 0;
  for (std::size_t k = 0; k < p.parts(); ++k) {
    most = std::max(most, cost(k, p.range(k)));
  }
  return most;
}

namespace detail {

// The end of the longest range from `begin` that costs at most `bound` on the device of part k, at most `last`.
// Complexity: logarithmic in the vertices.
template <range_cost C>
[[nodiscard]] vertex_id farthest_cut(const C& cost, std::uint64_t bound, std::size_t k, vertex_id begin,
                                     vertex_id last) {
  auto low = begin;
  auto high = last;
  while (low < high) {
    const auto middle = static_cast<vertex_id>(high - (high - low) / 2);
    if (cost(k, {begin, middle}) <= bound) {
      low = middle;
    } else {
      high = static_cast<vertex_id>(middle - 1);
    }
  }
  return low;
}

// Cuts such that no part costs more than `bound`, or nothing if there are none. Each part takes as much as it can, or,
// with `leaves`, leaves one vertex for each later part where possible. Complexity: O(P log V).
template <range_cost C>
[[nodiscard]] std::optional<std::vector<vertex_id>> cuts_within(std::size_t parts, vertex_id vertices, const C& cost,
                                                                std::uint64_t bound, bool leaves) {
  std::vector<vertex_id> cuts{0};
  cuts.reserve(parts + 1);
  for (std::size_t k = 0; k < parts; ++k) {
    const auto begin = cuts.back();
    const auto behind = leaves ? std::min<std::size_t>(parts - 1 - k, vertices - begin) : 0;
    const auto last = static_cast<vertex_id>(vertices - behind);
    cuts.push_back(farthest_cut(cost, bound, k, begin, begin < vertices ? std::max<vertex_id>(last, begin + 1) : last));
  }
  return cuts.back() == vertices ? std::optional{std::move(cuts)} : std::nullopt;
}

}  // namespace detail

// Part k goes to device k; no other division into as many ranges has a cheaper most expensive part. Every part has a
// vertex where there are enough, unless devices differ and one cannot take any within the optimal cost. Complexity: O(P
// log V) for each of at most 65 probed bounds (bisection over the cost).
// Throws: unity::error without parts. Source: section 4.4.2 of ROC; the probe: Pinar and Aykanat, Fast optimal load
// balancing algorithms for 1D partitioning, Journal of Parallel and Distributed Computing 64(8), 2004.
template <range_cost C>
[[nodiscard]] vertex_partition minmax_partition(std::size_t parts, vertex_id vertices, const C& cost) {
  auto best = equal_vertices(vertices, parts);
  std::uint64_t low = 0;
  auto high = bottleneck(best, cost);
  while (low < high) {
    const auto middle = low + (high - low) / 2;
    if (auto cuts = detail::cuts_within(parts, vertices, cost, middle, false)) {
      best = vertex_partition{std::move(*cuts)};
      high = bottleneck(best, cost);
    } else {
      low = middle + 1;
    }
  }
  auto spread = detail::cuts_within(parts, vertices, cost, high, true);
  return spread ? vertex_partition{std::move(*spread)} : best;
}

// A baseline: minimizes the largest number of in-edges of a part.
// Throws: unity::error without parts.
[[nodiscard]] inline vertex_partition equal_edges(csr_view g, std::size_t parts) {
  const auto count = [&](std::size_t, vertex_range r) { return g.offsets()[r.end] - g.offsets()[r.begin]; };
  return minmax_partition(parts, g.vertices(), count);
}

}  // namespace unity::gnn
