// Beam search against the dynamic program, and on graphs that are too large for it.

#include <unity/placement/find_memory_plan.hpp>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/core/random.hpp>
#include <unity/core/units.hpp>
#include <unity/placement/memory_graph.hpp>
#include <unity/placement/memory_plan.hpp>
#include <unity/placement/memory_program.hpp>
#include <unity/systems/roc/vertex_memory.hpp>

#include "../support/cases.hpp"
#include "memory_oracles.hpp"

namespace tests_of_bounded_memory_search {

using namespace unity;
using namespace unity::placement;

TEST_CASE("an unlimited beam is optimal and a narrow one bounds the optimum from both sides") {
  const std::uint64_t seed = 51;
  INFO("seed " << seed);
  random_engine random{seed};
  std::size_t proved = 0;
  for (std::size_t i = 0; i < test::cases(300); ++i) {
    const auto g = test::random_memory_graph(random, 1 + random.below(9), random.below(4), random.below(2) == 0);
    const auto least = least_capacity(g).size;
    const auto capacity = least + bytes{random.between(0, least.count() / 3 + 1)};
    INFO("graph " << i);
    const auto best = replay(g, *optimal_memory_plan(g, capacity), capacity).loaded;
    const auto wide = bounded_memory_search(g, capacity, {100'000, 10'000});
    CHECK(wide.loaded == best);
    CHECK(wide.bound == best);
    for (const auto width : {1UL, 3UL}) {
      const auto narrow = bounded_memory_search(g, capacity, {width, 2});
      CHECK(replay(g, narrow.plan, capacity).loaded == narrow.loaded);
      CHECK(narrow.loaded >= best);
      CHECK(narrow.bound <= best);
      const auto hasty = bounded_memory_search(g, capacity, {width, 1, 10 + random.below(400)});
      CHECK(hasty.loaded >= best);
      CHECK(hasty.bound <= best);
      proved += narrow.loaded == narrow.bound ? 1U : 0U;
    }
  }
  CHECK(proved > test::cases(300));
}

TEST_CASE("the memory search bound covers choices that are not tried") {
  const std::uint64_t seed = 57;
  INFO("seed " << seed);
  random_engine random{seed};
  for (std::size_t i = 0; i < test::cases(100); ++i) {
    memory_graph g;  // a chain that reads each of twelve tensors of random sizes twice
    std::vector<tensor_id> all;
    for (std::size_t t = 0; t < 12; ++t) {
      all.push_back(g.add_tensor("w", bytes{random.between(5, 20)}));
    }
    auto last = g.add_tensor("x", bytes{1});
    for (std::size_t o = 0; o < 12; ++o) {
      const auto next = g.add_tensor("y", bytes{1});
      g.add_operator("o", {last, all[2 * o % 12], all[(2 * o + 1) % 12]}, {next});
      last = next;
    }
    const bytes capacity{random.between(70, 110)};
    const auto best = replay(g, *optimal_memory_plan(g, capacity), capacity).loaded;
    const auto found = bounded_memory_search(g, capacity, {100'000, 1});
    CHECK(found.bound <= best);
    CHECK(found.loaded >= best);
  }
}

TEST_CASE("plans of 100-operator graphs run and beat or match baselines and have a bound") {
  const std::uint64_t seed = 53;
  INFO("seed " << seed);
  random_engine random{seed};
  for (std::size_t i = 0; i < test::cases(6); ++i) {
    const auto g = test::random_memory_graph(random, 100, 20, i % 2 == 0);
    const auto least = least_capacity(g).size.count();
    for (const auto share : {4, 5, 8}) {
      const bytes capacity{least * share / 4};
      const auto found = bounded_memory_search(g, capacity, {16, 8});
      CHECK(replay(g, found.plan, capacity).loaded == found.loaded);
      CHECK(found.bound <= found.loaded);
      CHECK(found.bound >= input_bytes(g));
      for (auto* const baseline : {streaming_plan, lru_plan, largest_first_plan, farthest_first_plan}) {
        CHECK(found.loaded <= replay(g, baseline(g, capacity), capacity).loaded);
      }
    }
  }
}

// Each level has up to 200 ready operators, which must share the level's part of the work: all of them would take a
// thousand times as long.
TEST_CASE("the work of a memory search bounds its time on wide graphs") {
  const std::uint64_t seed = 59;
  INFO("seed " << seed);
  random_engine random{seed};
  memory_graph g;
  std::vector<tensor_id> all;
  for (std::size_t t = 0; t < 60; ++t) {
    all.push_back(g.add_tensor("w", bytes{1}));
  }
  for (std::size_t o = 0; o < 200; ++o) {
    const auto first = random.below(60);
    g.add_operator("o", {all[first], all[(first + 1 + random.below(59)) % 60]}, {});
  }
  const auto start = std::chrono::steady_clock::now();
  const auto found = bounded_memory_search(g, bytes{10}, {256, 16, 20'000});
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds{5});
  CHECK(replay(g, found.plan, bytes{10}).loaded == found.loaded);
  CHECK(found.bound <= found.loaded);
}

TEST_CASE("the bounded memory search finds and proves the optimum for Reddit") {
  const auto g = systems::gcn_memory(systems::reddit, std::vector<std::int64_t>{602, 256, 256, 41});
  const bytes capacity{std::int64_t{1796} << 20U};
  const auto found = bounded_memory_search(g, capacity);
  CHECK(found.loaded == replay(g, *optimal_memory_plan(g, capacity), capacity).loaded);
  CHECK(found.bound == found.loaded);
  CHECK_THROWS_WITH(bounded_memory_search(g, bytes{1}),
                    Catch::StartsWith("memory plan: a capacity of 1 bytes; expected "));
}

TEST_CASE("the bounded memory search of an empty graph returns an empty plan") {
  CHECK(bounded_memory_search(memory_graph{}, bytes{}).plan.empty());
  CHECK(bounded_memory_search(memory_graph{}, bytes{}).loaded == bytes{});
}

}  // namespace tests_of_bounded_memory_search
