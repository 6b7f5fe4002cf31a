#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/strategies/memory_limits.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/search/evaluator.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/timeline.hpp>
#include <unity/systems/flexflow/evaluator.hpp>
#include <unity/systems/flexflow/moves.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/zoo.hpp>

#include "../parallel/operators.hpp"
#include "../support/cases.hpp"

namespace tests_of_flexflow_evaluator {

using namespace unity;
using systems::strategy_evaluator;
using systems::strategy_moves;
using systems::strategy_proposal;

static_assert(evaluator<strategy_evaluator>);
static_assert(proposal_for<strategy_proposal, strategy_evaluator>);
using parallel::test::operators;

namespace {

constexpr auto no_bound = std::numeric_limits<cost_value>::max();

struct example {
  const char* model;
  const char* machine;
  std::int64_t
      fitting_share;  // percent of strategies one move from data parallelism that fit in memory; 0: no limit
};

parallel::strategy moved(parallel::strategy s, const systems::strategy_change& by) {
  for (const auto& r : by) {
    s[r.node.index()] = r.to;
  }
  return s;
}

// Memory limits by device such that this share of 60 strategies one move from `start` fits.
std::vector<bytes> limits_for(parallel::lowering l, const parallel::strategy& start, const strategy_proposal& proposal,
                              std::int64_t share) {
  std::vector<bytes> peaks;
  simulate::full_simulation simulation;
  random_engine random{7};
  std::size_t devices = 0;
  for (int i = 0; i < 60; ++i) {
    const auto p = l.run(moved(start, proposal.sample(start, random)->move));
    simulation.run(p);
    bytes peak{};
    const auto profiles = simulate::memory_profiles(p, simulation.times());
    for (const auto& profile : profiles) {
      peak = std::max(peak, profile.peak);
    }
    peaks.push_back(peak);
    devices = profiles.size();
  }
  std::sort(peaks.begin(), peaks.end());
  return std::vector<bytes>(devices, peaks[static_cast<std::size_t>(share) * peaks.size() / 100]);
}

// A strategy's cost, computed from scratch.
cost_value slow_cost(parallel::lowering l, const parallel::strategy& s, std::span<const bytes> limits) {
  const auto p = l.run(s);
  simulate::full_simulation simulation;
  const auto time = simulation.run(p).count();
  const auto line = simulate::summarize(p, simulation.times());
  cost_value over = 0;
  for (std::size_t d = 0; d < limits.size(); ++d) {
    over += std::max<cost_value>(line.memory[d].peak.count() - limits[d].count(), 0);
  }
  return over == 0 ? time : systems::over_memory + 1000 * over + time;
}

}  // namespace

TEST_CASE("strategy_evaluator's trials cost the same as from scratch and a rollback undoes them", "[law]") {
  const auto e = GENERATE(values<example>({{"zoo:lenet?batch=64", "p100:1x4", 0},
                                           {"zoo:lenet?batch=64", "p100:1x4", 50},
                                           {"zoo:rnnlm?batch=16&hidden=32&vocab=40&seq=3", "k80:2x4", 0},
                                           {"zoo:rnnlm?batch=16&hidden=32&vocab=40&seq=3", "k80:2x4", 30},
                                           {"zoo:nmt?batch=12&hidden=24&vocab=36&seq=2", "summit:1x6", 0}}));
  const auto& a = operators();
  const auto g = tensor::zoo::build(a, e.model);
  const auto m = hardware::preset(e.machine);
  const parallel::lowering l{a, g, m};
  const auto start = parallel::data_parallel(l.dimensions(), m.network);
  const strategy_moves moves{a, g, l.dimensions(), m.network.device_count()};
  const std::uint64_t seed = GENERATE(1U, 2U);
  CAPTURE(e.model, e.machine, e.fitting_share, seed);
  const strategy_proposal proposal{&moves, 0.5, 0.3,
                                   seed == 1 ? systems::device_choice::blocks : systems::device_choice::any};
  const auto limits = e.fitting_share > 0 ? limits_for(l, start, proposal, e.fitting_share) : std::vector<bytes>{};
  random_engine random{seed};
  strategy_evaluator evaluator{l, limits};
  REQUIRE(evaluator.reset(start) == slow_cost(l, start, limits));
  std::size_t fitting = 0;
  for (std::uint64_t step = 0; step < unity::test::cases(120); ++step) {
    CAPTURE(step);
    const auto before = evaluator.state();
    const auto cost = evaluator.cost();
    const auto move = proposal.sample(before, random)->move;
    const auto after = moved(before, move);
    const auto expected = slow_cost(l, after, limits);
    fitting += expected < systems::over_memory ? 1 : 0;
    // A bound below the cost rejects the move, a bound equal to it accepts it; the state is unchanged in both cases.
    REQUIRE(!evaluator.try_move(move, random.below(2) == 0 ? expected - 1 : expected / 8));
    REQUIRE(evaluator.state() == before);
    REQUIRE(evaluator.cost() == cost);
    const auto tried = evaluator.try_move(move, random.below(2) == 0 ? expected : no_bound);
    REQUIRE(tried == expected);
    if (random.below(3) == 0) {
      evaluator.commit();
      REQUIRE(evaluator.state() == after);
      REQUIRE(evaluator.cost() == expected);
    } else {
      evaluator.rollback();
      REQUIRE(evaluator.state() == before);
      REQUIRE(evaluator.cost() == cost);
    }
  }
  CHECK(evaluator.counts().moves == 2 * unity::test::cases(120));
  CHECK(fitting > 0);
  if (e.fitting_share > 0) {
    CHECK(fitting < unity::test::cases(120));
    CHECK(evaluator.counts().profiled > 0);
  } else {
    CHECK(evaluator.counts().overloaded > 0);  // by bounds of an eighth of the time
  }
}

TEST_CASE("an empty move costs what the state costs and needs no simulation") {
  const auto& a = operators();
  const auto g = tensor::zoo::build(a, "zoo:mlp?form=fig1");
  const auto m = hardware::preset("p100:1x4");
  const parallel::lowering l{a, g, m};
  strategy_evaluator evaluator{l, {}};
  const auto cost = evaluator.reset(parallel::data_parallel(l.dimensions(), m.network));
  CHECK(evaluator.try_move({}, cost) == cost);
  evaluator.commit();
  CHECK(evaluator.try_move({}, cost) == cost);
  evaluator.rollback();
  CHECK(evaluator.try_move({}, cost - 1) == std::nullopt);
  CHECK(evaluator.counts().simulated == 0);
}

TEST_CASE("strategy_evaluator profiles memory only if buffer sums exceed the limit") {
  const auto& a = operators();
  const auto g = tensor::zoo::build(a, "zoo:lenet?batch=64");
  const auto m = hardware::preset("p100:1x4");
  parallel::lowering l{a, g, m};
  const auto start = parallel::data_parallel(l.dimensions(), m.network);
  parallel::buffer_sums sums{4};
  const auto p = l.run(start);
  bytes all{};
  for (std::size_t f = 0; f < p.fragment_count(); ++f) {
    sums.add(p[tasks::fragment_id{f}]);
  }
  for (const auto s : sums.sums()) {
    all += s;
  }
  const std::uint64_t seed = 3;
  CAPTURE(seed);
  const strategy_moves moves{a, g, l.dimensions(), 4};
  const strategy_proposal proposal{&moves, 0.5, 0.3, systems::device_choice::blocks};
  strategy_evaluator evaluator{l, std::vector<bytes>(4, bytes{4 * all.count()})};
  evaluator.reset(start);
  random_engine random{seed};
  for (int step = 0; step < static_cast<int>(unity::test::cases(600)); ++step) {
    const auto move = proposal.sample(start, random)->move;
    const auto refused = evaluator.try_move(move, evaluator.cost() / 4);
    REQUIRE(!refused.has_value());
    REQUIRE(evaluator.try_move(move, no_bound).has_value());
    evaluator.rollback();
  }
  CHECK(evaluator.counts().profiled == 0);
}

}  // namespace tests_of_flexflow_evaluator
