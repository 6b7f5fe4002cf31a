// Plans for a hand-made graph, as in docs/memory.md, and which method finds them.

#include <unity/placement/find_memory_plan.hpp>

#include <catch2/catch.hpp>
#include <cstdint>

#include <unity/core/error.hpp>
#include <unity/core/random.hpp>
#include <unity/core/units.hpp>
#include <unity/placement/load_bound.hpp>
#include <unity/placement/memory_graph.hpp>

#include "../support/cases.hpp"
#include "memory_oracles.hpp"

namespace tests_of_find_memory_plan {

using namespace unity;
using Catch::Matchers::Contains;

namespace {

placement::found_memory_plan planned_by_hand(bytes capacity) {
  placement::memory_graph g;
  const auto x = g.add_tensor("x", bytes{600});  // an input: no operator writes it
  const auto w = g.add_tensor("w", bytes{100});
  const auto h = g.add_tensor("h", bytes{300});
  const auto dh = g.add_tensor("dh", bytes{300});
  const auto dw = g.add_tensor("dw", bytes{100}, true);  // a result: it must be on the host in the end
  g.add_operator("forward", {x, w}, {h});
  g.add_operator("loss", {h}, {dh});
  g.add_operator("backward", {x, dh}, {dw});
  return placement::find_memory_plan(g, capacity);
}

}  // namespace

TEST_CASE("the found memory plan loads inputs once with enough memory and more with less") {
  const auto roomy = planned_by_hand(bytes{1200});
  CHECK(roomy.traffic.loaded == bytes{700});
  CHECK(roomy.traffic.stored == bytes{100});
  const auto narrow = planned_by_hand(bytes{1000});  // evicts x while the loss runs
  CHECK(narrow.traffic.loaded == bytes{1300});
  CHECK(narrow.is_best());
  CHECK(narrow.is_of_program);
  CHECK_THROWS_WITH(planned_by_hand(bytes{999}), Contains("1000 bytes at least") && Contains("forward"));
}

TEST_CASE("memory planning beyond the limits of the program searches with a bound") {
  const std::uint64_t seed = 61;
  INFO("seed " << seed);
  random_engine random{seed};
  for (std::uint64_t i = 0; i < test::cases(50); ++i) {
    const auto g = test::random_memory_graph(random, 2 + random.below(7), 2);
    const auto capacity = placement::least_capacity(g).size;
    const auto best = placement::find_memory_plan(g, capacity);
    const auto searched = placement::find_memory_plan(g, capacity, {{1, 1}, {}});
    CHECK(best.is_of_program);
    CHECK(best.is_best());
    CHECK_FALSE(searched.is_of_program);
    CHECK(searched.bound <= best.traffic.loaded);
    CHECK(searched.traffic.loaded >= best.traffic.loaded);
    CHECK(placement::least_loads(g, capacity) <= searched.bound);
    CHECK(searched.traffic.peak <= capacity);
  }
}

}  // namespace tests_of_find_memory_plan
