// Replaces composites in graphs by their bodies.
#pragma once

#include <vector>

#include <unity/core/id.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::tensor {

// The graph with the body of each composite in its place, recursively. Composites with column_major results stay,
// because bodies have row_major ones. Computes the same. Complexity: linear in the resulting graph.
[[nodiscard]] tensor_graph spelled_out(const algebra& a, const tensor_graph& g);

namespace detail {

// Appends the computation of the node's results. now: maps the values of `from` to those of `to`; known for the
// operands.
void append_spelled_out(const algebra& a, const tensor_graph& from, node_id n, tensor_graph& to,
                        std::vector<value_id>& now);

}  // namespace detail

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_SPELLED_OUT)

#include <cstddef>
#include <optional>

#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor::detail {

UNITY_INLINE void append_spelled_out(const algebra& a, const tensor_graph& from, node_id n, tensor_graph& to,
                                     std::vector<value_id>& now) {
  std::vector<tensor_type> inputs;
  for (const auto v : from.operands(n)) {
    inputs.push_back(to.type(now[v.index()]));
  }
  const auto& op = from.operation(n);
  const auto body = inputs.empty() || op.order != layout::row_major ? std::nullopt : a.body(op, inputs);
  if (!body) {
    static_cast<void>(copy_node(from, n, to, now));
    return;
  }
  std::vector<value_id> inside(body->value_count());
  std::size_t operand = 0;
  for (const auto m : node_ids(*body)) {
    if (!body->operation(m).kind.valid()) {
      inside[body->results(m)[0].index()] = now[from.operands(n)[operand++].index()];
    } else {
      append_spelled_out(a, *body, m, to, inside);
    }
  }
  for (std::size_t r = 0; r < from.results(n).size(); ++r) {
    now[from.results(n)[r].index()] = inside[body->outputs()[r].index()];
  }
}

}  // namespace unity::tensor::detail

namespace unity::tensor {

UNITY_INLINE tensor_graph spelled_out(const algebra& a, const tensor_graph& g) {
  tensor_graph spelled;
  std::vector<value_id> now(g.value_count());
  for (const auto n : node_ids(g)) {
    detail::append_spelled_out(a, g, n, spelled, now);
  }
  std::vector<value_id> outputs;
  for (const auto v : g.outputs()) {
    outputs.push_back(now[v.index()]);
  }
  spelled.set_outputs(outputs);
  return spelled;
}

}  // namespace unity::tensor

#endif
