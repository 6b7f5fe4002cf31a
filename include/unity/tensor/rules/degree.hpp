// The strength of a test at random points of a field: degrees of what a graph computes, as polynomials in its sources.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <range/v3/view/zip.hpp>

#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/work.hpp>

namespace unity::tensor {

// Bounds on the degrees of numerator and denominator.
struct degree {
  std::int64_t numerator = 0;
  std::int64_t denominator = 0;

  [[nodiscard]] std::int64_t sum() const noexcept { return saturating_add(numerator, denominator); }
  friend bool operator==(const degree&, const degree&) = default;
};

namespace detail {

[[nodiscard]] inline degree added(const degree& a, const degree& b) {
  return {std::max(saturating_add(a.numerator, b.denominator), saturating_add(b.numerator, a.denominator)),
          saturating_add(a.denominator, b.denominator)};
}

[[nodiscard]] degree applied(scalar_op op, const degree& a, const degree& b);

[[nodiscard]] degree degree_of(const scalar_program& p, std::span<const degree> operands, const degree& reduced);

// For a reduction over `terms` points.
[[nodiscard]] degree reduced_degree(const degree& inner, reduction how, std::int64_t terms);

[[nodiscard]] std::vector<degree> degrees(const algebra& a, const tensor_graph& g, std::span<const degree> given);

[[nodiscard]] std::vector<degree> degrees_of(const algebra& a, const operation& op, std::span<const tensor_type> types,
                                             std::span<const degree> operands);

}  // namespace detail

// Each output of `g` is a quotient of polynomials in the elements of its sources; returns bounds on their degrees.
// Results that are not polynomials (relu, exp, a maximum) count as new unknowns.
[[nodiscard]] inline std::vector<degree> degree_bounds(const algebra& a, const tensor_graph& g) {
  return detail::degrees(a, g, {});
}

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_RULES_DEGREE)

#include <optional>

#include <unity/tensor/detail/algebra.hpp>
#include <unity/tensor/space.hpp>

namespace unity::tensor::detail {

UNITY_INLINE degree applied(scalar_op op, const degree& a, const degree& b) {
  switch (op) {
    case scalar_op::negate: return a;
    case scalar_op::reciprocal: return {a.denominator, a.numerator};
    case scalar_op::add:
    case scalar_op::sub: return added(a, b);
    case scalar_op::mul:
      return {saturating_add(a.numerator, b.numerator), saturating_add(a.denominator, b.denominator)};
    case scalar_op::div:
      return {saturating_add(a.numerator, b.denominator), saturating_add(a.denominator, b.numerator)};
    // All other functions count as a new unknown and as an equality test of their arguments.
    default: return {saturating_add(1, saturating_add(a.sum(), b.sum())), 0};
  }
}

UNITY_INLINE degree degree_of(const scalar_program& p, std::span<const degree> operands, const degree& reduced) {
  std::vector<degree> stack;
  for (const auto& i : p) {
    if (is_leaf(i.op)) {
      const bool is_operand = i.op == scalar_op::operand;
      stack.push_back(is_operand                       ? operands[static_cast<std::size_t>(i.number)]
                      : i.op == scalar_op::accumulated ? reduced
                                                       : degree{});
      continue;
    }
    const auto b = is_binary(i.op) ? stack.back() : degree{};
    if (is_binary(i.op)) {
      stack.pop_back();
    }
    stack.back() = applied(i.op, stack.back(), b);
  }
  return stack.empty() ? degree{} : stack.back();
}

UNITY_INLINE degree reduced_degree(const degree& inner, reduction how, std::int64_t terms) {
  if (how == reduction::largest) {
    return {saturating_add(1, saturating_multiply(terms, inner.sum())), 0};
  }
  return {saturating_add(inner.numerator, saturating_multiply(terms - 1, inner.denominator)),
          saturating_multiply(terms, inner.denominator)};
}

UNITY_INLINE std::vector<degree> degrees_of(const algebra& a, const operation& op, std::span<const tensor_type> types,
                                            std::span<const degree> operands) {
  if (const auto s = a.iteration(op, types)) {
    const auto& d = a.definition_of(op.kind);
    if (d.source != source_kind::none) {
      return {degree{1, 0}};
    }
    const auto kernel = std::get<primitive>(d.body).kernel(a.read(op), types);
    std::int64_t points = 1;
    for (const auto& i : s->indices()) {
      points = saturating_multiply(points, i.size);
    }
    const auto terms = std::max<std::int64_t>(1, points / element_count(s->results()[0].dims));
    const auto inner = reduced_degree(degree_of(kernel.inner, operands, {}), kernel.reduce, terms);
    return {degree_of(kernel.outer, operands, inner)};
  }
  if (const auto body = a.body(op, types)) {
    return degrees(a, *body, operands);
  }
  degree most;
  for (const auto& o : operands) {
    most = {std::max(most.numerator, o.numerator), std::max(most.denominator, o.denominator)};
  }
  return std::vector(a.infer(op, types).value_or(std::vector<tensor_type>{}).size(), most);
}

// The first nodes, without kind, have the given degrees.
UNITY_INLINE std::vector<degree> degrees(const algebra& a, const tensor_graph& g, std::span<const degree> given) {
  std::vector<degree> of(g.value_count());
  for (const auto n : node_ids(g)) {
    if (!g.operation(n).kind.valid()) {
      of[g.results(n)[0].index()] = given[n.index()];
      continue;
    }
    std::vector<tensor_type> types;
    std::vector<degree> operands;
    for (const auto v : g.operands(n)) {
      types.push_back(g.type(v));
      operands.push_back(of[v.index()]);
    }
    const auto results = degrees_of(a, g.operation(n), types, operands);
    for (const auto& [v, degree] : ranges::views::zip(g.results(n), results)) {
      of[v.index()] = degree;
    }
  }
  std::vector<degree> outputs;
  for (const auto v : g.outputs()) {
    outputs.push_back(of[v.index()]);
  }
  return outputs;
}

}  // namespace unity::tensor::detail

#endif
