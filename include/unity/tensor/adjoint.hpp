// The adjoint of one operator as a graph.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include <unity/graph/compact_graph.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor {

// The first nodes, without a kind, stand for the operands, then the results, then the cotangents of the results.
struct operator_adjoint {
  tensor_graph graph{};                 // outputs: one cotangent per entry of `operands`
  std::vector<std::size_t> operands{};  // ascending; the cotangents of all others are zero or not wanted
};

// wanted: per operand, whether to compute its cotangent; integer operands have none. Empty: all operands that have one.
// How: a view uses its transposed index map; a primitive derives its adjoint from its scalar kernel (element-wise) or
// its iteration space (sums of products: the same loops with result and operand exchanged; other sums: at each point
// of the space); a composite uses the adjoint of its body. Operators with an adjoint in their definition (convolution,
// pooling, lookups, normalizations) use that one.
// Complexity: linear in the definition; a composite recomputes the inner values that it needs.
// Throws: unity::error if the operator does not accept the inputs or has no adjoint.
[[nodiscard]] operator_adjoint adjoint_of(const algebra& a, const operation& op, std::span<const tensor_type> inputs,
                                          std::vector<bool> wanted = {});

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_ADJOINT)

#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/tensor/adjoint_rule.hpp>
#include <unity/tensor/detail/algebra.hpp>
#include <unity/tensor/detail/derive_adjoint.hpp>

namespace unity::tensor {

UNITY_INLINE operator_adjoint adjoint_of(const algebra& a, const operation& op, std::span<const tensor_type> inputs,
                                         std::vector<bool> wanted) {
  const auto outputs = a.infer(op, inputs);
  if (!outputs) {
    throw error{"adjoint", "operands that the operator does not take", a.why_not(op, inputs)};
  }
  std::vector<tensor_type> given{inputs.begin(), inputs.end()};
  given.insert(given.end(), outputs->begin(), outputs->end());
  given.insert(given.end(), outputs->begin(), outputs->end());
  wanted.resize(inputs.size(), wanted.empty());
  detail::body_graph b{a, given};
  const std::vector<value_id> values{b.operands().begin(), b.operands().end()};
  adjoint_problem p{inputs, *outputs, {}, {}, {}, std::move(wanted)};
  p.operand = [&](std::size_t i) { return values[i]; };
  p.result = [&](std::size_t r) { return values[inputs.size() + r]; };
  for (std::size_t r = 0; r < outputs->size(); ++r) {
    const bool real = is_floating((*outputs)[r].element);
    p.cotangents.push_back(real ? values[inputs.size() + outputs->size() + r] : value_id{});
  }
  bool any = false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    p.wanted[i] = p.wanted[i] && is_floating(inputs[i].element);
    any = any || p.wanted[i];
  }
  any = any && is_floating((*outputs)[0].element);
  const auto cotangents = any ? append_adjoint(b, op, p) : std::vector<value_id>{};
  operator_adjoint result;
  std::vector<value_id> found;
  for (std::size_t i = 0; i < cotangents.size(); ++i) {
    if (p.wanted[i] && cotangents[i].valid()) {
      result.operands.push_back(i);
      found.push_back(cotangents[i]);
    }
  }
  result.graph = std::move(b).finish(found);
  return result;
}

}  // namespace unity::tensor

#endif
