#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/search/beam.hpp>
#include <unity/search/rewrite_space.hpp>

#include "../support/cases.hpp"
#include "../support/child.hpp"
#include "../support/circuits.hpp"
#include "../support/explicit_space.hpp"
#include "../support/recording_space.hpp"
#include "../support/space_laws.hpp"
#include "circuit_space.hpp"
#include "random_states.hpp"

namespace tests_of_beam {

using namespace unity;
using namespace unity::test;

namespace {

beam_options of(std::size_t width, std::size_t patience) {
  beam_options o;
  o.width = width;
  o.patience = patience;
  return o;
}

using steps = std::vector<std::pair<std::uint32_t, cost_value>>;

struct plain_beam {
  std::uint32_t best = 0;
  cost_value cost = 0;
  steps path{};
  counters counts{};
  stop_reason stopped = stop_reason::converged;
  std::size_t cut = 0;  // levels that the width cut
};

// Sorts all candidates of each level.
plain_beam all_sorted(const explicit_space& space, std::size_t width, std::size_t patience) {
  struct member {
    std::uint32_t at;
    steps path;
  };
  struct choice {
    cost_value cost;
    std::size_t order;
    std::uint32_t to;
    std::size_t from;
  };
  plain_beam r;
  r.cost = space.costs[0];
  std::vector<member> level{{0, {}}};
  std::set<std::uint32_t> seen{0};
  for (std::size_t idle = 0; idle < patience;) {
    std::vector<choice> choices;
    for (std::size_t from = 0; from < level.size(); ++from) {
      ++r.counts.expanded;
      for (const auto to : space.edges[level[from].at]) {
        if (to == explicit_space::nowhere) {
          ++r.counts.rejected;
          continue;
        }
        ++r.counts.candidates;
        choices.push_back({space.costs[to], choices.size(), to, from});
      }
    }
    std::sort(choices.begin(), choices.end(), [](const choice& a, const choice& b) {
      return a.cost != b.cost ? a.cost < b.cost : a.order < b.order;
    });
    std::vector<member> next;
    const auto before = r.cost;
    for (const auto& c : choices) {
      if (seen.contains(c.to)) {
        continue;
      }
      if (next.size() == width) {
        ++r.cut;
        break;
      }
      seen.insert(c.to);
      next.push_back({c.to, level[c.from].path});
      next.back().path.emplace_back(c.to, c.cost);
      if (c.cost < r.cost) {
        r.cost = c.cost;
        r.best = c.to;
        r.path = next.back().path;
      }
    }
    level = std::move(next);
    if (level.empty()) {
      r.stopped = stop_reason::exhausted;
      break;
    }
    idle = r.cost < before ? 0 : idle + 1;
  }
  return r;
}

}  // namespace

TEST_CASE("beam search crosses cost increases within its patience") {
  explicit_space space{{10, 20, 30, 5}, {{1}, {2}, {3}, {}}};
  CHECK(beam(space, of(1, 2)).cost == 10);
  const auto r = beam(space, of(1, 3));
  CHECK(r.cost == 5);
  CHECK(r.path == std::vector<std::pair<std::uint32_t, cost_value>>{{1, 20}, {2, 30}, {3, 5}});
  CHECK(r.stopped == stop_reason::exhausted);
  CHECK(beam(space, of(1, 2)).stopped == stop_reason::converged);
}

TEST_CASE("beam search keeps the cheapest states of each level") {
  //  0 -> 1 (9) -> 3 (8);  0 -> 2 (11) -> 4 (1)
  explicit_space space{{10, 9, 11, 8, 1}, {{1, 2}, {3}, {4}, {}, {}}};
  CHECK(beam(space, of(1, 5)).cost == 8);
  CHECK(beam(space, of(2, 5)).cost == 1);
}

TEST_CASE("beam search may revisit a state that an earlier level cut") {
  // 0 -> 1 (5), 2 (9); 1 -> 2 -> 3 (1): at width 1, state 2 is cut beside state 1, and reached again from it.
  explicit_space space{{10, 5, 9, 1}, {{1, 2}, {2}, {3}, {}}};
  const auto r = beam(space, of(1, 5));
  CHECK(r.cost == 1);
  CHECK(r.path == std::vector<std::pair<std::uint32_t, cost_value>>{{1, 5}, {2, 9}, {3, 1}});
  CHECK(r.counts.duplicates == 0);
}

TEST_CASE("beam search stops at its memory limit in a space that does not report memory") {
  auto space = staircase(3000);
  auto o = of(4, 8);
  o.limits.memory = 1024;
  CHECK(beam(space, o).stopped == stop_reason::memory);
}

TEST_CASE("beam search checks its time limit within a level") {
  struct slow_space : explicit_space {
    [[nodiscard]] std::optional<candidate> price(std::uint32_t s, std::uint32_t to, scratch_type& scratch) const {
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
      return explicit_space::price(s, to, scratch);
    }
  };
  // 0 -> 1 .. 100, each of which leads to 101.
  slow_space space;
  space.costs.assign(102, 7);
  space.edges.assign(102, {101});
  space.edges[0].clear();
  for (std::uint32_t i = 1; i <= 100; ++i) {
    space.edges[0].push_back(i);
  }
  auto o = of(1000, 8);
  o.limits.seconds = 0.15;  // the first level takes at least 0.1 s, the second as long again
  const auto r = beam(space, o);
  CHECK(r.stopped == stop_reason::time);
  CHECK(r.counts.expanded < 101);
}

TEST_CASE("beam search that could not price all moves in time does not say that it has seen all states") {
  struct slow_space : explicit_space {
    [[nodiscard]] std::optional<candidate> price(std::uint32_t, std::uint32_t, scratch_type&) const {
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
      return std::nullopt;
    }
  };
  slow_space space;
  space.costs = {7};
  space.edges.assign(1, std::vector(400, explicit_space::nowhere));
  auto o = of(4, 8);
  o.limits.seconds = 0.1;  // the first look at the clock is after 255 moves
  CHECK(beam(space, o).stopped == stop_reason::time);
}

TEST_CASE("beam search reports which limit stopped it") {
  auto long_way = staircase(3000);
  auto expansions = of(4, 8);
  expansions.limits.expansions = 7;
  const auto r = beam(long_way, expansions);
  CHECK(r.stopped == stop_reason::expansions);
  CHECK(r.counts.expanded == 7);

  auto time = of(4, 8);
  time.limits.seconds = 0;
  CHECK(beam(long_way, time).stopped == stop_reason::time);

  measured_explicit_space measured{staircase(3000)};
  auto memory = of(4, 8);
  memory.limits.memory = 64 * 1024;
  CHECK(beam(measured, memory).stopped == stop_reason::memory);

  auto watched = of(4, 8);
  std::size_t calls = 0;
  watched.watch = [&](const progress& p) {
    CHECK(p.counts.expanded == calls);
    return ++calls < 5;
  };
  CHECK(beam(long_way, watched).stopped == stop_reason::observer);
  CHECK(calls == 5);
}

TEST_CASE("beam search stopped within a level by its expansion limit reports that limit") {
  // 0 -> 1, 2; 1 has no moves, 2 -> 3
  explicit_space space{{10, 9, 9, 1}, {{1, 2}, {}, {3}, {}}};
  auto o = of(2, 5);
  o.limits.expansions = 2;
  const auto r = beam(space, o);
  CHECK(r.counts.expanded == 2);
  CHECK(r.stopped == stop_reason::expansions);
}

TEST_CASE("a beam of width 0 violates a precondition") {
  const auto result = in_child([] {
    auto space = staircase(3);
    (void)beam(space, of(0, 1));
  });
  CHECK(result.aborted);
  CHECK_THAT(result.messages, Catch::Contains("a beam at least one wide"));
}

TEST_CASE("beam search of random spaces equals sorting all candidates of each level", "[law]") {
  std::size_t improved = 0;
  std::size_t cut = 0;
  std::size_t converged = 0;
  for (std::uint64_t seed = 0; seed < test::cases(400); ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    auto space = random_states(random);
    const auto width = static_cast<std::size_t>(1 + random.below(4));
    const auto patience = static_cast<std::size_t>(1 + random.below(6));
    const auto plain = all_sorted(space, width, patience);
    const auto r = beam(space, of(width, patience));
    REQUIRE(r.cost == plain.cost);
    REQUIRE(r.best == plain.best);
    REQUIRE(r.path == plain.path);
    REQUIRE(r.stopped == plain.stopped);
    REQUIRE(r.counts.expanded == plain.counts.expanded);
    REQUIRE(r.counts.candidates == plain.counts.candidates);
    REQUIRE(r.counts.rejected == plain.counts.rejected);
    improved += plain.path.empty() ? 0 : 1;
    cut += plain.cut;
    converged += plain.stopped == stop_reason::converged ? 1 : 0;
  }
  CHECK(improved > test::cases(400) / 5);
  CHECK(cut > test::cases(400) / 5);
  CHECK(converged > test::cases(400) / 20);
}

TEST_CASE("beam search returns an equivalent circuit with the reported cost and path", "[law]") {
  std::size_t improved = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    auto space = random_circuit_space(seed, 14);
    const auto first = space.initial();
    const auto truth = meaning(space.graph(first));
    recording_space<circuit_space> all{space, [&](const auto& s) { REQUIRE(meaning(space.graph(s)) == truth); }};
    const auto r = beam(all, of(1 + seed % 8, 4));
    REQUIRE(structural_fault(space, r.best) == "");
    REQUIRE(recomputed(space, r.best).cost == r.cost);
    REQUIRE(r.cost <= space.cost(first));
    improved += r.cost < space.cost(first) ? 1 : 0;
    REQUIRE(path_fault(space, r) == "");
  }
  CHECK(improved > 20);
}

TEST_CASE("beam search results are independent of the thread count", "[law]") {
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    CAPTURE(seed);
    const auto run = [&](std::size_t threads) {
      auto space = random_circuit_space(seed, 200);
      auto o = of(3, 2);
      o.threads = threads;
      o.limits.expansions = 12;
      return beam(space, o);
    };
    const auto one = run(1);
    for (const std::size_t threads : {2U, 4U}) {
      const auto r = run(threads);
      REQUIRE(r.cost == one.cost);
      REQUIRE(r.path == one.path);
      REQUIRE(r.counts == one.counts);
      REQUIRE(r.best.nodes == one.best.nodes);
    }
  }
}

}  // namespace tests_of_beam
