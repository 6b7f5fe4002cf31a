// The memory manager's dynamic program, against exhaustive search and against ROC's chapter.

#include <unity/placement/memory_program.hpp>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/core.h>

#include <unity/core/budget.hpp>
#include <unity/core/random.hpp>
#include <unity/core/units.hpp>
#include <unity/placement/memory_graph.hpp>
#include <unity/placement/memory_plan.hpp>
#include <unity/search/dynamic_programming.hpp>
#include <unity/systems/roc/vertex_memory.hpp>

#include "../support/cases.hpp"
#include "memory_oracles.hpp"

namespace tests_of_memory_program {

using namespace unity;
using namespace unity::placement;

static_assert(decomposition<memory_program>);
static_assert(has_decided_combination<memory_program>);
static_assert(numbered_goals<memory_program>);

namespace {

bytes loaded_by_program(const memory_graph& g, bytes capacity) {
  const auto plan = optimal_memory_plan(g, capacity);
  REQUIRE(plan);
  return replay(g, *plan, capacity).loaded;
}

// MiB, rounded: the unit of ROC's numbers on Reddit.
std::int64_t megabytes(bytes b) { return (b.count() + (std::int64_t{1} << 19U)) >> 20U; }

std::vector<std::int64_t> megabytes_on(const memory_graph& g, bytes capacity) {
  return {megabytes(replay(g, streaming_plan(g, capacity), capacity).loaded),
          megabytes(replay(g, lru_plan(g, capacity), capacity).loaded), megabytes(loaded_by_program(g, capacity))};
}

}  // namespace

TEST_CASE("the memory program's plan matches exhaustive search on up to 9 operators") {
  const std::uint64_t seed = 2026;
  INFO("seed " << seed);
  random_engine random{seed};
  for (std::size_t i = 0; i < test::cases(300); ++i) {
    const auto g = test::random_memory_graph(random, 1 + random.below(9), random.below(3));
    const auto least = least_capacity(g).size.count();
    const bytes capacity{least + random.between(0, least / 2 + 1)};
    INFO("graph " << i << " of " << g.operator_count() << " operators, " << capacity.count() << " bytes");
    CHECK(loaded_by_program(g, capacity).count() == test::least_of_all_plans(g, capacity.count()));
  }
}

TEST_CASE("the memory program's plan matches enumeration of all plans on up to 4 operators") {
  const std::uint64_t seed = 7;
  INFO("seed " << seed);
  random_engine random{seed};
  for (std::size_t i = 0; i < test::cases(200); ++i) {
    const auto g = test::random_memory_graph(random, 1 + random.below(4), random.below(3));
    const auto least = least_capacity(g).size.count();
    const auto capacity = least + random.between(0, least / 2 + 1);
    INFO("graph " << i);
    const test::every_plan all{g, capacity};
    CHECK(all.least() == test::least_of_all_plans(g, capacity));
    CHECK(all.least() == loaded_by_program(g, bytes{capacity}).count());
  }
}

TEST_CASE("algorithm 3 as printed caches nothing and its corrected form is optimal") {
  const std::uint64_t seed = 11;
  INFO("seed " << seed);
  random_engine random{seed};
  std::size_t better = 0;
  for (std::size_t i = 0; i < test::cases(100); ++i) {
    const auto g = test::random_memory_graph(random, 2 + random.below(6), 1 + random.below(2));
    const auto least = least_capacity(g).size;
    const auto capacity = least + bytes{random.between(0, least.count())};
    INFO("graph " << i);
    test::algorithm_3 printed{g, capacity.count(), false};
    test::algorithm_3 right{g, capacity.count(), true};
    const auto best = loaded_by_program(g, capacity).count();
    CHECK(printed.cost() == replay(g, streaming_plan(g, capacity), capacity).loaded.count());
    CHECK(right.cost() == best);
    better += best < printed.cost() ? 1U : 0U;
  }
  CHECK(better > test::cases(100) / 2);
}

TEST_CASE("optimal loads do not grow with capacity and are at most those of baselines") {
  const std::uint64_t seed = 5;
  INFO("seed " << seed);
  random_engine random{seed};
  for (std::size_t i = 0; i < test::cases(60); ++i) {
    const auto g = test::random_memory_graph(random, 3 + random.below(8), 1 + random.below(3));
    const auto least = least_capacity(g).size.count();
    auto before = test::impossible;
    for (auto capacity = least; capacity <= 2 * least + 40; capacity += 1 + least / 6) {
      const auto loaded = loaded_by_program(g, bytes{capacity}).count();
      CHECK(loaded <= before);
      CHECK(loaded >= input_bytes(g).count());
      before = loaded;
      for (auto* const baseline : {streaming_plan, lru_plan, largest_first_plan, farthest_first_plan}) {
        CHECK(replay(g, baseline(g, bytes{capacity}), bytes{capacity}).loaded.count() >= loaded);
      }
    }
    CHECK(loaded_by_program(g, bytes{1'000'000}) == input_bytes(g));
  }
}

TEST_CASE("the memory program prefers fewer stores among equal loads") {
  // While `large` runs, only one of an input and a computed tensor of equal size fits.
  const auto stored = [](bool is_input_first, bool is_read_before) {
    memory_graph g;
    const auto first = g.add_tensor("first", bytes{10});
    const auto second = g.add_tensor("second", bytes{10});
    const auto x = is_input_first ? first : second;
    const auto y = is_input_first ? second : first;
    const auto large = g.add_tensor("large", bytes{20});
    const auto done = g.add_tensor("done", bytes{});
    const auto ready = g.add_tensor("ready", bytes{});
    g.add_operator("first", {x}, {y, ready});
    const auto again = g.add_tensor("again", bytes{});
    g.add_operator("again", is_read_before ? std::vector{x, y} : std::vector{ready}, {again});
    g.add_operator("large", {large, again}, {done});
    g.add_operator("last", {x, y, done}, {});
    const auto plan = optimal_memory_plan(g, bytes{30});
    REQUIRE(plan);
    const auto t = replay(g, *plan, bytes{30});
    CHECK(t.loaded == bytes{40});
    return t.stored;
  };
  CHECK(stored(false, false) == bytes{});
  CHECK(stored(true, false) == bytes{});
  CHECK(stored(false, true) == bytes{});
  CHECK(stored(true, true) == bytes{});
}

TEST_CASE("a capacity below the minimum is refused with the minimum in one line") {
  const auto g = systems::gin_memory({100, 1000}, 16, 8, 4);
  const auto least = least_capacity(g).size;
  CHECK_NOTHROW(optimal_memory_plan(g, least));
  CHECK_THROWS_WITH(optimal_memory_plan(g, least - bytes{1}),
                    fmt::format("memory plan: a capacity of {} bytes; expected {} bytes at least, which operator {}",
                                least.count() - 1, least.count(), "5 (linear+relu backward) reads and writes"));
}

TEST_CASE("loads on Reddit of streaming and LRU and the program match the ROC reproduction") {
  const auto gin = systems::gin_memory(systems::reddit, 602, 256, 41);
  const auto two = systems::gcn_memory(systems::reddit, std::vector<std::int64_t>{602, 256, 41});
  const auto three = systems::gcn_memory(systems::reddit, std::vector<std::int64_t>{602, 256, 256, 41});
  const auto unit = [](std::int64_t count) { return bytes{count << 20U}; };
  CHECK(megabytes_on(gin, unit(2000)) == std::vector<std::int64_t>{4539, 1415, 976});
  // 1,122 is the least capacity (1,176,927,636 bytes), rounded down.
  CHECK(megabytes(least_capacity(two).size) == 1122);
  CHECK(megabytes_on(two, least_capacity(two).size) == std::vector<std::int64_t>{4342, 1511, 1511});
  CHECK(megabytes_on(two, unit(1796)) == std::vector<std::int64_t>{4342, 1511, 976});
  CHECK(megabytes_on(three, unit(1796)) == std::vector<std::int64_t>{6587, 1511, 1203});
}

TEST_CASE("the memory program takes under a second for 16 states with 12 live tensors") {
  memory_graph g;  // a chain of 15 operators; 12 tensors are live in the middle
  std::vector<tensor_id> shared;
  random_engine random{3};
  for (std::size_t i = 0; i < 11; ++i) {
    shared.push_back(g.add_tensor(fmt::format("w{}", i), bytes{random.between(10, 99)}));
  }
  auto last = g.add_tensor("x", bytes{50});
  for (std::size_t o = 0; o < 15; ++o) {
    std::vector<tensor_id> reads{last};
    for (std::size_t i = 0; i < shared.size(); ++i) {
      if (o == 14 || (i < 8 ? i / 2 : i - 4) == o) {
        reads.push_back(shared[i]);
      }
    }
    last = g.add_tensor(fmt::format("y{}", o), bytes{random.between(10, 99)});
    g.add_operator(fmt::format("o{}", o), reads, {last});
  }
  const auto program = memory_program::make(g, least_capacity(g).size);
  REQUIRE(program);
  CHECK(program->states().size() == 16);
  const auto most = std::max_element(program->states().begin(), program->states().end(),
                                     [](const auto& a, const auto& b) { return a.live.size() < b.live.size(); });
  CHECK(most->live.size() == 12);
  for (const auto share : {4, 6, 8, 16}) {
    const stopwatch watch;
    CHECK(optimal_memory_plan(g, bytes{least_capacity(g).size.count() * share / 4}));
    CHECK(watch.seconds() < 1);
  }
}

TEST_CASE("no memory program is made beyond its limits on states or alternatives") {
  random_engine random{1};
  const auto g = test::random_memory_graph(random, 9, 2);
  const auto capacity = least_capacity(g).size;
  CHECK(memory_program::make(g, capacity));
  CHECK_FALSE(memory_program::make(g, capacity, {9, 1U << 20U}));
  CHECK_FALSE(memory_program::make(g, capacity, {1U << 10U, 50}));
  memory_graph wide;  // 70 live tensors: more than a word has bits
  std::vector<tensor_id> all;
  for (std::size_t i = 0; i < 70; ++i) {
    all.push_back(wide.add_tensor("t", bytes{1}));
  }
  const auto x = wide.add_tensor("x", bytes{1});
  wide.add_operator("one", all, {x});
  all.push_back(x);
  wide.add_operator("two", all, {});
  CHECK_FALSE(memory_program::make(wide, least_capacity(wide).size));
}

TEST_CASE("the memory program's plan of a graph without operators is empty") {
  memory_graph g;
  g.add_tensor("unused", bytes{8});
  const auto plan = optimal_memory_plan(g, bytes{});
  REQUIRE(plan);
  CHECK(plan->empty());
  CHECK(replay(g, *plan, bytes{}).loaded == bytes{});
}

}  // namespace tests_of_memory_program
