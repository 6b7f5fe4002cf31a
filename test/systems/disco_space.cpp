// DisCo's space: its laws, and different searches of it compared.
#include <unity/systems/disco.hpp>

#include <cstdint>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/search/backtracking.hpp>
#include <unity/search/beam.hpp>
#include <unity/search/laws.hpp>
#include <unity/search/mcmc.hpp>
#include <unity/search/search_space.hpp>

#include "../fusion/random_instructions.hpp"
#include "../support/cases.hpp"

namespace disco_space_test {

using namespace unity;
using namespace unity::systems;

static_assert(search_space<disco_space>);
static_assert(measured_space<disco_space>);
static_assert(sizeof(disco_space::move_type) == 8);

TEST_CASE("DisCo's space satisfies the laws of search spaces") {
  const auto seed = GENERATE(range(std::uint64_t{1}, 1 + test::cases(12)));
  INFO("seed " << seed);
  random_engine random{seed};
  const auto g = test::random_instructions(random, 60);
  const auto t = test::random_target(random);
  disco_moves moves;
  moves.is_exhaustive = seed % 3 == 0;
  disco_space space{g, t, fusion::unfused(g), moves};
  walk_options o;
  o.seed = seed;
  o.steps = 30;
  const auto broken = broken_law(space, o);
  CHECK(!broken);
}

TEST_CASE("on small graphs backtracking finds DisCo's exact optimum in at least 90% of cases") {
  int equal = 0;
  const auto count = test::cases(12);
  for (std::uint64_t seed = 1; seed <= count; ++seed) {
    INFO("seed " << seed);
    random_engine random{seed};
    const auto g = test::random_instructions(random, 13);
    const auto t = test::random_target(random);
    disco_moves all;
    all.is_exhaustive = true;
    disco_space every{g, t, fusion::unfused(g), all};
    const auto proven = exact(every);
    REQUIRE(proven.stopped == stop_reason::exhausted);
    disco_moves sampled;
    sampled.most = 3;
    disco_space space{g, t, fusion::unfused(g), sampled};
    backtracking_options o;
    o.alpha = 1.2;
    o.patience = 300;
    const auto found = backtracking(space, o);
    REQUIRE(found.cost >= proven.cost);
    equal += found.cost == proven.cost ? 1 : 0;
  }
  CHECK(10 * static_cast<std::uint64_t>(equal) >= 9 * count);
}

TEST_CASE("DisCo's backtracking finds the same strategy with one and with three threads") {
  random_engine random{5};
  const auto g = test::random_instructions(random, 150);
  const auto t = test::random_target(random);
  disco_moves moves;
  moves.samples = 200;
  backtracking_options o;
  o.limits.expansions = 20;
  disco_space space{g, t, fusion::unfused(g), moves};
  const auto one = backtracking(space, o);
  o.threads = 3;
  disco_space again{g, t, fusion::unfused(g), moves};
  const auto three = backtracking(again, o);
  CHECK(one.cost < space.initial().cost);
  CHECK(one.best.strategy == three.best.strategy);
  CHECK(one.history.size() == three.history.size());
}

}  // namespace disco_space_test
