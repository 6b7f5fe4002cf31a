#include <unity/systems/flexflow.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/hardware/presets.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/parallel/strategies/strategy_report.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/zoo.hpp>

#include "../parallel/operators.hpp"
#include "../support/cases.hpp"

namespace tests_of_flexflow {

using namespace unity;
using parallel::test::operators;
using systems::flexflow_options;
using systems::flexflow_result;
using systems::strategy_algorithm;

namespace {

struct subject {
  tensor::tensor_graph graph;
  hardware::machine machine;

  subject(tensor::tensor_graph g, std::string_view on) : graph{std::move(g)}, machine{hardware::preset(on)} {}
  subject(std::string_view model, std::string_view on) : subject{tensor::zoo::build(operators(), model), on} {}

  [[nodiscard]] parallel::lowering lower() const { return {operators(), graph, machine}; }
  [[nodiscard]] std::vector<parallel::strategy> initial(std::size_t random, std::uint64_t seed = 1) const {
    return systems::initial_strategies(operators(), graph, machine, random, seed);
  }
  [[nodiscard]] flexflow_result search(const flexflow_options& o, std::vector<parallel::strategy> from) const {
    return systems::flexflow(operators(), graph, machine, lower(), std::move(from), o);
  }
  [[nodiscard]] flexflow_result search(const flexflow_options& o) const { return search(o, initial(1, o.seed)); }
  [[nodiscard]] parallel::strategy_report report(const parallel::strategy& s) const {
    auto l = lower();
    return parallel::report_on(l, graph, machine, s);
  }
};

flexflow_options options_of(std::uint64_t proposals, std::uint64_t seed,
                            strategy_algorithm by = strategy_algorithm::mcmc) {
  flexflow_options o;
  o.algorithm = by;
  o.limits.expansions = proposals;
  o.seed = seed;
  return o;
}

bool same_answer(const flexflow_result& a, const flexflow_result& b) {
  return a.best == b.best && a.cost == b.cost && a.initial_costs == b.initial_costs && a.proposals == b.proposals &&
         a.accepted == b.accepted && a.stopped == b.stopped;
}

constexpr std::string_view small_rnnlm = "zoo:rnnlm?batch=16&hidden=32&vocab=48&seq=2";

}  // namespace

TEST_CASE("FlexFlow searches depend on the seed and not on the thread count") {
  const subject x{small_rnnlm, "k80:1x4"};
  constexpr auto proposals = std::max<std::uint64_t>(200, unity::test::cases(900));
  constexpr std::size_t counts[] = {2, 4};
  for (const auto by : {strategy_algorithm::mcmc, strategy_algorithm::beam}) {
    auto o = options_of(by == strategy_algorithm::mcmc ? proposals : unity::test::cases(20000), 5, by);
    if (by == strategy_algorithm::mcmc) {
      o.chains = 2;
    } else {
      o.width = 2;
    }
    const auto one = x.search(o);
    REQUIRE(one.proposals > 100);
    for (const auto threads : std::span{counts}.first(unity::test::cases(2))) {
      CAPTURE(threads);
      o.threads = threads;
      REQUIRE(same_answer(x.search(o), one));
    }
  }
  const auto o = options_of(proposals, 6);
  REQUIRE(!same_answer(x.search(o), x.search(options_of(proposals, 7))));
}

TEST_CASE("FlexFlow options of another algorithm are refused by name") {
  const subject x{small_rnnlm, "k80:1x4"};
  auto o = options_of(10, 1, strategy_algorithm::greedy);
  o.width = 2;
  CHECK_THROWS_WITH(x.search(o), "search: a width for another algorithm; expected beam");
  o = options_of(10, 1, strategy_algorithm::beam);
  o.chains = 2;
  CHECK_THROWS_WITH(x.search(o), Catch::Contains("for another algorithm; expected mcmc"));
}

TEST_CASE("FlexFlow searches keep their limit of proposals") {
  const subject x{small_rnnlm, "k80:1x4"};
  constexpr std::uint64_t limits[] = {77, 0, 1, 2, 10, 400};
  for (const auto most : std::span{limits}.first(1 + unity::test::cases(5))) {
    for (const std::size_t chains : {1U, 3U}) {
      auto o = options_of(most, 1);
      o.chains = chains;
      o.patience = 1;
      const auto r = x.search(o);
      CAPTURE(most, chains);
      REQUIRE(r.proposals <= most);
      REQUIRE(r.proposals + 3 * chains > most);  // all proposals except the few that do not divide
      REQUIRE(r.accepted <= r.proposals);
      REQUIRE(r.stopped == stop_reason::expansions);
    }
  }
  for (const auto by : {strategy_algorithm::beam, strategy_algorithm::greedy}) {
    for (const auto most : std::span{limits}) {
      CAPTURE(most);
      REQUIRE(x.search(options_of(most, 1, by)).proposals <= most);
    }
  }
}

TEST_CASE("a FlexFlow search's best is valid with its stated cost and no worse than its start", "[law]") {
  using example = std::pair<std::string_view, std::string_view>;
  unity::test::one_of_some is_tried;
  for (const auto& [model, on] : {example{"zoo:lenet?batch=64", "p100:1x4"}, example{small_rnnlm, "k80:2x3"},
                                  example{"zoo:nmt?batch=12&hidden=24&vocab=36&seq=2", "summit:1x6"},
                                  example{"zoo:candle_uno?batch=48&layers=2&hidden=40", "p100:2x2"}}) {
    const subject x{model, on};
    for (const auto by : {strategy_algorithm::mcmc, strategy_algorithm::greedy, strategy_algorithm::beam}) {
      for (std::uint64_t seed = 0; seed < 3; ++seed) {
        if (!is_tried()) {
          continue;
        }
        CAPTURE(model, on, static_cast<int>(by), seed);
        auto o = options_of(unity::test::cases(by == strategy_algorithm::mcmc ? 600 : 6000), seed, by);
        o.devices = (static_cast<std::uint64_t>(by) + seed) % 3 == 2 ? systems::device_choice::any
                                                                     : systems::device_choice::blocks;
        if (by == strategy_algorithm::beam) {
          o.width = 3;
        }
        const auto from = x.initial(2, seed);
        const auto r = x.search(o, from);
        check(operators(), parallel::graph_dimensions{operators(), x.graph}, r.best, x.machine.network.device_count());
        REQUIRE(r.cost == x.report(r.best).iteration.count());
        REQUIRE(r.initial_costs.size() == from.size());
        for (std::size_t i = 0; i < from.size(); ++i) {
          REQUIRE(r.initial_costs[i] == x.report(from[i]).iteration.count());
          REQUIRE(r.cost <= r.initial_costs[i]);
        }
        REQUIRE(!r.history.empty());
        REQUIRE(r.history.back().cost == r.cost);
        for (std::size_t i = 1; i < r.history.size(); ++i) {
          REQUIRE(r.history[i].cost < r.history[i - 1].cost);
        }
      }
    }
  }
}

TEST_CASE("a FlexFlow search beats data parallelism and the expert strategy on LeNet") {
  const subject x{"zoo:lenet?batch=256", "p100:1x4"};
  const auto r = x.search(options_of(unity::test::cases(30'000), 1));
  CHECK(r.cost < r.initial_costs[0]);
  CHECK(r.cost < r.initial_costs[1]);
}

TEST_CASE("FlexFlow's Markov chains find LeNet's proved optimum on four devices", "[exhaustive]") {
  const subject x{"zoo:lenet?batch=256", "p100:1x4"};
  auto o = options_of(1'000'000'000, 1, strategy_algorithm::exact);
  o.strides = parallel::block_strides::one;
  const auto proof = x.search(o);
  REQUIRE(proof.stopped == stop_reason::exhausted);
  REQUIRE(proof.lower_bound == proof.cost);
  int found = 0;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    auto chains = options_of(40000, seed);
    chains.strides = parallel::block_strides::one;
    chains.patience = 1;
    const auto r = x.search(chains);
    REQUIRE(r.cost >= proof.cost);  // it belongs to the exhaustively searched space
    found += r.cost == proof.cost ? 1 : 0;
  }
  CHECK(found == 5);
}

TEST_CASE("FlexFlow searches leave strategies over the memory limit for fitting ones") {
  subject x{"zoo:lenet?batch=256", "p100:1x4"};
  const parallel::graph_dimensions all{operators(), x.graph};
  const auto known = x.report(parallel::data_parallel(all, x.machine.network)).memory_peak();
  const std::vector<parallel::strategy> from{parallel::model_parallel(operators(), x.graph, all, x.machine.network)};
  x.machine.devices[0].memory = bytes{known.count() + known.count() / 20};
  REQUIRE(!x.report(from[0]).excess.empty());
  for (const auto by : {strategy_algorithm::mcmc, strategy_algorithm::greedy}) {
    for (std::uint64_t seed = 1; seed <= unity::test::cases(3); ++seed) {
      CAPTURE(static_cast<int>(by), seed);
      const auto r = x.search(options_of(unity::test::cases(20000), seed, by), from);
      REQUIRE(r.initial_costs[0] >= systems::over_memory);
      REQUIRE(r.cost < systems::over_memory);
      REQUIRE(x.report(r.best).excess.empty());
      REQUIRE(r.cost == x.report(r.best).iteration.count());
    }
  }
}

TEST_CASE("a FlexFlow search reduces the excess of memory if nothing fits", "[exhaustive]") {
  subject x{"zoo:lenet?batch=256", "p100:1x4"};
  x.machine.devices[0].memory = bytes{1000};
  const auto r = x.search(options_of(30'000, 1));
  REQUIRE(r.cost >= systems::over_memory);
  for (const auto c : r.initial_costs) {
    REQUIRE(r.cost < c);
  }
  REQUIRE(!x.report(r.best).excess.empty());
}

TEST_CASE("an observer stops a FlexFlow search") {
  const subject x{small_rnnlm, "k80:1x4"};
  auto o = options_of(1'000'000'000, 1);
  o.watch = [](const progress& p) { return p.counts.expanded < 100; };
  const auto r = x.search(o);
  CHECK(r.stopped == stop_reason::observer);
  CHECK(r.proposals < 10000);
}

TEST_CASE("FlexFlow's initial strategies are valid and random ones depend on the seed") {
  const subject x{small_rnnlm, "k80:2x3"};
  const auto from = x.initial(3, 9);
  REQUIRE(from.size() == 5);
  for (const auto& s : from) {
    check(operators(), parallel::graph_dimensions{operators(), x.graph}, s, 6);
  }
  CHECK(from == x.initial(3, 9));
  CHECK(from[2] != x.initial(3, 10)[2]);
  CHECK(from[2] != from[3]);
}

TEST_CASE("FlexFlow refuses an initial strategy of another graph") {
  const subject x{small_rnnlm, "k80:1x4"};
  const subject other{"zoo:lenet", "k80:1x4"};
  REQUIRE(x.graph.node_count() != other.graph.node_count());
  CHECK_THROWS_WITH(x.search(options_of(10, 1), other.initial(0)),
                    fmt::format("strategy: {} configurations; expected one for each of the {} nodes",
                                other.graph.node_count(), x.graph.node_count()));
}

}  // namespace tests_of_flexflow
