// The interface between the enumeration of terms and a set of operators.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <unity/rewrite/generation/sample_program.hpp>

namespace unity {

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
