#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/placements.hpp>
#include <unity/parallel/strategies/strategy_report.hpp>
#include <unity/parallel/strategies/units.hpp>
#include <unity/systems/flexflow/explanation.hpp>

#include "../parallel/operators.hpp"
#include "../parallel/random_plan.hpp"
#include "../support/cases.hpp"

namespace tests_of_flexflow_explanation {

using namespace unity;
using parallel::test::operators;

namespace {

const auto always = [] { return true; };

// The plan's iteration time with these configurations, from scratch.
cost_value slow_price(const parallel::plan& p, const parallel::strategy& s) {
  parallel::lowering l{operators(),
                       p.graph,
                       p.machine,
                       parallel::analytic_durations(operators(), p.machine),
                       parallel::transfers::exchanges,
                       p.updates};
  return parallel::report_on(l, p.graph, p.machine, s, p.pipeline, p.synchronization, p.recomputed).iteration.count();
}

}  // namespace

TEST_CASE("the explained next-best division equals the best one by full simulation", "[flexflow]") {
  std::size_t compared = 0;
  for (std::uint64_t seed = 0; seed < 24 && compared < 40; ++seed) {
    CAPTURE(seed);
    auto p = parallel::test::plan_at_random(seed);
    if (!p) {
      continue;
    }
    if (seed % 3 == 1) {  // prices by full simulation
      p->recomputed = parallel::recomputation_but_every(p->graph, 2);
    }
    systems::plan_prices prices{operators(), *p, parallel::analytic_durations(operators(), p->machine)};
    CHECK(prices.own().cost == slow_price(*p, p->configurations));
    const auto all = systems::explain(operators(), prices, always);
    const auto devices = p->machine.network.device_count();
    const parallel::graph_dimensions dimensions{operators(), p->graph};
    const parallel::placements places{dimensions, devices};
    const auto units = parallel::units_of(operators(), p->graph, dimensions);
    for (const auto& e : all) {
      std::optional<cost_value> least;
      std::size_t priced = 0;
      for (const auto& c : places.all(e.node)) {
        if (c == p->configurations[e.node.index()]) {
          continue;
        }
        auto alone = p->configurations;
        alone[e.node.index()] = c;
        least = std::min(least.value_or(std::numeric_limits<cost_value>::max()), slow_price(*p, alone));
        ++priced;
        for (const auto& u : units) {
          if (u.lead != e.node || u.nodes.size() == 1) {
            continue;
          }
          auto together = alone;
          for (const auto n : u.nodes) {
            together[n.index()] = n == u.lead ? c : parallel::following(dimensions[n], dimensions[u.lead], c);
          }
          least = std::min(*least, slow_price(*p, together));
          ++priced;
        }
      }
      CHECK(e.priced == priced);
      REQUIRE(e.next.has_value() == least.has_value());
      if (least) {
        CHECK(e.next->price.cost == *least);
        ++compared;
      }
    }
    CHECK(std::is_sorted(all.begin(), all.end(), [](const auto& x, const auto& y) { return x.total() > y.total(); }));
  }
  CHECK(compared >= 20);
}

TEST_CASE("explained times are those of iterations whether the plan fits in memory or not", "[flexflow]") {
  for (const std::uint64_t seed : {2U, 3U}) {
    auto p = parallel::test::plan_at_random(seed);
    REQUIRE(p);
    if (seed == 3) {  // prices by full simulation
      p->recomputed = parallel::recomputation_but_every(p->graph, 2);
    }
    for (auto& d : p->machine.devices) {
      d.memory = bytes{1};
    }
    systems::plan_prices prices{operators(), *p, parallel::analytic_durations(operators(), p->machine)};
    CHECK_FALSE(prices.own().fits());
    CHECK(prices.own().iteration.count() == slow_price(*p, p->configurations));
    for (const auto& e : systems::explain(operators(), prices, always)) {
      if (e.next && e.next->operators == 1) {
        auto s = p->configurations;
        s[e.node.index()] = e.next->to;
        CHECK(e.next->price.iteration.count() == slow_price(*p, s));
      }
    }
  }
}

TEST_CASE("an explanation that has no time has no alternatives", "[flexflow]") {
  const auto p = parallel::test::plan_at_random(2);
  REQUIRE(p);
  systems::plan_prices prices{operators(), *p, parallel::analytic_durations(operators(), p->machine)};
  for (const auto& e : systems::explain(operators(), prices, [] { return false; })) {
    CHECK(!e.next);
    CHECK(e.priced == 0);
  }
}

}  // namespace tests_of_flexflow_explanation
