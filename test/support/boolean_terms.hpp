// Term languages without tensors, whose meaning is a truth table; for tests of the enumeration of terms.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/rewrite/generation/language.hpp>

namespace unity::test {

enum class gate_form : std::uint8_t { zero, negation, conjunction, disjunction, difference };

// Bit i of a column: the value of the variable in assignment i of up to six.
inline constexpr std::array<std::uint64_t, 6> truth_columns{0xaaaaaaaaaaaaaaaaU, 0xccccccccccccccccU,
                                                            0xf0f0f0f0f0f0f0f0U, 0xff00ff00ff00ff00U,
                                                            0xffff0000ffff0000U, 0xffffffff00000000U};

inline std::size_t arity_of(gate_form g) { return g == gate_form::zero ? 0 : g == gate_form::negation ? 1 : 2; }
inline std::uint64_t combine(gate_form g, std::uint64_t a, std::uint64_t b) {
  switch (g) {
    case gate_form::zero: return 0;
    case gate_form::negation: return ~a;
    case gate_form::conjunction: return a & b;
    case gate_form::disjunction: return a | b;
    default: return a ^ b;
  }
}
inline std::uint64_t truth_table(std::span<const gate_form> gates, const written_term& t) {
  std::vector<std::uint64_t> tables;
  for (const auto& n : t) {
    const auto operand = [&](std::size_t i) { return i < n.operands.size() ? tables[n.operands[i]] : 0; };
    tables.push_back(n.op == term_node::variable ? truth_columns.at(n.number)
                                                 : combine(gates[n.op], operand(0), operand(1)));
  }
  return tables.back();
}

// A sample value is the truth table over all assignments. probes: number of its rows used as probes; with few,
// different terms agree on the probes, and only the deep fingerprint distinguishes them.
class boolean_terms {
 public:
  boolean_terms(std::vector<gate_form> gates, std::size_t variables, std::size_t probes)
      : gates_{std::move(gates)}, rows_{std::size_t{1} << variables} {
    for (std::size_t p = 0; p < probes && p < rows_; ++p) {
      probed_.push_back(probes < rows_ ? p * 7 % rows_ : p);
    }
    for (const auto g : gates_) {
      programs_.push_back(make_program(g));
      probes_.push_back(programs_.back().restricted(probed_));
    }
  }
  boolean_terms(std::vector<gate_form> gates, std::size_t variables)
      : boolean_terms{std::move(gates), variables, std::size_t{1} << variables} {}

  [[nodiscard]] std::span<const gate_form> gates() const { return gates_; }

  [[nodiscard]] std::size_t operator_count() const { return gates_.size(); }
  [[nodiscard]] std::size_t arity(std::size_t op) const { return arity_of(gates_[op]); }
  [[nodiscard]] bool commutative(std::size_t op) const { return arity(op) == 2; }
  [[nodiscard]] bool may_ignore(std::size_t op) const { return arity(op) == 2; }
  [[nodiscard]] std::optional<std::size_t> next_result(std::size_t) const { return std::nullopt; }
  [[nodiscard]] std::span<const std::uint16_t> sorts() const { return sorts_; }
  [[nodiscard]] std::optional<application> infer(std::size_t op, std::span<const std::uint16_t>) {
    return application{0, static_cast<std::uint32_t>(op)};
  }
  [[nodiscard]] std::size_t elements(std::uint16_t) const { return rows_; }
  void variable_value(std::size_t, std::size_t v, residue* out) const {
    for (std::size_t row = 0; row < rows_; ++row) {
      out[row] = residue::of(truth_columns.at(v) >> row & 1U);
    }
  }
  [[nodiscard]] const sample_program& program(std::size_t p) const { return programs_[p]; }
  [[nodiscard]] const sample_program& probe(std::size_t p) const { return probes_[p]; }
  [[nodiscard]] std::span<const std::size_t> probe_elements(std::uint16_t) const { return probed_; }
  [[nodiscard]] std::uint64_t deep_fingerprint(const written_term& t, bool) { return mix64(truth_table(gates_, t)); }

 private:
  // Precondition: a and b are 0 or 1.
  [[nodiscard]] sample_program make_program(gate_form g) const {
    using ref = sample_program::ref;
    sample_program p;
    const auto one = p.constant(residue::of(1));
    for (std::size_t row = 0; row < rows_; ++row) {
      const auto a = sample_program::element(0, row);
      const auto b = sample_program::element(1, row);
      const auto product = [&](std::int64_t factor) {
        const auto both = p.dot(std::vector{std::pair<ref, ref>{a, b}});
        return std::pair<ref, ref>{both, p.constant(residue::of_integer(factor))};
      };
      switch (g) {
        case gate_form::zero: p.add_output(p.constant(residue{})); break;
        case gate_form::negation: p.add_output(p.apply(sample_program::function::difference, one, a)); break;
        case gate_form::conjunction: p.add_output(product(1).first); break;
        case gate_form::disjunction:
          p.add_output(p.dot(std::vector<std::pair<ref, ref>>{{a, one}, {b, one}, product(-1)}));
          break;
        case gate_form::difference:
          p.add_output(p.dot(std::vector<std::pair<ref, ref>>{{a, one}, {b, one}, product(-2)}));
          break;
      }
    }
    return p;
  }

  std::vector<gate_form> gates_;
  std::size_t rows_;
  std::vector<std::size_t> probed_;
  std::vector<sample_program> programs_;
  std::vector<sample_program> probes_;
  std::array<std::uint16_t, 1> sorts_{0};
};

}  // namespace unity::test
