// Small random graphs for tests.
#pragma once

#include <cstdint>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/gnn/csr_graph.hpp>

namespace unity::test {

// May contain parallel edges and self-loops; vertices with low numbers have the most in-edges.
[[nodiscard]] inline std::vector<gnn::edge> random_edges(random_engine& random, gnn::vertex_id vertices,
                                                         std::size_t count) {
  std::vector<gnn::edge> all;
  for (std::size_t i = 0; i < count && vertices > 0; ++i) {
    const auto source = static_cast<gnn::vertex_id>(random.below(vertices));
    const auto target = static_cast<gnn::vertex_id>(random.below(random.below(vertices) + 1));
    all.push_back({source, target});
  }
  return all;
}

[[nodiscard]] inline gnn::csr_graph random_graph(random_engine& random, gnn::vertex_id most_vertices,
                                                 std::size_t most_edges) {
  const auto vertices = static_cast<gnn::vertex_id>(random.below(most_vertices) + 1);
  return gnn::from_edges(vertices, random_edges(random, vertices, random.below(most_edges + 1)));
}

}  // namespace unity::test
