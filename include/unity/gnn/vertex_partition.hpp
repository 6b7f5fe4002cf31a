// Vertices divided into consecutive ranges, one per device. Also orders in which given parts become ranges, and
// partitions whose most expensive range is as cheap as possible.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/gnn/csr_graph.hpp>

namespace unity::gnn {

// Part k has the vertices cuts[k] to cuts[k + 1] - 1; it is empty if both are equal.
// Source: Jia et al., A distributed multi-GPU system for fast graph processing (Lux), VLDB 2017, section 5: ranges keep
// neighbouring data together and need P + 1 numbers only.
class vertex_partition {
 public:
  // One empty part.
  vertex_partition() = default;
  // Throws: unity::error that begins with `where` unless there are at least two cuts that start at 0 and never
  // decrease.
  explicit vertex_partition(std::vector<vertex_id> cuts, std::string_view where = "partition");

  [[nodiscard]] std::size_t parts() const noexcept { return cuts_.size() - 1; }
  [[nodiscard]] vertex_id vertices() const noexcept { return cuts_.back(); }
  [[nodiscard]] vertex_range range(std::size_t part) const { return {cuts_[part], cuts_[part + 1]}; }
  [[nodiscard]] const std::vector<vertex_id>& cuts() const noexcept { return cuts_; }
  // Precondition: v < vertices(). Complexity: logarithmic in the parts.
  [[nodiscard]] std::size_t part_of(vertex_id v) const;

  friend bool operator==(const vertex_partition&, const vertex_partition&) = default;

 private:
  std::vector<vertex_id> cuts_ = std::vector<vertex_id>(2);
};

// Throws: unity::error if there are no parts.
void expect_parts(std::size_t parts);

// A baseline: sizes differ by at most one vertex; the first parts are the larger ones.
// Throws: unity::error without parts.
[[nodiscard]] vertex_partition equal_vertices(vertex_id vertices, std::size_t parts);

// A baseline: all vertices in the first part.
// Throws: unity::error without parts.
[[nodiscard]] vertex_partition undivided(vertex_id vertices, std::size_t parts);

// Vertices renumbered part by part. Regular.
struct vertex_order {
  std::vector<vertex_id> numbers{};  // the new one of each vertex, for gnn::renumbered
  vertex_partition partition{};      // of the new numbers

  friend bool operator==(const vertex_order&, const vertex_order&) = default;
};

// Part by part; vertices keep their order within a part. Complexity: linear.
// Throws: unity::error without parts, and for the first vertex whose part does not exist.
[[nodiscard]] vertex_order order_by_part(std::span<const std::uint32_t> part_of_vertex, std::size_t parts);

// Maps a renumbered graph back to the original numbers of its vertices and in-edges. Regular.
struct earlier_numbers {
  std::vector<std::uint64_t> vertices{};
  std::vector<std::uint64_t> edges{};  // of a graph whose sources ascended

  friend bool operator==(const earlier_numbers&, const earlier_numbers&) = default;
};

// g: a graph that gnn::renumbered made with these numbers. Complexity: n log n in the largest in-degree.
[[nodiscard]] earlier_numbers numbers_before(csr_view g, std::span<const vertex_id> numbers);

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

// The end of the longest range from `begin`, with an end of at most `last`, that costs at most `bound` on the device of
// part k. Complexity: logarithmic in the vertices.
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

// A partition whose most expensive part is as cheap as possible; part k goes to device k. Every part has a vertex if
// there are enough vertices and devices are alike. If they differ, a part may be empty even if another partition of the
// same cost has no empty one. Complexity: O(P log V) for each of at most 65 probed bounds (bisection over the cost).
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

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_GNN_VERTEX_PARTITION)

#include <numeric>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/stable_sort.hpp>

namespace unity::gnn {

UNITY_INLINE vertex_partition::vertex_partition(std::vector<vertex_id> cuts, std::string_view where)
    : cuts_{std::move(cuts)} {
  if (cuts_.size() < 2 || cuts_.front() != 0) {
    throw error{where, cuts_.size() < 2 ? fmt::format("{} cuts", cuts_.size()) : fmt::format("cut 0 at {}", cuts_[0]),
                "two at least, the first at 0"};
  }
  for (std::size_t k = 1; k < cuts_.size(); ++k) {
    if (cuts_[k] < cuts_[k - 1]) {
      throw error{where, fmt::format("cut {} at {}", k, cuts_[k]), fmt::format("{} or behind it", cuts_[k - 1])};
    }
  }
}

UNITY_INLINE std::size_t vertex_partition::part_of(vertex_id v) const {
  UNITY_EXPECTS(v < vertices(), "a vertex");
  return static_cast<std::size_t>(std::upper_bound(cuts_.begin(), cuts_.end(), v) - cuts_.begin()) - 1;
}

UNITY_INLINE void expect_parts(std::size_t parts) {
  constexpr std::size_t most = std::size_t{1} << 24U;
  if (parts == 0 || parts > most) {
    throw error{"partition", fmt::format("{} parts", parts), fmt::format("1 to {}", most)};
  }
}

UNITY_INLINE vertex_partition equal_vertices(vertex_id vertices, std::size_t parts) {
  expect_parts(parts);
  std::vector<vertex_id> cuts;
  for (std::size_t k = 0; k <= parts; ++k) {
    cuts.push_back(static_cast<vertex_id>(k * (vertices / parts) + std::min<std::size_t>(k, vertices % parts)));
  }
  return vertex_partition{std::move(cuts)};
}

UNITY_INLINE vertex_partition undivided(vertex_id vertices, std::size_t parts) {
  expect_parts(parts);
  std::vector<vertex_id> cuts(parts + 1, vertices);
  cuts.front() = 0;
  return vertex_partition{std::move(cuts)};
}

UNITY_INLINE vertex_order order_by_part(std::span<const std::uint32_t> part_of_vertex, std::size_t parts) {
  expect_parts(parts);
  std::vector<vertex_id> cuts(parts + 1);
  for (std::size_t v = 0; v < part_of_vertex.size(); ++v) {
    if (part_of_vertex[v] >= parts) {
      throw error{fmt::format("part of vertex {}", v), fmt::format("{}", part_of_vertex[v]),
                  fmt::format("one of {} parts", parts)};
    }
    ++cuts[part_of_vertex[v] + std::size_t{1}];
  }
  std::partial_sum(cuts.begin(), cuts.end(), cuts.begin());
  vertex_order order;
  order.partition = vertex_partition{cuts};
  order.numbers.reserve(part_of_vertex.size());
  for (const auto part : part_of_vertex) {
    order.numbers.push_back(cuts[part]++);
  }
  return order;
}

UNITY_INLINE earlier_numbers numbers_before(csr_view g, std::span<const vertex_id> numbers) {
  earlier_numbers before{std::vector<std::uint64_t>(numbers.size()), std::vector<std::uint64_t>(g.edges())};
  for (std::size_t v = 0; v < numbers.size(); ++v) {
    before.vertices[numbers[v]] = v;
  }
  std::vector<std::size_t> order;
  std::uint64_t next = 0;
  for (const auto now : numbers) {
    const auto sources = g.sources_of(now);
    order.resize(sources.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    unity::stable_sort(
        order, [&](std::size_t a, std::size_t b) { return before.vertices[sources[a]] < before.vertices[sources[b]]; });
    for (const auto place : order) {
      before.edges[g.offsets()[now] + place] = next++;
    }
  }
  return before;
}

}  // namespace unity::gnn

#endif
