// Prints syntax as rule text: parse_rules(to_text(r)) returns r. Rule text cannot express a quote or a line break
// inside a word.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <unity/rewrite/syntax.hpp>

namespace unity {
namespace detail {

bool is_plain_word(const std::string& word);

std::string real_text(double value);

}  // namespace detail

[[nodiscard]] std::string to_text(const syntax::expression& e);

namespace detail {

std::string arguments_text(const std::vector<syntax::expression>& arguments);

}  // namespace detail

[[nodiscard]] std::string to_text(const syntax::term& t);

[[nodiscard]] std::string to_text(const std::vector<syntax::term>& terms);

[[nodiscard]] std::string to_text(const syntax::rule& r);

}  // namespace unity

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_REWRITE_PRINT)

#include <bit>
#include <charconv>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/rewrite/operators.hpp>

namespace unity::detail {

UNITY_INLINE bool is_plain_word(const std::string& word) {
  return !word.empty() &&
         word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") ==
             std::string::npos &&
         (word[0] < '0' || word[0] > '9');
}

UNITY_INLINE std::string real_text(double value) {
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  const std::string text{buffer, end};
  return text.find_first_of(".e") == std::string::npos ? fmt::format("{}.0", text) : text;
}

UNITY_INLINE std::string arguments_text(const std::vector<syntax::expression>& arguments) {
  std::string text;
  for (const auto& a : arguments) {
    text += fmt::format("{}{}", (text.empty() ? "" : ", "), to_text(a));
  }
  return text;
}

}  // namespace unity::detail

namespace unity {

UNITY_INLINE std::string to_text(const syntax::expression& e) {
  using form = syntax::expression::form;
  switch (e.kind) {
    case form::integer: return fmt::format("{}", e.integer);
    case form::real: return detail::real_text(std::bit_cast<double>(e.integer));
    case form::word: return detail::is_plain_word(e.name) ? e.name : fmt::format("\"{}\"", e.name);
    case form::variable: return fmt::format("?{}", e.name);
    case form::indexed_variable: return fmt::format("??{}", e.name);
    case form::list: return fmt::format("[{}]", detail::arguments_text(e.arguments));
    case form::pack: return fmt::format("{}...", to_text(e.arguments[0]));
    case form::call: break;
  }
  const auto level = detail::level_of(e);
  if (level == detail::primary_level) {
    return fmt::format("{}({})", e.name, detail::arguments_text(e.arguments));
  }
  // Parentheses only where needed, so that no printed text is nested deeper than the text that was parsed.
  const auto operand = [](const syntax::expression& a, std::size_t weakest) {
    return detail::level_of(a) < weakest ? fmt::format("({})", to_text(a)) : to_text(a);
  };
  return level == detail::sign_level
             ? fmt::format("{}{}", e.name, operand(e.arguments[0], level))
             : fmt::format("{} {} {}", operand(e.arguments[0], level), e.name, operand(e.arguments[1], level + 1));
}

UNITY_INLINE std::string to_text(const syntax::term& t) {
  using form = syntax::term::form;
  std::string text = fmt::format("{}{}{}", (t.part.empty() ? "" : fmt::format("?{}@", t.part)),
                                 (t.kind == form::variable           ? "?"
                                  : t.kind == form::indexed_variable ? "??"
                                                                     : ""),
                                 t.name);
  if (t.kind == form::application) {
    std::string inner;
    for (const auto& a : t.attributes) {
      inner += fmt::format("{}{}={}", (inner.empty() ? "" : ", "), a.name, to_text(a.value));
    }
    if (t.open) {
      inner += inner.empty() ? ".." : ", ..";
    }
    text += inner.empty() ? "" : fmt::format("{{{}}}", inner);
    std::string operands;
    for (const auto& o : t.operands) {
      operands += fmt::format("{}{}", (operands.empty() ? "" : ", "), to_text(o));
    }
    text += fmt::format("({})", operands);
  }
  if (t.selector != syntax::term::whole) {
    text += t.selector == syntax::term::each ? ".*" : fmt::format(".{}", t.selector);
  }
  return t.repeated ? fmt::format("{}...", text) : text;
}

UNITY_INLINE std::string to_text(const std::vector<syntax::term>& terms) {
  if (terms.size() == 1) {
    return to_text(terms[0]);
  }
  std::string text;
  for (const auto& t : terms) {
    text += fmt::format("{}{}", (text.empty() ? "(" : ", "), to_text(t));
  }
  return fmt::format("{})", text);
}

UNITY_INLINE std::string to_text(const syntax::rule& r) {
  std::string text =
      fmt::format("rule {}\n  {}{}{}\n", r.name, to_text(r.source), (r.both_ways ? " == " : " => "), to_text(r.target));
  for (std::size_t i = 0; i < r.conditions.size(); ++i) {
    text += fmt::format("{}{}", (i == 0 ? "  if " : ", "), to_text(r.conditions[i]));
  }
  text += r.conditions.empty() ? "" : "\n";
  text += r.safe_for == syntax::safety::inference ? "  safe inference\n" : "";
  text += r.real_only ? "  real\n" : "";
  switch (r.known) {
    case syntax::standing::assumed: break;
    case syntax::standing::tested: text += fmt::format("  tested {}\n", r.tested_bits); break;
    case syntax::standing::proved:
      text += fmt::format("  proved \"{}\"", r.prover);
      for (std::size_t i = 0; i < r.axioms.size(); ++i) {
        text += fmt::format("{}{}", (i == 0 ? " by " : ", "), r.axioms[i]);
      }
      text += "\n";
      break;
  }
  return text;
}

}  // namespace unity

#endif
