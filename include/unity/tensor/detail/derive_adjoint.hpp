// The adjoint of any operator: see tensor/adjoint.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/tensor/adjoint_rule.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/attributes.hpp>
#include <unity/tensor/body_builder.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/detail/algebra.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/operators/activation.hpp>
#include <unity/tensor/operators/unknown.hpp>

namespace unity::tensor {

// The adjoint of any operator of the builder's algebra: from its definition if that has one, otherwise derived.
// Throws: unity::error that names the operator if it has no adjoint.
// Source: reverse accumulation; parallel dimensions as in Jia's dissertation (2020) table 3.1.
std::vector<value_id> append_adjoint(body_builder& b, const operation& op, const adjoint_problem& p);

namespace detail {

// Whether a gradient can pass through the operator, judging by its kind.
[[nodiscard]] bool has_derivative(const algebra& a, const operation& op);

// The index of the activation attribute of an operator; the number of attributes if it has none.
[[nodiscard]] std::size_t activation_of(const definition& d, const operation& op);

[[nodiscard]] scalar_op function_of(operators::activation a);

// The adjoint of the operator without its activation, after that of the activation. Recomputes the operand of the
// activation if its derivative cannot be computed from its value.
[[nodiscard]] std::vector<value_id> activated_adjoint(body_builder& b, operation op, std::size_t field,
                                                      const adjoint_problem& p);

[[nodiscard]] std::vector<value_id> body_adjoint(body_builder& b, const operation& op, const adjoint_problem& p);

}  // namespace detail

inline std::vector<value_id> detail::body_graph::add_body_adjoint(std::string_view name,
                                                                  std::span<const named_attribute> attributes,
                                                                  const adjoint_problem& p) {
  return body_adjoint(*this, algebra_.make_operation(name, attributes), p);
}

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_DETAIL_DERIVE_ADJOINT)

#include <variant>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/tensor/adjoint_scalar.hpp>
#include <unity/tensor/detail/adjoint_primitive.hpp>
#include <unity/tensor/detail/adjoint_view.hpp>
#include <unity/tensor/detail/reverse_sweep.hpp>
#include <unity/tensor/operator_name.hpp>

namespace unity::tensor::detail {

UNITY_INLINE bool has_derivative(const algebra& a, const operation& op) {
  return !std::holds_alternative<opaque>(a.definition_of(op.kind).body);
}

UNITY_INLINE std::size_t activation_of(const definition& d, const operation& op) {
  std::size_t i = 0;
  while (i < d.fields.size() && (d.fields[i].signature.name != "activation" || op.attributes[i][0] == 0)) {
    ++i;
  }
  return i;
}

UNITY_INLINE scalar_op function_of(operators::activation a) {
  switch (a) {
    case operators::activation::relu: return scalar_op::relu;
    case operators::activation::sigmoid: return scalar_op::sigmoid;
    case operators::activation::tanh: return scalar_op::tanh;
    case operators::activation::gelu: return scalar_op::gelu;
    case operators::activation::none: break;
  }
  return scalar_op::literal;
}

UNITY_INLINE std::vector<value_id> activated_adjoint(body_builder& b, operation op, std::size_t field,
                                                     const adjoint_problem& p) {
  const auto function = function_of(static_cast<operators::activation>(op.attributes[field][0]));
  op.attributes[field] = {0};
  const auto before = [&b, op, &p](std::size_t) {
    std::vector<value_id> operands;
    for (std::size_t i = 0; i < p.inputs.size(); ++i) {
      operands.push_back(p.operand(i));
    }
    return b.add_all(op, operands)[0];
  };
  const auto at = derivative_of(function)->of_value ? p.result(0) : before(0);
  auto rest = p;
  rest.result = before;
  rest.cotangents[0] = b.add(find_scalar_operator(function)->gradient, {at, p.cotangents[0]});
  return append_adjoint(b, op, rest);
}

UNITY_INLINE std::vector<value_id> body_adjoint(body_builder& b, const operation& op, const adjoint_problem& p) {
  const auto body = b.operators().body(op, p.inputs);
  if (!body) {
    throw error{fmt::format("adjoint of {}", b.operators().signature(op.kind).name), "no body on these operands",
                "operands that it takes"};
  }
  const auto known = [&](value_id v) {
    if (v.index() < p.inputs.size()) {
      return p.operand(v.index());
    }
    for (std::size_t r = 0; p.result && r < p.outputs.size(); ++r) {
      if (body->outputs()[r] == v) {
        return p.result(r);
      }
    }
    return value_id{};
  };
  reverse_sweep sweep{b, *body, known, [&](node_id n, const adjoint_problem& inner) {
                        return append_adjoint(b, body->operation(n), inner);
                      }};
  for (std::size_t i = 0; i < p.inputs.size(); ++i) {
    if (p.wanted[i]) {
      sweep.want(value_id{i});
    }
  }
  for (std::size_t r = 0; r < p.outputs.size(); ++r) {
    if (p.cotangents[r].valid()) {
      sweep.seed(body->outputs()[r], p.cotangents[r]);
    }
  }
  sweep.run();
  std::vector<value_id> all;
  for (std::size_t i = 0; i < p.inputs.size(); ++i) {
    all.push_back(p.wanted[i] ? sweep.gradient(value_id{i}) : value_id{});
  }
  return all;
}

}  // namespace unity::tensor::detail

namespace unity::tensor {

UNITY_INLINE std::vector<value_id> append_adjoint(body_builder& b, const operation& op, const adjoint_problem& p) {
  const auto& a = b.operators();
  const auto& d = a.definition_of(op.kind);
  if (const auto field = detail::activation_of(d, op); field < d.fields.size()) {
    return detail::activated_adjoint(b, op, field, p);
  }
  if (d.own_adjoint) {
    return d.own_adjoint(b, a.read(op), p);
  }
  if (const auto map = a.index_map(op, p.inputs)) {
    return detail::view_adjoint(b, *map, p);
  }
  if (const auto s = a.iteration(op, p.inputs)) {
    const auto kernel = std::get<primitive>(d.body).kernel(a.read(op), p.inputs);
    return detail::primitive_adjoint{b, d.signature.name, *s, kernel, p}.run();
  }
  if (std::holds_alternative<composite>(d.body)) {
    return detail::body_adjoint(b, op, p);
  }
  throw error{fmt::format("adjoint of {}", operator_name(a, op)), "no derivative", "an operator with a known meaning"};
}

}  // namespace unity::tensor

#endif
