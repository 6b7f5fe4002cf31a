// Renumbers vertices so that arbitrary parts become ranges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/gnn/csr_graph.hpp>
#include <unity/gnn/vertex_partition.hpp>

namespace unity::gnn {

// Regular.
struct vertex_order {
  std::vector<vertex_id> numbers{};  // the new one of each vertex, for gnn::renumbered
  vertex_partition partition{};      // of the new numbers

  friend bool operator==(const vertex_order&, const vertex_order&) = default;
};

// Part by part; vertices keep their order within a part. Complexity: linear.
// Throws: unity::error without parts, and for the first vertex whose part does not exist.
[[nodiscard]] vertex_order order_by_part(std::span<const std::uint32_t> part_of_vertex, std::size_t parts);

// The original numbers of the vertices and in-edges of a renumbered graph. Regular.
struct earlier_numbers {
  std::vector<std::uint64_t> vertices{};
  std::vector<std::uint64_t> edges{};  // of a graph whose sources ascended

  friend bool operator==(const earlier_numbers&, const earlier_numbers&) = default;
};

// g: a graph that gnn::renumbered made with these numbers. Complexity: n log n in the largest in-degree.
[[nodiscard]] earlier_numbers numbers_before(csr_view g, std::span<const vertex_id> numbers);

}  // namespace unity::gnn

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_GNN_VERTEX_ORDER)

#include <numeric>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/stable_sort.hpp>

namespace unity::gnn {

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
