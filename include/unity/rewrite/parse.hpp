// Parses rule text to syntax. The grammar is in docs/formats.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/rewrite/lexer.hpp>
#include <unity/rewrite/syntax.hpp>

namespace unity {
namespace detail {

class rule_parser {
 public:
  rule_parser(std::string_view text, std::string_view file) : in_{text, file} {}

  std::vector<syntax::rule> rules();

 private:
  // Limits nesting: deeply nested input must end in an error message, not in a stack overflow.
  struct nesting {
    explicit nesting(rule_parser& p);
    ~nesting() { --depth; }
    nesting(const nesting&) = delete;
    nesting& operator=(const nesting&) = delete;
    int& depth;
  };

  syntax::rule rule();

  void clause(syntax::rule& r);

  // If several standings are given, only the last one counts.
  static void stand(syntax::rule& r, syntax::standing known);

  std::vector<syntax::term> terms();

  syntax::term term();

  void attributes(syntax::term& t);

  void operands(syntax::term& t);

  syntax::expression expression() { return binary(0); }

  // Precedence climbing, lowest precedence first; all operators are left-associative.
  syntax::expression binary(std::size_t level);

  syntax::expression unary();

  syntax::expression primary();

  std::vector<syntax::expression> arguments(std::string_view closing);

  static syntax::expression call(std::string callee, std::vector<syntax::expression> arguments) {
    return {syntax::expression::form::call, 0, std::move(callee), std::move(arguments)};
  }
  syntax::expression leaf(syntax::expression::form kind);
  syntax::expression number();
  int small_integer();
  std::int64_t integer();
  std::string name(std::string_view expected);
  std::string text(std::string_view expected);
  bool accept_name(std::string_view word);

  rule_lexer in_;
  int depth_ = 0;
  int operators_ = 0;  // in the current rule
};

}  // namespace detail

// Parses all rules of `text`; messages use `file` as the name of the file.
// Throws: unity::error with file, line and column of the first syntax error.
[[nodiscard]] inline std::vector<syntax::rule> parse_rules(std::string_view text, std::string_view file = "rules") {
  return detail::rule_parser{text, file}.rules();
}

}  // namespace unity

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_REWRITE_PARSE)

#include <bit>
#include <limits>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/printable.hpp>

namespace unity::detail {

UNITY_INLINE std::vector<syntax::rule> rule_parser::rules() {
  std::vector<syntax::rule> all;
  while (in_.peek().kind != rule_token::form::end) {
    if (!in_.at_name("rule")) {
      in_.fail("'rule'");
    }
    in_.next();
    all.push_back(rule());
  }
  return all;
}

UNITY_INLINE rule_parser::nesting::nesting(rule_parser& p) : depth{p.depth_} {
  if (++depth > 200) {
    p.in_.fail("at most 200 levels of nesting");
  }
}

UNITY_INLINE syntax::rule rule_parser::rule() {
  syntax::rule r;
  operators_ = 0;
  r.place.text = in_.place();
  r.name = name("a rule's name");
  r.source = terms();
  r.both_ways = in_.at("==");
  if (!in_.accept("==") && !in_.accept("=>")) {
    in_.fail("'==' or '=>'");
  }
  r.target = terms();
  while (in_.peek().kind == rule_token::form::name && !in_.at_name("rule")) {
    clause(r);
  }
  return r;
}

UNITY_INLINE void rule_parser::clause(syntax::rule& r) {
  if (accept_name("if")) {
    do {
      r.conditions.push_back(expression());
    } while (in_.accept(","));
  } else if (accept_name("safe")) {
    r.safe_for = name("the use that the rule is safe for");
  } else if (accept_name("tested")) {
    stand(r, syntax::standing::tested);
    r.tested_bits = small_integer();
  } else if (accept_name("proved")) {
    stand(r, syntax::standing::proved);
    r.prover = text("the prover's name and version in quotes");
    if (accept_name("by")) {
      do {
        r.axioms.push_back(name("an axiom's name"));
      } while (in_.accept(","));
    }
  } else if (accept_name("real")) {
    r.real_only = true;
  } else if (accept_name("assumed")) {
    stand(r, syntax::standing::assumed);
  } else {
    in_.fail("'if', 'safe', 'tested', 'proved', 'assumed', 'real' or 'rule'");
  }
}

UNITY_INLINE void rule_parser::stand(syntax::rule& r, syntax::standing known) {
  r.known = known;
  r.tested_bits = 0;
  r.prover.clear();
  r.axioms.clear();
}

UNITY_INLINE std::vector<syntax::term> rule_parser::terms() {
  std::vector<syntax::term> all;
  if (in_.accept("(")) {
    do {
      all.push_back(term());
    } while (in_.accept(","));
    in_.expect(")");
  } else {
    all.push_back(term());
  }
  return all;
}

UNITY_INLINE syntax::term rule_parser::term() {
  const nesting guard{*this};
  syntax::term t;
  const auto head = in_.peek();
  if (head.kind == rule_token::form::variable || head.kind == rule_token::form::indexed_variable) {
    t.kind =
        head.kind == rule_token::form::variable ? syntax::term::form::variable : syntax::term::form::indexed_variable;
    t.name = in_.next().text;
    if (t.name.empty()) {
      in_.fail("a variable's name after '?'");
    }
    if (t.kind == syntax::term::form::variable && in_.accept("@")) {
      t.part = std::move(t.name);
      t.kind = syntax::term::form::application;
    }
  }
  if (t.kind == syntax::term::form::application) {
    t.name = name("an operator or a variable");
    if (in_.accept("{")) {
      attributes(t);
    }
    operands(t);
  }
  if (in_.accept(".")) {
    t.selector = in_.accept("*") ? syntax::term::each : small_integer();
  }
  t.repeated = in_.accept("...");
  return t;
}

UNITY_INLINE void rule_parser::attributes(syntax::term& t) {
  do {
    if (in_.accept("..")) {
      t.open = true;
      break;
    }
    auto attribute = name("an attribute's name or '..'");
    in_.expect("=");
    t.attributes.push_back({std::move(attribute), expression()});
  } while (in_.accept(","));
  in_.expect("}");
}

UNITY_INLINE void rule_parser::operands(syntax::term& t) {
  in_.expect("(");
  if (in_.accept(")")) {
    return;
  }
  do {
    t.operands.push_back(term());
  } while (in_.accept(","));
  in_.expect(")");
}

UNITY_INLINE syntax::expression rule_parser::binary(std::size_t level) {
  if (level == sign_level) {
    return unary();
  }
  auto left = binary(level + 1);
  for (;;) {
    std::string_view found;
    for (const auto symbol : operator_levels[level]) {
      if (!symbol.empty() && in_.at(symbol)) {
        found = symbol;
      }
    }
    if (found.empty()) {
      return left;
    }
    if (++operators_ > 1000) {  // a long chain of operators is a deep tree
      in_.fail("at most 1000 operators in a rule");
    }
    in_.next();
    auto right = binary(level + 1);
    left = call(std::string{found}, {std::move(left), std::move(right)});
  }
}

UNITY_INLINE syntax::expression rule_parser::unary() {
  const nesting guard{*this};
  if (in_.accept("-")) {
    return call("-", {unary()});
  }
  if (in_.accept("!")) {
    return call("!", {unary()});
  }
  return primary();
}

UNITY_INLINE syntax::expression rule_parser::primary() {
  const auto t = in_.peek();
  switch (t.kind) {
    case rule_token::form::number: return number();
    case rule_token::form::text: return leaf(syntax::expression::form::word);
    case rule_token::form::variable: return leaf(syntax::expression::form::variable);
    case rule_token::form::indexed_variable: return leaf(syntax::expression::form::indexed_variable);
    case rule_token::form::name: {
      auto word = leaf(syntax::expression::form::word);
      return in_.accept("(") ? call(std::move(word.name), arguments(")")) : word;
    }
    default: break;
  }
  if (in_.accept("[")) {
    auto list = call("", arguments("]"));
    list.kind = syntax::expression::form::list;
    return list;
  }
  if (in_.accept("(")) {
    auto inner = expression();
    in_.expect(")");
    return inner;
  }
  in_.fail("a number, a word, a variable, a list or a call");
}

UNITY_INLINE std::vector<syntax::expression> rule_parser::arguments(std::string_view closing) {
  std::vector<syntax::expression> all;
  if (in_.accept(closing)) {
    return all;
  }
  do {
    auto e = expression();
    if (in_.accept("...")) {
      e = {syntax::expression::form::pack, 0, {}, {std::move(e)}};
    }
    all.push_back(std::move(e));
  } while (in_.accept(","));
  in_.expect(closing);
  return all;
}

UNITY_INLINE syntax::expression rule_parser::leaf(syntax::expression::form kind) {
  const bool variable =
      kind == syntax::expression::form::variable || kind == syntax::expression::form::indexed_variable;
  if (variable && in_.peek().text.empty()) {
    in_.fail("a variable's name after '?'");
  }
  return {kind, 0, std::string{in_.next().text}, {}};
}

UNITY_INLINE syntax::expression rule_parser::number() {
  const auto text = in_.peek().text;
  if (text.find_first_of(".e") == std::string_view::npos) {
    return {syntax::expression::form::integer, integer(), {}, {}};
  }
  const auto value = to_number<double>(text);
  if (!value) {
    in_.fail("a number that a double can hold");
  }
  in_.next();
  return {syntax::expression::form::real, std::bit_cast<std::int64_t>(*value), {}, {}};
}

UNITY_INLINE int rule_parser::small_integer() {
  const auto place = in_;
  const auto value = integer();
  if (value > std::numeric_limits<int>::max()) {
    place.fail("an integer of 31 bits");
  }
  return static_cast<int>(value);
}

UNITY_INLINE std::int64_t rule_parser::integer() {
  const auto t = in_.peek();
  const auto value = to_number<std::int64_t>(t.text);
  if (t.kind != rule_token::form::number || !value) {
    in_.fail("an integer of 64 bits");
  }
  in_.next();
  return *value;
}

UNITY_INLINE std::string rule_parser::name(std::string_view expected) {
  if (in_.peek().kind != rule_token::form::name) {
    in_.fail(expected);
  }
  return std::string{in_.next().text};
}

UNITY_INLINE std::string rule_parser::text(std::string_view expected) {
  if (in_.peek().kind != rule_token::form::text) {
    in_.fail(expected);
  }
  return std::string{in_.next().text};
}

UNITY_INLINE bool rule_parser::accept_name(std::string_view word) {
  if (!in_.at_name(word)) {
    return false;
  }
  in_.next();
  return true;
}

}  // namespace unity::detail

#endif
