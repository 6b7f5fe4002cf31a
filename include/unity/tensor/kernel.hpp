// Scalar kernels as data: what a primitive operator computes at one point of its iteration space.
//
// A kernel is written as an expression, x(0) * x(1), and stored as a short postfix program. So every scalar type can
// run it, and arithmetic counts and linearity are derived from it instead of declared.
#pragma once

#include <cstddef>
#include <cstdint>

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

[[nodiscard]] inline scalar_kernel reduce(reduction how, const scalar_kernel& inner) {
  UNITY_EXPECTS(inner.reduce == reduction::none, "one reduction per kernel");
  return {inner.outer, how, {{scalar_op::accumulated, 0, 0}}};
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

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_KERNEL)

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

#endif
