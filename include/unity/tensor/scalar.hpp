// The semantics of scalar kernel instructions on each scalar type with which tensors are evaluated.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <numbers>
#include <optional>

#include <unity/core/hash.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/modular.hpp>

namespace unity::tensor {

// Specialized per scalar type:
//   literal(double), lowest(), index(s)     lowest: neutral for maximum; index: s as an integer, if it is one
//   product_sum, widen(s), add_product(sum, a, b), narrow(sum)     sums of up to 16 products between narrowings
//   apply(op, a), apply(op, a, b)           instructions
//   symbolic                                optional; true: scalars stand for numbers that index does not know
template <class Scalar>
struct scalar_traits;

template <class Scalar>
inline constexpr bool is_symbolic = requires { requires scalar_traits<Scalar>::symbolic; };

template <std::floating_point Real>
struct scalar_traits<Real> {
  using product_sum = Real;

  [[nodiscard]] static Real literal(double value) noexcept { return static_cast<Real>(value); }
  [[nodiscard]] static Real lowest() noexcept { return -std::numeric_limits<Real>::infinity(); }
  [[nodiscard]] static std::optional<std::int64_t> index(Real s) noexcept {
    const bool fits = s >= Real{0} && s < Real{0x1p52F} && s == std::trunc(s);
    return fits ? std::optional{static_cast<std::int64_t>(s)} : std::nullopt;
  }
  [[nodiscard]] static Real widen(Real s) noexcept { return s; }
  static void add_product(Real& sum, Real a, Real b) noexcept { sum += a * b; }
  [[nodiscard]] static Real narrow(Real sum) noexcept { return sum; }

  [[nodiscard]] static Real apply(scalar_op op, Real a) noexcept {
    switch (op) {
      case scalar_op::negate: return -a;
      case scalar_op::reciprocal: return Real{1} / a;
      case scalar_op::abs: return std::abs(a);
      case scalar_op::relu: return a < Real{0} ? Real{0} : a;
      case scalar_op::sigmoid: return Real{1} / (Real{1} + std::exp(-a));
      case scalar_op::tanh: return std::tanh(a);
      case scalar_op::gelu: return a / 2 * (Real{1} + std::erf(a / std::numbers::sqrt2_v<Real>));
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
      default: return a;
    }
  }
  [[nodiscard]] static Real apply(scalar_op op, Real a, Real b) noexcept {
    switch (op) {
      case scalar_op::add: return a + b;
      case scalar_op::sub: return a - b;
      case scalar_op::mul: return a * b;
      case scalar_op::div: return a / b;
      case scalar_op::pow: return std::pow(a, b);
      case scalar_op::maximum: return std::max(a, b);
      case scalar_op::minimum: return std::min(a, b);
      case scalar_op::equal: return a == b ? Real{1} : Real{0};
      case scalar_op::less: return a < b ? Real{1} : Real{0};
      case scalar_op::masked: return a != Real{0} ? b : Real{0};
      case scalar_op::remainder: return std::fmod(a, b);
      default: return a;
    }
  }
};

// Polynomials are exact; comparisons compare the representatives closest to zero; every other function is a fixed
// pseudo-random function of the residue, so that equal expressions stay equal and different ones differ.
template <>
struct scalar_traits<modular61> {
  using scalar = modular61;
  using product_sum = modular61::wide;

  [[nodiscard]] static scalar literal(double value) noexcept { return scalar::of_real(value); }
  [[nodiscard]] static scalar lowest() noexcept { return scalar::of_residue(scalar::modulus / 2 + 1); }
  [[nodiscard]] static std::optional<std::int64_t> index(scalar s) noexcept {
    return static_cast<std::int64_t>(s.residue());
  }
  [[nodiscard]] static product_sum widen(scalar s) noexcept { return s.residue(); }
  static void add_product(product_sum& sum, scalar a, scalar b) noexcept {
    sum += static_cast<product_sum>(a.residue()) * b.residue();
  }
  [[nodiscard]] static scalar narrow(product_sum sum) noexcept { return scalar::of_wide(sum); }

  [[nodiscard]] static scalar apply(scalar_op op, scalar a) noexcept {
    switch (op) {
      case scalar_op::negate: return -a;
      case scalar_op::reciprocal: return scalar{1} / a;
      case scalar_op::abs: return a.as_signed() < 0 ? -a : a;
      case scalar_op::relu: return a.as_signed() < 0 ? scalar{} : a;
      case scalar_op::gelu:
        return a / scalar{2} * (scalar{1} + apply(scalar_op::erf, a / literal(std::numbers::sqrt2)));
      case scalar_op::nonzero: return scalar{a == scalar{} ? 0 : 1};
      default: return arbitrary(op, a.residue());
    }
  }
  [[nodiscard]] static scalar apply(scalar_op op, scalar a, scalar b) noexcept {
    switch (op) {
      case scalar_op::add: return a + b;
      case scalar_op::sub: return a - b;
      case scalar_op::mul: return a * b;
      case scalar_op::div: return a / b;
      case scalar_op::pow: return power(a, b);
      case scalar_op::maximum: return a.as_signed() < b.as_signed() ? b : a;
      case scalar_op::minimum: return a.as_signed() < b.as_signed() ? a : b;
      case scalar_op::equal: return scalar{a == b ? 1 : 0};
      case scalar_op::less: return scalar{a.as_signed() < b.as_signed() ? 1 : 0};
      case scalar_op::masked: return a == scalar{} ? scalar{} : b;
      case scalar_op::remainder: return arbitrary(op, hash_combine(a.residue(), b.residue()));
      default: return a;
    }
  }

 private:
  static constexpr std::int64_t max_exponent = 64;

  [[nodiscard]] static scalar arbitrary(scalar_op op, std::uint64_t word) noexcept {
    return scalar::of_residue(hash_combine(static_cast<std::uint64_t>(op), word));
  }
  // Exact for small integer exponents; the exponent 1/2 is the square root.
  [[nodiscard]] static scalar power(scalar a, scalar b) noexcept {
    const auto e = b.as_signed();
    if (e >= -max_exponent && e <= max_exponent) {
      const auto p = scalar::power(a, static_cast<std::uint64_t>(std::abs(e)));
      return e < 0 ? scalar{1} / p : p;
    }
    return b + b == scalar{1} ? apply(scalar_op::sqrt, a)
                              : arbitrary(scalar_op::pow, hash_combine(a.residue(), b.residue()));
  }
};

}  // namespace unity::tensor
