// Transposed operands of matrix products: products accept any layout, so nothing needs to move.
#pragma once

#include <cstddef>
#include <utility>

#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/graph/topological_order.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::backend {

// Whether products are the only readers of the node's results.
[[nodiscard]] bool feeds_products(const tensor::algebra& a, const tensor::tensor_graph& g, const users& uses,
                                  node_id n);

// The body of a composite in which values that only products read have the layout in which their elements stay in
// place, if there is one.
[[nodiscard]] tensor::tensor_graph with_turned_operands(const tensor::algebra& a, const tensor::tensor_graph& body);

}  // namespace unity::backend

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_TURNED_OPERANDS)

#include <algorithm>
#include <string_view>
#include <vector>

#include <unity/backend/detail/run_list.hpp>
#include <unity/backend/elementwise_chains.hpp>

namespace unity::backend {

UNITY_INLINE bool feeds_products(const tensor::algebra& a, const tensor::tensor_graph& g, const users& uses,
                                 node_id n) {
  const auto outputs = g.outputs();
  bool products = true;
  for (const auto v : g.results(n)) {
    products = products && std::find(outputs.begin(), outputs.end(), v) == outputs.end();
    for (const auto& use : uses[v]) {
      const std::string_view reader = a.signature(g.operation(use.user).kind).name;
      products = products && (reader == "matmul" || reader == "linear");
    }
  }
  return products;
}

UNITY_INLINE tensor::tensor_graph with_turned_operands(const tensor::algebra& a, const tensor::tensor_graph& body) {
  const users uses{body};
  tensor::tensor_graph turned;
  for (const auto n : node_ids(body)) {
    auto op = body.operation(n);
    auto results = detail::types_of(body, body.results(n));
    const auto inputs = detail::types_of(turned, body.operands(n));
    for (auto& other : a.variants(op, inputs)) {
      auto found = *a.infer(other, inputs);
      if (feeds_products(a, body, uses, n) && detail::shared_results(a, other, inputs, found)) {
        op = std::move(other);
        results = std::move(found);
      }
    }
    turned.add_node(std::move(op), body.operands(n), results);
  }
  turned.set_outputs(body.outputs());
  return turned;
}

}  // namespace unity::backend

#endif
