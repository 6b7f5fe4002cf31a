// Which operators and edges of a graph have a backward pass, and which operators read each weight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel {

// All operands of a node that are the same value: it is sent once.
struct graph_edge {
  value_id value{};
  node_id from{};
  node_id to{};
  std::vector<std::uint32_t> operands{};
};

struct weight_use {
  node_id node{};
  std::uint32_t operand = 0;
};

struct weight_uses {
  value_id value{};
  bool is_trained = false;
  std::vector<weight_use> uses{};
};

// The backward structure of a graph whose outputs are differentiated with respect to trained weights. Regular.
class training_graph {
 public:
  // Complexity: linear in the graph, and quadratic in its weights.
  training_graph(const tensor::algebra& a, const tensor::tensor_graph& g)
      : wanted_(g.node_count()), has_backward_(g.node_count()), edges_of_(g.node_count()), weights_of_(g.node_count()) {
    find_backward(a, g);
    find_edges(a, g);
  }

  [[nodiscard]] bool has_backward(node_id n) const { return has_backward_[n.index()]; }
  // Per operand: whether the backward pass computes its cotangent.
  [[nodiscard]] const std::vector<bool>& wanted(node_id n) const { return wanted_[n.index()]; }
  // Between operators.
  [[nodiscard]] std::span<const graph_edge> edges() const noexcept { return edges_; }
  [[nodiscard]] std::span<const weight_uses> weights() const noexcept { return weights_; }
  // The numbers of edges that begin or end at the node, and of weights that it reads.
  [[nodiscard]] std::span<const std::uint32_t> edges_of(node_id n) const { return edges_of_[n.index()]; }
  [[nodiscard]] std::span<const std::uint32_t> weights_of(node_id n) const { return weights_of_[n.index()]; }

 private:
  void find_backward(const tensor::algebra& a, const tensor::tensor_graph& g);
  void find_edges(const tensor::algebra& a, const tensor::tensor_graph& g);
  void add_use(std::size_t first, value_id v, node_id from, node_id to, std::uint32_t operand);

  std::vector<std::vector<bool>> wanted_{};
  std::vector<bool> has_backward_{};
  std::vector<graph_edge> edges_{};
  std::vector<weight_uses> weights_{};
  std::vector<std::vector<std::uint32_t>> edges_of_{};
  std::vector<std::vector<std::uint32_t>> weights_of_{};
};

// The name of a node in messages; empty: its number and operator.
using node_namer = std::function<std::string(node_id)>;

// Throws: unity::error that names the first node without a derivative that a gradient has to pass through. Operators
// with no weight before them, or no real result that an output depends on, need no derivative: they only run forward.
void expect_derivatives(const tensor::algebra& a, const tensor::tensor_graph& g, const training_graph& t,
                        const node_namer& name = {});

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_TRAINING_GRAPH)

#include <algorithm>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/tensor/derive_adjoint.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

UNITY_INLINE void training_graph::find_backward(const tensor::algebra& a, const tensor::tensor_graph& g) {
  std::vector<bool> active(g.value_count());
  std::vector<bool> counts(g.value_count());  // an output depends on it through real numbers
  for (const auto v : tensor::trained_weights(a, g)) {
    active[v.index()] = true;
  }
  for (const auto n : node_ids(g)) {
    bool any = false;
    for (const auto v : g.operands(n)) {
      any = any || active[v.index()];
    }
    for (const auto v : g.results(n)) {
      active[v.index()] = active[v.index()] || (any && tensor::is_floating(g.type(v).element));
    }
  }
  for (const auto v : g.outputs()) {
    counts[v.index()] = tensor::is_floating(g.type(v).element);
  }
  for (auto n = g.node_count(); n-- > 0;) {
    bool any = false;
    for (const auto v : g.results(node_id{n})) {
      any = any || (counts[v.index()] && active[v.index()]);
    }
    for (const auto v : g.operands(node_id{n})) {
      wanted_[n].push_back(any && active[v.index()]);
      counts[v.index()] = counts[v.index()] || wanted_[n].back();
      has_backward_[n] = has_backward_[n] || wanted_[n].back();
    }
  }
}

UNITY_INLINE void training_graph::find_edges(const tensor::algebra& a, const tensor::tensor_graph& g) {
  const auto weight = a.kind("weight");
  const auto trained = tensor::trained_weights(a, g);
  std::vector<std::uint32_t> number(g.value_count());
  for (const auto n : node_ids(g)) {
    if (g.operation(n).kind == weight) {
      const auto v = g.results(n)[0];
      number[v.index()] = static_cast<std::uint32_t>(weights_.size());
      weights_.push_back({v, std::find(trained.begin(), trained.end(), v) != trained.end(), {}});
    }
    const auto first = edges_.size();
    for (std::uint32_t i = 0; i < g.operands(n).size(); ++i) {
      const auto v = g.operands(n)[i];
      const auto from = g.producer(v);
      if (g.operation(from).kind == weight) {
        const auto w = number[v.index()];
        weights_[w].uses.push_back({n, i});
        if (std::find(weights_of_[n.index()].begin(), weights_of_[n.index()].end(), w) ==
            weights_of_[n.index()].end()) {
          weights_of_[n.index()].push_back(w);
        }
      } else if (!g.operands(from).empty()) {
        add_use(first, v, from, n, i);
      }
    }
  }
}

UNITY_INLINE void training_graph::add_use(std::size_t first, value_id v, node_id from, node_id to,
                                          std::uint32_t operand) {
  for (auto e = first; e < edges_.size(); ++e) {
    if (edges_[e].value == v) {
      edges_[e].operands.push_back(operand);
      return;
    }
  }
  edges_of_[from.index()].push_back(static_cast<std::uint32_t>(edges_.size()));
  edges_of_[to.index()].push_back(static_cast<std::uint32_t>(edges_.size()));
  edges_.push_back({v, from, to, {operand}});
}

UNITY_INLINE void expect_derivatives(const tensor::algebra& a, const tensor::tensor_graph& g, const training_graph& t,
                                     const node_namer& name) {
  for (const auto n : node_ids(g)) {
    if (t.has_backward(n) && !tensor::has_derivative(a, g.operation(n))) {
      const auto given = name ? name(n) : std::string{};
      throw error{
          given.empty() ? fmt::format("node {} ({})", n.index(), tensor::operator_name(a, g.operation(n))) : given,
          "no derivative, and gradients of weights go through it", "an operator with a known meaning"};
    }
  }
}

}  // namespace unity::parallel

#endif
