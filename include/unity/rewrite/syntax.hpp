// A substitution as written: the common result of rule text and C++ expressions.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace unity::syntax {

// An attribute or condition: 3, 0.5, same, "x", ?a, size(?x, 1), [1, ?k], a + b, size(??w, 1)...
struct expression {
  enum class form : std::uint8_t { integer, real, word, variable, indexed_variable, call, list, pack };

  form kind = form::integer;
  std::int64_t integer = 0;  // of form::real: the bits of the double
  std::string name{};        // of a word, a variable, or the called function; operators are called by their symbol
  std::vector<expression> arguments{};

  friend bool operator==(const expression&, const expression&) = default;
};

struct attribute_binding {
  std::string name;
  expression value;
  friend bool operator==(const attribute_binding&, const attribute_binding&) = default;
};

// ?x, ??x, matmul(?x, ?y), split{axis=1, sizes=?s}(?x).0, relu(??x)..., ?y@relu(?x)
struct term {
  enum class form : std::uint8_t { variable, indexed_variable, application };
  static constexpr int whole = -2;  // no selector: the only result, or all results at a root
  static constexpr int each = -1;   // .* : the i-th result in the i-th repetition

  form kind = form::application;
  std::string name{};
  std::vector<attribute_binding> attributes{};
  bool open = false;  // `..` : omitted attributes match anything
  std::vector<term> operands{};
  int selector = whole;
  bool repeated = false;  // `...`
  std::string part{};     // ?y@ : the name of what it matches; empty if it has none

  friend bool operator==(const term&, const term&) = default;
};

// How well a rule is known to be true, weakest first.
enum class standing : std::uint8_t { assumed, tested, proved };

// What a rule may be used for. Inference: the rule may need precomputed weights or statistics that training changes.
enum class safety : std::uint8_t { training, inference };

// Where a rule was read, as used in messages: "rules.txt:12"; empty if it was not read from a file. Ignored when rules
// are compared.
struct rule_place {
  std::string text{};
  friend bool operator==(const rule_place&, const rule_place&) { return true; }
};

struct rule {
  std::string name{};
  rule_place place{};
  std::vector<term> source{};
  std::vector<term> target{};
  bool both_ways = false;  // == instead of =>
  std::vector<expression> conditions{};
  safety safe_for = safety::training;
  standing known = standing::assumed;
  int tested_bits = 0;                // of standing::tested: -log2 of the probability that a wrong rule passes
  std::string prover{};               // of standing::proved: name and version
  std::vector<std::string> axioms{};  // of standing::proved: the names of the axioms that the proof used, ascending
  bool real_only = false;             // relies on order or on identities of exp: holds for reals, not modulo a prime

  friend bool operator==(const rule&, const rule&) = default;
};

}  // namespace unity::syntax
