// Training iterations of graph neural networks as ROC runs them, made by hand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/core.h>

#include <unity/core/units.hpp>
#include <unity/placement/memory_graph.hpp>

namespace unity::test {

struct graph_size {
  std::int64_t vertices = 0;
  std::int64_t edges = 0;
};
inline constexpr graph_size reddit{232'965, 114'848'857};

// float32 features. Neighbours in compressed rows: 8 bytes per offset, 4 per edge.
inline bytes features(graph_size g, std::int64_t width) { return bytes{4 * g.vertices * width}; }
inline bytes neighbours(graph_size g) { return bytes{8 * (g.vertices + 1) + 4 * g.edges}; }

// Figure 4.3 of Jia's thesis, with an operator per box. The last operator's gradient, of the input features, is not
// written: nobody reads it.
inline placement::memory_graph gin_of_figure(graph_size size, std::int64_t in, std::int64_t hidden, std::int64_t out) {
  placement::memory_graph m;
  const auto vertex = [&](std::string name, std::int64_t width) {
    return m.add_tensor(std::move(name), features(size, width));
  };
  const auto weight = [&](std::string name, std::int64_t rows, std::int64_t columns, bool is_result = false) {
    return m.add_tensor(std::move(name), bytes{4 * rows * columns}, is_result);
  };
  const auto h0 = vertex("h0", in);
  const auto g = m.add_tensor("g", neighbours(size));
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

// Layers of linear, then gather, fused with a rectifier but for the last; widths[0] features come in. The gradient of
// the input features is not computed.
inline placement::memory_graph gcn(graph_size size, const std::vector<std::int64_t>& widths) {
  placement::memory_graph m;
  std::vector<placement::tensor_id> x(widths.size());
  std::vector<placement::tensor_id> h{m.add_tensor("h0", features(size, widths[0]))};
  std::vector<placement::tensor_id> w(widths.size());
  const auto g = m.add_tensor("g", neighbours(size));
  for (std::size_t l = 1; l < widths.size(); ++l) {
    w[l] = m.add_tensor(fmt::format("w{}", l), bytes{4 * widths[l - 1] * widths[l]});
    x[l] = m.add_tensor(fmt::format("x{}", l), features(size, widths[l]));
    h.push_back(m.add_tensor(fmt::format("h{}", l), features(size, widths[l])));
    m.add_operator(fmt::format("linear{}", l), {h[l - 1], w[l]}, {x[l]});
    m.add_operator(fmt::format("gather{}", l), {x[l], g}, {h[l]});
  }
  auto dh = m.add_tensor("dh", features(size, widths.back()));
  m.add_operator("loss", {h.back()}, {dh});
  for (auto l = widths.size() - 1; l > 0; --l) {
    const auto dx = m.add_tensor(fmt::format("dx{}", l), features(size, widths[l]));
    std::vector<placement::tensor_id> reads{dh, g};
    if (l + 1 < widths.size()) {
      reads.push_back(h[l]);  // the rectifier's backward pass
    }
    m.add_operator(fmt::format("gather{} backward", l), reads, {dx});
    std::vector<placement::tensor_id> writes{m.add_tensor(fmt::format("dw{}", l), m.tensor(w[l]).size, true)};
    if (l > 1) {
      dh = m.add_tensor(fmt::format("dh{}", l - 1), features(size, widths[l - 1]));
      writes.push_back(dh);
    }
    m.add_operator(fmt::format("linear{} backward", l), {dx, h[l - 1], w[l]}, writes);
  }
  return m;
}

}  // namespace unity::test
