// Graphs in another element type.
#pragma once

#include <cstddef>
#include <cstdint>

#include <unity/graph/concepts.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor {

// The graph with element type `to` instead of `from` in its sources and casts, and in all values computed from them.
// Complexity: linear in the graph.
// Throws: unity::error if an operator does not accept operands of the new types.
[[nodiscard]] tensor_graph converted(const algebra& a, const tensor_graph& g, dtype from, dtype to);

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_CONVERT)

#include <string>
#include <vector>

#include <fmt/core.h>
#include <range/v3/view/zip.hpp>

#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/rewrite/algebra.hpp>

namespace unity::tensor {

UNITY_INLINE tensor_graph converted(const algebra& a, const tensor_graph& g, dtype from, dtype to) {
  tensor_graph out;
  std::vector<value_id> now(g.value_count());
  for (const auto n : node_ids(g)) {
    auto op = g.operation(n);
    const auto& signature = a.signature(op.kind);
    for (auto&& [field, value] : ranges::views::zip(signature.attributes, op.attributes)) {
      if (field.name == "element" && value == attribute{static_cast<std::int64_t>(from)}) {
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
    for (const auto& [before, after] : ranges::views::zip(g.results(n), out.results(own))) {
      now[before.index()] = after;
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
