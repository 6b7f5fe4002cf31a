// The parts of polynomials: fractions as coefficients, and interned unknowns, products and functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numbers>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/index_table.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/tensor/kernel.hpp>

namespace unity::tensor {

// Fractions of 64-bit integers: exact, or an error.

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
  // Represents the square root of 2 by its decimal value. Results must hold for any number in its place.
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

// coefficient * monomial
struct polynomial_term {
  std::uint32_t monomial = 0;
  rational coefficient{};

  friend bool operator==(const polynomial_term&, const polynomial_term&) = default;
};

// By ascending monomial, without zero coefficients: equal polynomials of one pool have equal terms.
using polynomial_terms = small_vector<polynomial_term, 1>;

// Numbers in order of first use, so runs are deterministic.
class polynomial_pool {
 public:
  using number = std::uint32_t;
  static constexpr number one = 0;                           // the empty product
  static constexpr number lowest = 1;                        // less than all numbers: neutral for the maximum
  static constexpr auto first_function = scalar_op::negate;  // functions of one argument
  static constexpr auto last_function = scalar_op::cos;

  // A single factor: an unknown (op is operand) or a function of polynomials.
  struct atom {
    scalar_op op = scalar_op::operand;
    std::vector<number> arguments{};  // numbers of polynomials; for an unknown, its name
  };

  polynomial_pool();
  // The monomial for a function of 0 or 1, in every pool.
  [[nodiscard]] static constexpr number function_of_constant(scalar_op op, bool is_one) noexcept {
    return lowest + 1 + 2 * static_cast<number>(static_cast<int>(op) - static_cast<int>(first_function)) +
           (is_one ? 1 : 0);
  }

  polynomial_pool(const polynomial_pool&) = delete;
  polynomial_pool& operator=(const polynomial_pool&) = delete;

  // The monomial for the unknown named by this pair.
  [[nodiscard]] number unknown(number first, number second) { return atom_of({scalar_op::operand, {first, second}}); }

  // The monomial for a function of polynomials.
  [[nodiscard]] number function(scalar_op op, std::vector<number> arguments) {
    return atom_of({op, std::move(arguments)});
  }

  [[nodiscard]] number product(number a, number b);

  // The number of a polynomial.
  [[nodiscard]] number intern(std::span<const polynomial_term> terms);
  [[nodiscard]] const polynomial_terms& polynomial(number n) const { return polynomials_[n]; }

  // The factor of a monomial, or null unless it has exactly one.
  [[nodiscard]] const atom* sole_factor(number monomial) const {
    return monomials_[monomial].size() == 1 ? &atoms_[monomials_[monomial][0]] : nullptr;
  }
  // The factors of a monomial, ascending.
  [[nodiscard]] std::vector<atom> factors_of(number monomial) const;
  [[nodiscard]] std::size_t monomials() const noexcept { return monomials_.size(); }

 private:
  using factors = small_vector<number, 4>;
  struct product_entry {
    number low;
    number high;
    number result;
  };

  number atom_of(atom a);
  number monomial_of(factors f);
  void add_monomial(factors f);
  number add_monomial(factors f, std::uint64_t hash);

  std::vector<atom> atoms_;
  index_table atoms_by_content_;
  std::vector<factors> monomials_;
  index_table monomials_by_factors_;
  std::vector<product_entry> products_;
  index_table products_by_factors_;
  std::vector<polynomial_terms> polynomials_;
  index_table polynomials_by_terms_;
};

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_VERIFICATION_POLYNOMIAL_POOL)

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include <unity/core/config.hpp>
#include <unity/core/hash.hpp>

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

UNITY_INLINE polynomial_pool::polynomial_pool() {
  add_monomial({});
  atoms_.push_back({scalar_op::literal, {}});
  add_monomial({0});
  const polynomial_term unit{one, rational{1}};
  const number constants[] = {intern({}), intern({&unit, 1})};
  for (auto op = first_function; op <= last_function; op = static_cast<scalar_op>(static_cast<int>(op) + 1)) {
    for (const auto c : constants) {
      static_cast<void>(function(op, {c}));
    }
  }
}

UNITY_INLINE auto polynomial_pool::product(number a, number b) -> number {
  if (a == one || b == one) {
    return a + b;
  }
  const auto low = std::min(a, b);
  const auto high = std::max(a, b);
  const auto h = hash_combine(low, high);
  const auto found =
      products_by_factors_.find(h, [&](number i) { return products_[i].low == low && products_[i].high == high; });
  if (found != index_table::none) {
    return products_[found].result;
  }
  factors joint;
  joint.resize(monomials_[a].size() + monomials_[b].size());
  std::merge(monomials_[a].begin(), monomials_[a].end(), monomials_[b].begin(), monomials_[b].end(), joint.begin());
  const auto result = monomial_of(std::move(joint));
  products_by_factors_.insert(h, static_cast<number>(products_.size()));
  products_.push_back({low, high, result});
  return result;
}

UNITY_INLINE auto polynomial_pool::intern(std::span<const polynomial_term> terms) -> number {
  std::uint64_t h = terms.size();
  for (const auto& t : terms) {
    h = hash_combine(hash_combine(h, t.monomial), static_cast<std::uint64_t>(t.coefficient.numerator()));
  }
  const auto found = polynomials_by_terms_.find(h, [&](number i) {
    return std::equal(terms.begin(), terms.end(), polynomials_[i].begin(), polynomials_[i].end());
  });
  if (found != index_table::none) {
    return found;
  }
  polynomials_.emplace_back(terms);
  polynomials_by_terms_.insert(h, static_cast<number>(polynomials_.size() - 1));
  return static_cast<number>(polynomials_.size() - 1);
}

UNITY_INLINE auto polynomial_pool::factors_of(number monomial) const -> std::vector<atom> {
  std::vector<atom> all;
  for (const auto f : monomials_[monomial]) {
    all.push_back(atoms_[f]);
  }
  return all;
}

UNITY_INLINE auto polynomial_pool::atom_of(atom a) -> number {
  auto h = static_cast<std::uint64_t>(a.op);
  for (const auto n : a.arguments) {
    h = hash_combine(h, n);
  }
  const auto found =
      atoms_by_content_.find(h, [&](number i) { return atoms_[i].op == a.op && atoms_[i].arguments == a.arguments; });
  if (found != index_table::none) {
    return monomial_of({found});
  }
  const auto made = static_cast<number>(atoms_.size());
  atoms_.push_back(std::move(a));
  atoms_by_content_.insert(h, made);
  return monomial_of({made});
}

UNITY_INLINE auto polynomial_pool::monomial_of(factors f) -> number {
  std::uint64_t h = f.size();
  for (const auto n : f) {
    h = hash_combine(h, n);
  }
  const auto found = monomials_by_factors_.find(h, [&](number i) { return monomials_[i] == f; });
  return found != index_table::none ? found : add_monomial(std::move(f), h);
}

UNITY_INLINE void polynomial_pool::add_monomial(factors f) {
  std::uint64_t h = f.size();
  for (const auto n : f) {
    h = hash_combine(h, n);
  }
  add_monomial(std::move(f), h);
}

UNITY_INLINE auto polynomial_pool::add_monomial(factors f, std::uint64_t hash) -> number {
  monomials_.push_back(std::move(f));
  monomials_by_factors_.insert(hash, static_cast<number>(monomials_.size() - 1));
  return static_cast<number>(monomials_.size() - 1);
}

}  // namespace unity::tensor

#endif
