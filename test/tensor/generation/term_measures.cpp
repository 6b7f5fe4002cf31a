#include <unity/tensor/generation/term_measures.hpp>

#include <string>
#include <string_view>

#include <catch2/catch.hpp>

#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/syntax.hpp>

namespace tests_of_term_measures {

using namespace unity;

namespace {

std::string simplified(std::string_view expression) {
  const auto rule = parse_rules("rule r relu(?x) => ?x if " + std::string{expression}).at(0);
  return to_text(tensor::detail::simplified_expression(rule.conditions.at(0)));
}

}  // namespace

TEST_CASE("simplified_expression computes with integers unless the result overflows") {
  CHECK(simplified("rank(?x) == 2 + 3 * 4") == simplified("rank(?x) == 14"));
  CHECK(simplified("rank(?x) == -3 - 4") == simplified("rank(?x) == -7"));
  CHECK(simplified("3 < 4") == "1");
  CHECK(simplified("4 <= 3") == "0");
  for (const auto* large : {"9223372036854775807 + 1", "-9223372036854775807 - 2", "9223372036854775807 * 2"}) {
    const auto text = "rank(?x) == " + std::string{large};
    CHECK(simplified(text) == text);
  }
}

}  // namespace tests_of_term_measures
