// The names of operators in messages.
#pragma once

#include <string>

#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::tensor {

// The kind of the operator; for an opaque one, which unity passes through without knowing it, the name from its origin.
[[nodiscard]] std::string operator_name(const algebra& a, const operation& op);

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_OPERATOR_NAME)

#include <variant>

#include <unity/core/config.hpp>
#include <unity/tensor/definition.hpp>

namespace unity::tensor {

UNITY_INLINE std::string operator_name(const algebra& a, const operation& op) {
  const auto& d = a.definition_of(op.kind);
  return std::holds_alternative<opaque>(d.body) ? std::string{a.read(op).word("name")} : d.signature.name;
}

}  // namespace unity::tensor

#endif
