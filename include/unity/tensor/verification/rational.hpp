// Fractions of 64-bit integers: exact, or an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numbers>
#include <optional>
#include <string>

#include <fmt/core.h>

#include <unity/core/error.hpp>

namespace unity::tensor {

// In lowest terms, with a positive denominator. Regular.
// Throws: unity::error on overflow of 64 bits and on division by zero.
class rational {
 public:
  constexpr rational() noexcept = default;
  constexpr explicit rational(std::int64_t n) noexcept : numerator_{n} {}
  rational(std::int64_t n, std::int64_t d);

  // The shortest decimal that rounds to `value`, so that 0.1 is 1/10.
  [[nodiscard]] static rational of_decimal(double value);

  // The meaning of a number in a program: its decimal value, except that the square root of 2 and its inverse, rounded
  // to float64 or float32, are exact inverses of each other.
  [[nodiscard]] static rational of_literal(double value);
  // Represents the square root of 2: results must not depend on more than that it is some number.
  [[nodiscard]] static rational root_of_2() { return of_decimal(std::numbers::sqrt2); }

  [[nodiscard]] constexpr std::int64_t numerator() const noexcept { return numerator_; }
  [[nodiscard]] constexpr std::int64_t denominator() const noexcept { return denominator_; }
  [[nodiscard]] constexpr bool is_zero() const noexcept { return numerator_ == 0; }
  [[nodiscard]] constexpr std::optional<std::int64_t> integer() const noexcept {
    return denominator_ == 1 ? std::optional{numerator_} : std::nullopt;
  }

  friend rational operator+(const rational& a, const rational& b) {
    if (a.denominator_ == 1 && b.denominator_ == 1) {
      return rational{sum(a.numerator_, b.numerator_)};
    }
    return {sum(times(a.numerator_, b.denominator_), times(b.numerator_, a.denominator_)),
            times(a.denominator_, b.denominator_)};
  }
  friend rational operator-(const rational& a) { return a * rational{-1}; }
  friend rational operator-(const rational& a, const rational& b) { return a + -b; }
  friend rational operator*(const rational& a, const rational& b) {
    if (a.denominator_ == 1 && b.denominator_ == 1) {
      return rational{times(a.numerator_, b.numerator_)};
    }
    const rational p{a.numerator_, b.denominator_};  // cancels factors before they grow
    const rational q{b.numerator_, a.denominator_};
    return {times(p.numerator_, q.numerator_), times(p.denominator_, q.denominator_)};
  }
  friend rational operator/(const rational& a, const rational& b) { return a * rational{b.denominator_, b.numerator_}; }
  friend constexpr bool operator==(const rational&, const rational&) noexcept = default;
  friend bool operator<(const rational& a, const rational& b) { return (a - b).numerator_ < 0; }

 private:
  static std::int64_t times(std::int64_t a, std::int64_t b) {
    std::int64_t r = 0;
    return __builtin_mul_overflow(a, b, &r) ? overflow() : r;
  }
  static std::int64_t sum(std::int64_t a, std::int64_t b) {
    std::int64_t r = 0;
    return __builtin_add_overflow(a, b, &r) ? overflow() : r;
  }
  [[noreturn]] static std::int64_t overflow() {
    throw error{"exact arithmetic", "a number of more than 64 bits", "smaller numbers"};
  }
  static rational power_of_ten(std::int64_t n);

  std::int64_t numerator_ = 0;
  std::int64_t denominator_ = 1;
};

// Formats as 3 or -1/9.
[[nodiscard]] inline std::string to_string(const rational& r) {
  const auto numerator = fmt::format("{}", r.numerator());
  return r.denominator() == 1 ? numerator : fmt::format("{}/{}", numerator, r.denominator());
}

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_VERIFICATION_RATIONAL)

#include <charconv>
#include <cmath>
#include <numeric>

#include <unity/core/config.hpp>

namespace unity::tensor {

UNITY_INLINE rational::rational(std::int64_t n, std::int64_t d) {
  if (d == 0) {
    throw error{"exact arithmetic", "a division by zero", "a divisor that is not zero"};
  }
  const auto common = std::gcd(n, d) * (d < 0 ? -1 : 1);
  numerator_ = n / common;
  denominator_ = d / common;
}

UNITY_INLINE rational rational::of_decimal(double value) {
  if (!std::isfinite(value)) {
    throw error{"exact arithmetic", "a number that is not finite", "a finite one"};
  }
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::scientific).ptr;
  std::int64_t digits = 0;
  std::int64_t places = 0;
  const char* at = text[0] == '-' ? text + 1 : text;
  for (bool fraction = false; at != end && *at != 'e'; ++at) {
    if (*at == '.') {
      fraction = true;
    } else {
      digits = digits * 10 + (*at - '0');
      places += fraction ? 1 : 0;
    }
  }
  std::int64_t exponent = 0;
  std::from_chars(at + (at[1] == '+' ? 2 : 1), end, exponent);
  const rational whole{text[0] == '-' ? -digits : digits};
  return exponent < places ? whole / power_of_ten(places - exponent) : whole * power_of_ten(exponent - places);
}

UNITY_INLINE rational rational::of_literal(double value) {
  const auto rounds = [&](double exact) {
    return value == exact || value == static_cast<double>(static_cast<float>(exact));
  };
  return rounds(std::numbers::sqrt2)       ? root_of_2()
         : rounds(std::numbers::sqrt2 / 2) ? rational{1} / root_of_2()
                                           : of_decimal(value);
}

UNITY_INLINE rational rational::power_of_ten(std::int64_t n) {
  std::int64_t p = 1;
  for (; n > 0; --n) {
    p = times(p, 10);
  }
  return rational{p};
}

}  // namespace unity::tensor

#endif
