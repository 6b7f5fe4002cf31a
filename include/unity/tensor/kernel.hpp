// Scalar kernels as data: what a primitive operator computes at one point of its iteration space.
//
// A kernel is written as an expression, x(0) * x(1), and stored as a short postfix program. So every scalar type can
// run it, and arithmetic counts and linearity are derived from it instead of declared.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include <unity/core/config.hpp>
#include <unity/core/small_vector.hpp>

namespace unity::tensor {

enum class scalar_op : std::uint8_t {
  // leaves
  operand,      // an element of an operand
  accumulated,  // the result of the reduction
  literal,
  coordinate,  // the position along an index
  count,       // the number of points reduced for this result element
  // unary
  negate,
  reciprocal,
  abs,
  relu,
  sigmoid,
  tanh,
  gelu,
  exp,
  log,
  erf,
  sqrt,
  truncate,
  nonzero,
  floor,
  round,  // ties to even
  sin,
  cos,
  // binary
  add,
  sub,
  mul,
  div,
  pow,
  maximum,
  minimum,
  equal,      // 1 or 0
  less,       // 1 or 0
  masked,     // the second if the first is not 0, otherwise 0
  remainder,  // of division rounded toward zero
};

[[nodiscard]] constexpr bool is_leaf(scalar_op op) noexcept { return op <= scalar_op::count; }
[[nodiscard]] constexpr bool is_binary(scalar_op op) noexcept { return op >= scalar_op::add; }

struct instruction {
  scalar_op op = scalar_op::literal;
  std::int32_t number = 0;  // of an operand or index
  double value = 0;         // of a literal
};

// Postfix.
using scalar_program = small_vector<instruction, 4>;

enum class reduction : std::uint8_t { none, sum, largest };

// result = outer(accumulated = reduce(inner)): `inner` runs at every point, `outer` once per result element.
struct scalar_kernel {
  scalar_program inner{};
  reduction reduce = reduction::none;
  scalar_program outer{};
};

// The functions with which definitions write kernels.
namespace kernels {

[[nodiscard]] inline scalar_kernel leaf(instruction i) { return {{}, reduction::none, {i}}; }

// The element of operand `number` that the iteration space assigns to a point.
[[nodiscard]] inline scalar_kernel x(int number) { return leaf({scalar_op::operand, number, 0}); }
[[nodiscard]] inline scalar_kernel literal(double value) { return leaf({scalar_op::literal, 0, value}); }
// The position along the index that the iteration space declared as number `index`.
[[nodiscard]] inline scalar_kernel coordinate(int index) { return leaf({scalar_op::coordinate, index, 0}); }
// The number of reduced points, without padding (or with it, if the window says so).
[[nodiscard]] inline scalar_kernel count() { return leaf({scalar_op::count, 0, 0}); }

[[nodiscard]] inline scalar_kernel reduce(reduction kind, const scalar_kernel& inner) {
  UNITY_EXPECTS(inner.reduce == reduction::none, "one reduction per kernel");
  return {inner.outer, kind, {{scalar_op::accumulated, 0, 0}}};
}
// Reduces over all indices that the result does not have.
[[nodiscard]] inline scalar_kernel sum(const scalar_kernel& inner) { return reduce(reduction::sum, inner); }
[[nodiscard]] inline scalar_kernel largest(const scalar_kernel& inner) { return reduce(reduction::largest, inner); }

[[nodiscard]] inline scalar_kernel apply(scalar_op op, scalar_kernel a) {
  a.outer.push_back({op, 0, 0});
  return a;
}
[[nodiscard]] scalar_kernel apply(scalar_op op, scalar_kernel a, const scalar_kernel& b);

[[nodiscard]] inline scalar_kernel equal(const scalar_kernel& a, const scalar_kernel& b) {
  return apply(scalar_op::equal, a, b);
}

}  // namespace kernels

[[nodiscard]] inline scalar_kernel operator+(const scalar_kernel& a, const scalar_kernel& b) {
  return kernels::apply(scalar_op::add, a, b);
}
[[nodiscard]] inline scalar_kernel operator-(const scalar_kernel& a, const scalar_kernel& b) {
  return kernels::apply(scalar_op::sub, a, b);
}
[[nodiscard]] inline scalar_kernel operator*(const scalar_kernel& a, const scalar_kernel& b) {
  return kernels::apply(scalar_op::mul, a, b);
}
[[nodiscard]] inline scalar_kernel operator/(const scalar_kernel& a, const scalar_kernel& b) {
  return kernels::apply(scalar_op::div, a, b);
}

// Derivatives of the functions in scalar kernels.

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

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_KERNEL)

#include <numbers>

namespace unity::tensor::kernels {

UNITY_INLINE scalar_kernel apply(scalar_op op, scalar_kernel a, const scalar_kernel& b) {
  UNITY_EXPECTS(a.reduce == reduction::none || b.reduce == reduction::none, "one reduction per kernel");
  if (b.reduce != reduction::none) {
    a.inner = b.inner;
    a.reduce = b.reduce;
  }
  a.outer.append(b.outer.begin(), b.outer.end());
  a.outer.push_back({op, 0, 0});
  return a;
}

}  // namespace unity::tensor::kernels

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
