#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/search/backtracking.hpp>
#include <unity/search/rewrite_space.hpp>

#include "../support/cases.hpp"
#include "../support/child.hpp"
#include "../support/circuits.hpp"
#include "../support/explicit_space.hpp"
#include "../support/recording_space.hpp"
#include "../support/space_laws.hpp"
#include "circuit_space.hpp"
#include "random_states.hpp"

namespace tests_of_backtracking {

using namespace unity;
using namespace unity::test;

namespace {

backtracking_options with_alpha(double alpha) {
  backtracking_options o;
  o.alpha = alpha;
  return o;
}

using steps = std::vector<std::pair<std::uint32_t, cost_value>>;

struct plain_search {
  std::uint32_t best = 0;
  cost_value cost = 0;
  steps path{};
  std::vector<std::pair<std::uint64_t, cost_value>> history{};  // expansions before, cost
  counters counts{};
  stop_reason stopped = stop_reason::exhausted;
  std::uint64_t queued = 0;
  std::size_t dropped = 0;  // candidates that cost too much when found or when the search ends
};

// Searches a list of candidates for the next one, and keeps the path to each.
plain_search with_a_list(const explicit_space& space, double alpha, std::uint64_t patience) {
  struct waiting {
    cost_value cost;
    std::size_t order;
    std::uint32_t at;
    steps path;
  };
  plain_search r;
  r.cost = space.costs[0];
  r.history.emplace_back(std::uint64_t{0}, r.cost);
  std::vector<waiting> list;
  std::set<std::uint32_t> seen{0};
  std::size_t order = 0;
  const auto is_cheap = [&](cost_value cost) {
    return cost <= r.cost || static_cast<double>(cost) < alpha * static_cast<double>(r.cost);
  };
  const auto expand = [&](std::uint32_t at, const steps& path) {
    ++r.counts.expanded;
    for (const auto to : space.edges[at]) {
      if (to == explicit_space::nowhere) {
        ++r.counts.rejected;
        continue;
      }
      ++r.counts.candidates;
      auto longer = path;
      longer.emplace_back(to, space.costs[to]);
      if (space.costs[to] < r.cost) {
        r.cost = space.costs[to];
        r.best = to;
        r.path = longer;
        r.history.emplace_back(r.counts.expanded, r.cost);
      }
      if (!is_cheap(space.costs[to])) {
        ++r.dropped;
      } else if (!seen.insert(to).second) {
        ++r.counts.duplicates;
      } else {
        list.push_back({space.costs[to], order++, to, std::move(longer)});
      }
    }
  };
  expand(0, {});
  while (true) {
    if (r.counts.expanded - r.history.back().first >= patience) {
      r.stopped = stop_reason::converged;
      break;
    }
    const auto next = std::min_element(list.begin(), list.end(), [](const waiting& a, const waiting& b) {
      return a.cost != b.cost ? a.cost < b.cost : a.order < b.order;
    });
    if (next == list.end() || !is_cheap(next->cost)) {
      break;
    }
    const auto e = *next;
    list.erase(next);
    expand(e.at, e.path);
  }
  for (const auto& w : list) {
    r.queued += is_cheap(w.cost) ? 1 : 0;
    r.dropped += is_cheap(w.cost) ? 0 : 1;
  }
  return r;
}

}  // namespace

TEST_CASE("backtracking expands the cheapest state first and returns the path to the best") {
  //  0 (10) -> 1 (9) -> 3 (8)
  //         -> 2 (5) -> 4 (4)
  explicit_space space{{10, 9, 5, 8, 4}, {{1, 2}, {3}, {4}, {}, {}}};
  const auto r = backtracking(space, with_alpha(10));
  CHECK(r.best == 4);
  CHECK(r.cost == 4);
  CHECK(r.path == std::vector<std::pair<std::uint32_t, cost_value>>{{2, 5}, {4, 4}});
  CHECK(r.stopped == stop_reason::exhausted);
  CHECK(r.counts.expanded == 5);
  CHECK(r.counts.candidates == 4);
  REQUIRE(r.history.size() == 4);
  CHECK(r.history[0].cost == 10);
  CHECK(r.history[1].cost == 9);
  CHECK(r.history[2].cost == 5);
  CHECK(r.history[3].cost == 4);
  CHECK(r.lower_bound == std::numeric_limits<cost_value>::min());
}

TEST_CASE("alpha limits the cost of the states that backtracking keeps") {
  // The path to the state of cost 3 leads over one of cost 12.
  explicit_space space{{10, 12, 3}, {{1}, {2}, {}}};
  CHECK(backtracking(space, with_alpha(1.2)).cost == 10);
  CHECK(backtracking(space, with_alpha(1.21)).cost == 3);
  explicit_space flat{{10, 10, 3}, {{1}, {2}, {}}};
  CHECK(backtracking(flat, with_alpha(1)).cost == 3);
}

TEST_CASE("backtracking drops queued states that a better state makes too expensive") {
  explicit_space space{{100, 104, 50, 51}, {{1, 2}, {3}, {}, {}}};
  const auto r = backtracking(space, with_alpha(1.05));
  CHECK(r.counts.expanded == 2);  // the state of cost 104 is dropped once 50 is known
}

TEST_CASE("backtracking handles zero and negative costs") {
  explicit_space space{{0, -5, -10}, {{1}, {2}, {0}}};
  const auto r = backtracking(space, with_alpha(1.05));
  CHECK(r.cost == -10);
  CHECK(r.path.size() == 2);
}

TEST_CASE("backtracking counts inapplicable moves as rejected and repeated states as duplicates") {
  explicit_space space{{10, 9, 9}, {{1, explicit_space::nowhere, 2, 1}, {2, 0}, {explicit_space::nowhere}}};
  const auto r = backtracking(space, with_alpha(2));
  CHECK(r.counts == counters{3, 5, 2, 3, 0});
}

TEST_CASE("backtracking of random spaces equals a search through a plain list of candidates", "[law]") {
  std::size_t improved = 0;
  std::size_t dropped = 0;
  std::size_t converged = 0;
  for (std::uint64_t seed = 0; seed < test::cases(400); ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    auto space = random_states(random);
    const double alphas[]{1, 1.0625, 1.125, 10};
    auto o = with_alpha(alphas[seed % 4]);
    o.patience = random.below(2) == 0 ? 1 + random.below(8) : o.patience;
    const auto plain = with_a_list(space, o.alpha, o.patience);
    const auto r = backtracking(space, o);
    REQUIRE(r.cost == plain.cost);
    REQUIRE(r.best == plain.best);
    REQUIRE(r.path == plain.path);
    REQUIRE(r.counts == plain.counts);
    REQUIRE(r.stopped == plain.stopped);
    REQUIRE(r.queued == plain.queued);
    REQUIRE(r.history.size() == plain.history.size());
    for (std::size_t i = 0; i < r.history.size(); ++i) {
      REQUIRE(r.history[i].expanded == plain.history[i].first);
      REQUIRE(r.history[i].cost == plain.history[i].second);
    }
    improved += plain.path.empty() ? 0 : 1;
    dropped += plain.dropped;
    converged += plain.stopped == stop_reason::converged ? 1 : 0;
  }
  CHECK(improved > test::cases(400) / 5);
  CHECK(dropped > test::cases(400) / 4);
  CHECK(converged > test::cases(400) / 20);
}

TEST_CASE("backtracking with alpha below 1 violates a precondition") {
  const auto result = in_child([] {
    auto space = staircase(3);
    (void)backtracking(space, with_alpha(0.9));
  });
  CHECK(result.aborted);
  CHECK_THAT(result.messages, Catch::Contains("alpha of at least 1"));
}

TEST_CASE("backtracking with alpha 1 has non-increasing path costs and improves circuits", "[law]") {
  std::size_t improved = 0;
  for (std::uint64_t seed = 0; seed < test::cases(60); ++seed) {
    CAPTURE(seed);
    auto space = random_circuit_space(seed, 16);
    const auto before = space.cost(space.initial());
    const auto r = backtracking(space, with_alpha(1));
    REQUIRE(r.stopped == stop_reason::exhausted);
    auto last = before;
    for (const auto& [m, cost] : r.path) {
      REQUIRE(cost <= last);
      last = cost;
    }
    improved += r.cost < before ? 1 : 0;
  }
  CHECK(improved > test::cases(30));
}

TEST_CASE("backtracking meets only circuits equivalent to the input and reports correct costs", "[law]") {
  std::size_t met = 0;
  for (std::uint64_t seed = 0; seed < test::cases(40); ++seed) {
    CAPTURE(seed);
    auto space = random_circuit_space(seed, 14);
    const auto truth = meaning(space.graph(space.initial()));
    recording_space<circuit_space> all{space, [&](const auto& s) {
                                         ++met;
                                         REQUIRE(structural_fault(space, s) == "");
                                         REQUIRE(meaning(space.graph(s)) == truth);
                                       }};
    auto options = with_alpha(1.3);
    options.limits.expansions = 300;
    const auto r = backtracking(all, options);
    REQUIRE(recomputed(space, r.best).cost == r.cost);
    REQUIRE((r.path.empty() || r.path.back().second == r.cost));
    REQUIRE(path_fault(space, r) == "");
  }
  CHECK(met > test::cases(2000));
}

// Sleep sets lose some states: a state that is reached again on another path keeps the sleep set of its first path.
TEST_CASE("sleep sets keep the best cost and most states with fewer candidates", "[law]") {
  std::size_t spaces = 0;
  std::size_t states = 0;
  std::size_t lost = 0;
  std::uint64_t candidates[2]{};
  for (std::uint64_t seed = 0; seed < test::cases(80); ++seed) {
    CAPTURE(seed);
    std::set<fingerprint> met[2];
    cost_value best[2]{};
    bool exhausted = true;
    for (const std::size_t sleep : {0U, 1U}) {
      auto space = random_circuit_space(seed, 10, finite_circuit_rules);
      circuit_space::scratch_type scratch;
      recording_space<circuit_space> all{
          space, [&](const auto& s) { met[sleep].insert(space.canonical_fingerprint(s, scratch)); }};
      auto options = with_alpha(1e9);
      options.sleep_sets = sleep == 1;
      options.limits.expansions = 2000;
      const auto r = backtracking(all, options);
      exhausted = exhausted && r.stopped == stop_reason::exhausted;
      best[sleep] = r.cost;
      candidates[sleep] += exhausted ? r.counts.candidates : 0;
      REQUIRE((sleep == 1 || r.counts.asleep == 0));
    }
    if (exhausted) {
      ++spaces;
      states += met[0].size();
      REQUIRE(std::includes(met[0].begin(), met[0].end(), met[1].begin(), met[1].end()));
      lost += met[0].size() - met[1].size();
      REQUIRE(best[0] == best[1]);
    }
  }
  CAPTURE(spaces, states, lost, candidates[0], candidates[1]);
  CHECK(spaces > test::cases(40));
  CHECK(lost * 50 < states);
  CHECK(candidates[1] * 3 < candidates[0] * 2);
}

TEST_CASE("sleep sets rarely worsen the best cost at a small alpha", "[exhaustive][law]") {
  std::size_t spaces = 0;
  std::size_t worse = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    cost_value best[2]{};
    bool exhausted = true;
    for (const std::size_t sleep : {0U, 1U}) {
      auto space = random_circuit_space(seed, 16, finite_circuit_rules);
      auto options = with_alpha(1.3);
      options.sleep_sets = sleep == 1;
      options.limits.expansions = 1000;
      const auto r = backtracking(space, options);
      exhausted = exhausted && r.stopped == stop_reason::exhausted;
      best[sleep] = r.cost;
    }
    spaces += exhausted ? 1 : 0;
    worse += exhausted && best[1] > best[0] ? 1 : 0;
  }
  CAPTURE(spaces, worse);
  CHECK(spaces > 200);
  CHECK(worse * 50 < spaces);
}

TEST_CASE("backtracking stops when its patience runs out without an improvement") {
  // 0 (100) -> 1 (99) -> .. -> 9 (99) -> 10 (98): a plateau of nine states.
  explicit_space space;
  for (std::uint32_t i = 0; i <= 10; ++i) {
    space.costs.push_back(i == 0 ? 100 : i < 10 ? 99 : 98);
    space.edges.push_back(i < 10 ? std::vector{i + 1} : std::vector<std::uint32_t>{});
  }
  auto o = with_alpha(1.5);
  o.patience = 8;
  const auto early = backtracking(space, o);
  CHECK(early.cost == 99);
  CHECK(early.stopped == stop_reason::converged);
  CHECK(early.counts.expanded == 9);
  CHECK(early.queued == 1);
  o.patience = 9;
  const auto late = backtracking(space, o);
  CHECK(late.cost == 98);
  CHECK(late.stopped == stop_reason::exhausted);
  CHECK(late.queued == 0);
}

TEST_CASE("the queued count of backtracking excludes states that became too expensive") {
  // 0 (100) -> 1 (104), 2 (104), 3 (90): once 3 is known, 1 and 2 cost more than 1.05 times the best.
  explicit_space space;
  space.costs = {100, 104, 104, 90};
  space.edges = {{1, 2, 3}, {}, {}, {}};
  auto o = with_alpha(1.05);
  o.limits.expansions = 1;
  const auto found = backtracking(space, o);
  CHECK(found.cost == 90);
  CHECK(found.stopped == stop_reason::expansions);
  CHECK(found.queued == 1);
}

}  // namespace tests_of_backtracking
