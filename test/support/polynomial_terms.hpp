// Terms over integers with sums, products and one; they compute polynomials.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/rewrite/generation/language.hpp>

namespace unity::test {

enum class arithmetic : std::uint8_t { one, sum, product };
inline constexpr std::array all_arithmetic{arithmetic::one, arithmetic::sum, arithmetic::product};

// Coefficients by exponents of the variables.
class exact_polynomial {
 public:
  using powers = std::array<std::uint8_t, 6>;

  [[nodiscard]] static exact_polynomial one() { return exact_polynomial{powers{}}; }
  [[nodiscard]] static exact_polynomial variable(std::size_t v) {
    powers p{};
    p.at(v) = 1;
    return exact_polynomial{p};
  }
  friend exact_polynomial operator+(exact_polynomial a, const exact_polynomial& b) {
    for (const auto& [p, c] : b.terms_) {
      a.terms_[p] += c;
    }
    return a;
  }
  friend exact_polynomial operator*(const exact_polynomial& a, const exact_polynomial& b) {
    exact_polynomial r;
    for (const auto& [p, c] : a.terms_) {
      for (const auto& [q, d] : b.terms_) {
        auto both = p;
        for (std::size_t i = 0; i < q.size(); ++i) {
          both[i] = static_cast<std::uint8_t>(both[i] + q[i]);
        }
        r.terms_[both] += c * d;
      }
    }
    return r;
  }
  [[nodiscard]] exact_polynomial renamed(std::span<const std::size_t> names) const {
    exact_polynomial r;
    for (const auto& [p, c] : terms_) {
      powers q{};
      for (std::size_t i = 0; i < names.size(); ++i) {
        q[names[i]] = p[i];
      }
      r.terms_[q] = c;
    }
    return r;
  }
  friend auto operator<=>(const exact_polynomial&, const exact_polynomial&) = default;

 private:
  exact_polynomial() = default;
  explicit exact_polynomial(const powers& p) : terms_{{p, 1}} {}
  std::map<powers, std::int64_t> terms_;
};

inline exact_polynomial polynomial_of(const written_term& t) {
  std::vector<exact_polynomial> values;
  for (const auto& n : t) {
    const auto operand = [&](std::size_t i) { return values[n.operands[i]]; };
    values.push_back(n.op == term_node::variable                        ? exact_polynomial::variable(n.number)
                     : all_arithmetic.at(n.op) == arithmetic::one       ? exact_polynomial::one()
                     : all_arithmetic.at(n.op) == arithmetic::sum       ? operand(0) + operand(1)
                                                                        : operand(0) * operand(1));
  }
  return values.back();
}

// Samples are random residues. Every term depends on all its variables, because nothing cancels.
class polynomial_terms {
 public:
  static constexpr std::size_t points = 3;

  polynomial_terms() {
    for (const auto op : all_arithmetic) {
      auto& p = programs_.emplace_back();
      const auto one = p.constant(residue::of(1));
      for (std::size_t i = 0; i < points; ++i) {
        const auto a = sample_program::element(0, i);
        const auto b = sample_program::element(1, i);
        using ref = sample_program::ref;
        p.add_output(op == arithmetic::one   ? one
                     : op == arithmetic::sum ? p.dot(std::vector<std::pair<ref, ref>>{{a, one}, {b, one}})
                                             : p.dot(std::vector<std::pair<ref, ref>>{{a, b}}));
      }
    }
  }

  [[nodiscard]] std::size_t operator_count() const { return all_arithmetic.size(); }
  [[nodiscard]] std::size_t arity(std::size_t op) const { return op == 0 ? 0 : 2; }
  [[nodiscard]] bool commutative(std::size_t op) const { return op != 0; }
  [[nodiscard]] bool may_ignore(std::size_t) const { return false; }
  [[nodiscard]] std::optional<std::size_t> next_result(std::size_t) const { return std::nullopt; }
  [[nodiscard]] std::span<const std::uint16_t> sorts() const { return sorts_; }
  [[nodiscard]] std::optional<application> infer(std::size_t op, std::span<const std::uint16_t>) {
    return application{0, static_cast<std::uint32_t>(op)};
  }
  [[nodiscard]] std::size_t elements(std::uint16_t) const { return points; }
  void variable_value(std::size_t sort, std::size_t v, residue* out) const {
    for (std::size_t i = 0; i < points; ++i) {
      out[i] = residue::of(hash_combine(hash_combine(sort, v), i) >> 2U);
    }
  }
  [[nodiscard]] const sample_program& program(std::size_t p) const { return programs_[p]; }
  [[nodiscard]] const sample_program& probe(std::size_t p) const { return programs_[p]; }
  [[nodiscard]] std::span<const std::size_t> probe_elements(std::uint16_t) const { return probed_; }
  // Evaluates at a point of unsigned integers, in arithmetic modulo 2^64.
  [[nodiscard]] std::uint64_t deep_fingerprint(const written_term& t, bool thorough) {
    std::vector<std::uint64_t> values;
    for (const auto& n : t) {
      const auto operand = [&](std::size_t i) { return values[n.operands[i]]; };
      values.push_back(n.op == term_node::variable ? hash_combine(n.sort, n.number + (thorough ? 100U : 50U))
                       : n.op == 0                 ? 1
                       : n.op == 1                 ? operand(0) + operand(1)
                                                   : operand(0) * operand(1));
    }
    return values.back();
  }

 private:
  std::vector<sample_program> programs_;
  std::array<std::size_t, points> probed_{0, 1, 2};
  std::array<std::uint16_t, 1> sorts_{0};
};

}  // namespace unity::test
