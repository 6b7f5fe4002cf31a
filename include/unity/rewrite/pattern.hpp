// One side of a substitution, compiled for an algebra.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/rewrite/expression.hpp>

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

}  // namespace unity
