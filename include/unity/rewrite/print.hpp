// Syntax to rule text: parse_rules(to_text(r)) gives r back. Rule text has no way to write a quote or a line break
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
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

UNITY_INLINE std::string arguments_text(const std::vector<syntax::expression>& arguments) {
  std::string text;
  for (const auto& a : arguments) {
    text += (text.empty() ? "" : ", ") + to_text(a);
  }
  return text;
}

}  // namespace unity::detail

namespace unity {

UNITY_INLINE std::string to_text(const syntax::expression& e) {
  using form = syntax::expression::form;
  switch (e.kind) {
    case form::integer: return std::to_string(e.integer);
    case form::real: return detail::real_text(std::bit_cast<double>(e.integer));
    case form::word: return detail::is_plain_word(e.name) ? e.name : "\"" + e.name + "\"";
    case form::variable: return "?" + e.name;
    case form::indexed_variable: return "??" + e.name;
    case form::list: return "[" + detail::arguments_text(e.arguments) + "]";
    case form::pack: return to_text(e.arguments[0]) + "...";
    case form::call: break;
  }
  const auto level = detail::level_of(e);
  if (level == detail::primary_level) {
    return e.name + "(" + detail::arguments_text(e.arguments) + ")";
  }
  // Parentheses only where they are needed: so no text is nested deeper than the one that was read.
  const auto operand = [](const syntax::expression& a, std::size_t weakest) {
    return detail::level_of(a) < weakest ? "(" + to_text(a) + ")" : to_text(a);
  };
  return level == detail::sign_level
             ? e.name + operand(e.arguments[0], level)
             : operand(e.arguments[0], level) + " " + e.name + " " + operand(e.arguments[1], level + 1);
}

UNITY_INLINE std::string to_text(const syntax::term& t) {
  using form = syntax::term::form;
  std::string text = (t.kind == form::variable ? "?" : t.kind == form::indexed_variable ? "??" : "") + t.name;
  if (t.kind == form::application) {
    std::string inner;
    for (const auto& a : t.attributes) {
      inner += (inner.empty() ? "" : ", ") + a.name + "=" + to_text(a.value);
    }
    if (t.open) {
      inner += inner.empty() ? ".." : ", ..";
    }
    text += inner.empty() ? "" : "{" + inner + "}";
    std::string operands;
    for (const auto& o : t.operands) {
      operands += (operands.empty() ? "" : ", ") + to_text(o);
    }
    text += "(" + operands + ")";
  }
  if (t.selector != syntax::term::whole) {
    text += t.selector == syntax::term::each ? ".*" : "." + std::to_string(t.selector);
  }
  return t.repeated ? text + "..." : text;
}

UNITY_INLINE std::string to_text(const std::vector<syntax::term>& terms) {
  if (terms.size() == 1) {
    return to_text(terms[0]);
  }
  std::string text;
  for (const auto& t : terms) {
    text += (text.empty() ? "(" : ", ") + to_text(t);
  }
  return text + ")";
}

UNITY_INLINE std::string to_text(const syntax::rule& r) {
  std::string text =
      "rule " + r.name + "\n  " + to_text(r.source) + (r.both_ways ? " == " : " => ") + to_text(r.target) + "\n";
  for (std::size_t i = 0; i < r.conditions.size(); ++i) {
    text += (i == 0 ? "  if " : ", ") + to_text(r.conditions[i]);
  }
  text += r.conditions.empty() ? "" : "\n";
  text += r.safe_for == syntax::safety::inference ? "  safe inference\n" : "";
  text += r.real_only ? "  real\n" : "";
  switch (r.known) {
    case syntax::standing::assumed: break;
    case syntax::standing::tested: text += "  tested " + std::to_string(r.tested_bits) + "\n"; break;
    case syntax::standing::proved:
      text += "  proved \"" + r.prover + "\"";
      for (std::size_t i = 0; i < r.axioms.size(); ++i) {
        text += (i == 0 ? " by " : ", ") + r.axioms[i];
      }
      text += "\n";
      break;
  }
  return text;
}

}  // namespace unity

#endif
