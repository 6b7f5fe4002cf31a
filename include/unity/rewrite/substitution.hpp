// A substitution (rewrite rule): source pattern, target pattern, and conditions.
// Source: Jia's dissertation (TASO, 2020), section 2.3.1.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <unity/rewrite/expression.hpp>
#include <unity/rewrite/pattern.hpp>
#include <unity/rewrite/syntax.hpp>

namespace unity {

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
