// Parsing of rule text, error messages for malformed text, and printing it again (print.hpp).
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/syntax.hpp>

#include "../support/cases.hpp"
#include "../support/message_of.hpp"

namespace tests_of_parse {

using namespace unity;
using term = syntax::term;
using expression = syntax::expression;

namespace {

std::string message(std::string_view text) {
  return unity::test::message_of([&] { (void)parse_rules(text, "r"); });
}

expression condition(const std::string& text) {
  return parse_rules("rule r f(?x) => ?x if " + text).at(0).conditions.at(0);
}

// Random syntax trees that rule text can express.
class random_syntax {
 public:
  explicit random_syntax(std::uint64_t seed) : random_{seed} {}

  syntax::rule rule() {
    syntax::rule r;
    r.name = name();
    r.source = side();
    r.target = side();
    r.both_ways = coin();
    for (auto n = random_.below(3); n > 0; --n) {
      r.conditions.push_back(expression_of(3));
    }
    r.safe_for = coin() ? "" : name();
    r.real_only = coin();
    r.known = static_cast<syntax::standing>(random_.below(3));
    if (r.known == syntax::standing::tested) {
      r.tested_bits = static_cast<int>(random_.below(1000));
    } else if (r.known == syntax::standing::proved) {
      r.prover = word();
      for (auto n = random_.below(3); n > 0; --n) {
        r.axioms.push_back(name());
      }
    }
    return r;
  }

 private:
  bool coin() { return random_.below(2) == 0; }
  std::string name() {
    static constexpr std::string_view names[]{"a", "matmul", "x1", "_under", "rules", "If", "e5"};
    return std::string{names[random_.below(std::size(names))]};
  }
  std::string word() {
    static constexpr std::string_view words[]{"",   "two words", "3d",        "a-b",  "#5",
                                              "?x", "plain",     "z3 4.8.12", "real", "if"};
    return std::string{words[random_.below(std::size(words))]};
  }
  std::vector<term> side() {
    std::vector<term> all;
    for (auto n = 1 + random_.below(3); n > 0; --n) {
      all.push_back(term_of(3));
    }
    return all;
  }
  term term_of(int depth) {
    term t;
    t.name = name();
    const auto what = depth == 0 ? random_.below(2) : random_.below(6);
    if (what < 2) {
      t.kind = what == 0 ? term::form::variable : term::form::indexed_variable;
    } else {
      for (auto n = random_.below(3); n > 0; --n) {
        t.attributes.push_back({name(), expression_of(2)});
      }
      t.open = coin();
      for (auto n = random_.below(4); n > 0; --n) {
        t.operands.push_back(term_of(depth - 1));
      }
    }
    t.selector = coin() ? term::whole : static_cast<int>(random_.between(-1, 12));
    t.repeated = random_.below(4) == 0;
    return t;
  }
  expression expression_of(int depth) {
    using form = expression::form;
    switch (depth == 0 ? random_.below(5) : random_.below(9)) {
      case 0: return {form::integer, static_cast<std::int64_t>(random_() >> (1 + random_.below(62))), {}, {}};
      case 1: return {form::real, real_bits(), {}, {}};
      case 2: return {form::word, 0, word(), {}};
      case 3: return {form::variable, 0, name(), {}};
      case 4: return {form::indexed_variable, 0, name(), {}};
      case 5: return {form::list, 0, {}, arguments(depth)};
      case 6: return {form::call, 0, name(), arguments(depth)};
      case 7: return {form::call, 0, coin() ? "-" : "!", {expression_of(depth - 1)}};
      default: return {form::call, 0, binary_name(), {expression_of(depth - 1), expression_of(depth - 1)}};
    }
  }
  std::string binary_name() {
    static constexpr std::string_view names[]{"||", "&&", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%"};
    return std::string{names[random_.below(std::size(names))]};
  }
  std::vector<expression> arguments(int depth) {
    std::vector<expression> all;
    for (auto n = random_.below(4); n > 0; --n) {
      auto e = expression_of(depth - 1);
      all.push_back(coin() ? std::move(e) : expression{expression::form::pack, 0, {}, {std::move(e)}});
    }
    return all;
  }
  std::int64_t real_bits() {
    static constexpr double reals[]{0, 0.5, 1e-5, 1e22, 3, 0.1, 5e-324, 1.7976931348623157e308, 123456789.125};
    return std::bit_cast<std::int64_t>(reals[random_.below(std::size(reals))]);
  }

  random_engine random_;
};

}  // namespace

TEST_CASE("parse_rules reads names and sides and clauses of rules") {
  const auto rules = parse_rules(R"(
    rule one  f(?x) => ?x
    rule two
      (f{a=1, b=?k, ..}(?x, ??w...), g().2) == (h(?x).*..., ??w)
      if ?k > 2, size(??w, 1) == 3
      safe inference real tested 60
    rule three f() => g() proved "z3 4.8.12" by add_assoc, rule safe training
    rule four f() => g() assumed
  )");
  REQUIRE(rules.size() == 4);
  CHECK(rules[0].name == "one");
  CHECK_FALSE(rules[0].both_ways);
  CHECK(rules[0].target.at(0).kind == term::form::variable);

  const auto& two = rules[1];
  CHECK(two.both_ways);
  REQUIRE(two.source.size() == 2);
  CHECK(two.source[0].open);
  REQUIRE(two.source[0].attributes.size() == 2);
  CHECK(two.source[0].attributes[1] == syntax::attribute_binding{"b", {expression::form::variable, 0, "k", {}}});
  CHECK(two.source[0].operands.at(1).repeated);
  CHECK(two.source[0].operands[1].kind == term::form::indexed_variable);
  CHECK(two.source[1].selector == 2);
  CHECK(two.target.at(0).selector == term::each);
  CHECK(two.target[0].repeated);
  CHECK(two.conditions.size() == 2);
  CHECK(two.safe_for == "inference");
  CHECK(two.real_only);
  CHECK(two.known == syntax::standing::tested);
  CHECK(two.tested_bits == 60);

  CHECK(rules[2].known == syntax::standing::proved);
  CHECK(rules[2].prover == "z3 4.8.12");
  CHECK(rules[2].axioms == std::vector<std::string>{"add_assoc", "rule"});
  CHECK(rules[2].safe_for == "training");
  CHECK(rules[3].known == syntax::standing::assumed);
  CHECK(parse_rules("# nothing\n").empty());
}

TEST_CASE("rule expressions use C precedence and left associativity") {
  CHECK(condition("1 + 2 * 3 - 4 == 5 && 6 || 7") == condition("((((1 + (2 * 3)) - 4) == 5) && 6) || 7"));
  CHECK(condition("8 / 4 / 2 % 3") == condition("((8 / 4) / 2) % 3"));
  CHECK(condition("-?a * !?b") == condition("(-?a) * (!?b)"));
  CHECK(condition("1 - 2 - 3") != condition("1 - (2 - 3)"));
  CHECK(condition("[1, [], size(??w, 0)...]").arguments.at(2).kind == expression::form::pack);
}

TEST_CASE("a rule parse error states position and what was found and expected") {
  CHECK(message("f(?x) => ?x") == "r:1:1: found 'f'; expected 'rule'");
  CHECK(message("rule 3") == "r:1:6: found '3'; expected a rule's name");
  CHECK(message("rule a f(?x) = ?x") == "r:1:14: found '='; expected '==' or '=>'");
  CHECK(message("rule a\n  f(?x => ?x") == "r:2:8: found '=>'; expected ')'");
  CHECK(message("rule a f{=1}(?x) => ?x") == "r:1:10: found '='; expected an attribute's name or '..'");
  CHECK(message("rule a f{}(?x) => ?x") == "r:1:10: found '}'; expected an attribute's name or '..'");
  CHECK(message("rule a f{.., b=1}(?x) => ?x") == "r:1:12: found ','; expected '}'");
  CHECK(message("rule a f{b 1}(?x) => ?x") == "r:1:12: found '1'; expected '='");
  CHECK(message("rule a f(? x) => ?x") == "r:1:12: found 'x'; expected a variable's name after '?'");
  CHECK(message("rule a f => ?x") == "r:1:10: found '=>'; expected '('");
  CHECK(message("rule a f(?x) => ?x sometimes") ==
        "r:1:20: found 'sometimes'; expected 'if', 'safe', 'tested', 'proved', 'assumed', 'real' or 'rule'");
  CHECK(message("rule a f(?x) => ?x safe 3") == "r:1:25: found '3'; expected the use that the rule is safe for");
  CHECK(message("rule a f(?x) => ?x tested often") == "r:1:27: found 'often'; expected an integer of 64 bits");
  CHECK(message("rule a f(?x) => ?x proved z3") ==
        "r:1:27: found 'z3'; expected the prover's name and version in quotes");
  CHECK(message("rule a f(?x) => ?x proved \"z\" by") == "r:1:33: found end of file; expected an axiom's name");
  CHECK(parse_rules("rule a f(?x) => ?x proved \"z\" by b tested 3").at(0).axioms.empty());
  CHECK(message("rule a f(?x) => ?x if") ==
        "r:1:22: found end of file; expected a number, a word, a variable, a list or a call");
  CHECK(message("rule a f(?x) => ?x if 1 +, 2") ==
        "r:1:26: found ','; expected a number, a word, a variable, a list or a call");
  CHECK(message("rule a (f(?x), ) => ?x") == "r:1:16: found ')'; expected an operator or a variable");
  CHECK(message("rule a f(?x) => ?x )") == "r:1:20: found ')'; expected 'rule'");
}

TEST_CASE("real numbers are printed with a dot or an exponent unless they are infinite or NaN") {
  CHECK(real_text(2) == "2.0");
  CHECK(real_text(-0.5) == "-0.5");
  CHECK(real_text(1e300) == "1e+300");
  CHECK(real_text(-std::numeric_limits<double>::infinity()) == "-inf");
  CHECK(real_text(std::numeric_limits<double>::quiet_NaN()) == "nan");
}

TEST_CASE("numbers out of range in rule text are refused") {
  CHECK(message("rule a f(?x).4294967296 => ?x") == "r:1:14: found '4294967296'; expected an integer of 31 bits");
  CHECK(message("rule a f(?x) => ?x tested 4294967296") ==
        "r:1:27: found '4294967296'; expected an integer of 31 bits");
  CHECK(message("rule a f(?x).1.5 => ?x") == "r:1:14: found '1.5'; expected an integer of 64 bits");
  CHECK(message("rule a f{k=9223372036854775808}(?x) => ?x") ==
        "r:1:12: found '9223372036854775808'; expected an integer of 64 bits");
  CHECK(condition("9223372036854775807").integer == INT64_MAX);
  CHECK(message("rule a f{k=1e999}(?x) => ?x") == "r:1:12: found '1e999'; expected a number that a double can hold");
}

TEST_CASE("excessive nesting or length of rule text is refused") {
  const auto nested = [](std::string_view open, std::size_t n) {
    std::string text;
    for (std::size_t i = 0; i < n; ++i) {
      text += open;
    }
    return text;
  };
  for (const auto* open : {"(", "[", "-", "!", "f("}) {
    CAPTURE(open);
    CHECK_THAT(message("rule a f(?x) => ?x if " + nested(open, 100000)),
               Catch::Contains("at most 200 levels of nesting"));
  }
  CHECK_THAT(message("rule a " + nested("f(", 100000)), Catch::Contains("at most 200 levels of nesting"));
  CHECK_THAT(message("rule a f(?x) => ?x if 1" + nested(" + 1", 100000)),
             Catch::Contains("at most 1000 operators in a rule"));
  CHECK(message("rule a f(?x) => ?x if " + nested("(", 100) + "1" + nested(")", 100)).empty());
  CHECK(message("rule a f(?x) => ?x if 1" + nested(" + 1", 900)).empty());
}

TEST_CASE("random rules round-trip through printing and parsing", "[law]") {
  for (std::uint64_t seed = 0; seed < unity::test::cases(3000); ++seed) {
    random_syntax random{seed};
    const auto rule = random.rule();
    const auto text = to_text(rule);
    CAPTURE(seed, text);
    std::vector<syntax::rule> again;
    REQUIRE_NOTHROW(again = parse_rules(text));
    REQUIRE(again == std::vector{rule});
  }
}

TEST_CASE("damaged rule text parses or gives a one-line error that names the file", "[law]") {
  const std::string good =
      "rule two (f{a=1, b=?k, ..}(?x, ??w...), g().2) == (h(?x).*..., ??w)\n if ?k > 2, size(??w, 1) == \"x\" real "
      "tested 60\n";
  for (std::uint64_t seed = 0; seed < unity::test::cases(20000); ++seed) {
    random_engine random{seed};
    auto text = good;
    for (auto n = 1 + random.below(4); n > 0; --n) {
      const auto at = random.below(text.size());
      switch (random.below(3)) {
        case 0: text[at] = static_cast<char>(random.below(256)); break;
        case 1: text.erase(at, 1 + random.below(5)); break;
        default: text.insert(at, 1, "(){}[].,?\"=<>!-#0e"[random.below(18)]); break;
      }
    }
    CAPTURE(seed, text);
    const auto said = message(text);
    REQUIRE((said.empty() || said.substr(0, 2) == "r:"));
    REQUIRE(said.find('\n') == std::string::npos);
  }
}

}  // namespace tests_of_parse
