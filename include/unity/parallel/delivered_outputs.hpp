// Adds identity operators that deliver the outputs of a graph.
#pragma once

#include <cstddef>

#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel {

// The graph with an identity behind each floating-point output of an operator. Outputs of a graph cannot be partial
// sums; the identity is where terms can be added up before that. Nodes keep their numbers.
// Complexity: linear in the graph.
[[nodiscard]] tensor::tensor_graph with_delivered_outputs(const tensor::algebra& a, const tensor::tensor_graph& g);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_DELIVERED_OUTPUTS)

#include <span>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

UNITY_INLINE tensor::tensor_graph with_delivered_outputs(const tensor::algebra& a, const tensor::tensor_graph& g) {
  auto copy = g;
  std::vector<value_id> outputs(g.outputs().begin(), g.outputs().end());
  std::vector<value_id> delivered(g.value_count());
  const auto identity = a.make_operation("identity");
  for (auto& v : outputs) {
    const auto maker = g.producer(v);
    if (g.operands(maker).empty() || g.operation(maker) == identity || !tensor::is_floating(g.type(v).element)) {
      continue;
    }
    auto& d = delivered[v.index()];
    if (!d.valid()) {
      const std::vector<value_id> operands{v};
      const std::vector<tensor::tensor_type> types{g.type(v)};
      d = copy.results(copy.add_node(identity, operands, types))[0];
    }
    v = d;
  }
  copy.set_outputs(outputs);
  return copy;
}

}  // namespace unity::parallel

#endif
