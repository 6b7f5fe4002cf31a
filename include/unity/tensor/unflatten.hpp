// Replaces products of flattened operands by products of the operands themselves.
#pragma once

#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::tensor {

// Replaces reshape(linear(reshape(x), w..)) by linear(reshape(x), w..) if the outer reshape only splits the row
// dimension of the product. The inner reshape then goes to the split dimensions, or is removed if x has them. Likewise
// for matmul. PyTorch exports linear layers on tensors of three dimensions in this form. A part of a dimension that
// merges samples and positions is not a block of samples, so without this the layer could not be divided along samples.
// Values stay equal; removes nodes that nothing reads any more. Complexity: linear in the graph.
[[nodiscard]] tensor_graph unflattened(const algebra& a, const tensor_graph& g);

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_UNFLATTEN)

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor {

namespace detail {

[[nodiscard]] inline bool is_reshape(const algebra& a, const tensor_graph& g, node_id n) {
  return g.operation(n).kind == a.kind("reshape");
}

// The product, if the node is a reshape that only splits the product's row dimension and the product's operand is a
// reshape; otherwise null.
UNITY_INLINE node_id flattened_product(const algebra& a, const tensor_graph& g, node_id n) {
  if (!is_reshape(a, g, n)) {
    return {};
  }
  const auto product = g.producer(g.operands(n)[0]);
  const auto kind = g.operation(product).kind;
  if (kind != a.kind("linear") && kind != a.kind("matmul")) {
    return {};
  }
  const auto& rows = g.type(g.operands(product)[0]).dims;
  const auto& back = g.type(g.results(n)[0]).dims;
  const bool is_flat = is_reshape(a, g, g.producer(g.operands(product)[0])) && rows.size() == 2 && back.size() > 2 &&
                       g.type(g.operands(product)[1]).rank() == 2 &&
                       back.back() == g.type(g.results(product)[0]).dims.back();
  return is_flat ? product : node_id{};
}

// The operand type of the product without flattening: the shape of the reshape's result, except for the last dimension.
UNITY_INLINE tensor_type taken_apart(const tensor_graph& g, node_id reshape, node_id product) {
  auto t = g.type(g.operands(product)[0]);
  const auto columns = t.dims.back();
  t.dims = g.type(g.results(reshape)[0]).dims;
  t.dims.back() = columns;
  return t;
}

}  // namespace detail

UNITY_INLINE tensor_graph unflattened(const algebra& a, const tensor_graph& g) {
  std::map<node_id, std::vector<value_id>>
      replaced;  // by reshape: operands of the product, the first before its reshape
  for (const auto n : node_ids(g)) {
    const auto product = detail::flattened_product(a, g, n);
    if (!product.valid()) {
      continue;
    }
    std::vector<value_id> operands(g.operands(product).begin(), g.operands(product).end());
    std::vector<tensor_type> types{detail::taken_apart(g, n, product)};
    for (std::size_t x = 1; x < operands.size(); ++x) {
      types.push_back(g.type(operands[x]));
    }
    operands[0] = g.operands(g.producer(operands[0]))[0];
    const auto made = a.infer(g.operation(product), types);
    if (made && made->front() == g.type(g.results(n)[0])) {  // the layout may prevent it
      replaced[n] = std::move(operands);
    }
  }
  std::vector<bool> is_read(g.node_count());
  for (const auto v : g.outputs()) {
    is_read[g.producer(v).index()] = true;
  }
  for (auto i = g.node_count(); i-- > 0;) {
    const node_id n{i};
    const auto found = replaced.find(n);
    const auto own = g.operands(n);
    for (const auto v : found == replaced.end() ? std::vector<value_id>(own.begin(), own.end()) : found->second) {
      is_read[g.producer(v).index()] = is_read[g.producer(v).index()] || is_read[i];
    }
    // Sources stay, because a file may name them.
    is_read[i] = is_read[i] || own.empty();
  }
  tensor_graph out;
  std::vector<value_id> now(g.value_count());
  for (const auto n : node_ids(g)) {
    if (!is_read[n.index()]) {
      continue;
    }
    const auto found = replaced.find(n);
    if (found == replaced.end()) {
      copy_node(g, n, out, now);
      continue;
    }
    const auto product = g.producer(g.operands(n)[0]);
    const auto type = detail::taken_apart(g, n, product);
    std::vector<value_id> operands;
    for (const auto v : found->second) {
      operands.push_back(now[v.index()]);
    }
    if (g.type(found->second[0]).dims != type.dims) {
      const std::vector<std::int64_t> dims(type.dims.begin(), type.dims.end());
      const auto reshape = a.make_operation("reshape", {{"dims", dims}});
      operands[0] = out.results(out.add_node(reshape, std::span{&operands[0], 1}, std::span{&type, 1}))[0];
    }
    const auto made = out.add_node(g.operation(product), operands, std::span{&g.type(g.results(n)[0]), 1});
    now[g.results(n)[0].index()] = out.results(made)[0];
  }
  std::vector<value_id> outputs;
  for (const auto v : g.outputs()) {
    outputs.push_back(now[v.index()]);
  }
  out.set_outputs(outputs);
  return out;
}

}  // namespace unity::tensor

#endif
