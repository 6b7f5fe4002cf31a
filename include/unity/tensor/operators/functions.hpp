// Element-wise functions, comparisons, logic, and selection by booleans.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <unity/tensor/definition.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/operators/elementwise.hpp>

namespace unity::tensor::operators {

// Element-wise functions: activations, trigonometry, signs, rounding, remainders, limits.

// A function of one real number that is parametrized by attributes.
[[nodiscard]] definition function(std::string name, std::vector<attribute_field> fields,
                                  std::function<scalar_kernel(const attribute_reader&)> value);

// x where it is positive, slope * x elsewhere. The slope broadcasts to x as in NumPy.
// Shapes: x[...], slope[...] -> x's.
[[nodiscard]] definition prelu();

// Clips to [low, high]; either may be infinite. If they contradict each other, the upper one wins.
[[nodiscard]] definition clip();

// The quotient rounded towards zero; 0 if the divisor is 0.
[[nodiscard]] definition integer_div();

// The remainder with the sign of the divisor or, if `truncated`, of the dividend; for integers 0 if the divisor is 0.
[[nodiscard]] definition mod();

// For operators whose results are not real numbers: their operands have no cotangents.
[[nodiscard]] definition without_derivative(definition d);

// A function of one operand that is constant almost everywhere, with adjoint zero.
[[nodiscard]] definition step(std::string name, scalar_kernel kernel, domain d);

// leaky_relu, elu, selu, celu, thresholded_relu, shrink, hard_sigmoid, hard_swish, softplus, softsign, mish, swish and
// gelu_tanh as documented by ONNX; the derivative at a kink is the mean of both one-sided derivatives.
// Source: https://onnx.ai/onnx/operators
[[nodiscard]] std::vector<definition> functions();

// A boolean function of operands that broadcast as in NumPy.
[[nodiscard]] definition predicate(std::string name, int operands, scalar_kernel kernel, domain d);

// True for infinities of the signs that the attributes select.
[[nodiscard]] definition is_inf();

// An element of x if the condition is true, else of y; operands broadcast as in NumPy.
// Shapes: condition[...], x[...], y[...] -> the joint shape, with the element type of x.
[[nodiscard]] definition where();

[[nodiscard]] std::vector<definition> logic();

}  // namespace unity::tensor::operators

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_OPERATORS_FUNCTIONS)

#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>
#include <span>
#include <utility>

#include <unity/core/id.hpp>
#include <unity/tensor/detail/adjoint_movement.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/space.hpp>

namespace unity::tensor::operators {

namespace detail {

[[nodiscard]] inline scalar_kernel above_zero() {
  return kernels::apply(scalar_op::maximum, kernels::x(0), kernels::literal(0));
}
[[nodiscard]] inline scalar_kernel below_zero() {
  return kernels::apply(scalar_op::minimum, kernels::x(0), kernels::literal(0));
}
// log(1 + exp(x)) without overflow in intermediate results.
[[nodiscard]] scalar_kernel softplus();
// exp(x / width) - 1 for negative x, 0 elsewhere.
[[nodiscard]] inline scalar_kernel decay(double width) {
  const auto at = width == 1 ? below_zero() : below_zero() / kernels::literal(width);
  return kernels::apply(scalar_op::exp, at) - kernels::literal(1);
}
[[nodiscard]] scalar_kernel shrunk(double bias, double threshold);
[[nodiscard]] inline scalar_kernel bounded(double low, double high, scalar_kernel x) {
  x = std::isinf(low) ? x : kernels::apply(scalar_op::maximum, x, kernels::literal(low));
  return std::isinf(high) ? x : kernels::apply(scalar_op::minimum, x, kernels::literal(high));
}
[[nodiscard]] scalar_kernel sigmoid_of_line(double slope, double offset);
[[nodiscard]] scalar_kernel gelu_by_tanh();

}  // namespace detail

}  // namespace unity::tensor::operators

namespace unity::tensor::operators::detail {

UNITY_INLINE scalar_kernel softplus() {
  using namespace kernels;
  const auto tail = apply(scalar_op::exp, apply(scalar_op::negate, apply(scalar_op::abs, x(0))));
  return above_zero() + apply(scalar_op::log, literal(1) + tail);
}

UNITY_INLINE scalar_kernel shrunk(double bias, double threshold) {
  using namespace kernels;
  const auto below = apply(scalar_op::less, x(0), literal(-threshold));
  const auto above = apply(scalar_op::less, literal(threshold), x(0));
  return apply(scalar_op::masked, below, x(0) + literal(bias)) + apply(scalar_op::masked, above, x(0) - literal(bias));
}

UNITY_INLINE scalar_kernel sigmoid_of_line(double slope, double offset) {
  return bounded(0, 1, kernels::literal(slope) * kernels::x(0) + kernels::literal(offset));
}

UNITY_INLINE scalar_kernel gelu_by_tanh() {
  using namespace kernels;
  const auto cube = x(0) * x(0) * x(0);
  const auto at = literal(std::numbers::sqrt2 * std::numbers::inv_sqrtpi) * (x(0) + literal(0.044715) * cube);
  return literal(0.5) * x(0) * (literal(1) + apply(scalar_op::tanh, at));
}

}  // namespace unity::tensor::operators::detail

namespace unity::tensor::operators {

UNITY_INLINE definition function(std::string name, std::vector<attribute_field> fields,
                                 std::function<scalar_kernel(const attribute_reader&)> value) {
  const auto iteration = [](space& s, const attribute_reader&) {
    if (s.require_floating()) {
      iterate_each(s, s.inputs()[0].element);
    }
  };
  const auto kernel = [value = std::move(value)](const attribute_reader& a, std::span<const tensor_type>) {
    return value(a);
  };
  return define(std::move(name), 1, 1, std::move(fields), primitive{iteration, kernel}).with_layouts();
}

UNITY_INLINE definition prelu() {
  const auto iteration = [](space& s, const attribute_reader&) {
    if (s.require_floating() && s.require(broadcast(s.dims(0), s.dims(1)) == s.dims(0), "a slope that broadcasts")) {
      iterate_jointly(s, s.inputs()[0].element);
    }
  };
  const auto kernel = [](const attribute_reader&, std::span<const tensor_type>) {
    return detail::above_zero() + kernels::x(1) * detail::below_zero();
  };
  return define("prelu", 2, 1, {}, primitive{iteration, kernel}).with_layouts();
}

UNITY_INLINE definition clip() {
  const auto iteration = [](space& s, const attribute_reader&) {
    if (s.require_numeric()) {
      iterate_each(s, s.inputs()[0].element);
    }
  };
  const auto kernel = [](const attribute_reader& a, std::span<const tensor_type>) {
    return detail::bounded(a.real("low"), a.real("high"), kernels::x(0));
  };
  return define("clip", 1, 1, {real_field("low"), real_field("high")}, primitive{iteration, kernel}).with_layouts();
}

UNITY_INLINE definition integer_div() {
  using namespace kernels;
  const auto quotient = apply(scalar_op::truncate, x(0) / x(1));
  return each("integer_div", 2, apply(scalar_op::masked, x(1), quotient), domain::integers);
}

UNITY_INLINE definition mod() {
  const auto iteration = [](space& s, const attribute_reader&) {
    if (s.require_numeric()) {
      iterate_jointly(s, s.inputs()[0].element);
    }
  };
  const auto kernel = [](const attribute_reader& a, std::span<const tensor_type> inputs) {
    using namespace kernels;
    const auto real = apply(scalar_op::remainder, x(0), x(1));
    const auto rest = is_floating(inputs[0].element) ? real : apply(scalar_op::masked, x(1), real);
    const auto differ = apply(scalar_op::less, rest * x(1), literal(0));
    return a.flag("truncated") ? rest : rest + apply(scalar_op::masked, differ, x(1));
  };
  const auto adjoint = [](body_builder& b, const attribute_reader&, const adjoint_problem& p) {
    const auto g = p.cotangents[0];
    std::vector<value_id> all(2);
    if (p.wanted[0]) {
      all[0] = tensor::detail::summed_to(b, g, p.inputs[0].dims);
    }
    if (p.wanted[1]) {
      const auto quotient = b.add("div", {b.add("sub", {p.operand(0), p.result(0)}), p.operand(1)});
      all[1] = tensor::detail::summed_to(b, b.add("negate", {b.add("mul", {g, quotient})}), p.inputs[1].dims);
    }
    return all;
  };
  return define("mod", 2, 1, {flag_field("truncated", false)}, primitive{iteration, kernel})
      .with_adjoint(adjoint)
      .with_layouts();
}

UNITY_INLINE definition without_derivative(definition d) {
  return std::move(d).with_adjoint([](body_builder&, const attribute_reader&, const adjoint_problem& p) {
    return std::vector<value_id>(p.inputs.size());
  });
}

UNITY_INLINE definition step(std::string name, scalar_kernel kernel, domain d) {
  return each(std::move(name), 1, std::move(kernel), d)
      .with_adjoint([](body_builder& b, const attribute_reader&, const adjoint_problem& p) {
        const auto element = name_of(p.outputs[0].element);
        const auto zero = b.add("fill", {}, {{"value", 0.0}, {"element", element}, {"dims", {}}});
        return std::vector{b.add("mul", {p.cotangents[0], zero})};
      });
}

UNITY_INLINE std::vector<definition> functions() {
  using namespace kernels;
  using reader = const attribute_reader&;
  const auto ceiling = apply(scalar_op::negate, apply(scalar_op::floor, apply(scalar_op::negate, x(0))));
  const auto sign = apply(scalar_op::less, literal(0), x(0)) - apply(scalar_op::less, x(0), literal(0));
  const auto alpha = [](double value) { return real_field("alpha", value); };
  const auto exponential = [](double scale, double a, double width) {
    const auto both = detail::above_zero() + literal(a) * detail::decay(width);
    return scale == 1 ? both : literal(scale) * both;
  };
  return {function("sin", {}, [](reader) { return apply(scalar_op::sin, x(0)); }),
          function("cos", {}, [](reader) { return apply(scalar_op::cos, x(0)); }),
          function("tan", {}, [](reader) { return apply(scalar_op::sin, x(0)) / apply(scalar_op::cos, x(0)); }),
          step("sign", sign, domain::numbers),
          step("floor", apply(scalar_op::floor, x(0)), domain::reals),
          step("ceil", ceiling, domain::reals),
          step("round", apply(scalar_op::round, x(0)), domain::reals),
          clip(),
          without_derivative(integer_div()),
          mod(),
          function("leaky_relu", {alpha(0.01)},
                   [](reader a) { return detail::above_zero() + literal(a.real("alpha")) * detail::below_zero(); }),
          prelu(),
          function("elu", {alpha(1)}, [=](reader a) { return exponential(1, a.real("alpha"), 1); }),
          function("selu", {alpha(1.67326319217681884765625), real_field("scale", 1.05070102214813232421875)},
                   [=](reader a) { return exponential(a.real("scale"), a.real("alpha"), 1); }),
          function("celu", {alpha(1)}, [=](reader a) { return exponential(1, a.real("alpha"), a.real("alpha")); }),
          function("thresholded_relu", {alpha(1)},
                   [](reader a) {
                     return apply(scalar_op::masked, apply(scalar_op::less, literal(a.real("alpha")), x(0)), x(0));
                   }),
          function("shrink", {real_field("bias", 0), real_field("threshold", 0.5)},
                   [](reader a) { return detail::shrunk(a.real("bias"), a.real("threshold")); }),
          function("hard_sigmoid", {alpha(0.2), real_field("beta", 0.5)},
                   [](reader a) { return detail::sigmoid_of_line(a.real("alpha"), a.real("beta")); }),
          function("hard_swish", {}, [](reader) { return x(0) * detail::sigmoid_of_line(1.0 / 6, 0.5); }),
          function("softplus", {}, [](reader) { return detail::softplus(); }),
          function("softsign", {}, [](reader) { return x(0) / (literal(1) + apply(scalar_op::abs, x(0))); }),
          function("mish", {}, [](reader) { return x(0) * apply(scalar_op::tanh, detail::softplus()); }),
          function("swish", {alpha(1)},
                   [](reader a) { return x(0) * apply(scalar_op::sigmoid, literal(a.real("alpha")) * x(0)); }),
          function("gelu_tanh", {}, [](reader) { return detail::gelu_by_tanh(); })};
}

UNITY_INLINE definition predicate(std::string name, int operands, scalar_kernel kernel, domain d) {
  const auto iteration = [d](space& s, const attribute_reader&) {
    if (require(s, d)) {
      iterate_jointly(s, dtype::boolean);
    }
  };
  const auto value = [kernel = std::move(kernel)](const attribute_reader&, std::span<const tensor_type>) {
    return kernel;
  };
  return without_derivative(define(std::move(name), operands, 1, {}, primitive{iteration, value})
                                .with_layouts()
                                .with_elements(elements_of(d, operands)));
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
  return define("where", 3, 1, {}, primitive{iteration, kernel})
      .with_adjoint(adjoint)
      .with_layouts()
      .with_elements({dtype::boolean});
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
