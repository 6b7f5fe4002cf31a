// Graphs and operators in another form: in another element type, at other sizes, with composites replaced by their
// bodies, or with an identity appended to each output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor::detail {

// The absence of a size.
inline constexpr std::size_t size_none = static_cast<std::size_t>(-1);

// Whether resized() rewrites all attributes of the operator that hold sizes; otherwise it has none, or they are kept.
[[nodiscard]] inline bool follows_sizes(const algebra& a, const operation& op) {
  return static_cast<bool>(a.definition_of(op.kind).resize);
}

}  // namespace unity::tensor::detail

namespace unity::tensor {

// The operator for operands and results of other sizes: attributes that hold sizes are rewritten, if it has any. Does
// not check that the operator accepts the new sizes: the caller infers its types. Complexity: linear in the ranks.
[[nodiscard]] operation resized(const algebra& a, const resizing& r);

// The operator as one device runs it on its part of the operands and results: as resized(), unless the definition says
// otherwise for parts.
[[nodiscard]] operation resized_part(const algebra& a, const resizing& r);

// The graph with each composite replaced by its body, recursively. Composites with column_major results stay, because
// bodies have row_major ones. Values stay equal. Complexity: linear in the resulting graph.
[[nodiscard]] tensor_graph spelled_out(const algebra& a, const tensor_graph& g);

// Appends the operators that compute the results of node `n` of `from`, composites replaced by their bodies as in
// spelled_out(). now: maps values of `from` to values of `to`; the operands must be mapped, and the results then are.
void append_spelled_out(const algebra& a, const tensor_graph& from, node_id n, tensor_graph& to,
                        std::vector<value_id>& now);

// The graph with an identity after each operator whose floating-point result is an output. Outputs cannot be partial
// sums: the identity lets an operator yield partial sums, which are added up for the identity. Nodes keep their
// numbers.
// Complexity: linear in the graph.
[[nodiscard]] tensor_graph with_delivered_outputs(const algebra& a, const tensor_graph& g);

// The graph with element type `to` instead of `from` in its sources and casts, and in all values computed from them.
// Complexity: linear in the graph.
// Throws: unity::error if an operator does not accept operands of the new types.
[[nodiscard]] tensor_graph converted(const algebra& a, const tensor_graph& g, dtype from, dtype to);

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_CONVERT)

#include <algorithm>
#include <optional>
#include <span>
#include <string>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/rewrite/algebra.hpp>

namespace unity::tensor {

UNITY_INLINE operation resized(const algebra& a, const resizing& r) {
  auto op = r.op;
  const auto& d = a.definition_of(op.kind);
  if (d.resize) {
    d.resize(attribute_writer{d.fields, op.attributes}, r);
  }
  return op;
}

UNITY_INLINE operation resized_part(const algebra& a, const resizing& r) {
  const auto& d = a.definition_of(r.op.kind);
  if (!d.resize_part) {
    return resized(a, r);
  }
  auto op = r.op;
  d.resize_part(attribute_writer{d.fields, op.attributes}, r);
  return op;
}

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

UNITY_INLINE tensor_graph spelled_out(const algebra& a, const tensor_graph& g) {
  tensor_graph spelled;
  std::vector<value_id> now(g.value_count());
  for (const auto n : node_ids(g)) {
    append_spelled_out(a, g, n, spelled, now);
  }
  std::vector<value_id> outputs;
  for (const auto v : g.outputs()) {
    outputs.push_back(now[v.index()]);
  }
  spelled.set_outputs(outputs);
  return spelled;
}

UNITY_INLINE tensor_graph with_delivered_outputs(const algebra& a, const tensor_graph& g) {
  auto copy = g;
  std::vector<value_id> outputs(g.outputs().begin(), g.outputs().end());
  std::vector<value_id> delivered(g.value_count());
  const auto identity = a.make_operation("identity");
  for (auto& v : outputs) {
    const auto maker = g.producer(v);
    if (g.operands(maker).empty() || g.operation(maker) == identity || !is_floating(g.type(v).element)) {
      continue;
    }
    auto& d = delivered[v.index()];
    if (!d.valid()) {
      const std::vector<value_id> operands{v};
      const std::vector<tensor_type> types{g.type(v)};
      d = copy.results(copy.add_node(identity, operands, types))[0];
    }
    v = d;
  }
  copy.set_outputs(outputs);
  return copy;
}

UNITY_INLINE tensor_graph converted(const algebra& a, const tensor_graph& g, dtype from, dtype to) {
  tensor_graph out;
  std::vector<value_id> now(g.value_count());
  for (const auto n : node_ids(g)) {
    auto op = g.operation(n);
    const auto& signature = a.signature(op.kind);
    for (std::size_t i = 0; i < std::min(signature.attributes.size(), op.attributes.size()); ++i) {
      auto& value = op.attributes[i];
      if (signature.attributes[i].name == "element" && value == attribute{static_cast<std::int64_t>(from)}) {
        value = attribute{static_cast<std::int64_t>(to)};
      }
    }
    std::vector<value_id> operands;
    std::vector<tensor_type> types;
    for (const auto v : g.operands(n)) {
      operands.push_back(now[v.index()]);
      types.push_back(out.type(operands.back()));
    }
    const auto made = a.infer(op, types);
    if (!made) {
      throw error{fmt::format("node {} ({}) in {}", n.index(), signature.name, name_of(to)),
                  "operands that it does not take", a.why_not(op, types)};
    }
    const auto own = out.add_node(op, operands, *made);
    for (std::size_t r = 0; r < g.results(n).size(); ++r) {
      now[g.results(n)[r].index()] = out.results(own)[r];
    }
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
