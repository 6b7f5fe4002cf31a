// Assigns the operators of a transformer to its layers.
#pragma once

#include <cstdint>
#include <vector>

#include <unity/parallel/dimensions.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel {

// Regular.
struct transformer_layers {
  std::uint32_t count = 0;
  std::int64_t heads = 1;
  std::int64_t positions = 0;           // of the first attention's queries; 0: attention has no dimension of heads
  bool has_core = true;                 // attention is several operators, from product to product
  std::vector<std::uint32_t> pieces{};  // per node: 0 before the layers (the embedding), 1 to count, count + 1 behind

  friend bool operator==(const transformer_layers&, const transformer_layers&) = default;
};

// A layer begins behind the last cut before its attention; a cut is an operator that all paths go through, and all
// layers have the same number of them. Constants computed from weights belong to the layer that reads them first.
// Complexity: linear in the graph.
// Throws: unity::error if the graph has no attention, or layers that differ.
[[nodiscard]] transformer_layers layers_of(const tensor::algebra& a, const tensor::tensor_graph& g,
                                           const graph_dimensions& all);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_STRATEGIES_TRANSFORMER_LAYERS)

#include <algorithm>
#include <cstddef>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/recomputation.hpp>
#include <unity/parallel/strategies/megatron.hpp>

namespace unity::parallel::detail {

// The heads of an operator that mixes positions; 0 if it has no dimension of heads.
UNITY_INLINE std::int64_t heads_of(const tensor::algebra& a, const operator_dimensions& o) {
  if (o.op.kind != a.kind("matmul")) {
    const auto heads = a.read(o.op).integer("heads");
    return heads == 0 ? o.inputs[0].dims[1] : heads;
  }
  const auto& dims = o.outputs[0].dims;
  return dims.size() > 2 ? dims[dims.size() - 3] : 0;
}

// Segments between cuts.
struct graph_segments {
  std::vector<std::uint32_t> of{};         // per node
  std::vector<std::uint32_t> attention{};  // segments with attention, ascending
  std::vector<std::uint32_t> branched{};   // those in which several operators read one value, ascending
  std::uint32_t count = 0;
};

UNITY_INLINE graph_segments segments_of(const tensor::algebra& a, const tensor::tensor_graph& g,
                                        const graph_dimensions& all) {
  const auto cuts = cuts_of(g);
  graph_segments s{std::vector<std::uint32_t>(g.node_count()), {}, {}, 1};
  std::vector<node_id> reader(g.value_count());
  for (const auto n : node_ids(g)) {
    s.of[n.index()] = s.count - 1;
    if (g.operands(n).empty()) {
      continue;
    }
    if (mixes_positions(a, all[n]) && (s.attention.empty() || s.attention.back() != s.count - 1)) {
      s.attention.push_back(s.count - 1);
    }
    for (const auto v : g.operands(n)) {
      const auto from = g.producer(v);
      if (is_of_weights(g, n) || is_of_weights(g, from) || g.operands(from).empty()) {
        continue;
      }
      auto& other = reader[v.index()];
      if (other.valid() && other != n && (s.branched.empty() || s.branched.back() != s.count - 1)) {
        s.branched.push_back(s.count - 1);
      }
      other = n;
    }
    s.count += cuts[n.index()] ? 1 : 0;
  }
  return s;
}

// The number of segments in the layer of a graph with a single layer. Assumes that a layer has two branches (attention,
// then feed-forward), and as many segments after the second, such as a norm, as after the first. If there is no second
// branch, all but the last operator belong to the layer.
UNITY_INLINE std::uint32_t length_of_layer(const graph_segments& s) {
  const auto first = s.attention.front();
  const auto next = std::upper_bound(s.branched.begin(), s.branched.end(), first);
  if (next == s.branched.end()) {
    return std::max<std::uint32_t>(1, s.count - 2 - first);  // the last one is empty
  }
  return std::min(2 * (*next - first), s.count - first);
}

// The number of segments per layer; 0 if layers differ.
UNITY_INLINE std::uint32_t period_of(const graph_segments& s) {
  const auto& at = s.attention;
  if (at.size() == 1) {
    return length_of_layer(s);
  }
  for (std::size_t i = 2; i < at.size(); ++i) {
    if (at[i] - at[i - 1] != at[1] - at[0]) {
      return 0;
    }
  }
  return at[1] - at[0];
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE transformer_layers layers_of(const tensor::algebra& a, const tensor::tensor_graph& g,
                                          const graph_dimensions& all) {
  const auto segments = detail::segments_of(a, g, all);
  if (segments.attention.empty()) {
    throw error{"plan", "a model without attention", "a transformer"};
  }
  const auto period = detail::period_of(segments);
  transformer_layers layers{static_cast<std::uint32_t>(segments.attention.size()), 1, 0, true, segments.of};
  std::vector<std::size_t> operators(layers.count + 2);
  for (const auto n : node_ids(g)) {
    auto& piece = layers.pieces[n.index()];
    const auto first = segments.attention.front();
    piece = piece < first || period == 0 ? 0 : std::min((piece - first) / period + 1, layers.count + 1);
    if (g.operands(n).empty() || detail::is_of_weights(g, n)) {
      continue;
    }
    ++operators[piece];
    const auto kind = all[n].op.kind;
    layers.has_core = layers.has_core && kind != a.kind("attention") && kind != a.kind("dot_product_attention");
    if (layers.positions == 0 && detail::mixes_positions(a, all[n]) && detail::heads_of(a, all[n]) > 0) {
      layers.heads = detail::heads_of(a, all[n]);
      const auto& rows = kind == a.kind("matmul") ? all[n].outputs[0].dims : all[n].inputs[0].dims;
      layers.positions = rows[rows.size() - 2];
    }
  }
  if (period == 0 || std::any_of(operators.begin() + 2, operators.end() - 1,
                                 [&](std::size_t count) { return count != operators[1]; })) {
    throw error{"plan", "a transformer whose layers differ", "layers of equally many operators, one after the other"};
  }
  for (auto i = g.node_count(); i-- > 0;) {
    for (const auto v : g.operands(node_id{i})) {
      const auto from = g.producer(v);
      if (detail::is_of_weights(g, from) && !g.operands(from).empty()) {
        layers.pieces[from.index()] = layers.pieces[i];
      }
    }
  }
  return layers;
}

}  // namespace unity::parallel

#endif
