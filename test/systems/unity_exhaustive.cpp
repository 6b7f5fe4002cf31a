// Unity's plans, against the fastest of all plans of all graphs that substitutions reach in one step, by simulation.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include <fmt/core.h>

#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/core/units.hpp>
#include <unity/cost/cost_model.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/memory_limits.hpp>
#include <unity/parallel/strategies/strategy_bound.hpp>
#include <unity/parallel/strategies/strategy_report.hpp>
#include <unity/parallel/strategies/strategy_tables.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/simulate/full.hpp>
#include <unity/systems/flexflow/evaluator.hpp>
#include <unity/systems/unity.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/convert.hpp>
#include <unity/tensor/operation.hpp>

#include "../support/operators.hpp"
#include "exhaustive_plans.hpp"
#include "rewritten_graphs.hpp"
#include "shipped_rules.hpp"
#include "training_graphs.hpp"

namespace tests_of_unity_exhaustive {

namespace {

using namespace unity;
using unity::test::training::operators;

// Unity's plan for a random graph of five operators, and the best of all plans.
struct comparison {
  cost_value found = 0;  // picoseconds; above over_memory if the plan does not fit
  cost_value best = 0;
  cost_value lower_bound = 0;    // of all plans; equals `best` if all were tried
  cost_value best_of_graph = 0;  // best plan of the graph that the search chose
  cost_value graphs_bound = 0;
  cost_value mapping_bound = 0;
  bool is_limited = false;  // the fastest enumerated plan does not fit

  [[nodiscard]] double ratio() const { return static_cast<double>(found) / static_cast<double>(best); }
};

// The memory of the fastest plan of all, as far as so many prefixes of each graph find it. Nothing of it comes from
// Unity's search.
bytes memory_of_fastest(const tensor::tensor_graph& g, const hardware::machine& m, std::uint64_t most_prefixes) {
  auto least = std::numeric_limits<cost_value>::max();
  bytes peak{};
  test::for_each_rewritten(operators(), test::standard_rules(), g, 1, 300,
                           [&](const tensor::tensor_graph& h, std::size_t) {
                             const auto e = test::exhaustive_plan(operators(), h, m, least, most_prefixes);
                             if (e.best) {
                               least = e.cost;
                               parallel::lowering lowering{operators(), h, m};
                               peak = parallel::report_on(lowering, h, m, *e.best).memory_peak();
                             }
                           });
  return peak;
}

// share: the devices' memory in percent of what the fastest enumerated plan takes; 0: no limit.
comparison compare(std::uint64_t seed, std::int64_t share, std::uint64_t most_prefixes) {
  random_engine random{seed};
  const auto g = test::random_training_graph(random, operators(), 5);
  auto m = hardware::preset("p100:1x4");
  const auto delivered = tensor::with_delivered_outputs(operators(), g);
  comparison c;
  if (share > 0) {
    const auto peak = memory_of_fastest(delivered, m, most_prefixes);
    REQUIRE(peak > bytes{});
    m.devices[0].memory = std::max(hardware::least_device_memory, bytes{peak.count() * share / 100});
    c.is_limited = m.devices[0].memory < peak;
  }
  const auto r =
      systems::unity(operators(), test::standard_rules(), g, m, parallel::analytic_durations(operators(), m));
  parallel::lowering lowering{operators(), r.graph, m};
  const bool is_plain = r.pipeline.is_trivial() && r.synchronization.is_trivial() && r.recomputed.empty();
  c.found = is_plain
                ? systems::strategy_evaluator{lowering, parallel::memory_limits(m)}.reset(r.strategy)
                : r.report.iteration.count() + (r.report.excess.empty() ? 0 : systems::over_memory);
  c.best = c.found;
  c.lower_bound = c.found;
  c.best_of_graph = r.pipeline.microbatches == 1  // otherwise its graph has fewer samples
                        ? test::exhaustive_plan(operators(), r.graph, m, c.found, most_prefixes).cost
                        : c.found;
  c.graphs_bound = r.graphs_bound.count();
  c.mapping_bound = r.mapping_bound.count();
  test::for_each_rewritten(operators(), test::standard_rules(), delivered, 1, 300,
                           [&](const tensor::tensor_graph& h, std::size_t) {
                             const auto e = test::exhaustive_plan(operators(), h, m, c.best, most_prefixes);
                             c.best = std::min(c.best, e.cost);
                             c.lower_bound = std::min(c.lower_bound, e.lower_bound);
                           });
  return c;
}

struct summary {
  std::size_t all = 0;
  std::size_t equal = 0;
  std::size_t close = 0;
  std::size_t proved = 0;  // `best` is known to be optimal
  std::size_t limited = 0;
  std::size_t fitting = 0;  // limited cases whose plan fits
  double worst = 1;
  double gaps = 0;  // sum of found / mapping bound - 1
};

summary compare_all(std::uint64_t first, std::uint64_t count, std::int64_t share, std::uint64_t most_prefixes,
                    double near) {
  summary s;
  for (auto seed = first; seed < first + count; ++seed) {
    CAPTURE(seed, share);
    const auto c = compare(seed, share, most_prefixes);
    CAPTURE(c.found, c.best, c.lower_bound);
    ++s.all;
    s.equal += c.ratio() < 1 + 1e-6 ? 1 : 0;  // tasks take whole picoseconds
    s.close += c.ratio() <= near ? 1 : 0;
    s.proved += c.lower_bound >= c.best ? 1 : 0;
    s.limited += c.is_limited ? 1 : 0;
    s.fitting += c.is_limited && c.found < systems::over_memory ? 1 : 0;
    s.worst = std::max(s.worst, c.ratio());
    CHECK(c.graphs_bound <= c.best);
    CHECK(c.mapping_bound <= c.best_of_graph);
    s.gaps += static_cast<double>(c.found) / static_cast<double>(c.mapping_bound) - 1;
    if (c.ratio() > 1 + 1e-6) {
      fmt::print("seed {}, {}% of the memory: found {}, best {}, {:.4f}\n", seed, share, c.found, c.best, c.ratio());
    }
  }
  return s;
}

std::uint64_t number_of(const char* variable, std::uint64_t otherwise) {
  const auto* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

tensor::tensor_graph two_products() {
  tensor::builder b{operators()};
  const auto x = b.matmul(b.input("x", {64, 96}), b.weight("v", {96, 640}));
  return std::move(b).finish({b.matmul(x, b.weight("w", {640, 8}))});
}

}  // namespace

TEST_CASE("exhaustive_plan and its bound agree with all plans of two operators on two devices") {
  const auto g = two_products();
  const auto m = hardware::preset("p100:1x2");
  parallel::lowering lowering{operators(), g, m};
  parallel::strategy_choices choices;
  for (const auto n : node_ids(g)) {
    if (!g.operands(n).empty()) {
      choices.operators.push_back(n);
      choices.configurations.push_back(
          test::all_configurations(lowering.dimensions()[n], 2, choices.operators.size() == 1));
    }
  }
  REQUIRE(choices.size() == 2);
  const parallel::strategy_tables tables{lowering, choices, 2};
  parallel::strategy_bound bound{tables};
  simulate::full_simulation full;
  auto least = std::numeric_limits<std::int64_t>::max();
  std::size_t plans = 0;
  parallel::strategy s(g.node_count());
  for (std::uint32_t first = 0; first < choices.configurations[0].size(); ++first) {
    s[choices.operators[0].index()] = choices.configurations[0][first];
    const auto of_first = bound.push(first).count();
    for (std::uint32_t second = 0; second < choices.configurations[1].size(); ++second) {
      s[choices.operators[1].index()] = choices.configurations[1][second];
      const auto takes = full.run(lowering.run(s)).count();
      CHECK(of_first <= takes);
      CHECK(bound.push(second).count() <= takes);
      bound.pop();
      least = std::min(least, takes);
      ++plans;
    }
    bound.pop();
  }
  CAPTURE(plans, least);
  CHECK(plans >= 40);
  const auto e = test::exhaustive_plan(operators(), g, m, std::numeric_limits<cost_value>::max(), 1'000'000);
  CHECK(e.is_complete);
  CHECK(e.best.has_value());
  CHECK(e.cost == least);
  CHECK(e.lower_bound == least);
}

TEST_CASE("Unity's plans are within 5% of the best plan one substitution away", "[exhaustive]") {
  // The polish is random: of 500 seeds, 2 are more than 5% off, none of these (docs/design/investigations.md).
  const auto s = compare_all(0, 8, 0, 200, 1.05);
  CHECK(s.close == s.all);
  CHECK(10 * s.equal >= 8 * s.all);
}

// Run by hand, takes an hour: test_systems "[plans]"; FIRST, COUNT, PREFIXES and MEMORY (percent) in the environment.
TEST_CASE("Unity's plans of 500 graphs are close to the best plan one substitution away", "[.][plans]") {
  const auto share = static_cast<std::int64_t>(number_of("MEMORY", 0));
  const auto s = compare_all(number_of("FIRST", 0), number_of("COUNT", 500), share, number_of("PREFIXES", 2000),
                             share > 0 ? 1.02 : 1.05);
  fmt::print(
      "{} graphs: {} equal to the best, {} close to it, worst {:.4f}; of {} the best is proved; mean gap {:.3f}; {} "
      "short of memory, {} of them fit\n",
      s.all, s.equal, s.close, s.worst, s.proved, s.gaps / static_cast<double>(s.all), s.limited, s.fitting);
  CHECK(s.close == s.all);
  CHECK(10 * s.equal >= 9 * s.all);
}

}  // namespace tests_of_unity_exhaustive
