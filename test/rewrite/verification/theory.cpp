#include <cstddef>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/error.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/verification/theory.hpp>

#include "../../support/circuits.hpp"
#include "../../support/matrices.hpp"

namespace tests_of_theory {

using namespace unity;
using namespace unity::test;

namespace {

theory of(const std::string& text, theory_options options = {}) { return {matrices{}, parse_rules(text), options}; }

std::size_t anchored_at(const theory& t, const char* kind) { return t.forms_at(*matrices{}.find_kind(kind)).size(); }

}  // namespace

TEST_CASE("a theory has a form for each side of an axiom that binds all variables") {
  for (const auto* arrow : {"==", "=>"}) {
    const auto t = of("rule r power(?x) " + std::string{arrow} + " mul(?x, ?x)");
    CHECK(t.forms().size() == 2);
    CHECK(anchored_at(t, "power") == 1);
    CHECK(anchored_at(t, "mul") == 1);
    CHECK(t.forms()[0].axiom == 0);
    CHECK_FALSE(t.forms()[0].reversed);
    CHECK(t.forms()[1].reversed);
  }
  CHECK(of("rule r scale{by=?j}(scale{by=?k}(?x)) => scale{by=?j * ?k}(?x)").forms().size() == 1);
}

TEST_CASE("a theory of rewrites uses a one-way axiom in its direction only") {
  const theory_options rewrites{.reading = theory_reading::rewrites};
  const auto one_way = of("rule r power(?x) => mul(?x, ?x)", rewrites);
  REQUIRE(one_way.forms().size() == 1);
  CHECK(anchored_at(one_way, "power") == 1);
  CHECK(of("rule r power(?x) == mul(?x, ?x)", rewrites).forms().size() == 2);
  CHECK(of("rule r scale{by=2}(transpose(transpose(?x))) => ?x", rewrites).forms().size() == 1);
}

TEST_CASE("a theory triggers a variable side by the smallest part that binds all variables") {
  const auto t = of("rule r scale{by=2}(transpose(transpose(?x))) => ?x");
  REQUIRE(t.forms().size() == 2);
  CHECK(anchored_at(t, "scale") == 1);
  CHECK(anchored_at(t, "transpose") == 1);
  CHECK(t.forms()[1].built.size() == 2);
  CHECK(t.depth() == 3);

  // The transpose alone does not bind ?k, and operators with open attributes cannot be built.
  CHECK(of("rule r scale{by=?k}(transpose(?x)) => ?x").forms().size() == 1);
  CHECK(of("rule r scale{..}(transpose(?x)) => ?x").forms().size() == 1);
}

TEST_CASE("an axiom with a constant beside a variable has a form with a free variable") {
  const theory t{circuits{}, parse_rules("rule r and(?x, one()) => ?x")};
  REQUIRE(t.forms().size() == 2);
  CHECK(t.forms()[1].free_variable == 0);
  CHECK(t.forms()[1].joint);
}

TEST_CASE("a theory writes repetitions out up to its limit and repeated roots from two") {
  CHECK(of("rule r concat{axis=?a}(power(??x)...) == power(concat{axis=?a}(??x...))", {.most_repetitions = 3})
            .forms()
            .size() == 6);
  const auto t = of("rule r power(??x)... => power(??x)...", {.most_repetitions = 3});
  CHECK(t.forms().size() == 4);
  CHECK(t.forms()[0].joint);
  CHECK(t.forms()[0].steps.size() == 2);
}

TEST_CASE("a theory refuses an axiom that does not fit the algebra and names it") {
  CHECK_THROWS_WITH(of("rule odd nothing(?x) => ?x"), Catch::Contains("rule odd") && Catch::Contains("nothing"));
  theory t;
  CHECK_THROWS_AS(t.add(matrices{}, parse_rules("rule odd transpose(?x) => ?y").at(0)), error);
  CHECK(t.rules().empty());
  CHECK(t.add(matrices{}, parse_rules("rule even transpose(?x) => ?x").at(0)) == 0);
  CHECK(t.rules().size() == 1);
}

}  // namespace tests_of_theory
