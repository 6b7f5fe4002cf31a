// How much a partition makes devices read from each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/gnn/csr_graph.hpp>
#include <unity/gnn/vertex_partition.hpp>

namespace unity::gnn {

// Of one part. Regular.
struct part_report {
  vertex_id vertices = 0;
  edge_id edges = 0;              // into these vertices
  edge_id edges_from_others = 0;  // of these, edges from vertices of other parts
  vertex_id remote_sources = 0;   // distinct vertices of other parts that are read

  friend bool operator==(const part_report&, const part_report&) = default;
};

// Complexity: linear in edges and in vertices times parts / 64.
// Throws: unity::error if the partition has another number of vertices.
[[nodiscard]] std::vector<part_report> report(csr_view g, const vertex_partition& p);

// The distinct sources outside of the range with edges into it, ascending. Complexity: linear in its edges and n log n
// in the result; one bit per vertex.
[[nodiscard]] std::vector<vertex_id> remote_sources(csr_view g, vertex_range r);

}  // namespace unity::gnn

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_GNN_PARTITION_REPORT)

#include <algorithm>
#include <span>

#include <fmt/core.h>

#include <unity/core/error.hpp>

namespace unity::gnn {

namespace detail {

// Sources of the in-edges of a range. Precondition: the range is one of vertices.
[[nodiscard]] UNITY_INLINE std::span<const vertex_id> sources_into(csr_view g, vertex_range r) {
  return g.sources().subspan(static_cast<std::size_t>(g.offsets()[r.begin]),
                             static_cast<std::size_t>(g.offsets()[r.end] - g.offsets()[r.begin]));
}

}  // namespace detail

UNITY_INLINE std::vector<vertex_id> remote_sources(csr_view g, vertex_range r) {
  std::vector<bool> is_known(g.vertices());
  std::vector<vertex_id> remote;
  for (const auto s : detail::sources_into(g, r)) {
    if (!r.contains(s) && !is_known[s]) {
      is_known[s] = true;
      remote.push_back(s);
    }
  }
  std::sort(remote.begin(), remote.end());
  return remote;
}

UNITY_INLINE std::vector<part_report> report(csr_view g, const vertex_partition& p) {
  if (p.vertices() != g.vertices()) {
    throw error{"partition", fmt::format("of {} vertices", p.vertices()), fmt::format("of {}", g.vertices())};
  }
  std::vector<part_report> all;
  for (std::size_t k = 0; k < p.parts(); ++k) {
    const auto r = p.range(k);
    const auto sources = detail::sources_into(g, r);
    const auto own = std::count_if(sources.begin(), sources.end(), [&](vertex_id s) { return r.contains(s); });
    all.push_back({.vertices = r.size(),
                   .edges = sources.size(),
                   .edges_from_others = sources.size() - static_cast<edge_id>(own),
                   .remote_sources = static_cast<vertex_id>(remote_sources(g, r).size())});
  }
  return all;
}

}  // namespace unity::gnn

#endif
