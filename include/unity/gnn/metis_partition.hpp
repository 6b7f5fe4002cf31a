// A baseline: METIS partitions, which cut few edges. Needs unity::metis.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/gnn/csr_graph.hpp>

namespace unity::gnn {

// The part of each vertex; edges count as undirected. Parts have about equal sums of `weights` (within 3%, if METIS
// finds such parts), or, without weights, about equal numbers of vertices. vertex_partition.hpp turns the parts into
// ranges. The same arguments give the same parts.
// Throws: unity::error without parts, if the number of weights is wrong, if METIS cannot represent the edges or weights
// (32 bits in Debian's package), or if it runs out of memory.
// Source: Karypis and Kumar, Multilevel k-way partitioning scheme for irregular graphs, Journal of Parallel and
// Distributed Computing 48(1), 1998.
[[nodiscard]] std::vector<std::uint32_t> metis_parts(csr_view g, std::size_t parts,
                                                     std::span<const std::uint32_t> weights = {},
                                                     std::uint32_t seed = 0);

}  // namespace unity::gnn

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_GNN_METIS_PARTITION)

#include <array>
#include <limits>
#include <numeric>

#include <fmt/core.h>

#include <metis.h>

#include <unity/core/error.hpp>
#include <unity/gnn/vertex_partition.hpp>

namespace unity::gnn {

namespace detail {

// A graph in METIS's form: no self-loops, every edge in both directions.
struct metis_graph {
  std::vector<idx_t> offsets{0};
  std::vector<idx_t> neighbours{};

  explicit metis_graph(csr_view g) {
    const auto both = symmetric(g);
    if (both.edges() > static_cast<edge_id>(std::numeric_limits<idx_t>::max())) {
      throw error{"graph for METIS", fmt::format("{} edges", both.edges()),
                  fmt::format("{} at most", std::numeric_limits<idx_t>::max())};
    }
    for (vertex_id v = 0; v < g.vertices(); ++v) {
      for (const auto s : both.view().sources_of(v)) {
        if (s != v) {
          neighbours.push_back(static_cast<idx_t>(s));
        }
      }
      offsets.push_back(static_cast<idx_t>(neighbours.size()));
    }
  }
};

[[nodiscard]] UNITY_INLINE std::vector<idx_t> metis_weights(csr_view g, std::span<const std::uint32_t> weights) {
  if (!weights.empty() && weights.size() != g.vertices()) {
    throw error{"graph for METIS", fmt::format("{} weights", weights.size()),
                fmt::format("one for each of the {} vertices", g.vertices())};
  }
  std::uint64_t sum = 0;
  for (const auto w : weights) {
    sum += w;
  }
  if (sum > static_cast<std::uint64_t>(std::numeric_limits<idx_t>::max())) {
    throw error{"graph for METIS", fmt::format("weights of {}", sum),
                fmt::format("{} at most", std::numeric_limits<idx_t>::max())};
  }
  return {weights.begin(), weights.end()};
}

}  // namespace detail

UNITY_INLINE std::vector<std::uint32_t> metis_parts(csr_view g, std::size_t parts,
                                                    std::span<const std::uint32_t> weights, std::uint32_t seed) {
  expect_parts(parts);
  auto weight_of = detail::metis_weights(g, weights);
  if (parts == 1 || g.vertices() < 2) {  // METIS takes logarithms of these
    return std::vector<std::uint32_t>(g.vertices());
  }
  if (parts >= g.vertices()) {  // METIS leaves parts empty that vertices could have, and prints warnings
    std::vector<std::uint32_t> one_each(g.vertices());
    std::iota(one_each.begin(), one_each.end(), 0U);
    return one_each;
  }
  detail::metis_graph graph{g};
  auto vertices = static_cast<idx_t>(g.vertices());
  auto count = static_cast<idx_t>(parts);
  idx_t constraints = 1;
  idx_t cut = 0;
  std::array<idx_t, METIS_NOPTIONS> options{};
  METIS_SetDefaultOptions(options.data());
  options[METIS_OPTION_SEED] = static_cast<idx_t>(seed & 0x7fffffffU);
  std::vector<idx_t> found(g.vertices());
  const auto status = METIS_PartGraphKway(&vertices, &constraints, graph.offsets.data(), graph.neighbours.data(),
                                          weight_of.empty() ? nullptr : weight_of.data(), nullptr, nullptr, &count,
                                          nullptr, nullptr, options.data(), &cut, found.data());
  if (status != METIS_OK) {
    throw error{"METIS", status == METIS_ERROR_MEMORY ? "lacks memory" : "refused the graph",
                fmt::format("{} parts of {} vertices", parts, g.vertices())};
  }
  return {found.begin(), found.end()};
}

}  // namespace unity::gnn

#endif
