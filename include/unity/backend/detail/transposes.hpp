// Transposes that need not run: chains of them become one or none, and products read transposed operands in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/graph/topological_order.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::backend {

namespace detail {

class transpose_joiner {
 public:
  transpose_joiner(const tensor::algebra& a, const tensor::tensor_graph& g)
      : algebra_{a}, graph_{g}, transpose_{a.kind("transpose")}, now_(g.value_count()) {}

  [[nodiscard]] tensor::tensor_graph run() &&;

 private:
  void add(node_id n);

  // outer after inner, in the layout of the outer one.
  [[nodiscard]] tensor::operation joined(const tensor::operation& outer, const tensor::operation& inner) const;
  [[nodiscard]] bool is_identity(const tensor::operation& op) const;

  const tensor::algebra& algebra_;
  const tensor::tensor_graph& graph_;
  kind_id transpose_;
  std::vector<value_id> now_;  // per value of the graph
  tensor::tensor_graph joined_;
};

}  // namespace detail

// Computes the same. Unused nodes stay. Nodes without operands keep their order.
[[nodiscard]] inline tensor::tensor_graph with_joined_transposes(const tensor::algebra& a,
                                                                 const tensor::tensor_graph& g) {
  return detail::transpose_joiner{a, g}.run();
}

// Transposed operands of matrix products: products accept any layout, so nothing needs to move.

// Whether products are the only readers of the node's results.
[[nodiscard]] bool feeds_products(const tensor::algebra& a, const tensor::tensor_graph& g, const users& uses,
                                  node_id n);

// The body of a composite in which values that only products read have the layout in which their elements stay in
// place, if there is one.
[[nodiscard]] tensor::tensor_graph with_turned_operands(const tensor::algebra& a, const tensor::tensor_graph& body);

}  // namespace unity::backend

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_DETAIL_TRANSPOSES)

#include <algorithm>
#include <string_view>

#include <unity/backend/detail/run_list.hpp>
#include <unity/backend/elementwise_chains.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::detail {

UNITY_INLINE tensor::tensor_graph transpose_joiner::run() && {
  for (const auto i : node_ids(graph_)) {
    add(i);
  }
  std::vector<value_id> outputs;
  for (const auto v : graph_.outputs()) {
    outputs.push_back(now_[v.index()]);
  }
  joined_.set_outputs(outputs);
  return std::move(joined_);
}

UNITY_INLINE void transpose_joiner::add(node_id n) {
  auto op = graph_.operation(n);
  const auto results = graph_.results(n);
  std::vector<value_id> operands;
  for (const auto v : graph_.operands(n)) {
    operands.push_back(now_[v.index()]);
  }
  if (op.kind == transpose_) {
    const auto inner = joined_.producer(operands[0]);
    if (joined_.operation(inner).kind == transpose_) {
      op = joined(op, joined_.operation(inner));
      operands[0] = joined_.operands(inner)[0];
    }
    if (is_identity(op) && joined_.type(operands[0]) == graph_.type(results[0])) {
      now_[results[0].index()] = operands[0];
      return;
    }
  }
  const auto made = joined_.add_node(std::move(op), operands, backend::detail::types_of(graph_, results));
  for (std::size_t r = 0; r < results.size(); ++r) {
    now_[results[r].index()] = joined_.results(made)[r];
  }
}

UNITY_INLINE tensor::operation transpose_joiner::joined(const tensor::operation& outer,
                                                        const tensor::operation& inner) const {
  const auto first = algebra_.read(inner).integers("permutation");
  tensor::shape both;
  for (const auto d : algebra_.read(outer).integers("permutation")) {
    both.push_back(first[static_cast<std::size_t>(d)]);
  }
  auto op = algebra_.make_operation("transpose", {{"permutation", both}});
  op.order = outer.order;
  return op;
}

UNITY_INLINE bool transpose_joiner::is_identity(const tensor::operation& op) const {
  std::int64_t at = 0;
  bool same = true;
  for (const auto d : algebra_.read(op).integers("permutation")) {
    same = same && d == at++;
  }
  return same;
}

}  // namespace unity::backend::detail

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
