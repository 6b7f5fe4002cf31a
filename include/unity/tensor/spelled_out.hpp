// Graphs without composites.
#pragma once

#include <vector>

#include <unity/core/id.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::tensor {

// The graph in which the body of each composite, and of those in it, stands in its place. Composites with column_major
// results stay, as bodies have row_major ones. Computes the same.
// Complexity: linear in the graph that results.
[[nodiscard]] tensor_graph spelled_out(const algebra& a, const tensor_graph& g);

namespace detail {

// Appends the nodes of `from` to `to`. now: per value of `from`, which in `to` it is; known for nodes of no kind.
void append_spelled_out(const algebra& a, const tensor_graph& from, tensor_graph& to, std::vector<value_id>& now);

}  // namespace detail

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_SPELLED_OUT)

#include <cstddef>
#include <optional>

#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor::detail {

UNITY_INLINE void append_spelled_out(const algebra& a, const tensor_graph& from, tensor_graph& to,
                                     std::vector<value_id>& now) {
  for (const auto n : node_ids(from)) {
    const auto& op = from.operation(n);
    if (!op.kind.valid()) {
      continue;
    }
    std::vector<value_id> operands;
    std::vector<tensor_type> inputs;
    std::vector<tensor_type> outputs;
    for (const auto v : from.operands(n)) {
      operands.push_back(now[v.index()]);
      inputs.push_back(to.type(operands.back()));
    }
    for (const auto v : from.results(n)) {
      outputs.push_back(from.type(v));
    }
    const auto results = from.results(n);
    if (const auto body = op.order == layout::row_major ? a.body(op, inputs) : std::nullopt) {
      std::vector<value_id> inside(body->value_count());
      for (std::size_t i = 0; i < operands.size(); ++i) {
        inside[body->results(node_id{i})[0].index()] = operands[i];
      }
      append_spelled_out(a, *body, to, inside);
      for (std::size_t r = 0; r < results.size(); ++r) {
        now[results[r].index()] = inside[body->outputs()[r].index()];
      }
      continue;
    }
    const auto made = to.add_node(op, operands, outputs);
    for (std::size_t r = 0; r < results.size(); ++r) {
      now[results[r].index()] = to.results(made)[r];
    }
  }
}

}  // namespace unity::tensor::detail

namespace unity::tensor {

UNITY_INLINE tensor_graph spelled_out(const algebra& a, const tensor_graph& g) {
  tensor_graph spelled;
  std::vector<value_id> now(g.value_count());
  detail::append_spelled_out(a, g, spelled, now);
  std::vector<value_id> outputs;
  for (const auto v : g.outputs()) {
    outputs.push_back(now[v.index()]);
  }
  spelled.set_outputs(outputs);
  return spelled;
}

}  // namespace unity::tensor

#endif
