// A substitution (rewrite rule): source pattern, target pattern, and conditions.
// Source: Jia's dissertation (TASO, 2020), section 2.3.1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/rewrite/expression.hpp>
#include <unity/rewrite/syntax.hpp>

namespace unity {

// An operand of a pattern node or an output of a pattern: the value of a variable or a result of a node.
struct pattern_operand {
  static constexpr std::int32_t each = -1;  // the i-th result in the i-th repetition

  bool is_variable = false;
  std::uint32_t slot = 0;   // index of the variable, or of the node in pattern::nodes
  std::int32_t result = 0;  // of the node
  bool repeated = false;    // stands for one operand per repetition

  friend bool operator==(const pattern_operand&, const pattern_operand&) = default;
};

// How an attribute is matched (source) or built (target).
struct pattern_attribute {
  enum class form : std::uint8_t { any, bind, value };

  form kind = form::value;
  std::size_t slot = 0;  // of the attribute variable that is bound here, or compared if it is bound already
  expression value{};    // compared (source) or used (target)

  friend bool operator==(const pattern_attribute&, const pattern_attribute&) = default;
};

struct pattern_node {
  kind_id kind{};
  bool commutative = false;
  bool indexed = false;                         // one per repetition
  std::vector<pattern_attribute> attributes{};  // one per attribute of the kind's signature
  std::vector<pattern_operand> operands{};

  friend bool operator==(const pattern_node&, const pattern_node&) = default;
};

// A directed acyclic graph over value variables. Equal subterms are one node; operands come before users.
struct pattern {
  std::vector<pattern_node> nodes{};
  std::vector<pattern_operand> roots{};

  friend bool operator==(const pattern&, const pattern&) = default;
};

// `Attribute`: the type that represents an attribute; its null value is an empty slot.
template <class Attribute>
struct attribute_check {
  std::uint32_t position = 0;
  bool binds = false;
  std::uint32_t slot = 0;  // is bound
  Attribute literal{};     // is compared otherwise
};

// Binds slots, and appends those that were empty to `bound`, even if it fails.
template <class Attribute, class Attributes, class Slots, class Bound>
[[nodiscard]] bool take_attributes(const std::vector<attribute_check<Attribute>>& checks, const Attributes& actual,
                                   Slots& slots, Bound& bound) {
  for (const auto& c : checks) {
    const auto value = actual[c.position];
    if (!c.binds) {
      if (value != c.literal) {
        return false;
      }
    } else if (!slots[c.slot].valid()) {
      slots[c.slot] = value;
      bound.push_back(c.slot);
    } else if (slots[c.slot] != value) {
      return false;
    }
  }
  return true;
}

// One direction of a rule, compiled for an algebra and checked: build one with compile_rule (rewrite/compile.hpp). Root
// i of the source and root i of the target are the same value. Regular.
struct substitution {
  std::string name{};  // of the rule; the second direction of `==` has ".reverse" appended
  pattern source{};
  pattern target{};
  std::vector<expression> conditions{};  // on values and attributes only: once true, they stay true
  std::size_t variables = 0;             // number of value variables of the source, including indexed ones
  std::vector<bool> indexed_variables{};
  std::size_t attribute_variables = 0;
  syntax::rule rule{};  // as written

  [[nodiscard]] bool repeats() const noexcept;

  friend bool operator==(const substitution&, const substitution&) = default;
};

using rule_set = std::vector<substitution>;

}  // namespace unity

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_REWRITE_SUBSTITUTION)

namespace unity {

UNITY_INLINE bool substitution::repeats() const noexcept {
  for (const auto& n : source.nodes) {
    if (n.indexed) {
      return true;
    }
    for (const auto& o : n.operands) {
      if (o.repeated) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace unity

#endif
