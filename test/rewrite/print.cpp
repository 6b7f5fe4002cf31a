#include <bit>
#include <cstdint>
#include <string>

#include <catch2/catch.hpp>

#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/syntax.hpp>

namespace tests_of_print {

using namespace unity;
using expression = syntax::expression;

namespace {

std::string again(const std::string& condition) {
  return to_text(parse_rules("rule r f(?x) => ?x if " + condition).at(0).conditions.at(0));
}

}  // namespace

TEST_CASE("rules are printed with one clause per line and without defaults") {
  const auto rules = parse_rules(
      R"(rule full (f{a=1,..}(?x,??w...),g().2)==(h(?x).*...,??w) if ?k>2,?k<9 safe inference real proved "z3 4.8.12" by zero_one ,
 two
                                    rule plain f(?x)=>?x assumed)");
  CHECK(to_text(rules[0]) ==
        "rule full\n"
        "  (f{a=1, ..}(?x, ??w...), g().2) == (h(?x).*..., ??w)\n"
        "  if ?k > 2, ?k < 9\n"
        "  safe inference\n"
        "  real\n"
        "  proved \"z3 4.8.12\" by zero_one, two\n");
  CHECK(to_text(rules[1]) == "rule plain\n  f(?x) => ?x\n");
}

TEST_CASE("rule expressions are printed with only the needed parentheses") {
  CHECK(again("1+(2*3)") == "1 + 2 * 3");
  CHECK(again("(1+2)*3") == "(1 + 2) * 3");
  CHECK(again("(1-2)-3") == "1 - 2 - 3");
  CHECK(again("1-(2-3)") == "1 - (2 - 3)");
  CHECK(again("?a==(1==2)||?b<3&&?c") == "?a == (1 == 2) || ?b < 3 && ?c");
  CHECK(again("(?a||?b)&&?c") == "(?a || ?b) && ?c");
  CHECK(again("-?a") == "-?a");
  CHECK(again("-(-?a)") == "--?a");
  CHECK(again("-(?a*2)--?b") == "-(?a * 2) - -?b");
  CHECK(again("!(?a==1)") == "!(?a == 1)");
  CHECK(again("f(1,[?a,??b...])") == "f(1, [?a, ??b...])");
}

TEST_CASE("deep and long rule expressions round-trip through printing") {
  const std::string deep = std::string(199, '-') + "?a";
  CHECK(again(deep) == deep);
  std::string row = "?a";
  for (int i = 0; i < 500; ++i) {
    row += " + ?b * 3";
  }
  CHECK(again(row) == row);
  std::string nested = "?a";
  for (int i = 0; i < 198; ++i) {
    nested = "1 - (2 + " + nested + ")";
  }
  CHECK(again(nested) == nested);
}

TEST_CASE("a printed word is quoted unless it is a valid name") {
  CHECK(again("same") == "same");
  CHECK(again("\"same\"") == "same");
  CHECK(again("\"two words\"") == "\"two words\"");
  CHECK(again("\"2d\"") == "\"2d\"");
  CHECK(again("\"\"") == "\"\"");
}

TEST_CASE("reals in rule text are printed as reals and round-trip exactly") {
  CHECK(again("1e-05") == "1e-05");
  CHECK(again("2.0") == "2.0");
  CHECK(again("0.1") == "0.1");
  CHECK(again("1e22") == "1e+22");
  const expression third{expression::form::real, std::bit_cast<std::int64_t>(1.0 / 3), {}, {}};
  CHECK(parse_rules("rule r f(?x) => ?x if " + to_text(third)).at(0).conditions.at(0) == third);
}

}  // namespace tests_of_print
