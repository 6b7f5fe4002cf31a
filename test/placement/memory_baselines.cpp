#include <unity/placement/memory_plan.hpp>

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <list>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/random.hpp>
#include <unity/core/units.hpp>
#include <unity/placement/memory_graph.hpp>

#include "../support/cases.hpp"
#include "memory_oracles.hpp"

namespace tests_of_memory_baselines {

using namespace unity;
using namespace unity::placement;

namespace {

// Reference: an LRU cache that only counts loaded bytes.
std::int64_t loaded_by_cache(const memory_graph& g, std::int64_t capacity) {
  std::list<tensor_id> cache;  // most recently used first
  std::int64_t held = 0;
  std::int64_t loaded = 0;
  for (std::size_t o = 0; o < g.operator_count(); ++o) {
    const auto touched = g.touched(operator_id{o});
    const auto use = [&](tensor_id t, bool is_read) {
      cache.remove_if([&](tensor_id other) {
        held -= other == t ? g.tensor(t).size.count() : 0;
        loaded -= other == t && is_read ? g.tensor(t).size.count() : 0;
        return other == t;
      });
      for (auto last = cache.end(); held + g.tensor(t).size.count() > capacity;) {
        --last;
        if (!touched[last->index()]) {
          held -= g.tensor(*last).size.count();
          last = cache.erase(last);
        }
      }
      cache.push_front(t);
      held += g.tensor(t).size.count();
      loaded += is_read ? g.tensor(t).size.count() : 0;
    };
    for (const auto t : g.operation(operator_id{o}).reads) {
      use(t, true);
    }
    for (const auto t : g.operation(operator_id{o}).writes) {
      use(t, false);
    }
  }
  return loaded;
}

}  // namespace

TEST_CASE("baseline memory plans are valid within the capacity on random graphs") {
  const std::uint64_t seed = 23;
  INFO("seed " << seed);
  random_engine random{seed};
  for (std::size_t i = 0; i < test::cases(300); ++i) {
    const auto g = test::random_memory_graph(random, 1 + random.below(30), random.below(6));
    const auto least = least_capacity(g).size;
    const auto capacity = least + bytes{random.between(0, least.count())};
    std::int64_t all_reads = 0;
    for (std::size_t o = 0; o < g.operator_count(); ++o) {
      for (const auto t : g.operation(operator_id{o}).reads) {
        all_reads += g.tensor(t).size.count();
      }
    }
    CHECK(replay(g, streaming_plan(g, capacity), capacity).loaded.count() == all_reads);
    CHECK(replay(g, lru_plan(g, capacity), capacity).loaded.count() == loaded_by_cache(g, capacity.count()));
    for (auto* const baseline : {largest_first_plan, farthest_first_plan}) {
      CHECK(replay(g, baseline(g, capacity), capacity).loaded.count() <= all_reads);
    }
    CHECK_THROWS_AS(lru_plan(g, least - bytes{1}), error);
    CHECK_THROWS_AS(streaming_plan(g, least - bytes{1}), error);
  }
}

TEST_CASE("each baseline memory plan evicts by its rule") {
  memory_graph g;
  const auto old = g.add_tensor("old", bytes{2});
  const auto large = g.add_tensor("large", bytes{4});
  const auto late = g.add_tensor("late", bytes{3});
  const auto fresh = g.add_tensor("fresh", bytes{2});
  g.add_operator("1", {old}, {});
  g.add_operator("2", {large}, {});
  g.add_operator("3", {late}, {});
  g.add_operator("4", {fresh}, {});  // 9 of 9 bytes are held: one of the three is evicted
  g.add_operator("5", {old}, {});
  g.add_operator("6", {large}, {});
  g.add_operator("7", {late}, {});
  const bytes capacity{9};
  const auto kept = [&](const memory_plan& p) { return p[2].kept; };
  CHECK(kept(lru_plan(g, capacity)) == std::vector{large, late});
  CHECK(kept(largest_first_plan(g, capacity)) == std::vector{old, late});
  CHECK(kept(farthest_first_plan(g, capacity)) == std::vector{old, large});
  CHECK(kept(streaming_plan(g, capacity)).empty());
}

TEST_CASE("the farthest-first memory plan loads the least of all plans for tensors of one size in a fixed order") {
  const std::uint64_t seed = 29;
  INFO("seed " << seed);
  random_engine random{seed};
  std::size_t beyond_lru = 0;
  for (std::size_t i = 0; i < test::cases(100); ++i) {
    INFO("graph " << i);
    memory_graph g;
    std::vector<tensor_id> all;
    for (std::size_t t = 0; t < 3; ++t) {
      all.push_back(g.add_tensor(fmt::format("t{}", t), bytes{1}));
    }
    for (std::size_t o = 0; o < 8; ++o) {  // a chain
      const auto next = g.add_tensor(fmt::format("t{}", all.size()), bytes{1});
      g.add_operator(fmt::format("o{}", o), {all[random.below(all.size())], all.back()}, {next});
      all.push_back(next);
    }
    const auto least = least_capacity(g).size;
    for (auto capacity = least; capacity < least + bytes{3}; capacity += bytes{1}) {
      const auto loaded = replay(g, farthest_first_plan(g, capacity), capacity).loaded;
      CHECK(loaded.count() == test::least_of_all_plans(g, capacity.count()));
      beyond_lru += loaded < replay(g, lru_plan(g, capacity), capacity).loaded ? 1U : 0U;
      CHECK(largest_first_plan(g, capacity) == lru_plan(g, capacity));  // all are equally large
    }
  }
  CHECK(beyond_lru > 0);
}

}  // namespace tests_of_memory_baselines
