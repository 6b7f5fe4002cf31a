// Products of flattened operands become products of the operands themselves.
#pragma once

#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::tensor {

// The graph with reshape(linear(reshape(x), w..)) replaced by linear(x, w..), if the reshapes only make one dimension
// of all but the last and take it apart again; likewise for matmul. PyTorch exports linear layers of tensors of three
// dimensions so. Values are equal; what nobody reads any more is left out. A part of a dimension that was made of words
// and samples is no block of samples, so without this such a layer could not be divided along samples.
// Complexity: linear in the graph.
[[nodiscard]] tensor_graph unflattened(const algebra& a, const tensor_graph& g);

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_UNFLATTEN)

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor {

namespace detail {

[[nodiscard]] inline bool is_reshape(const algebra& a, const tensor_graph& g, node_id n) {
  return g.operation(n).kind == a.kind("reshape");
}

// For a reshape: the product in front of it that can read what its own operand was flattened from; the null id if there
// is none.
UNITY_INLINE node_id flattened_product(const algebra& a, const tensor_graph& g, node_id n) {
  if (!is_reshape(a, g, n)) {
    return {};
  }
  const auto product = g.producer(g.operands(n)[0]);
  const auto kind = g.operation(product).kind;
  if ((kind != a.kind("linear") && kind != a.kind("matmul")) || g.operands(product).empty()) {
    return {};
  }
  const auto flat = g.producer(g.operands(product)[0]);
  if (!is_reshape(a, g, flat) || g.type(g.operands(product)[1]).rank() != 2) {
    return {};
  }
  const auto& whole = g.type(g.operands(flat)[0]).dims;
  const auto& rows = g.type(g.results(flat)[0]).dims;
  const auto& back = g.type(g.results(n)[0]).dims;
  // The product of what was flattened must have the type that is read: a layout or a weight's rank may not permit it.
  std::vector<tensor_type> types;
  for (const auto v : g.operands(product)) {
    types.push_back(g.type(v));
  }
  types[0] = g.type(g.operands(flat)[0]);
  const auto made = a.infer(g.operation(product), types);
  const bool is_flat = made && made->front() == g.type(g.results(n)[0]) && whole.size() > 2 && rows.size() == 2 &&
                       back.size() == whole.size() && rows.back() == whole.back() &&
                       std::equal(whole.begin(), whole.end() - 1, back.begin());
  return is_flat ? product : node_id{};
}

}  // namespace detail

UNITY_INLINE tensor_graph unflattened(const algebra& a, const tensor_graph& g) {
  std::map<node_id, std::vector<value_id>> replaced;  // by reshape: operands of the product
  for (const auto n : node_ids(g)) {
    if (const auto product = detail::flattened_product(a, g, n); product.valid()) {
      auto& operands = replaced[n];
      operands.assign(g.operands(product).begin(), g.operands(product).end());
      operands[0] = g.operands(g.producer(operands[0]))[0];
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
    // Sources stay: a file may name them.
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
    std::vector<value_id> operands;
    std::vector<tensor_type> types;
    for (const auto v : found->second) {
      operands.push_back(now[v.index()]);
      types.push_back(g.type(v));
    }
    const auto& op = g.operation(g.producer(g.operands(n)[0]));
    const auto made = a.infer(op, types);
    UNITY_EXPECTS(made.has_value(), "a product that takes its operands");
    now[g.results(n)[0].index()] = out.results(out.add_node(op, operands, *made))[0];
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
