// Comparisons, logic, and selection by booleans.
#pragma once

#include <string>
#include <vector>

#include <unity/tensor/definition.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/operators/elementwise.hpp>

namespace unity::tensor::operators {

// A boolean function of operands that broadcast as in NumPy.
[[nodiscard]] definition predicate(std::string name, int operands, scalar_kernel kernel, domain d);

// True for infinities of the signs that the attributes select.
[[nodiscard]] definition is_inf();

// An element of x if the condition is true, else of y; operands broadcast as in NumPy.
// Shapes: condition[...], x[...], y[...] -> the joint shape, with the element type of x.
[[nodiscard]] definition where();

[[nodiscard]] std::vector<definition> logic();

}  // namespace unity::tensor::operators

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_OPERATORS_LOGIC)

#include <cstddef>
#include <limits>
#include <span>
#include <utility>

#include <unity/core/id.hpp>
#include <unity/tensor/adjoint_rule.hpp>
#include <unity/tensor/attributes.hpp>
#include <unity/tensor/body_builder.hpp>
#include <unity/tensor/detail/adjoint_movement.hpp>
#include <unity/tensor/dtype.hpp>
#include <unity/tensor/operators/functions.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/space.hpp>

namespace unity::tensor::operators {

UNITY_INLINE definition predicate(std::string name, int operands, scalar_kernel kernel, domain d) {
  const auto iteration = [d](space& s, const attribute_reader&) {
    if (require(s, d)) {
      iterate_jointly(s, dtype::boolean);
    }
  };
  const auto value = [kernel = std::move(kernel)](const attribute_reader&, std::span<const tensor_type>) {
    return kernel;
  };
  return without_derivative(define(std::move(name), operands, 1, {}, primitive{iteration, value}).with_layouts());
}

UNITY_INLINE definition is_inf() {
  const auto iteration = [](space& s, const attribute_reader&) {
    if (s.require_floating()) {
      iterate_each(s, dtype::boolean);
    }
  };
  const auto kernel = [](const attribute_reader& a, std::span<const tensor_type>) {
    using namespace kernels;
    constexpr auto infinity = std::numeric_limits<double>::infinity();
    const auto above = a.flag("positive") ? equal(x(0), literal(infinity)) : literal(0);
    return a.flag("negative") ? above + equal(x(0), literal(-infinity)) : above;
  };
  return without_derivative(
      define("is_inf", 1, 1, {flag_field("negative", true), flag_field("positive", true)}, primitive{iteration, kernel})
          .with_layouts());
}

UNITY_INLINE definition where() {
  const auto iteration = [](space& s, const attribute_reader&) {
    s.allow_mixed_elements();
    if (require(s, domain::booleans) &&
        s.require(s.inputs()[1].element == s.inputs()[2].element, "operands of one element type")) {
      iterate_jointly(s, s.inputs()[1].element);
    }
  };
  const auto kernel = [](const attribute_reader&, std::span<const tensor_type>) {
    using namespace kernels;
    const auto otherwise = literal(1) - apply(scalar_op::nonzero, x(0));
    return apply(scalar_op::masked, x(0), x(1)) + apply(scalar_op::masked, otherwise, x(2));
  };
  const auto adjoint = [](body_builder& b, const attribute_reader&, const adjoint_problem& p) {
    const auto g = p.cotangents[0];
    const auto zero = b.add("fill", {}, {{"value", 0.0}, {"element", name_of(p.outputs[0].element)}, {"dims", {}}});
    std::vector<value_id> all(3);
    for (std::size_t i = 1; i < 3; ++i) {
      if (p.wanted[i]) {
        const auto chosen = b.add("where", {p.operand(0), i == 1 ? g : zero, i == 1 ? zero : g});
        all[i] = tensor::detail::summed_to(b, chosen, p.inputs[i].dims);
      }
    }
    return all;
  };
  return define("where", 3, 1, {}, primitive{iteration, kernel}).with_adjoint(adjoint).with_layouts();
}

UNITY_INLINE std::vector<definition> logic() {
  using namespace kernels;
  const auto x_less = apply(scalar_op::less, x(0), x(1));
  const auto y_less = apply(scalar_op::less, x(1), x(0));
  const auto same = equal(x(0), x(1));
  return {predicate("equal", 2, same, domain::all).commutative(),
          predicate("less", 2, x_less, domain::numbers),
          predicate("less_or_equal", 2, x_less + same, domain::numbers),
          predicate("greater", 2, y_less, domain::numbers),
          predicate("greater_or_equal", 2, y_less + same, domain::numbers),
          predicate("logical_and", 2, x(0) * x(1), domain::booleans).commutative(),
          predicate("logical_or", 2, apply(scalar_op::maximum, x(0), x(1)), domain::booleans).commutative(),
          predicate("logical_xor", 2, apply(scalar_op::abs, x(0) - x(1)), domain::booleans).commutative(),
          predicate("logical_not", 1, literal(1) - x(0), domain::booleans),
          predicate("is_nan", 1, literal(1) - equal(x(0), x(0)), domain::reals),
          is_inf(),
          where()};
}

}  // namespace unity::tensor::operators

#endif
