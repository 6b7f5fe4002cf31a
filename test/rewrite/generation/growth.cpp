#include <unity/rewrite/generation/redundancy.hpp>

#include <string>
#include <string_view>

#include <catch2/catch.hpp>

#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/syntax.hpp>

namespace tests_of_growth {

using namespace unity;

namespace {

std::string useful(std::string_view statement) {
  const auto r = without_repeating(parse_rules("rule r " + std::string{statement}).at(0));
  return r ? to_text(r->source) + (r->both_ways ? " == " : " => ") + to_text(r->target) : "nothing";
}

}  // namespace

TEST_CASE("without_repeating drops a direction that only adds repeated operators") {
  CHECK(useful("not(not(not(?x))) == not(?x)") == "not(not(not(?x))) => not(?x)");
  CHECK(useful("not(?x) == not(not(not(?x)))") == "not(not(not(?x))) => not(?x)");
  CHECK(useful("not(?x) => not(not(not(?x)))") == "nothing");
  CHECK(useful("or(?x, and(?x, or(?x, ?y))) == or(?x, and(?x, ?y))") ==
        "or(?x, and(?x, or(?x, ?y))) => or(?x, and(?x, ?y))");
}

TEST_CASE("without_repeating keeps directions that add another operator or none") {
  CHECK(useful("and(?x, ?y) == not(or(not(?x), not(?y)))") == "and(?x, ?y) == not(or(not(?x), not(?y)))");
  CHECK(useful("shift{by=1}(?x) == shift{by=1}(widen(?x))") == "shift{by=1}(?x) == shift{by=1}(widen(?x))");
  CHECK(useful("shift{by=2}(?x) => shift{by=1}(shift{by=1}(?x))") == "shift{by=2}(?x) => shift{by=1}(shift{by=1}(?x))");
  CHECK(useful("or(not(?x), not(?y)) == not(or(?x, ?y))") == "or(not(?x), not(?y)) == not(or(?x, ?y))");
  CHECK(useful("and(?x, and(?y, ?z)) == and(and(?x, ?y), ?z)") == "and(?x, and(?y, ?z)) == and(and(?x, ?y), ?z)");
}

TEST_CASE("without_repeating counts a shared subterm once") {
  CHECK(useful("or(not(?x), not(?x)) == not(?x)") == "or(not(?x), not(?x)) == not(?x)");
}

}  // namespace tests_of_growth
