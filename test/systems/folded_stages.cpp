// Pipelines of unequal stages simulated with one device of each kind, compared with the simulation of all devices.

#include <unity/parallel/strategies/folded_report.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/budget.hpp>
#include <unity/core/random.hpp>
#include <unity/core/units.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/parallel/strategies/strategy_report.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/systems/unity.hpp>
#include <unity/systems/unity/memory_search.hpp>
#include <unity/systems/unity/memory_trading.hpp>
#include <unity/systems/unity/pipelines.hpp>
#include <unity/systems/unity/unequal_stages.hpp>
#include <unity/tensor/zoo.hpp>

#include "../support/cases.hpp"
#include "../support/operators.hpp"
#include "pipeline_subject.hpp"

namespace tests_of_folded_stages {

using namespace unity;
using unity::test::training::operators;

namespace {

using subject = unity::test::pipeline_subject;

// A pipeline candidate in the form that lowering takes.
struct plan_of {
  const systems::microbatch_graph& g;
  parallel::strategy strategy;
  parallel::pipeline stages;
  parallel::synchronization sync;
  parallel::recomputation again;
  parallel::lowering low;

  plan_of(const subject& x, const systems::pipeline_candidate& c)
      : g{*c.graph},
        strategy{systems::pipeline_search::strategy_of(c)},
        stages{systems::pipeline_search::pipeline_of(c)},
        sync{systems::synchronization_of(g.graph, g.training, g.ops, c.mapping.trades)},
        again{systems::recomputation_of(g.graph, g.ops, c.mapping.trades)},
        low{operators(), g.graph, x.machine} {}

  [[nodiscard]] parallel::strategy_report whole(const subject& x) {
    return parallel::report_on(low, g.graph, x.machine, strategy, stages, sync, again);
  }
  [[nodiscard]] parallel::strategy_report folded(const subject& x, std::size_t most) {
    return parallel::folded_report(low, g.graph, x.machine, strategy, stages, sync, again, most);
  }
};

constexpr std::size_t all_that_differ = std::size_t{1} << 40U;

#ifdef __OPTIMIZE__
constexpr double slowness = 1;
#else
constexpr double slowness = 20;
#endif

double ratio(std::int64_t a, std::int64_t b) { return static_cast<double>(a) / static_cast<double>(b); }

}  // namespace

TEST_CASE("folded reports of unequal stages are exact or with joined kinds up to 30% late", "[law]") {
  std::size_t compared = 0;
  std::size_t smaller = 0;
  std::size_t traded = 0;
  for (std::uint64_t seed = 0; seed < unity::test::cases(8); ++seed) {
    random_engine random{seed};
    const auto* const on = std::array{"p100:1x3", "p100:2x3", "p100:2x4", "dgx_a100:1x5"}[seed % 4];
    const auto samples = 16 << random.below(3);
    const auto layers = random.below(6);
    const auto hidden = 64 << random.below(4);
    const auto model =
        random.below(2) == 0
            ? fmt::format("zoo:mlp?layers={}&hidden={}&batch={}", 3 + layers, hidden, samples)
            : fmt::format("zoo:gpt?layers={}&hidden=64&heads=4&seq=16&vocab=128&batch={}", 1 + layers / 2, samples);
    systems::pipeline_options o;
    o.trades = seed / 4 % 2 == 0 ? parallel::memory_trades::recomputing : parallel::memory_trades::none;
    CAPTURE(seed, on, model);
    subject x{model, on, o};
    auto found = systems::unequal_stages{x.pipelines}.run(x.graph);
    for (std::size_t i = 0; i < std::min<std::size_t>(found.size(), 5); ++i) {
      std::swap(found[i], found[i + random.below(found.size() - i)]);
      auto all = x.pipelines.schedules_of(found[i]);
      all.push_back(found[i]);
      for (const auto& c : all) {
        plan_of p{x, c};
        CAPTURE(p.stages.stages, p.stages.microbatches, p.stages.schedule);
        traded += p.again.empty() ? 0 : 1;
        const auto whole = p.whole(x);
        const auto folded = p.folded(x, all_that_differ);
        CHECK(folded.simulated == parallel::simulated_devices::one_of_each_kind);
        CHECK(folded.iteration == whole.iteration);
        CHECK(folded.compute == whole.compute);
        CHECK(folded.communication == whole.communication);
        CHECK(folded.memory_peaks == whole.memory_peaks);
        CHECK(folded.excess == whole.excess);
        CHECK(folded.tasks <= whole.tasks);
        smaller += folded.tasks < whole.tasks ? 1 : 0;
        const auto rough = p.folded(x, 0);
        CHECK(rough.simulated == parallel::simulated_devices::one_of_joined_kinds);
        CHECK(rough.tasks <= folded.tasks);
        CHECK(rough.compute == whole.compute);
        const auto late = ratio(rough.iteration.count(), whole.iteration.count());
        CHECK(late > 0.99);
        CHECK(late < 1.3);
        CHECK(ratio(rough.memory_peak().count(), whole.memory_peak().count()) == Approx(1).epsilon(0.1));
        ++compared;
      }
    }
  }
  CHECK(compared > 0);
  CHECK((unity::test::one_case_of > 1 || smaller > compared / 2));
  CHECK((unity::test::one_case_of > 1 || traded > 0));
}

TEST_CASE("folded reports of large pipelines are fast and within 10% of full simulation", "[exhaustive]") {
  const auto* const on = GENERATE("dgx_a100:8x8", "dgx_a100:32x8");
  const bool is_small = on == std::string{"dgx_a100:8x8"};
  CAPTURE(on);
  subject x{fmt::format("zoo:gpt?layers={}&hidden=2048&heads=16&seq=512&vocab=8000&batch=256", is_small ? 2 : 12), on};
  const auto all = systems::unequal_stages{x.pipelines}.run(x.graph);
  REQUIRE_FALSE(all.empty());
  for (std::size_t i = 0; i < std::min<std::size_t>(all.size(), is_small ? 3 : 1); ++i) {
    plan_of p{x, all[i]};
    const stopwatch watch;
    const auto folded = p.folded(x, 0);
    const auto took = watch.seconds();
    CAPTURE(p.stages.stage_count(), p.stages.microbatches, x.graph.node_count(), folded.tasks, took);
    CHECK(folded.iteration > picoseconds{});
    CHECK(folded.memory_peaks.size() == x.machine.network.device_count());
    const auto per_operator = folded.tasks / static_cast<std::size_t>(p.stages.microbatches) / x.graph.node_count();
    CHECK(per_operator < 16);
    if (is_small) {
      const auto whole = p.whole(x);
      CHECK(folded.tasks < whole.tasks / 5);
      CHECK(ratio(folded.iteration.count(), whole.iteration.count()) > 0.96);
      CHECK(ratio(folded.iteration.count(), whole.iteration.count()) < 1.1);
      CHECK(ratio(folded.memory_peak().count(), whole.memory_peak().count()) == Approx(1).epsilon(0.05));
    } else {
      CHECK(took < 2 * slowness);
    }
  }
}

TEST_CASE("plans of unequal stages are found by folded reports if whole programs are too large") {
  const auto m = unity::hardware::preset("dgx_a100:3x8");  // two stages: 8 and 16 devices
  const auto g =
      tensor::zoo::build(operators(), "zoo:gpt?layers=2&hidden=1024&heads=8&seq=128&vocab=1000&batch=96");
  systems::unity_options o;
  o.proposals = 0;
  o.mesh_axes = 1;
  o.candidates = 3;
  const auto of_two_stages = [&](std::uint64_t tasks) {
    o.program_tasks = tasks;
    const auto r = systems::unity(operators(), {}, g, m, parallel::analytic_durations(operators(), m), o);
    std::vector<parallel::strategy_report> all;
    for (const auto& s : r.simulated) {
      if (s.stages == 2) {
        all.push_back(s.report);
      }
    }
    return all;
  };
  const auto folded = of_two_stages(3000);
  REQUIRE_FALSE(folded.empty());
  CHECK(folded.front().is_of_representatives());
  CHECK(of_two_stages(1000).empty());
  const auto whole = of_two_stages(1'000'000);
  REQUIRE_FALSE(whole.empty());
  CHECK_FALSE(whole.front().is_of_representatives());
  CHECK(ratio(folded.front().iteration.count(), whole.front().iteration.count()) == Approx(1).epsilon(0.1));
}

}  // namespace tests_of_folded_stages
