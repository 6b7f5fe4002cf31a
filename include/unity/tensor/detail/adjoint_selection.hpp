// The adjoint of a selection, Where(condition, x, y): an operator that unity carries through without knowing it, and
// whose derivative is nevertheless one, as it selects among cotangents and zeros.
#pragma once

#include <cstddef>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/tensor/adjoint_rule.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/body_builder.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::tensor::detail {

[[nodiscard]] bool is_selection(const algebra& a, const operation& op);

// Can a gradient go back through the operator, as far as its kind says.
[[nodiscard]] bool has_derivative(const algebra& a, const operation& op);

[[nodiscard]] std::vector<value_id> selection_adjoint(body_builder& b, const adjoint_problem& p);

// Adds up what broadcasting repeated.
[[nodiscard]] value_id summed_to(body_builder& b, value_id v, const shape& dims);

}  // namespace unity::tensor::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_DETAIL_ADJOINT_SELECTION)

#include <cstdint>
#include <variant>

#include <unity/core/config.hpp>
#include <unity/tensor/attributes.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor::detail {

UNITY_INLINE bool is_selection(const algebra& a, const operation& op) {
  return std::holds_alternative<opaque>(a.definition_of(op.kind).body) && a.read(op).word("name") == "Where";
}

UNITY_INLINE bool has_derivative(const algebra& a, const operation& op) {
  return !std::holds_alternative<opaque>(a.definition_of(op.kind).body) || is_selection(a, op);
}

UNITY_INLINE std::vector<value_id> selection_adjoint(body_builder& b, const adjoint_problem& p) {
  const auto& type = p.outputs[0];
  shape sizes{static_cast<std::int64_t>(type.rank())};
  sizes.append(type.dims.begin(), type.dims.end());
  const shape element{static_cast<std::int64_t>(type.element)};
  const auto zero = b.add("fill", {}, {{"value", 0.0}, {"element", name_of(type.element)}, {"dims", shape{}}});
  std::vector<value_id> all(p.inputs.size());
  for (std::size_t i = 1; i < p.inputs.size(); ++i) {
    if (p.wanted[i] && p.cotangents[0].valid()) {
      const auto& given = p.cotangents[0];
      const auto chosen =
          b.add("opaque", {p.operand(0), i == 1 ? given : zero, i == 1 ? zero : given},
                {{"name", "Where"}, {"signature", "adjoint of Where"}, {"elements", element}, {"dims", sizes}});
      all[i] = summed_to(b, chosen, p.inputs[i].dims);
    }
  }
  return all;
}

UNITY_INLINE value_id summed_to(body_builder& b, value_id v, const shape& dims) {
  const auto from = b.type(v).dims;
  const auto more = from.size() - dims.size();
  shape axes;
  for (std::size_t d = 0; d < from.size(); ++d) {
    if (d < more || (dims[d - more] == 1 && from[d] > 1)) {
      axes.push_back(static_cast<std::int64_t>(d));
    }
  }
  const auto kept = static_cast<std::int64_t>(axes.size() == more ? 0 : 1);  // 0: only dimensions that dims lacks go
  const auto sum = axes.empty() ? v : b.add("reduce_sum", {v}, {{"axes", axes}, {"keep_dims", kept}});
  return b.type(sum).dims == dims ? sum : b.add("reshape", {sum}, {{"dims", dims}});
}

}  // namespace unity::tensor::detail

#endif
