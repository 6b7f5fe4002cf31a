// Integers modulo the prime 2^61 - 1: exact arithmetic in which two different polynomials agree at a random point
// with probability at most degree / 2^61 (Schwartz-Zippel).
#pragma once

#include <compare>
#include <cstdint>

namespace unity::tensor {

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

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_MODULAR)

#include <bit>
#include <cmath>

#include <unity/core/config.hpp>
#include <unity/core/hash.hpp>

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
