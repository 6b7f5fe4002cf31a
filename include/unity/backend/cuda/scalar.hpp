// One scalar instruction, as defined by tensor::scalar_traits.
#pragma once

#include <cmath>
#include <limits>

#include <unity/backend/cuda/host_device.hpp>
#include <unity/tensor/kernel.hpp>

namespace unity::backend::cuda {

// A constant, because device code may not call numeric_limits.
inline constexpr double infinity = std::numeric_limits<double>::infinity();

// Unary instructions ignore b.
template <class Real>
[[nodiscard]] UNITY_HOST_DEVICE Real apply(tensor::scalar_op op, Real a, Real b) {
  using tensor::scalar_op;
  constexpr Real root_of_half = static_cast<Real>(0.70710678118654752440);
  switch (op) {
    case scalar_op::negate: return -a;
    case scalar_op::reciprocal: return Real{1} / a;
    case scalar_op::abs: return std::abs(a);
    case scalar_op::relu: return a < Real{0} ? Real{0} : a;
    case scalar_op::sigmoid: return Real{1} / (Real{1} + std::exp(-a));
    case scalar_op::tanh: return std::tanh(a);
    case scalar_op::gelu: return a / 2 * (Real{1} + std::erf(a * root_of_half));
    case scalar_op::exp: return std::exp(a);
    case scalar_op::log: return std::log(a);
    case scalar_op::erf: return std::erf(a);
    case scalar_op::sqrt: return std::sqrt(a);
    case scalar_op::truncate: return std::trunc(a);
    case scalar_op::nonzero: return a != Real{0} ? Real{1} : Real{0};
    case scalar_op::floor: return std::floor(a);
    case scalar_op::round: return std::nearbyint(a);
    case scalar_op::sin: return std::sin(a);
    case scalar_op::cos: return std::cos(a);
    case scalar_op::add: return a + b;
    case scalar_op::sub: return a - b;
    case scalar_op::mul: return a * b;
    case scalar_op::div: return a / b;
    case scalar_op::pow: return b == Real{2} ? a * a : std::pow(a, b);
    case scalar_op::maximum: return a < b ? b : a;
    case scalar_op::minimum: return b < a ? b : a;
    case scalar_op::equal: return a == b ? Real{1} : Real{0};
    case scalar_op::less: return a < b ? Real{1} : Real{0};
    case scalar_op::masked: return a != Real{0} ? b : Real{0};
    case scalar_op::remainder: return std::fmod(a, b);
    default: return a;
  }
}

}  // namespace unity::backend::cuda
