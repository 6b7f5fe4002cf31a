// What every backend refuses to prepare, with the same messages.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <utility>

#include <unity/core/error.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::detail {

// "cpu kernel of add: operands float32[2,3]; expected another number of operands".
[[nodiscard]] error no_kernel(std::string_view backend, const tensor::algebra& a, const tensor::operation& op,
                              std::span<const tensor::tensor_type> inputs, std::string_view expected);

// Throws: unity::error if the operator does not accept the inputs, has results of other types, or has no known meaning.
void check_operator(std::string_view backend, const tensor::algebra& a, const tensor::operation& op,
                    std::span<const tensor::tensor_type> inputs, std::span<const tensor::tensor_type> outputs);

}  // namespace unity::backend::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_DETAIL_KERNEL_CHECK)

#include <string>
#include <variant>

#include <unity/tensor/definition.hpp>

namespace unity::backend::detail {

UNITY_INLINE error no_kernel(std::string_view backend, const tensor::algebra& a, const tensor::operation& op,
                             std::span<const tensor::tensor_type> inputs, std::string_view expected) {
  std::string where{backend};
  where += " kernel of ";
  where += op.kind.index() < a.kind_count() ? std::string_view{a.signature(op.kind).name} : "an operator of no kind";
  std::string found = inputs.empty() ? "no operands" : "operands";
  for (const auto& t : inputs) {
    found += ' ';
    found += tensor::to_string(t);
  }
  return {where, found, expected};
}

UNITY_INLINE void check_operator(std::string_view backend, const tensor::algebra& a, const tensor::operation& op,
                                 std::span<const tensor::tensor_type> inputs,
                                 std::span<const tensor::tensor_type> outputs) {
  const auto inferred = a.infer(op, inputs);
  if (!inferred) {
    constexpr std::string_view prefix = "expected ";
    const auto refusal = a.why_not(op, inputs);
    const std::string_view reason{refusal};
    throw no_kernel(backend, a, op, inputs,
                    reason.starts_with(prefix) ? reason.substr(prefix.size()) : "operands that it takes");
  }
  bool agree = inferred->size() == outputs.size();
  for (std::size_t i = 0; agree && i < outputs.size(); ++i) {
    const auto& t = (*inferred)[i];
    agree = t.dims == outputs[i].dims && t.element == outputs[i].element && t.order == outputs[i].order;
  }
  if (!agree) {
    throw no_kernel(backend, a, op, inputs, "results of the types that its operands give");
  }
  const auto& d = a.definition_of(op.kind);
  if (d.source != tensor::source_kind::none || std::holds_alternative<tensor::opaque>(d.body)) {
    throw no_kernel(backend, a, op, inputs, "an operator with a known meaning");
  }
}

}  // namespace unity::backend::detail

#endif
