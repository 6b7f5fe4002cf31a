// Operators with several spellings that run in the same way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include <unity/rewrite/algebra.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor {

namespace detail {

[[nodiscard]] std::optional<std::size_t> attribute_index(const op_signature& s, std::string_view name);

}  // namespace detail

// The operator whose time is that of `op` on these operands: padding is spelled as numbers of elements. If each
// spelling were measured separately, a search would follow noise between equal measurements.
// Precondition: the operator accepts these operands.
[[nodiscard]] operation timed_operation(const algebra& operators, const operation& op,
                                        std::span<const tensor_type> inputs);

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_TIMED_OPERATION)

#include <unity/tensor/operators/sliding.hpp>
#include <unity/tensor/operators/unknown.hpp>
#include <unity/tensor/space.hpp>

namespace unity::tensor::detail {

UNITY_INLINE std::optional<std::size_t> attribute_index(const op_signature& s, std::string_view name) {
  for (std::size_t i = 0; i < s.attributes.size(); ++i) {
    if (s.attributes[i].name == name) {
      return i;
    }
  }
  return std::nullopt;
}

}  // namespace unity::tensor::detail

namespace unity::tensor {

UNITY_INLINE operation timed_operation(const algebra& operators, const operation& op,
                                       std::span<const tensor_type> inputs) {
  const auto& signature = operators.signature(op.kind);
  const auto padding = detail::attribute_index(signature, "padding");
  const auto pads = detail::attribute_index(signature, "pads");
  if (!padding || !pads ||
      op.attributes[*padding][0] == static_cast<std::int64_t>(tensor::operators::padding::from_pads)) {
    return op;
  }
  const auto a = operators.read(op);
  const bool has_kernel = detail::attribute_index(signature, "kernel").has_value();
  const bool has_dilation = detail::attribute_index(signature, "dilation").has_value();
  const bool has_ceil = detail::attribute_index(signature, "ceil_mode").has_value();
  space s{inputs};
  attribute explicit_pads{0, 0, 0, 0};
  for (std::size_t d = 0; d < 2; ++d) {
    const auto kernel = has_kernel ? a.integers("kernel")[d] : inputs[1].dims[2 + d];
    const auto dilation = has_dilation ? a.integers("dilation")[d] : 1;
    const auto slide = tensor::operators::slide_of(s, a, d, kernel, dilation, has_ceil && a.integer("ceil_mode") != 0);
    explicit_pads[d] = slide.before;
    explicit_pads[2 + d] = slide.after;
  }
  auto timed = op;
  timed.attributes[*padding] = {static_cast<std::int64_t>(tensor::operators::padding::from_pads)};
  timed.attributes[*pads] = explicit_pads;
  return timed;
}

}  // namespace unity::tensor

#endif
