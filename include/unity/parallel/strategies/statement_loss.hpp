// The loss of a model that a plan statement trains.
#pragma once

#include <unity/core/config.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel {

// The graph followed by a cross entropy of its logits, which are cast to float32 if they are narrower. A graph with
// several outputs stays as it is, because not all of them are logits. Nodes keep their numbers. The algebra must have
// the losses. Complexity: linear in the graph.
// Throws: unity::error as tensor::with_loss.
[[nodiscard]] tensor::tensor_graph with_wide_loss(const tensor::algebra& a, const tensor::tensor_graph& g);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_STRATEGIES_STATEMENT_LOSS)

#include <array>
#include <utility>

#include <unity/tensor/algebra_inference.hpp>
#include <unity/tensor/loss.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

UNITY_INLINE tensor::tensor_graph with_wide_loss(const tensor::algebra& a, const tensor::tensor_graph& g) {
  if (g.outputs().size() != 1) {
    return g;
  }
  const auto logits = g.outputs()[0];
  if (tensor::size_of(g.type(logits).element) >= tensor::size_of(tensor::dtype::float32)) {
    return tensor::with_loss(a, g, tensor::loss::cross_entropy);
  }
  tensor::body_graph b{a, g};
  const std::array wide{b.add("cast", {logits}, {{"element", tensor::name_of(tensor::dtype::float32)}})};
  return tensor::with_loss(a, std::move(b).finish(wide), tensor::loss::cross_entropy);
}

}  // namespace unity::parallel

#endif
