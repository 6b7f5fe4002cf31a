// The operators of expressions in rule text, shared by parser and printer.
#pragma once

#include <cstddef>
#include <iterator>
#include <string_view>

#include <unity/rewrite/syntax.hpp>

namespace unity::detail {

// Binary operators, lowest precedence first; all are left-associative. Empty entries are padding.
inline constexpr std::string_view operator_levels[][6] = {
    {"||"}, {"&&"}, {"==", "!=", "<=", ">=", "<", ">"}, {"+", "-"}, {"*", "/", "%"}};

// Precedence of expressions: the level of a binary operator, then unary - and !, then everything else (primaries).
inline constexpr std::size_t sign_level = std::size(operator_levels);
inline constexpr std::size_t primary_level = sign_level + 1;

[[nodiscard]] std::size_t level_of(const syntax::expression& e);

}  // namespace unity::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_REWRITE_OPERATORS)

#include <algorithm>

#include <unity/core/config.hpp>

namespace unity::detail {

UNITY_INLINE std::size_t level_of(const syntax::expression& e) {
  if (e.kind != syntax::expression::form::call || e.name.empty()) {
    return primary_level;
  }
  if (e.arguments.size() == 1) {
    return e.name == "-" || e.name == "!" ? sign_level : primary_level;
  }
  const auto level = std::ranges::find_if(
      operator_levels, [&](const auto& symbols) { return std::ranges::find(symbols, e.name) != std::end(symbols); });
  return level == std::end(operator_levels) ? primary_level
                                            : static_cast<std::size_t>(level - std::begin(operator_levels));
}

}  // namespace unity::detail

#endif
