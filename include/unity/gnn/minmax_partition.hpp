// The division of vertices into ranges whose dearest range is as cheap as can be.
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

// What the vertices of a range cost on the device of a part.
//   c(part, range)   an integer, in any unit
// Law: a range costs no less than one within it, on the same device; no vertices cost 0.
// Models: range_costs. Not a model: what a range reads from others (a larger range may read less).
template <class C>
concept range_cost = requires(const C& c, std::size_t part, vertex_range r) {
  { c(part, r) } -> std::same_as<std::uint64_t>;
};

// What the dearest part costs.
template <range_cost C>
[[nodiscard]] std::uint64_t bottleneck(const vertex_partition& p, const C& cost) {
  std::uint64_t most = 0;
  for (std::size_t k = 0; k < p.parts(); ++k) {
    most = std::max(most, cost(k, p.range(k)));
  }
  return most;
}

namespace detail {

// How far part k reaches from `begin` on, for `bound` and up to `last`. Complexity: logarithmic in the vertices.
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

// Cuts such that no part costs more than `bound`, or nothing where there are none. Each part takes as much as it can,
// or, with `leaves`, as leaves a vertex for each part behind it where there are so many. Complexity: O(P log V).
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

// Part k goes to device k; of all divisions into so many ranges, none has a cheaper dearest part. Each part has a
// vertex where there are so many, unless devices differ and one can take none for what the dearest part costs.
// Complexity: O(P log V) for each of the at most 65 bounds that are probed (a bisection over what the dearest part
// costs).
// Throws: unity::error without parts.
// Source: section 4.4.2 of ROC; the probe: Pinar and Aykanat, Fast optimal load balancing algorithms for 1D
// partitioning, Journal of Parallel and Distributed Computing 64(8), 2004.
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

// A baseline: the part with the most in-edges has as few as ranges allow. Throws: unity::error without parts.
[[nodiscard]] inline vertex_partition equal_edges(csr_view g, std::size_t parts) {
  const auto count = [&](std::size_t, vertex_range r) { return g.offsets()[r.end] - g.offsets()[r.begin]; };
  return minmax_partition(parts, g.vertices(), count);
}

}  // namespace unity::gnn
