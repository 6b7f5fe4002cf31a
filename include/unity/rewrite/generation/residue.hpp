// Integers modulo 2^31 - 1: the arithmetic of fingerprints.
#pragma once

#include <cstdint>

#include <unity/core/hash.hpp>

namespace unity {

// A field. Division by zero gives zero. Small, so that sums of products fit in 64 bits; values that agree here are
// compared again modulo 2^61 - 1 before anything is concluded.
class residue {
 public:
  static constexpr std::uint32_t modulus = (std::uint32_t{1} << 31U) - 1;

  constexpr residue() noexcept = default;
  [[nodiscard]] static constexpr residue of(std::uint64_t n) noexcept {
    residue r;
    n = (n & modulus) + (n >> 31U);
    n = (n & modulus) + (n >> 31U);
    r.value_ = static_cast<std::uint32_t>(n >= modulus ? n - modulus : n);
    return r;
  }
  [[nodiscard]] static constexpr residue of_integer(std::int64_t n) noexcept {
    // -(n + 1) exists for every negative n.
    return n < 0 ? -(of(static_cast<std::uint64_t>(-(n + 1))) + of(1)) : of(static_cast<std::uint64_t>(n));
  }

  [[nodiscard]] constexpr std::uint32_t value() const noexcept { return value_; }
  // The representative closest to zero, which maxima and relu compare.
  [[nodiscard]] constexpr std::int32_t as_signed() const noexcept {
    return value_ > modulus / 2 ? static_cast<std::int32_t>(value_) - static_cast<std::int32_t>(modulus)
                                : static_cast<std::int32_t>(value_);
  }

  friend constexpr residue operator+(residue a, residue b) noexcept {
    return of(static_cast<std::uint64_t>(a.value_) + b.value_);
  }
  friend constexpr residue operator-(residue a) noexcept {
    residue r;
    r.value_ = a.value_ == 0 ? 0 : modulus - a.value_;
    return r;
  }
  friend constexpr residue operator-(residue a, residue b) noexcept { return a + -b; }
  friend constexpr residue operator*(residue a, residue b) noexcept {
    return of(static_cast<std::uint64_t>(a.value_) * b.value_);
  }
  friend constexpr residue operator/(residue a, residue b) noexcept { return a * power(b, modulus - 2); }
  friend constexpr bool operator==(residue, residue) noexcept = default;

  [[nodiscard]] static constexpr residue power(residue base, std::uint32_t exponent) noexcept {
    auto result = of(1);
    for (; exponent > 0; exponent >>= 1U) {
      result = (exponent & 1U) != 0 ? result * base : result;
      base = base * base;
    }
    return result;
  }

 private:
  std::uint32_t value_ = 0;
};

}  // namespace unity
