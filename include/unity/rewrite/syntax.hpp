// A substitution as written (the common result of rule text and C++ expressions), and its text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
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
  std::string safe_for{};  // the use in which it holds, by a name of its algebra; empty: in all
  standing known = standing::assumed;
  int tested_bits = 0;                // of standing::tested: -log2 of the probability that a wrong rule passes
  std::string prover{};               // of standing::proved: name and version
  std::vector<std::string> axioms{};  // of standing::proved: the names of the axioms that the proof used, ascending
  bool real_only = false;             // relies on order or on identities of exp: holds for reals, not modulo a prime

  friend bool operator==(const rule&, const rule&) = default;
};

}  // namespace unity::syntax

namespace unity::detail {

// Binary operators, lowest precedence first; all are left-associative. Empty entries are padding.
inline constexpr std::string_view operator_levels[][6] = {
    {"||"}, {"&&"}, {"==", "!=", "<=", ">=", "<", ">"}, {"+", "-"}, {"*", "/", "%"}};

// Precedence of expressions: the level of a binary operator, then unary - and !, then everything else (primaries).
inline constexpr std::size_t sign_level = std::size(operator_levels);
inline constexpr std::size_t primary_level = sign_level + 1;

[[nodiscard]] std::size_t level_of(const syntax::expression& e);

}  // namespace unity::detail

namespace unity {

// Prints syntax as rule text: parse_rules(to_text(r)) returns r. Rule text cannot express a quote or a line break
// inside a word.

// Whether a word needs no quotes: letters, digits and '_', the first no digit.
[[nodiscard]] bool is_plain_word(const std::string& word);

// The shortest text that is read as the same number, and as a real one: with a '.' or an 'e'. Or inf, -inf, nan or
// -nan, which rule text cannot express.
[[nodiscard]] std::string real_text(double value);

[[nodiscard]] std::string to_text(const syntax::expression& e);

namespace detail {

std::string arguments_text(const std::vector<syntax::expression>& arguments);

}  // namespace detail

[[nodiscard]] std::string to_text(const syntax::term& t);

[[nodiscard]] std::string to_text(const std::vector<syntax::term>& terms);

[[nodiscard]] std::string to_text(const syntax::rule& r);

}  // namespace unity

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_REWRITE_SYNTAX)

#include <algorithm>
#include <bit>
#include <charconv>

#include <fmt/core.h>

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

namespace unity {

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
  return text.find_first_of(".en") == std::string::npos ? fmt::format("{}.0", text) : text;
}

}  // namespace unity

namespace unity::detail {

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
    case form::real: return real_text(std::bit_cast<double>(e.integer));
    case form::word: return is_plain_word(e.name) ? e.name : fmt::format("\"{}\"", e.name);
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
  text += r.safe_for.empty() ? "" : fmt::format("  safe {}\n", r.safe_for);
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
