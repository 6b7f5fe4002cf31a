// The problem that a proof is checked on: terms without variables, instances of axioms over them, and the goals.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace unity {

// Result `result` of operator `label` applied to earlier terms. Equal labels are the same operator in every world.
struct ground_term {
  std::uint32_t label = 0;
  std::uint32_t result = 0;
  std::vector<std::uint32_t> operands{};

  friend bool operator==(const ground_term&, const ground_term&) = default;
};

// An axiom instance: both sides are terms. An axiom with several outputs gives one equality per output.
struct ground_equality {
  std::uint32_t left = 0;
  std::uint32_t right = 0;
  std::uint32_t axiom = 0;     // in the theory
  std::uint32_t instance = 0;  // shared by the equalities of one instance
  bool reversed = false;       // used from the axiom's right side to its left

  friend bool operator==(const ground_equality&, const ground_equality&) = default;
};

// Do the equalities entail the goals for all interpretations of the labels as functions? Decidable (quantifier-free,
// uninterpreted functions). Labels marked as commutative commute.
struct ground_problem {
  std::vector<std::string> labels{};  // of operators, for messages
  std::vector<bool> commutative{};    // by label
  std::vector<ground_term> terms{};   // operands come before users; each term once
  std::vector<ground_equality> equalities{};
  std::vector<std::pair<std::uint32_t, std::uint32_t>> goals{};

  friend bool operator==(const ground_problem&, const ground_problem&) = default;
};

}  // namespace unity
