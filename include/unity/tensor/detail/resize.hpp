// Operators and graphs with other sizes.
#pragma once

#include <cstddef>

#include <unity/core/id.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::tensor::detail {

// The absence of a size.
inline constexpr std::size_t size_none = static_cast<std::size_t>(-1);

// Whether resized() rewrites all attributes of the operator that hold sizes; otherwise it has none, or they are kept.
[[nodiscard]] inline bool follows_sizes(const algebra& a, const operation& op) {
  return static_cast<bool>(a.definition_of(op.kind).resize);
}

[[nodiscard]] operation resized(const algebra& a, const resizing& r);

// The operator as one device runs it on its part of the operands and results.
[[nodiscard]] operation resized_part(const algebra& a, const resizing& r);

}  // namespace unity::tensor::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_DETAIL_RESIZE)

namespace unity::tensor::detail {

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

}  // namespace unity::tensor::detail

#endif
