// Derivatives of the functions in scalar kernels.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include <unity/tensor/kernel.hpp>

namespace unity::tensor {

// The derivative of a unary function, as a kernel of x(0), which is the argument or (of_value) the value of the
// function.
struct scalar_derivative {
  scalar_kernel factor{};
  bool of_value = false;
};

// Nothing if the derivative is zero wherever it exists, or if op is not unary. Where the derivative does not exist
// (relu and abs at 0) it is 0.
[[nodiscard]] std::optional<scalar_derivative> derivative_of(scalar_op op);

// The share of the cotangent of maximum(x(0), x(1)) or minimum that belongs to x(0); equal operands get half each.
[[nodiscard]] scalar_kernel share_of_first(scalar_op op);

// The operator that applies a unary or binary function element-wise, and the operator that applies its adjoint.
struct scalar_operator {
  scalar_op op;
  std::string_view name;
  std::string_view gradient;  // operands: (argument or value, cotangent); for maximum and minimum (operands, cotangent)
};

inline constexpr std::array<scalar_operator, 24> scalar_operators{{
    {scalar_op::negate, "negate", ""},
    {scalar_op::reciprocal, "reciprocal", "reciprocal_gradient"},
    {scalar_op::abs, "abs", "abs_gradient"},
    {scalar_op::relu, "relu", "relu_gradient"},
    {scalar_op::sigmoid, "sigmoid", "sigmoid_gradient"},
    {scalar_op::tanh, "tanh", "tanh_gradient"},
    {scalar_op::gelu, "gelu", "gelu_gradient"},
    {scalar_op::exp, "exp", ""},
    {scalar_op::log, "log", ""},
    {scalar_op::erf, "erf", "erf_gradient"},
    {scalar_op::sqrt, "sqrt", "sqrt_gradient"},
    {scalar_op::floor, "floor", ""},
    {scalar_op::round, "round", ""},
    {scalar_op::sin, "sin", ""},
    {scalar_op::cos, "cos", ""},
    {scalar_op::add, "add", ""},
    {scalar_op::sub, "sub", ""},
    {scalar_op::mul, "mul", ""},
    {scalar_op::div, "div", ""},
    {scalar_op::pow, "pow", ""},
    {scalar_op::maximum, "maximum", "maximum_gradient"},
    {scalar_op::minimum, "minimum", "minimum_gradient"},
    {scalar_op::equal, "equal", ""},
    {scalar_op::less, "less", ""},
}};

// Null if no operator applies the function.
[[nodiscard]] constexpr const scalar_operator* find_scalar_operator(scalar_op op) noexcept {
  for (const auto& s : scalar_operators) {
    if (s.op == op) {
      return &s;
    }
  }
  return nullptr;
}

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_ADJOINT_SCALAR)

#include <numbers>

namespace unity::tensor {

UNITY_INLINE std::optional<scalar_derivative> derivative_of(scalar_op op) {
  using namespace kernels;
  const auto v = x(0);
  const auto positive = [](const scalar_kernel& k) { return apply(scalar_op::nonzero, apply(scalar_op::relu, k)); };
  const auto bell = [&](double width) { return apply(scalar_op::exp, literal(-width) * v * v); };
  switch (op) {
    case scalar_op::negate: return scalar_derivative{literal(-1), false};
    case scalar_op::reciprocal: return scalar_derivative{apply(scalar_op::negate, v * v), true};
    case scalar_op::abs: return scalar_derivative{positive(v) - positive(apply(scalar_op::negate, v)), false};
    case scalar_op::relu: return scalar_derivative{apply(scalar_op::nonzero, v), true};
    case scalar_op::sigmoid: return scalar_derivative{v * (literal(1) - v), true};
    case scalar_op::tanh: return scalar_derivative{literal(1) - v * v, true};
    case scalar_op::gelu: {
      const auto below = apply(scalar_op::erf, v / literal(std::numbers::sqrt2));
      const auto slope = v * literal(std::numbers::inv_sqrtpi / std::numbers::sqrt2) * bell(0.5);
      return scalar_derivative{literal(0.5) * (literal(1) + below) + slope, false};
    }
    case scalar_op::exp: return scalar_derivative{v, true};
    case scalar_op::log: return scalar_derivative{apply(scalar_op::reciprocal, v), false};
    case scalar_op::erf: return scalar_derivative{literal(2 * std::numbers::inv_sqrtpi) * bell(1), false};
    case scalar_op::sqrt: return scalar_derivative{literal(0.5) / v, true};
    case scalar_op::sin: return scalar_derivative{apply(scalar_op::cos, v), false};
    case scalar_op::cos: return scalar_derivative{apply(scalar_op::negate, apply(scalar_op::sin, v)), false};
    default: return std::nullopt;
  }
}

UNITY_INLINE scalar_kernel share_of_first(scalar_op op) {
  using namespace kernels;
  const auto positive = [](const scalar_kernel& k) { return apply(scalar_op::nonzero, apply(scalar_op::relu, k)); };
  const auto above = positive(x(0) - x(1));
  const auto below = positive(x(1) - x(0));
  return literal(0.5) * (literal(1) + (op == scalar_op::maximum ? above - below : below - above));
}

}  // namespace unity::tensor

#endif
