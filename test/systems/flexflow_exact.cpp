#include <unity/systems/flexflow/exact.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/core/units.hpp>
#include <unity/cost/cost_model.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/memory_limits.hpp>
#include <unity/parallel/strategies/placements.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/search/branch_and_bound.hpp>
#include <unity/simulate/delta.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/timeline.hpp>
#include <unity/systems/flexflow/evaluator.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/zoo.hpp>

#include "../support/cases.hpp"
#include "../support/operators.hpp"

namespace tests_of_flexflow_exact {

using namespace unity;
using unity::test::training::operators;

static_assert(assignment_problem<systems::strategy_problem>);

namespace {

// Two branches from one product that join again. Small sizes make many configurations cost nearly the same.
tensor::tensor_graph diamond(std::int64_t batch, std::int64_t wide) {
  tensor::builder b{operators()};
  const auto w = b.weight("w", {wide, wide});
  const auto first = b.matmul(b.input("x", {batch, wide}), w);
  return std::move(b).finish({b.add(b.matmul(first, w), b.tanh(first))});
}
tensor::tensor_graph perceptron(std::int64_t batch) {
  tensor::builder b{operators()};
  const auto h = b.relu(b.matmul(b.input("x", {batch, 96}), b.weight("w1", {96, 640})));
  return std::move(b).finish({b.matmul(h, b.weight("w2", {640, 8}))});
}

struct subject {
  tensor::tensor_graph graph;
  hardware::machine machine;

  subject(tensor::tensor_graph g, std::string_view on) : graph{std::move(g)}, machine{hardware::preset(on)} {}
  [[nodiscard]] parallel::lowering lower() const { return {operators(), graph, machine}; }
  [[nodiscard]] systems::flexflow_exact_result exact(const std::vector<parallel::strategy>& initial = {},
                                                     const systems::flexflow_exact_options& o = {}) const {
    return systems::flexflow_exact(graph, machine, lower(), initial, o);
  }
  [[nodiscard]] parallel::strategy data() const {
    return parallel::data_parallel(parallel::graph_dimensions{operators(), graph}, machine.network);
  }
  // A strategy's cost, by a fresh evaluator.
  [[nodiscard]] cost_value cost(const parallel::strategy& s) const {
    return systems::strategy_evaluator{lower(), parallel::memory_limits(machine)}.reset(s);
  }
};

// Lowers and simulates every strategy from scratch.
struct enumeration {
  cost_value cheapest = std::numeric_limits<cost_value>::max();
  double strategies = 0;
};
enumeration enumerate(const subject& x) {
  enumeration all;
  auto lower = x.lower();
  const parallel::placements placements{lower.dimensions(), x.machine.network.device_count(),
                                        parallel::block_strides::one};
  parallel::strategy s(x.graph.node_count());
  simulate::full_simulation full;
  const auto visit = [&](const auto& self, std::size_t n) -> void {
    if (n == s.size()) {
      all.cheapest = std::min(all.cheapest, full.run(lower.run(s)).count());
      ++all.strategies;
      return;
    }
    if (x.graph.operands(node_id{n}).empty()) {
      self(self, n + 1);
      return;
    }
    for (const auto& c : placements.all(node_id{n})) {
      s[n] = c;
      self(self, n + 1);
    }
  };
  visit(visit, 0);
  return all;
}

}  // namespace

TEST_CASE("flexflow_exact finds the cheapest strategy of exhaustive enumeration") {
  const std::vector<std::pair<tensor::tensor_graph, std::string_view>> small{
      {perceptron(16), "p100:1x4"},     {diamond(64, 64), "p100:1x2"},  {perceptron(65536), "k80:1x4"},
      {perceptron(4096), "p100:2x2"},   {perceptron(4096), "p100:1x4"}, {diamond(4096, 512), "k80:1x2"},
      {diamond(2048, 2048), "p100:2x1"}};
  for (const auto& [graph, on] : std::span{small}.first(1 + unity::test::cases(6))) {
    const subject x{graph, on};
    const auto all = enumerate(x);
    const auto r = x.exact();
    INFO(on << ", " << all.strategies << " strategies");
    REQUIRE(r.strategies == all.strategies);
    REQUIRE(r.cost == all.cheapest);
    REQUIRE(r.lower_bound == all.cheapest);
    REQUIRE(r.stopped == stop_reason::exhausted);
    REQUIRE(x.cost(r.best) == r.cost);
    REQUIRE(x.exact({x.data()}).cost == all.cheapest);
    REQUIRE(static_cast<double>(r.simulated) < all.strategies);
  }
}

TEST_CASE("the optima of LeNet and of two steps of RNNLM on four devices are proved") {
  constexpr const char* models[] = {"zoo:lenet?batch=256", "zoo:rnnlm?seq=2&batch=256"};
  for (const auto* model : std::span{models}.first(unity::test::cases(2))) {
    INFO(model);
    const subject x{tensor::zoo::build(operators(), model), "p100:1x4"};
    const auto r = x.exact();
    REQUIRE(r.stopped == stop_reason::exhausted);
    REQUIRE(r.cost == r.lower_bound);
    REQUIRE(r.strategies > 1e10);
    REQUIRE(x.cost(r.best) == r.cost);
    REQUIRE(r.cost < x.cost(x.data()));

    // No strategy that differs in one or two operators costs less.
    auto lower = x.lower();
    const parallel::placements placements{lower.dimensions(), 4, parallel::block_strides::one};
    simulate::full_simulation full;
    const std::uint64_t seed = 81;
    INFO("seed " << seed);
    random_engine random{seed};
    for (int i = 0; i < static_cast<int>(unity::test::cases(1500)); ++i) {
      auto near = r.best;
      for (int k = 0; k < 1 + i % 2; ++k) {
        const node_id n{random.below(near.size())};
        near[n.index()] = x.graph.operands(n).empty() ? near[n.index()] : placements.sample(n, random);
      }
      REQUIRE(full.run(lower.run(near)).count() >= r.cost);
    }
  }
}

TEST_CASE("an exact search keeps an optimal start and if stopped is no worse than its start") {
  const subject x{tensor::zoo::build(operators(), "zoo:lenet?batch=256"), "p100:1x4"};
  const auto optimum = x.exact();
  const auto again = x.exact({x.data(), optimum.best});
  REQUIRE(again.best == optimum.best);
  REQUIRE(again.cost == optimum.cost);
  REQUIRE(again.history.empty());
  systems::flexflow_exact_options o;
  o.limits.expansions = 20;
  const auto stopped = x.exact({x.data()}, o);
  REQUIRE(stopped.stopped == stop_reason::expansions);
  REQUIRE(stopped.cost <= x.cost(x.data()));
  REQUIRE(stopped.lower_bound <= optimum.cost);
  REQUIRE(stopped.lower_bound > optimum.cost / 2);
}

TEST_CASE("renumbering equal devices keeps the optimum's time but not every strategy's time", "[exhaustive]") {
  // Rings follow device numbers, and these break ties, so renumbered devices give different costs: `exact` must not
  // treat such strategies as equal.
  const subject x{tensor::zoo::build(operators(), "zoo:rnnlm?seq=2&batch=256"), "p100:1x4"};
  auto lower = x.lower();
  const parallel::placements placements{lower.dimensions(), 4, parallel::block_strides::one};
  simulate::full_simulation full;
  const auto renumbered = [](parallel::strategy s, const std::vector<std::size_t>& to) {
    for (auto& c : s) {
      for (auto& d : c.devices) {
        d = hardware::device_id{to[d.index()]};
      }
    }
    return s;
  };
  const auto optimum = x.exact();
  const std::uint64_t seed = 82;
  INFO("seed " << seed);
  random_engine random{seed};
  auto drawn = optimum.best;
  for (std::size_t n = 0; n < drawn.size(); ++n) {
    drawn[n] = x.graph.operands(node_id{n}).empty() ? drawn[n] : placements.sample(node_id{n}, random);
  }
  const auto before = full.run(lower.run(drawn));
  int other = 0;
  std::vector<std::size_t> to{0, 1, 2, 3};
  do {
    REQUIRE(full.run(lower.run(renumbered(optimum.best, to))).count() == optimum.cost);
    other += full.run(lower.run(renumbered(drawn, to))) != before ? 1 : 0;
  } while (std::next_permutation(to.begin(), to.end()));
  REQUIRE(other > 0);
}

TEST_CASE("the exact search rejects strategies over the memory limit if others fit") {
  subject x{perceptron(16), "p100:1x4"};  // everything on one device
  const auto before = x.exact();
  auto lower = x.lower();
  const simulate::delta_simulation run{lower.run(before.best)};
  bytes peak{};
  for (const auto& p : simulate::memory_profiles(run.program(), run.times())) {
    peak = std::max(peak, p.peak);
  }
  x.machine.devices[0].memory = peak - bytes{1};
  const auto after = x.exact();
  REQUIRE(after.stopped == stop_reason::exhausted);
  REQUIRE(after.best != before.best);
  REQUIRE(after.cost >= before.cost);
  REQUIRE(after.cost < systems::over_memory);
  REQUIRE(x.cost(before.best) > systems::over_memory);
}

}  // namespace tests_of_flexflow_exact
