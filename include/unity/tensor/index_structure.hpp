// Which index runs along which dimension of every operand and result of an operator. Shrinking sizes and splitting
// operators depend on it.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include <unity/tensor/algebra.hpp>
#include <unity/tensor/detail/composite_indices.hpp>
#include <unity/tensor/detail/index_types.hpp>
#include <unity/tensor/detail/linearity.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor {

// The indices of an operator on the inputs, derived from its definition; nothing if it does not accept the inputs. A
// primitive has the indices of its iteration space. A view shares an index between dimensions that it maps onto each
// other as a whole. A composite has the indices of its body, joined along its edges. An opaque operator has only
// indices that are never split.
// Source: Jia's dissertation (2020) table 3.1, generalized.
[[nodiscard]] inline std::optional<index_structure> dimension_indices(const algebra& a, const operation& op,
                                                                      std::span<const tensor_type> inputs) {
  return detail::indices_of(a, op, inputs);
}

// The maximal sets of operands, each ascending, in which the operator is jointly additive: f(x + y) = f(x) + f(y) if x
// and y are values of exactly those operands. Empty if there are none or the operator does not accept the inputs.
// Complexity: exponential in the number of operands for primitives and composites, which have few.
[[nodiscard]] inline std::vector<std::vector<std::size_t>> linear_groups(const algebra& a, const operation& op,
                                                                         std::span<const tensor_type> inputs) {
  return detail::linear_groups_of(a, op, inputs);
}

}  // namespace unity::tensor
