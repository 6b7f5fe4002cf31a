// A graph neural network as a graph of operators on the rows of one device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/gnn/csr_graph.hpp>
#include <unity/gnn/range_graph.hpp>
#include <unity/gnn/vertex_data.hpp>
#include <unity/systems/roc/vertex_model.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::systems {

// The state that determines random values. Regular.
struct drawing {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  bool is_training = true;  // false: no dropout, and no vertices left out

  friend bool operator==(const drawing&, const drawing&) = default;
};

// An input of a range other than weights and rows of other ranges.
struct range_value {
  value_id value{};
  bool is_drawn = false;  // in each step; otherwise constant
  // Effects: writes the value, row-major. Elements do not depend on the partition of the vertices.
  std::function<void(const drawing&, std::span<std::byte>)> fill{};
};

// Rows of a value that are exchanged with other ranges before a layer's sums. Regular.
struct row_exchange {
  std::size_t layer = 0;
  std::vector<value_id> sent{};      // for each of range_graph::sent
  std::vector<value_id> received{};  // for each of range_graph::received: inputs
  bool is_trained = false;           // the rows depend on weights, so their cotangents are sent back

  friend bool operator==(const row_exchange&, const row_exchange&) = default;
};

// Weights come first, in the same order and with the same types for every range.
struct range_model {
  // Outputs: the loss, then sent values that depend on weights, exchange by exchange.
  tensor::tensor_graph graph{};
  value_id loss{};    // the range's share: the shares of all ranges add up to the mean
  value_id logits{};  // a row per vertex, a column per class
  std::vector<value_id> weights{};
  std::vector<range_value> values{};
  std::vector<row_exchange> exchanges{};
  std::vector<std::size_t> layers{};    // by node: its layer; the loss belongs to the last
  std::vector<std::uint32_t> widths{};  // by layer: columns of the rows that are summed
};

// Per-vertex factors of a layer on the whole graph, independent of ranges. Regular.
struct vertex_scales {
  std::vector<double> degree{};  // in-degrees
  std::vector<double> taken{};   // for fastgcn: the probability that a layer samples the vertex

  friend bool operator==(const vertex_scales&, const vertex_scales&) = default;
};

// Complexity: linear in vertices; for fastgcn, in edges.
[[nodiscard]] vertex_scales scales_of(const vertex_model& m, gnn::csr_view g);

// Data of the vertices besides the graph. Refers to a data set.
struct vertex_rows {
  const gnn::feature_matrix& features;
  std::span<const std::int32_t> labels;
  std::span<const gnn::vertex_role> roles;
  std::int32_t classes = 0;
  // Random values depend on these indices of vertices and in-edges (gnn::numbers_before); empty: on their own indices.
  std::span<const std::uint64_t> vertex_numbers{};
  std::span<const std::uint64_t> edge_numbers{};
};

// The loss is the mean cross entropy over the training vertices, 0 without any. Everything referred to must outlive
// the result. edges_before: in-edges of the vertices before the range. Precondition: the range graph is joint if
// joins_edges requires it. Complexity: linear in layers and exchanges.
// Throws: unity::error as check.
[[nodiscard]] range_model range_model_of(const tensor::algebra& a, const vertex_model& m, const gnn::range_graph& r,
                                         const vertex_rows& rows, const vertex_scales& scales,
                                         std::uint64_t edges_before);

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_ROC_RANGE_MODEL)

#include <algorithm>

#include <unity/systems/roc/range_model_writer.hpp>

namespace unity::systems {

UNITY_INLINE vertex_scales scales_of(const vertex_model& m, gnn::csr_view g) {
  vertex_scales s;
  for (gnn::vertex_id v = 0; v < g.vertices(); ++v) {
    s.degree.push_back(static_cast<double>(g.in_degree(v)));
  }
  if (m.layer != vertex_layer::fastgcn) {
    return s;
  }
  // The squared norm of the vertex's column in the propagation matrix.
  s.taken.resize(g.vertices());
  double all = 0;
  for (gnn::vertex_id v = 0; v < g.vertices(); ++v) {
    for (const auto u : g.sources_of(v)) {
      const auto part = 1 / (s.degree[v] * std::max(s.degree[u], 1.0));
      s.taken[u] += part;
      all += part;
    }
  }
  for (auto& p : s.taken) {
    p = all > 0 ? std::min(1.0, m.drawn * p / all) : 1.0;
  }
  return s;
}

}  // namespace unity::systems

#endif
