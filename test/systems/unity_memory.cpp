// Plans that trade time for memory.
#include <unity/systems/unity.hpp>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <fmt/core.h>

#include <unity/core/random.hpp>
#include <unity/core/units.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/strategy_report.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/systems/unity/memory_search.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/zoo.hpp>

#include "../support/cases.hpp"
#include "../support/operators.hpp"
#include "plan_checks.hpp"
#include "shipped_rules.hpp"

namespace tests_of_unity_memory {

using namespace unity;
using unity::test::training::operators;

namespace {

tensor::tensor_graph transformer(int layers) {
  return tensor::zoo::build(operators(),
                            fmt::format("zoo:bert?form=ae&batch=16&layers={}&hidden=64&heads=4&seq=64", layers));
}

systems::unity_result search(const tensor::tensor_graph& g, const hardware::machine& m, systems::unity_options o) {
  o.proposals = 0;
  o.optimizer = parallel::optimizer::adam;
  return systems::unity(operators(), test::joint_rules(), g, m, parallel::analytic_durations(operators(), m), o);
}

hardware::machine with_memory(hardware::machine m, std::int64_t limit) {
  for (auto& d : m.devices) {
    d.memory = bytes{limit};
  }
  return m;
}

}  // namespace

TEST_CASE("Unity's memory frontier is strictly ordered and its plans simulate to their reports") {
  const auto g = transformer(unity::test::all_or(3, 2));
  const auto m = hardware::preset("p100:1x4");
  systems::unity_options o;
  o.frontier = true;
  const auto r = search(g, m, o);
  REQUIRE(r.frontier.size() > 4);
  std::size_t recomputing = 0;
  std::size_t sharding = 0;
  std::size_t accumulating = 0;
  for (std::size_t i = 0; i < r.frontier.size(); ++i) {
    const auto& p = r.frontier[i];
    CAPTURE(i);
    if (i > 0) {
      CHECK(p.report.iteration > r.frontier[i - 1].report.iteration);
      CHECK(p.report.memory_peak() < r.frontier[i - 1].report.memory_peak());
    }
    const parallel::plan plan{p.graph,           p.strategy,  m, p.pipeline, parallel::optimizer::adam,
                              p.synchronization, p.recomputed};
    check(operators(), plan);
    parallel::lowering lowering{operators(),
                                p.graph,
                                m,
                                parallel::analytic_durations(operators(), m),
                                parallel::transfers::exchanges,
                                parallel::optimizer::adam};
    CHECK(parallel::report_on(lowering, p.graph, m, p.strategy, p.pipeline, p.synchronization, p.recomputed) ==
          p.report);
    recomputing += p.recomputed.empty() ? 0 : 1;
    sharding += p.synchronization.is_trivial() ? 0 : 1;
    accumulating += p.pipeline.microbatches > 1 ? 1 : 0;
  }
  CHECK(recomputing > 0);
  CHECK(sharding > 0);
  CHECK(accumulating > 0);
  CHECK(2 * r.frontier.back().report.memory_peak().count() < r.frontier.front().report.memory_peak().count());
  // The result is the fastest plan, and the smallest among equally fast ones.
  CHECK(r.report == r.frontier.front().report);
}

TEST_CASE("Unity's plan under each memory limit is within 10% of the frontier's", "[exhaustive]") {
  const auto g = transformer(2);
  const auto m = hardware::preset("p100:1x4");
  systems::unity_options o;
  o.frontier = true;
  const auto all = search(g, m, o);
  o.frontier = false;
  REQUIRE(all.frontier.size() > 2);
  for (const auto& p : all.frontier) {
    const auto limit = p.report.memory_peak().count();
    CAPTURE(limit);
    const auto r = search(g, with_memory(m, limit), o);
    CHECK(r.report.excess.empty());
    CHECK(r.frontier.empty());
    CHECK(static_cast<double>(r.report.iteration.count()) <= 1.1 * static_cast<double>(p.report.iteration.count()));
  }
}

}  // namespace tests_of_unity_memory
