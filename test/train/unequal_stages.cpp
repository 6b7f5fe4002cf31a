// Pipelines of stages with unequal numbers of devices: validated, simulated and trained.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/recomputation.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/parallel/strategies/strategy_report.hpp>
#include <unity/parallel/strategies/sync_policies.hpp>

#include "../parallel/divided_at_random.hpp"
#include "../support/cases.hpp"
#include "runs.hpp"

namespace tests_of_unequal_stages {

namespace {

using namespace unity;
using parallel::pipeline_schedule;
using train::test::operators;

constexpr std::uint64_t seed = 3;
constexpr std::uint64_t steps = 4;
const train::update_rule rule{parallel::optimizer::momentum, 0.05};

// By stage, its number of devices.
using group_sizes = std::vector<std::size_t>;

// How the devices of a stage share its work: by samples, as copies, or at random in parts, terms and copies.
enum class division : std::uint8_t { samples, copies, random };

parallel::pipeline pipeline_of(const group_sizes& sizes, std::int64_t microbatches, pipeline_schedule schedule) {
  parallel::pipeline p{microbatches, {}, false, schedule, schedule == pipeline_schedule::interleaved ? 2U : 1U};
  for (std::uint32_t k = 0; k < sizes.size(); ++k) {
    p.stages.insert(p.stages.end(), sizes[k], k);
  }
  return p;
}

// A chain that goes through all groups once per chunk.
parallel::plan in_groups(const parallel::plan& whole, const group_sizes& sizes, std::int64_t microbatches,
                         pipeline_schedule schedule, division kind, random_engine& random) {
  parallel::plan p;
  const auto devices = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
  p.graph =
      parallel::microbatch(operators(), whole.graph, parallel::graph_dimensions{operators(), whole.graph}, microbatches)
          .value();
  p.machine = hardware::preset(devices == 8 ? "p100:2x4" : "p100:1x" + std::to_string(devices));
  p.pipeline = pipeline_of(sizes, microbatches, schedule);
  const parallel::graph_dimensions all{operators(), p.graph};
  std::vector<parallel::strategy> shared;  // by stage, on devices numbered from 0
  for (const auto size : sizes) {
    shared.push_back(parallel::data_parallel(all, hardware::preset("p100:1x" + std::to_string(size)).network));
  }
  for (const auto n : node_ids(p.graph)) {
    auto& c = p.configurations.emplace_back();
    if (all[n].inputs.empty()) {
      continue;
    }
    const auto stage = n.index() * sizes.size() * p.pipeline.chunks / p.graph.node_count() % sizes.size();
    const auto size = sizes[stage];
    if (kind == division::random) {
      const bool is_output = p.graph.producer(p.graph.outputs()[0]) == n;
      c = parallel::test::divided_at_random(all[n], size, random, {!is_output, random.below(4) == 0});
    } else if (kind == division::samples) {
      c = shared[stage][n.index()];
    } else {
      c = parallel::on_device(all[n], hardware::device_id{std::size_t{0}});
      c.copies = static_cast<std::int64_t>(size);
      c.devices.clear();
      for (std::size_t d = 0; d < size; ++d) {
        c.devices.push_back(hardware::device_id{d});
      }
    }
    const auto first = static_cast<std::size_t>(std::find(p.pipeline.stages.begin(), p.pipeline.stages.end(), stage) -
                                                p.pipeline.stages.begin());
    for (auto& d : c.devices) {
      d = hardware::device_id{first + d.index()};
    }
  }
  return p;
}

std::vector<double> losses_of(const parallel::plan& p) {
  return train::test::train_some(train::with_loss(operators(), p, tensor::loss::mean_square), rule, seed, 0, steps, {},
                                 {});
}

void check_losses(const std::vector<double>& found, const std::vector<double>& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t s = 0; s < expected.size(); ++s) {
    CAPTURE(s);
    CHECK(std::abs(found[s] - expected[s]) <= 1e-9 * std::abs(expected[s]));
  }
  CHECK(expected.back() != expected.front());
}

parallel::strategy_report report_on(const parallel::plan& p) {
  parallel::lowering low{operators(), p.graph, p.machine};
  return parallel::report_on(low, p.graph, p.machine, p.configurations, p.pipeline, p.synchronization, p.recomputed);
}

}  // namespace

TEST_CASE("pipelines with unequal stages train as one device under all four schedules") {
  const auto sizes = GENERATE(group_sizes{1, 3}, group_sizes{3, 1}, group_sizes{2, 1, 1}, group_sizes{4, 2, 2});
  const auto schedule = GENERATE(pipeline_schedule::one_forward_one_backward, pipeline_schedule::gpipe,
                                 pipeline_schedule::interleaved, pipeline_schedule::zero_bubble);
  const auto kind = GENERATE(division::samples, division::random);
  const bool recomputes = kind == division::random;
  const auto microbatches = 2 * static_cast<std::int64_t>(sizes.size());
  const std::string model =
      GENERATE("zoo:mlp?layers=6&hidden=12&batch=", "zoo:gpt?layers=2&hidden=12&heads=3&seq=4&vocab=12&batch=") +
      std::to_string(12 * microbatches);
  if (static unity::test::one_of_some is_tried; !is_tried()) {
    return;
  }
  CAPTURE(sizes, schedule, static_cast<int>(kind), recomputes, model, seed);
  random_engine random{seed};
  const auto whole = train::test::plan_for(model, 1, "data");
  auto p = in_groups(whole, sizes, microbatches, schedule, kind, random);
  if (recomputes) {
    p.recomputed = parallel::recomputation_but_every(p.graph, 3);
  }
  check_losses(losses_of(p), losses_of(whole));
  CHECK(report_on(p).iteration.count() > 0);
}

TEST_CASE("random pipelines with unequal stages train as one device", "[law]") {
  const auto cases = unity::test::cases(24);
  for (std::uint64_t s = 0; s < cases; ++s) {
    CAPTURE(s);
    random_engine random{s};
    group_sizes sizes;
    for (std::size_t left = 8; left > 0;) {
      sizes.push_back(1 + random.below(std::min<std::size_t>(left, 4)));
      left -= sizes.back();
    }
    const auto schedule = static_cast<pipeline_schedule>(random.below(4));
    const auto microbatches = static_cast<std::int64_t>(sizes.size());
    const auto model = "zoo:mlp?layers=20&hidden=12&batch=" + std::to_string(4 * microbatches);
    const auto whole = train::test::plan_for(model, 1, "data");
    const auto p = in_groups(whole, sizes, microbatches, schedule, division::random, random);
    CAPTURE(sizes, schedule);
    check_losses(losses_of(p), losses_of(whole));
  }
}

TEST_CASE("sharded gradients of unequal stages train as one device for stages 1 to 3") {
  const auto sizes = GENERATE(group_sizes{1, 3}, group_sizes{2, 1, 1});
  random_engine random{seed};
  const auto whole = train::test::plan_for("zoo:mlp?layers=6&hidden=12&batch=48", 1, "data");
  auto p = in_groups(whole, sizes, 4, pipeline_schedule::one_forward_one_backward, division::samples, random);
  const auto expected = losses_of(whole);
  const parallel::lowering low{operators(), p.graph, p.machine};
  for (const std::uint32_t stage : {1U, 2U, 3U}) {
    CAPTURE(sizes, stage);
    parallel::synchronizer sync{parallel::sync_kind::sharded};
    sync.stage = stage;
    p.synchronization = parallel::sharded_sync(low, sync);
    check_losses(losses_of(p), expected);
    CHECK(report_on(p).iteration.count() > 0);
  }
}

TEST_CASE("delayed updates of unequal stages train as those of equal stages") {
  random_engine random{seed};
  const auto whole = train::test::plan_for("zoo:mlp?layers=6&hidden=12&batch=48", 1, "data");
  auto p = in_groups(whole, {2, 1, 1}, 4, pipeline_schedule::one_forward_one_backward, division::samples, random);
  auto one = in_groups(whole, {1, 1, 1}, 4, pipeline_schedule::one_forward_one_backward, division::samples, random);
  p.pipeline.is_delayed = one.pipeline.is_delayed = true;
  check_losses(losses_of(p), losses_of(one));
}

// Devices that replicate a stage take the time and memory of one, except for messages between stages.
TEST_CASE("simulated time and memory of replicated stages match one device per stage") {
  const auto sizes = GENERATE(group_sizes{1, 3}, group_sizes{3, 1}, group_sizes{2, 1, 1}, group_sizes{4, 2, 2});
  const auto schedule = GENERATE(pipeline_schedule::one_forward_one_backward, pipeline_schedule::gpipe,
                                 pipeline_schedule::interleaved, pipeline_schedule::zero_bubble);
  CAPTURE(sizes, schedule);
  const auto microbatches = 2 * static_cast<std::int64_t>(sizes.size());
  const auto whole =
      train::test::plan_for("zoo:mlp?layers=12&hidden=4096&batch=" + std::to_string(8192 * microbatches), 1, "data");
  random_engine random{seed};
  const auto several = in_groups(whole, sizes, microbatches, schedule, division::copies, random);
  const auto one = in_groups(whole, group_sizes(sizes.size(), 1), microbatches, schedule, division::copies, random);
  const auto found = report_on(several);
  const auto expected = report_on(one);
  REQUIRE(found.memory_peaks.size() == several.pipeline.stages.size());
  for (std::size_t d = 0; d < found.memory_peaks.size(); ++d) {
    CAPTURE(d);
    // Results that wait for messages to several devices are held longer, or passes shift by the messages' time.
    constexpr std::int64_t message = 8192 * 4096 * 8;
    const auto more = found.memory_peaks[d].count() - expected.memory_peaks[several.pipeline.stages[d]].count();
    CHECK(std::abs(more) <= 4 * message);
  }
  // A stage sends to several devices one after another.
  CHECK(static_cast<double>(found.iteration.count()) ==
        Approx(static_cast<double>(expected.iteration.count())).epsilon(0.1));
}

}  // namespace tests_of_unequal_stages
