#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/rewrite/verification/prover.hpp>

#include "../../support/ground_problems.hpp"

namespace tests_of_prover {

using namespace unity;
using namespace unity::test;

namespace {

struct nameless {
  [[nodiscard]] prover_answer decide(const ground_problem&) const { return {}; }
};
struct undecided {
  [[nodiscard]] std::string name() const { return "none"; }
  [[nodiscard]] bool decide(const ground_problem&) const { return false; }
};

static_assert(prover<congruence_prover>);
static_assert(!prover<nameless>);
static_assert(!prover<undecided>);

}  // namespace

TEST_CASE("the congruence prover gives expected verdicts and needed equalities") {
  for (const auto& c : ground_problems()) {
    INFO(c.what);
    const auto answer = congruence_prover{}.decide(c.problem);
    CHECK(answer.found == c.expected);
    CHECK(answer.used == c.used);
  }
}

}  // namespace tests_of_prover
