#include <unity/systems/flexflow.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/strategies/memory_limits.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/search/beam.hpp>
#include <unity/search/search_space.hpp>
#include <unity/tensor/zoo.hpp>

#include "../parallel/operators.hpp"
#include "../support/cases.hpp"

namespace tests_of_flexflow_space {

using namespace unity;
using systems::strategy_choices;
using systems::strategy_evaluator;
using systems::strategy_moves;
using systems::strategy_space;
using strategy_state = strategy_space::state_type;

static_assert(search_space<strategy_space>);
using parallel::test::operators;

namespace {

struct subject {
  tensor::tensor_graph graph;
  hardware::machine machine;
  parallel::lowering lower;
  strategy_moves moves;

  subject(std::string_view model, std::string_view on, parallel::block_strides strides = parallel::block_strides::all)
      : graph{tensor::zoo::build(operators(), model)},
        machine{hardware::preset(on)},
        lower{operators(), graph, machine},
        moves{operators(), graph, lower.dimensions(), machine.network.device_count(), strides} {}
  subject(const subject&) = delete;
  subject& operator=(const subject&) = delete;

  [[nodiscard]] parallel::strategy data() const { return parallel::data_parallel(lower.dimensions(), machine.network); }
  [[nodiscard]] strategy_evaluator evaluator() const { return {lower, parallel::memory_limits(machine)}; }
  [[nodiscard]] strategy_space space(const parallel::strategy& from) const {
    return {strategy_choices{moves}, evaluator(), from};
  }
};

constexpr std::pair<std::string_view, std::string_view> subjects[] = {
    {"zoo:lenet?batch=64", "p100:1x4"},
    {"zoo:rnnlm?batch=16&hidden=32&vocab=48&seq=2", "k80:2x3"},
    {"zoo:nmt?batch=12&hidden=24&vocab=36&seq=2", "summit:1x6"}};

// Steepest descent: moves to the cheapest neighbour while that is cheaper, priced by a fresh evaluator.
cost_value slow_descent(const subject& x, const parallel::strategy& from) {
  auto e = x.evaluator();
  auto at = from;
  auto cost = e.reset(at);
  while (true) {
    auto best = at;
    auto least = cost;
    for (std::size_t u = 0; u < x.moves.units().size(); ++u) {
      for (const auto& c : x.moves.placements().all(x.moves.units()[u].lead)) {
        auto next = at;
        for (const auto& r : x.moves.change_unit(u, c)) {
          next[r.node.index()] = r.to;
        }
        if (const auto now = e.reset(next); now < least) {
          least = now;
          best = next;
        }
      }
    }
    if (least == cost) {
      return cost;
    }
    at = best;
    cost = least;
  }
}

}  // namespace

TEST_CASE("strategy_space's moves are all units with all configurations in a stable order") {
  for (const auto& [model, on] : subjects) {
    CAPTURE(model, on);
    const subject x{model, on};
    auto space = x.space(x.data());
    const auto s = space.initial();
    CHECK(s.at == x.data());
    CHECK(space.cost(s) == x.evaluator().reset(s.at));
    const auto moves = space.moves(s);
    std::size_t expected = 0;
    for (const auto& u : x.moves.units()) {
      expected += x.moves.placements().all(u.lead).size();
    }
    REQUIRE(moves.size() == expected);
    std::set<std::pair<std::uint32_t, std::uint32_t>> different;
    for (const auto m : moves) {
      different.emplace(m.unit, m.choice);
    }
    CHECK(different.size() == moves.size());
    CHECK(std::equal(moves.begin(), moves.end(), space.moves(s).begin()));
    CHECK(space.change(moves.back()) ==
          x.moves.change_unit(moves.back().unit,
                              x.moves.placements().all(x.moves.units()[moves.back().unit].lead)[moves.back().choice]));
  }
}

TEST_CASE("strategy_space prices are the cost and fingerprint of the state after the move", "[law]") {
  for (const auto& [model, on] : subjects) {
    const subject x{model, on};
    for (std::uint64_t seed = 1; seed <= unity::test::cases(3); ++seed) {
      CAPTURE(model, on, seed);
      random_engine random{seed};
      auto space = x.space(random_unit_strategy(x.moves, random));
      auto s = space.initial();
      strategy_space::scratch_type from;
      strategy_space::scratch_type to;
      auto slow = x.evaluator();
      std::size_t nothing = 0;
      constexpr int steps = unity::test::all_or(60, 15);
      for (int step = 0; step < steps; ++step) {
        const auto moves = space.moves(s);
        const auto m = moves[random.below(moves.size())];
        auto expected = s.at;
        for (const auto& r : space.change(m)) {
          expected[r.node.index()] = r.to;
        }
        space.prepare(s, from);
        const auto before = s.at;
        const auto c = space.price(s, m, from);
        REQUIRE(c.has_value() == (expected != before));
        if (!c) {
          ++nothing;
          continue;
        }
        const auto again = space.price(s, m, from);  // pricing leaves the scratch unchanged
        REQUIRE(again->cost == c->cost);
        REQUIRE(again->fingerprint == c->fingerprint);
        REQUIRE(c->cost == slow.reset(expected));
        auto next = space.apply(s, m, from, to);
        REQUIRE(s.at == before);
        REQUIRE(next.at == expected);
        REQUIRE(space.cost(next) == c->cost);
        REQUIRE(space.fingerprint_of(next) == c->fingerprint);
        // Both scratches are prepared for their states.
        const auto other = moves[random.below(moves.size())];
        strategy_space::scratch_type fresh;
        space.prepare(next, fresh);
        const auto a = space.price(next, other, to);
        const auto b = space.price(next, other, fresh);
        REQUIRE(a.has_value() == b.has_value());
        REQUIRE((!a || (a->cost == b->cost && a->fingerprint == b->fingerprint)));
        if (random.below(2) == 0) {
          s = std::move(next);
        }
      }
      CHECK(nothing < steps);
    }
  }
}

TEST_CASE("strategy_space fingerprints identify strategies and do not depend on the path", "[law]") {
  const subject x{"zoo:lenet?batch=64", "p100:1x4"};
  const std::uint64_t seed = 71;
  CAPTURE(seed);
  random_engine random{seed};
  auto space = x.space(x.data());
  strategy_space::scratch_type from;
  strategy_space::scratch_type to;
  std::map<std::pair<std::uint64_t, std::uint64_t>, parallel::strategy> known;
  auto s = space.initial();
  constexpr std::size_t steps = unity::test::all_or(400, 60);
  for (std::size_t step = 0; step < steps; ++step) {
    const auto moves = space.moves(s);
    const auto m = moves[random.below(moves.size())];
    space.prepare(s, from);
    if (space.price(s, m, from)) {
      s = space.apply(s, m, from, to);
      const auto f = space.fingerprint_of(s);
      const auto [at, is_new] = known.emplace(std::pair{f.low, f.high}, s.at);
      REQUIRE(at->second == s.at);
      // A space built from scratch.
      auto there = x.space(s.at);
      REQUIRE(space.fingerprint_of(there.initial()) == f);
    }
  }
  CHECK(known.size() > steps * 3 / 4);
}

TEST_CASE("a beam of width 1 and patience 1 is steepest descent") {
  for (const auto& [model, on] : std::span{subjects}.first(unity::test::cases(std::size(subjects)))) {
    const subject x{model, on, parallel::block_strides::one};
    const std::uint64_t seed = 72;
    CAPTURE(model, on, seed);
    random_engine random{seed};
    const auto start = random_unit_strategy(x.moves, random);
    auto space = x.space(start);
    beam_options o;
    o.width = 1;
    o.patience = 1;
    const auto greedy = beam(space, o);
    REQUIRE(greedy.cost == slow_descent(x, start));
    REQUIRE(greedy.cost == x.evaluator().reset(greedy.best.at));
    auto before = space.cost(space.initial());
    REQUIRE(greedy.cost < before);
    for (const auto& [move, cost] : greedy.path) {  // only descends
      REQUIRE(cost < before);
      before = cost;
    }
    REQUIRE(before == greedy.cost);
    // No neighbour is cheaper.
    strategy_space::scratch_type scratch;
    space.prepare(greedy.best, scratch);
    for (const auto m : space.moves(greedy.best)) {
      const auto c = space.price(greedy.best, m, scratch);
      REQUIRE((!c || c->cost >= greedy.cost));
    }
  }
}

TEST_CASE("a wider beam mostly beats greedy descent and is never worse than its start", "[exhaustive]") {
  int better = 0;
  int worse = 0;
  for (const auto& [model, on] : std::span{subjects}.first(2)) {
    const subject x{model, on, parallel::block_strides::one};
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      CAPTURE(model, on, seed);
      random_engine random{seed};
      auto space = x.space(random_unit_strategy(x.moves, random));
      const auto search = [&](std::size_t width, std::size_t patience) {
        beam_options o;
        o.width = width;
        o.patience = patience;
        const auto r = beam(space, o);
        REQUIRE(r.cost <= space.cost(space.initial()));
        REQUIRE(r.cost == x.evaluator().reset(r.best.at));
        return r.cost;
      };
      const auto greedy = search(1, 1);
      REQUIRE(search(1, 3) <= greedy);  // the same path, and further
      const auto wide = search(6, 3);
      better += wide < greedy ? 1 : 0;
      worse += wide > greedy ? 1 : 0;
    }
  }
  CAPTURE(better, worse);
  CHECK(better > 2 * worse);
}

}  // namespace tests_of_flexflow_space
