#include <string>

#include <catch2/catch.hpp>

#include <unity/rewrite/verification/prover.hpp>
#include <unity/rewrite/z3_prover.hpp>

#include "../support/ground_problems.hpp"

namespace tests_of_z3_prover {

using namespace unity;
using namespace unity::test;

static_assert(prover<z3_prover>);

TEST_CASE("the Z3 prover gives expected verdicts and needed equalities on ground problems") {
  for (const auto& c : ground_problems()) {
    INFO(c.what);
    const auto answer = z3_prover{}.decide(c.problem);
    CHECK(answer.found == c.expected);
    CHECK(answer.used == c.used);
    const auto again = z3_prover{}.decide(c.problem);
    CHECK(again.used == answer.used);
  }
}

TEST_CASE("the Z3 prover reports its version") { CHECK(z3_prover{}.name().starts_with("z3 4.")); }

TEST_CASE("the Z3 prover returns unknown at its resource limit") {
  // These ground problems need no case splits and are easy for Z3, so the resource limit of 1 is too low even for
  // congruence.
  const auto hard = ground_problems().back();
  CHECK(z3_prover{1}.decide(hard.problem).found == verdict::unknown);
}

}  // namespace tests_of_z3_prover
