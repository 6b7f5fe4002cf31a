// Which index runs along which dimension of every operand and result of an operator: what shrinking its sizes and
// splitting it need to know.
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

// The indices of an operator that takes the inputs, read off its definition; nothing where it does not take them.
// A primitive has those of its iteration space. A view shares an index between the dimensions that it maps onto each
// other as a whole. A composite has those of its body, joined along its edges. An opaque operator has whole ones.
// Source: Jia's dissertation (2020) table 3.1, generalized.
[[nodiscard]] inline std::optional<index_structure> dimension_indices(const algebra& a, const operation& op,
                                                                      std::span<const tensor_type> inputs) {
  return detail::indices_of(a, op, inputs);
}

// The maximal sets of operands, each ascending, in which the operator is jointly additive: f(x + y) = f(x) + f(y)
// where x and y are values of just those operands. Empty where there are none or the inputs are not taken.
// Complexity: exponential in the number of operands for primitives and composites, which have few.
[[nodiscard]] inline std::vector<std::vector<std::size_t>> linear_groups(const algebra& a, const operation& op,
                                                                         std::span<const tensor_type> inputs) {
  return detail::linear_groups_of(a, op, inputs);
}

}  // namespace unity::tensor
