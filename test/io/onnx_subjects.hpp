// Helpers to compare models in the tests of ONNX.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>

#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/io/onnx_model.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::io::test {

inline const tensor::algebra& standard() {
  static const auto algebra = tensor::standard_algebra();
  return algebra;
}

// The kinds of operators other than sources, in order.
[[nodiscard]] inline std::string outline(const onnx_model& m) {
  std::string text;
  for (const auto n : node_ids(m.graph)) {
    if (!m.graph.operands(n).empty()) {
      text += (text.empty() ? "" : " ") + standard().signature(m.graph.operation(n).kind).name;
    }
  }
  return text;
}

// The operator that is not a source; the last one of several.
[[nodiscard]] inline tensor::operation only_operation(const onnx_model& m) {
  tensor::operation only;
  for (const auto n : node_ids(m.graph)) {
    if (!m.graph.operands(n).empty()) {
      only = m.graph.operation(n);
    }
  }
  return only;
}

[[nodiscard]] inline tensor::tensor_graph built(const std::function<value_id(tensor::builder&)>& build) {
  tensor::builder b{standard()};
  const auto output = build(b);
  return std::move(b).finish({output});
}

}  // namespace unity::io::test
