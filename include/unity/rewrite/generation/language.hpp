// The interface between the enumeration of terms and a set of operators. Operators on sample values are straight-line
// programs in residue arithmetic, for fingerprints.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/hash.hpp>

namespace unity {

// Integers modulo 2^31 - 1: the arithmetic of fingerprints.

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

// Built once per operator and operand types, run for every term and every naming of its variables. Reads the rows of
// operands in place.
class sample_program {
 public:
  static constexpr std::size_t most_operands = 2;

  // An element of operand 0 or 1, a constant, or the result of an earlier step.
  struct ref {
    std::uint32_t bits = 0;
    friend bool operator==(ref, ref) = default;
  };
  enum class function : std::uint8_t { dot, maximum, minimum, relu, difference, quotient, arbitrary };

  [[nodiscard]] static ref element(std::size_t operand, std::size_t offset) noexcept {
    return {static_cast<std::uint32_t>(operand << 30U | offset)};
  }
  [[nodiscard]] ref constant(residue value);
  // The sum of products.
  [[nodiscard]] ref dot(std::span<const std::pair<ref, ref>> products);
  // A function of one or two values; `which` distinguishes arbitrary functions.
  [[nodiscard]] ref apply(function f, ref a, ref b, std::uint8_t which = 0) { return add({f, which, a.bits, b.bits}); }
  void add_output(ref r) { outputs_.push_back(r); }
  [[nodiscard]] std::size_t output_count() const noexcept { return outputs_.size(); }
  [[nodiscard]] std::size_t temporaries() const noexcept { return steps_.size(); }

  // The result of a step other than a dot product.
  [[nodiscard]] static residue compute(function f, residue a, residue b, std::uint8_t which) noexcept;

  // The program that computes only the chosen outputs.
  [[nodiscard]] sample_program restricted(std::span<const std::size_t> chosen) const;

  // Effects: writes output_count() residues. `scratch` must have at least temporaries() elements.
  // Complexity: linear in the steps and products.
  void run(const std::array<const residue*, most_operands>& operands, residue* scratch, residue* out) const;
  // For every output, the union of the marks (bit sets) of all elements that it is computed from. `scratch` as above.
  // Complexity: as run.
  void collect_marks(const std::array<const std::uint8_t*, most_operands>& operands, std::uint8_t* scratch,
                     std::uint8_t* out) const;

 private:
  static constexpr std::uint32_t constant_tag = 2;
  static constexpr std::uint32_t step_tag = 3;
  static constexpr std::uint32_t offset_mask = (std::uint32_t{1} << 30U) - 1;

  struct instruction {
    function f = function::dot;
    std::uint8_t which = 0;
    std::uint32_t a = 0;  // of a dot product: the range of its products
    std::uint32_t b = 0;
  };

  ref add(instruction s) {
    steps_.push_back(s);
    return {static_cast<std::uint32_t>(step_tag << 30U | (steps_.size() - 1))};
  }
  template <class Visit>
  void visit(const instruction& s, Visit&& to) const {
    if (s.f != function::dot) {
      to(s.a);
      to(s.b);
      return;
    }
    for (auto p = s.a; p < s.b; ++p) {
      to(pairs_[p].first.bits);
      to(pairs_[p].second.bits);
    }
  }
  template <class Move>
  void copy(const sample_program& from, const instruction& s, const Move& moved) {
    if (s.f != function::dot) {
      static_cast<void>(apply(s.f, moved({s.a}), moved({s.b}), s.which));
      return;
    }
    std::vector<std::pair<ref, ref>> products;
    for (auto p = s.a; p < s.b; ++p) {
      products.emplace_back(moved(from.pairs_[p].first), moved(from.pairs_[p].second));
    }
    static_cast<void>(dot(products));
  }

  template <class At>
  [[nodiscard]] residue sum(const instruction& s, const At& at) const {
    std::uint64_t total = 0;
    for (auto p = s.a; p < s.b; ++p) {
      const auto product =
          static_cast<std::uint64_t>(at(pairs_[p].first.bits).value()) * at(pairs_[p].second.bits).value();
      total += (product & residue::modulus) + (product >> 31U);
    }
    return residue::of(total);
  }
  std::vector<residue> constants_;
  std::vector<std::pair<ref, ref>> pairs_;
  std::vector<instruction> steps_;
  std::vector<ref> outputs_;
};

// An operator on operands of given types: the type of its result, and the programs that compute it.
struct application {
  std::uint16_t type = 0;
  std::uint32_t program = 0;
};

// A node of a written term: a variable of a sort (no operator), or an operator on earlier nodes.
struct term_node {
  static constexpr std::uint16_t variable = 0xffff;

  std::uint16_t op = variable;
  std::uint16_t sort = 0;                 // of a variable
  std::uint16_t number = 0;               // of a variable, among those of its sort
  std::vector<std::uint32_t> operands{};  // positions of nodes

  friend bool operator==(const term_node&, const term_node&) = default;
};
// Operands before users; the last node is the root.
using written_term = std::vector<term_node>;

// Typed operators with at most two operands and one result, with values to distinguish terms. Types are numbers; equal
// numbers are equal types.
//   operator_count(), arity(op), commutative(op)
//   sorts()                        the types of variables, one per sort
//   infer(op, types)               the application of the operator, or nothing if it does not accept the operands
//   elements(type)                 number of residues in a sample value of the type
//   variable_value(sort, v, out)   the sample value of variable v of a sort
//   may_ignore(op)                 whether the result may be independent of some operand
//   next_result(op)                the operator for the next result of the same operation, or nothing
//   program(p), probe(p)           all elements of a sample value, and a few that represent all: probe_elements(type)
//   deep_fingerprint(term, thorough)  of the values of the term at other sizes, modulo 2^61 - 1; at further sizes if
//                                  thorough
// Laws: terms of equal meaning have equal deep fingerprints and probes; terms of different meaning rarely do.
template <class L>
concept term_language = requires(L& l, const L& c, std::size_t op, std::span<const std::uint16_t> types,
                                 std::uint16_t type, residue* out, const written_term& term) {
  { c.operator_count() } -> std::convertible_to<std::size_t>;
  { c.arity(op) } -> std::convertible_to<std::size_t>;
  { c.commutative(op) } -> std::convertible_to<bool>;
  { c.may_ignore(op) } -> std::convertible_to<bool>;
  { c.next_result(op) } -> std::same_as<std::optional<std::size_t>>;
  { c.sorts() } -> std::convertible_to<std::span<const std::uint16_t>>;
  { l.infer(op, types) } -> std::same_as<std::optional<application>>;
  { c.elements(type) } -> std::convertible_to<std::size_t>;
  c.variable_value(op, op, out);
  { c.program(type) } -> std::same_as<const sample_program&>;
  { c.probe(type) } -> std::same_as<const sample_program&>;
  { c.probe_elements(type) } -> std::convertible_to<std::span<const std::size_t>>;
  { l.deep_fingerprint(term, true) } -> std::same_as<std::uint64_t>;
};

}  // namespace unity

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_REWRITE_GENERATION_LANGUAGE)

#include <unity/core/config.hpp>

namespace unity {

UNITY_INLINE auto sample_program::constant(residue value) -> ref {
  for (std::size_t i = 0; i < constants_.size(); ++i) {
    if (constants_[i] == value) {
      return {static_cast<std::uint32_t>(constant_tag << 30U | i)};
    }
  }
  constants_.push_back(value);
  return {static_cast<std::uint32_t>(constant_tag << 30U | (constants_.size() - 1))};
}

UNITY_INLINE auto sample_program::dot(std::span<const std::pair<ref, ref>> products) -> ref {
  const auto from = pairs_.size();
  pairs_.insert(pairs_.end(), products.begin(), products.end());
  return add({function::dot, 0, static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(pairs_.size())});
}

UNITY_INLINE residue sample_program::compute(function f, residue a, residue b, std::uint8_t which) noexcept {
  switch (f) {
    case function::maximum: return a.as_signed() < b.as_signed() ? b : a;
    case function::minimum: return a.as_signed() < b.as_signed() ? a : b;
    case function::relu: return a.as_signed() < 0 ? residue{} : a;
    case function::difference: return a - b;
    case function::quotient: return a / b;
    default: return residue::of(hash_combine(hash_combine(which, a.value()), b.value()) >> 2U);
  }
}

UNITY_INLINE sample_program sample_program::restricted(std::span<const std::size_t> chosen) const {
  std::vector<bool> needed(steps_.size());
  const auto need = [&](std::uint32_t bits) {
    if (bits >> 30U == step_tag) {
      needed[bits & offset_mask] = true;
    }
  };
  for (const auto o : chosen) {
    need(outputs_[o].bits);
  }
  for (auto s = steps_.size(); s-- > 0;) {
    if (needed[s]) {
      visit(steps_[s], need);
    }
  }
  sample_program out;
  out.constants_ = constants_;
  std::vector<std::uint32_t> place(steps_.size());
  const auto moved = [&](ref r) {
    return r.bits >> 30U == step_tag ? ref{step_tag << 30U | place[r.bits & offset_mask]} : r;
  };
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    if (needed[s]) {
      place[s] = static_cast<std::uint32_t>(out.steps_.size());
      out.copy(*this, steps_[s], moved);
    }
  }
  for (const auto o : chosen) {
    out.outputs_.push_back(moved(outputs_[o]));
  }
  return out;
}

UNITY_INLINE void sample_program::run(const std::array<const residue*, most_operands>& operands, residue* scratch,
                                      residue* out) const {
  const std::array<const residue*, 4> base{operands[0], operands[1], constants_.data(), scratch};
  const auto at = [&](std::uint32_t bits) { return base[bits >> 30U][bits & offset_mask]; };
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    const auto& i = steps_[s];
    scratch[s] = i.f == function::dot ? sum(i, at) : compute(i.f, at(i.a), at(i.b), i.which);
  }
  for (std::size_t o = 0; o < outputs_.size(); ++o) {
    out[o] = at(outputs_[o].bits);
  }
}

UNITY_INLINE void sample_program::collect_marks(const std::array<const std::uint8_t*, most_operands>& operands,
                                                std::uint8_t* scratch, std::uint8_t* out) const {
  const std::array<const std::uint8_t*, 4> base{operands[0], operands[1], nullptr, scratch};
  const auto at = [&](std::uint32_t bits) {
    return bits >> 30U == constant_tag ? std::uint8_t{0} : base[bits >> 30U][bits & offset_mask];
  };
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    unsigned marks = 0;
    visit(steps_[s], [&](std::uint32_t bits) { marks |= at(bits); });
    scratch[s] = static_cast<std::uint8_t>(marks);
  }
  for (std::size_t o = 0; o < outputs_.size(); ++o) {
    out[o] = at(outputs_[o].bits);
  }
}

}  // namespace unity

#endif
