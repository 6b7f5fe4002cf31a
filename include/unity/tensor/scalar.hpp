// The scalar types on which tensors are evaluated: the semantics of scalar kernel instructions, and integers modulo a
// prime.
#pragma once

#include <algorithm>
#include <cmath>
#include <compare>
#include <concepts>
#include <cstdint>
#include <limits>
#include <numbers>
#include <optional>

#include <unity/core/hash.hpp>
#include <unity/tensor/kernel.hpp>

namespace unity::tensor {

// Integers modulo the prime 2^61 - 1: exact arithmetic in which two different polynomials agree at a random point
// with probability at most degree / 2^61 (Schwartz-Zippel).

// A field. Division by zero gives zero.
class modular61 {
 public:
  static constexpr std::uint64_t modulus = (std::uint64_t{1} << 61U) - 1;
  __extension__ using wide = unsigned __int128;

  constexpr modular61() noexcept = default;
  constexpr explicit modular61(std::int64_t n) noexcept
      : residue_{n < 0 ? negated(static_cast<std::uint64_t>(-(n + 1)) % modulus + 1)
                       : static_cast<std::uint64_t>(n) % modulus} {}
  [[nodiscard]] static constexpr modular61 of_residue(std::uint64_t n) noexcept {
    modular61 m;
    m.residue_ = n % modulus;
    return m;
  }
  // The residue of any 128-bit sum of products.
  [[nodiscard]] static constexpr modular61 of_wide(wide n) noexcept {
    const auto once = (n & modulus) + (n >> 61U);
    auto r = static_cast<std::uint64_t>(once & modulus) + static_cast<std::uint64_t>(once >> 61U);
    r = (r & modulus) + (r >> 61U);
    modular61 m;
    m.residue_ = r >= modulus ? r - modulus : r;
    return m;
  }

  [[nodiscard]] constexpr std::uint64_t residue() const noexcept { return residue_; }
  // The representative closest to zero.
  [[nodiscard]] constexpr std::int64_t as_signed() const noexcept {
    return residue_ > modulus / 2 ? static_cast<std::int64_t>(residue_) - static_cast<std::int64_t>(modulus)
                                  : static_cast<std::int64_t>(residue_);
  }

  constexpr modular61& operator+=(modular61 o) noexcept {
    residue_ += o.residue_;
    residue_ -= residue_ >= modulus ? modulus : 0;
    return *this;
  }
  friend constexpr modular61 operator+(modular61 a, modular61 b) noexcept { return a += b; }
  friend constexpr modular61 operator-(modular61 a) noexcept {
    a.residue_ = negated(a.residue_);
    return a;
  }
  friend constexpr modular61 operator-(modular61 a, modular61 b) noexcept { return a += -b; }
  friend constexpr modular61 operator*(modular61 a, modular61 b) noexcept {
    return of_wide(static_cast<wide>(a.residue_) * b.residue_);
  }
  friend constexpr modular61 operator/(modular61 a, modular61 b) noexcept { return a * power(b, modulus - 2); }
  friend constexpr bool operator==(modular61, modular61) noexcept = default;

  [[nodiscard]] static constexpr modular61 power(modular61 base, std::uint64_t exponent) noexcept {
    modular61 result{1};
    for (; exponent > 0; exponent >>= 1U) {
      result = (exponent & 1U) != 0 ? result * base : result;
      base = base * base;
    }
    return result;
  }

  // Exact, because every finite double is an integer times a power of two. Infinities and NaN become fixed residues.
  [[nodiscard]] static modular61 of_real(double value) noexcept;

 private:
  [[nodiscard]] static constexpr std::uint64_t negated(std::uint64_t r) noexcept {
    return r % modulus == 0 ? 0 : modulus - r % modulus;
  }

  std::uint64_t residue_ = 0;
};

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

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_SCALAR)

#include <bit>

#include <unity/core/config.hpp>

namespace unity::tensor {

UNITY_INLINE modular61 modular61::of_real(double value) noexcept {
  if (!std::isfinite(value)) {
    return of_residue(mix64(std::bit_cast<std::uint64_t>(value)));
  }
  int exponent = 0;
  const auto mantissa = static_cast<std::int64_t>(std::ldexp(std::frexp(value, &exponent), 53));
  exponent -= 53;
  const auto scale = power(modular61{2}, static_cast<std::uint64_t>(exponent < 0 ? -exponent : exponent));
  return exponent < 0 ? modular61{mantissa} / scale : modular61{mantissa} * scale;
}

}  // namespace unity::tensor

#endif
