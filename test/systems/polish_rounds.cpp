// Plans that are polished together.
#include <unity/systems/unity/polish_rounds.hpp>

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/parallel/strategies/strategy_report.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/systems/unity/options.hpp>
#include <unity/systems/unity/search_context.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/zoo.hpp>

#include "../support/operators.hpp"

namespace tests_of_polish_rounds {

namespace {

using namespace unity;
using systems::detail::polish_start;
using systems::detail::polished_plan;
using systems::detail::search_context;
using unity::test::training::operators;

struct four_devices {
  hardware::machine machine = hardware::preset("p100:1x4");
  tensor::tensor_graph graph = tensor::zoo::build(operators(), "zoo:mlp?layers=3");
  systems::unity_options options{};
  search_context context{operators(), machine, parallel::analytic_durations(operators(), machine), options};

  // A data-parallel plan, on no mesh.
  [[nodiscard]] polish_start start() {
    auto lowering = context.lowering_of(graph);
    return {graph, parallel::replicated_data_parallel(lowering.dimensions(), machine.network)};
  }
  [[nodiscard]] picoseconds time_of(const parallel::strategy& s) {
    auto lowering = context.lowering_of(graph);
    return parallel::report_on(lowering, graph, machine, s).iteration;
  }
};

}  // namespace

TEST_CASE("polished plans are faster than their starts and state their simulated time") {
  four_devices on;
  on.options.proposals = 400;
  const std::vector<polish_start> starts{on.start(), on.start()};
  const auto before = on.time_of(starts[0].plan);
  const auto found = systems::detail::polished(on.context, starts);
  REQUIRE_FALSE(found.empty());
  CHECK(on.context.record.proposals > 0);
  CHECK(on.context.record.proposals <= 400);
  for (std::size_t i = 0; i < found.size(); ++i) {
    CHECK((i == 0 || found[i - 1].start < found[i].start));
    CHECK(found[i].start < starts.size());
    CHECK(found[i].report.iteration < before);
    CHECK(found[i].report.iteration == on.time_of(found[i].plan));
    CHECK(found[i].graph == on.graph);
    CHECK(found[i].bound <= found[i].report.iteration);
  }
  CHECK_FALSE(on.context.time.ended_early());
}

TEST_CASE("polishing with the same seed gives the same plan") {
  const auto run = [] {
    four_devices on;
    on.options.proposals = 400;
    std::vector<std::tuple<std::size_t, parallel::strategy, picoseconds>> all;
    for (const auto& p : systems::detail::polished(on.context, {on.start(), on.start()})) {
      all.emplace_back(p.start, p.plan, p.report.iteration);
    }
    return all;
  };
  const auto found = run();
  REQUIRE_FALSE(found.empty());
  CHECK(run() == found);
}

TEST_CASE("polishing without proposals or time or of too large graphs improves no plan") {
  four_devices none;
  none.options.proposals = 0;
  CHECK(systems::detail::polished(none.context, {none.start()}).empty());

  four_devices large;
  large.options.program_tasks = 1;
  CHECK(systems::detail::polished(large.context, {large.start()}).empty());
  CHECK(large.context.record.proposals == 0);

  four_devices mapped;  // a plan on no mesh can only be changed freely
  mapped.options.uses = systems::detail::samples_alone;
  CHECK(systems::detail::polished(mapped.context, {mapped.start()}).empty());

  const auto machine = hardware::preset("p100:1x4");
  systems::unity_options at_once;
  at_once.limits.seconds = 0;
  search_context late{operators(), machine, parallel::analytic_durations(operators(), machine), at_once};
  CHECK(systems::detail::polished(late, {none.start()}).empty());
  CHECK(late.time.ended_early());
}

}  // namespace tests_of_polish_rounds
