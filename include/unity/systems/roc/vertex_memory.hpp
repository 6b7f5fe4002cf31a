// Training iterations of graph neural networks on a graph of a given size, as memory graphs for ROC's memory manager.
// Source: section 4.5 of Jia's dissertation (2020).
#pragma once

#include <cstdint>
#include <span>

#include <unity/core/config.hpp>
#include <unity/placement/memory_graph.hpp>

namespace unity::systems {

// Regular.
struct graph_size {
  std::int64_t vertices = 0;
  std::int64_t edges = 0;

  friend bool operator==(const graph_size&, const graph_size&) = default;
};

// Table 4.4.
inline constexpr graph_size reddit{232'965, 114'848'857};

// Elements are float32; neighbours are stored as compressed rows with 8 bytes per offset and 4 per edge. Gradients of
// the input features are not computed.

// The network of figure 4.3 with an operator per box: a sum over neighbours, then two products.
[[nodiscard]] placement::memory_graph gin_memory(graph_size size, std::int64_t in, std::int64_t hidden,
                                                 std::int64_t out);

// Layers of a product, followed by a sum over neighbours that is fused with a rectifier except in the last layer.
// widths: of the input features, then of each layer. Precondition: at least two.
[[nodiscard]] placement::memory_graph gcn_memory(graph_size size, std::span<const std::int64_t> widths);

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_ROC_VERTEX_MEMORY)

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/units.hpp>

namespace unity::systems {

namespace detail {

inline bytes features_of(graph_size g, std::int64_t width) { return bytes{4 * g.vertices * width}; }
inline bytes neighbours_of(graph_size g) { return bytes{8 * (g.vertices + 1) + 4 * g.edges}; }

}  // namespace detail

UNITY_INLINE placement::memory_graph gin_memory(graph_size size, std::int64_t in, std::int64_t hidden,
                                                std::int64_t out) {
  placement::memory_graph m;
  const auto vertex = [&](std::string name, std::int64_t width) {
    return m.add_tensor(std::move(name), detail::features_of(size, width));
  };
  const auto weight = [&](std::string name, std::int64_t rows, std::int64_t columns, bool is_result = false) {
    return m.add_tensor(std::move(name), bytes{4 * rows * columns}, is_result);
  };
  const auto h0 = vertex("h0", in);
  const auto g = m.add_tensor("g", detail::neighbours_of(size));
  const auto a = vertex("a", in);
  const auto b = vertex("b", hidden);
  const auto h1 = vertex("h1", out);
  const auto w1 = weight("w1", in, hidden);
  const auto w2 = weight("w2", hidden, out);
  const auto dh1 = vertex("dh1", out);
  const auto db = vertex("db", hidden);
  const auto da = vertex("da", in);
  const auto dw1 = weight("dw1", in, hidden, true);
  const auto dw2 = weight("dw2", hidden, out, true);
  m.add_operator("gather", {h0, g}, {a});
  m.add_operator("linear+relu", {a, w1}, {b});
  m.add_operator("linear", {b, w2}, {h1});
  m.add_operator("loss", {h1}, {dh1});
  m.add_operator("linear backward", {dh1, b, w2}, {db, dw2});
  m.add_operator("linear+relu backward", {db, a, b, w1}, {da, dw1});
  m.add_operator("gather backward", {da, a, g}, {});
  return m;
}

UNITY_INLINE placement::memory_graph gcn_memory(graph_size size, std::span<const std::int64_t> widths) {
  placement::memory_graph m;
  UNITY_EXPECTS(widths.size() >= 2, "the widths of inputs and of a layer");
  std::vector<placement::tensor_id> x(widths.size());
  std::vector<placement::tensor_id> h{m.add_tensor("h0", detail::features_of(size, widths[0]))};
  std::vector<placement::tensor_id> w(widths.size());
  const auto g = m.add_tensor("g", detail::neighbours_of(size));
  for (std::size_t l = 1; l < widths.size(); ++l) {
    w[l] = m.add_tensor(fmt::format("w{}", l), bytes{4 * widths[l - 1] * widths[l]});
    x[l] = m.add_tensor(fmt::format("x{}", l), detail::features_of(size, widths[l]));
    h.push_back(m.add_tensor(fmt::format("h{}", l), detail::features_of(size, widths[l])));
    m.add_operator(fmt::format("linear{}", l), {h[l - 1], w[l]}, {x[l]});
    m.add_operator(fmt::format("gather{}", l), {x[l], g}, {h[l]});
  }
  auto dh = m.add_tensor("dh", detail::features_of(size, widths.back()));
  m.add_operator("loss", {h.back()}, {dh});
  for (auto l = widths.size() - 1; l > 0; --l) {
    const auto dx = m.add_tensor(fmt::format("dx{}", l), detail::features_of(size, widths[l]));
    std::vector<placement::tensor_id> reads{dh, g};
    if (l + 1 < widths.size()) {
      reads.push_back(h[l]);  // the rectifier's backward pass
    }
    m.add_operator(fmt::format("gather{} backward", l), reads, {dx});
    std::vector<placement::tensor_id> writes{m.add_tensor(fmt::format("dw{}", l), m.tensor(w[l]).size, true)};
    if (l > 1) {
      dh = m.add_tensor(fmt::format("dh{}", l - 1), detail::features_of(size, widths[l - 1]));
      writes.push_back(dh);
    }
    m.add_operator(fmt::format("linear{} backward", l), {dx, h[l - 1], w[l]}, writes);
  }
  return m;
}

}  // namespace unity::systems

#endif
