// Graph neural networks for vertex classification.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <unity/core/config.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::systems {

// What a layer computes from the rows h of a vertex v and of the sources u of its in-edges. W, b: weights; f: relu, in
// the last layer the identity.
//   gcn        f(sum of h_u W / sqrt(d_u d_v) + b), d: in-edges. Kipf and Welling, Semi-supervised classification with
//              graph convolutional networks, ICLR 2017; with self edges in the graph
//   gin        f(relu((h_v + sum of h_u) W1 + b1) W2 + b2). Xu et al., How powerful are graph neural networks?, ICLR
//              2019, with epsilon 0
//   sage_mean  f(h_v W1 + (mean of h_u) W2 + b). Hamilton et al., Inductive representation learning on large graphs,
//              NIPS 2017, over all neighbours
//   sage_max   f(h_v W1 + (maximum of relu(h_u Wp + bp)) W2 + b). Likewise
//   commnet    f(h_v W1 + (mean of h_u) W2), f: tanh. Sukhbaatar et al., Learning multiagent communication with
//              backpropagation, NIPS 2016
//   fastgcn    as gcn, but in training each vertex u is sampled with probability p_u, which grows with the square of
//              its weights in the sums of others, and then scaled by 1 / p_u. Chen et al., FastGCN, ICLR 2018;
//              vertices are drawn independently, so devices need not agree, and sums still go over all edges
//   gat        heads of f(sum of a_uv h_u W + b), side by side; a_uv: softmax over the in-edges of v of
//              leaky_relu(h_u W s + h_v W t), slope 0.2; f: elu; the last layer has one head. Velickovic et al., Graph
//              attention networks, ICLR 2018; with self edges in the graph
enum class vertex_layer : std::uint8_t { gcn, gin, sage_mean, sage_max, commnet, fastgcn, gat };
inline constexpr std::array<std::string_view, 7> vertex_layer_names{"gcn",     "gin",     "sage_mean", "sage_max",
                                                                    "commnet", "fastgcn", "gat"};

// A stack of layers of one kind. Regular.
struct vertex_model {
  vertex_layer layer = vertex_layer::gcn;
  std::int64_t layers = 2;
  std::int64_t hidden = 16;  // columns after each layer except the last; for gat, per head
  std::int64_t heads = 8;    // for gat, in each layer except the last
  // Rate of dropout on the input of each layer in training; for gat, also on its edge weights.
  double dropout = 0.5;
  double drawn = 400;  // for fastgcn: average number of vertices that a layer draws
  tensor::dtype element = tensor::dtype::float32;

  friend bool operator==(const vertex_model&, const vertex_model&) = default;
};

// Whether the model is meant for graphs in which each vertex has a self-loop.
[[nodiscard]] constexpr bool wants_self_edges(vertex_layer l) noexcept {
  return l == vertex_layer::gcn || l == vertex_layer::fastgcn || l == vertex_layer::gat;
}

// Whether all edges of a vertex must be available at once, rather than those from the device's own vertices first.
[[nodiscard]] constexpr bool joins_edges(vertex_layer l) noexcept {
  return l == vertex_layer::sage_max || l == vertex_layer::gat;
}

// Throws: unity::error if a parameter of the model is out of range.
void check(const vertex_model& m);

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_ROC_VERTEX_MODEL)

#include <fmt/core.h>

#include <unity/core/error.hpp>

namespace unity::systems {

UNITY_INLINE void check(const vertex_model& m) {
  const auto expect = [](bool holds, std::string_view what, double found, std::string_view expected) {
    if (!holds) {
      throw error{"model", fmt::format("{} of {}", what, found), expected};
    }
  };
  constexpr std::int64_t most = 1 << 20;
  expect(m.layers >= 1 && m.layers <= 1000, "a number of layers", static_cast<double>(m.layers), "1 to 1000");
  expect(m.hidden >= 1 && m.hidden <= most, "a width", static_cast<double>(m.hidden), "1 to 1048576");
  expect(m.heads >= 1 && m.heads <= 1024, "a number of heads", static_cast<double>(m.heads), "1 to 1024");
  expect(m.dropout >= 0 && m.dropout < 1, "a rate of dropout", m.dropout, "0 or more, below 1");
  expect(m.drawn >= 1, "a number of drawn vertices", m.drawn, "1 or more");
  expect(m.element == tensor::dtype::float32 || m.element == tensor::dtype::float64, "an element",
         static_cast<double>(static_cast<int>(m.element)), "float32 or float64");
}

}  // namespace unity::systems

#endif
