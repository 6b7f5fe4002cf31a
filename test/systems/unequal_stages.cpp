// Pipelines of stages with unequal numbers of devices: valid plans, faster than equal ones where one part of a graph is
// heavier, and trained to the same result as on one device.

#include <unity/systems/unity/unequal_stages.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/core/units.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/systems/unity.hpp>
#include <unity/systems/unity/memory_trading.hpp>
#include <unity/systems/unity/pipelines.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/convert.hpp>
#include <unity/tensor/zoo.hpp>

#include "../support/cases.hpp"
#include "../support/operators.hpp"
#include "../train/runs.hpp"
#include "pipeline_subject.hpp"

namespace tests_of_unequal_stages_search {

using namespace unity;
using unity::test::group_sizes;
using unity::test::is_unequal;
using unity::test::training::operators;

namespace {

// A chain of products whose middle one does most of the work.
tensor::tensor_graph heavy_middle(std::int64_t samples, std::int64_t narrow, std::int64_t wide) {
  tensor::builder b{operators()};
  auto x = b.input("x", {samples, narrow});
  x = b.relu(b.matmul(x, b.weight("first", {narrow, narrow})));
  x = b.relu(b.matmul(x, b.weight("second", {narrow, wide})));
  x = b.relu(b.matmul(x, b.weight("middle", {wide, wide})));
  x = b.relu(b.matmul(x, b.weight("last", {wide, narrow})));
  return std::move(b).finish({b.matmul(x, b.weight("end", {narrow, narrow}))});
}

using subject = unity::test::pipeline_subject;

picoseconds least(const subject& x, const std::vector<systems::pipeline_candidate>& all) {
  picoseconds best{std::numeric_limits<std::int64_t>::max()};
  for (const auto& c : all) {
    best = std::min(best, x.report(c).iteration);
  }
  return best;
}

constexpr const char* small_bert = "zoo:bert?form=ae&layers=4&hidden=256&heads=4&seq=64&batch=32";

}  // namespace

TEST_CASE("found pipelines of unequal stages are valid and within 50% of their predicted time") {
  const auto* const on = GENERATE("p100:1x3", "p100:2x3", "p100:2x4");
  const std::string model = GENERATE(as<std::string>{}, small_bert, "zoo:mlp?layers=10&hidden=512&batch=96");
  CAPTURE(on, model);
  subject x{tensor::zoo::build(operators(), model), on};
  const auto all = systems::unequal_stages{x.pipelines}.run(x.graph);
  REQUIRE_FALSE(all.empty());
  const auto by_node = unity::hardware::devices_by_node(x.machine.network);
  std::size_t unequal = 0;
  for (const auto& c : all) {
    const auto p = systems::pipeline_search::pipeline_of(c);
    const auto sizes = group_sizes(p);
    CAPTURE(sizes, c.graph->count);
    CHECK(c.solvers.size() == sizes.size());
    CHECK(p.microbatches == c.graph->count);
    unequal += is_unequal(p) ? 1 : 0;
    std::size_t at = 0;
    for (const auto n : sizes) {
      const std::vector<std::size_t> nodes(by_node.size(), by_node[0].size());
      CHECK(systems::is_block(nodes, at, n));
      at += n;
    }
    const auto took = static_cast<double>(x.report(c).iteration.count());  // checks that the plan is valid
    CHECK(static_cast<double>(c.predicted.count()) == Approx(took).epsilon(0.5));
  }
  CHECK(unequal > 0);
  CHECK(std::is_sorted(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.predicted < b.predicted; }));
}

TEST_CASE("unequal stages are at least 15% faster for a graph with a heavy middle", "[exhaustive]") {
  const auto* const on = GENERATE("p100:1x3", "dgx_a100:1x5");
  CAPTURE(on);
  subject x{heavy_middle(4096, 1024, 4096), on};
  const auto equal = x.pipelines.run(x.graph);
  const auto unequal = systems::unequal_stages{x.pipelines}.run(x.graph);
  REQUIRE_FALSE(equal.empty());
  REQUIRE_FALSE(unequal.empty());
  const auto of_equal = least(x, equal).count();
  const auto of_unequal = least(x, unequal).count();
  CAPTURE(of_equal, of_unequal);
  CHECK(static_cast<double>(of_unequal) < 0.85 * static_cast<double>(of_equal));
}

TEST_CASE("unequal stages keep a memory limit or state the excess") {
  subject free{heavy_middle(4096, 1024, 4096), "p100:1x3"};
  const auto without = systems::unequal_stages{free.pipelines}.run(free.graph);
  REQUIRE_FALSE(without.empty());
  auto least = without.front().held;
  for (const auto& c : without) {
    least = std::min(least, c.held);
  }
  systems::pipeline_options o;
  o.memory_limit = least + least / 8;
  subject tight{heavy_middle(4096, 1024, 4096), "p100:1x3", o};
  const auto within = systems::unequal_stages{tight.pipelines}.run(tight.graph);
  REQUIRE_FALSE(within.empty());
  CHECK(within.front().excess == bytes{});
  CHECK(within.front().held <= o.memory_limit);
  CHECK(tight.report(within.front()).memory_peak() <= o.memory_limit + o.memory_limit / 4);
  o.memory_limit = bytes{1000};
  subject none{heavy_middle(4096, 1024, 4096), "p100:1x3", o};
  for (const auto& c : systems::unequal_stages{none.pipelines}.run(none.graph)) {
    CHECK(c.excess > bytes{});
  }
}

TEST_CASE("two devices or one sample or no time give no unequal stages") {
  subject two{heavy_middle(64, 16, 32), "p100:1x2"};  // two devices allow no unequal groups
  CHECK(systems::unequal_stages{two.pipelines}.run(two.graph).empty());
  subject one{heavy_middle(1, 16, 32), "p100:1x4"};
  CHECK(systems::unequal_stages{one.pipelines}.run(one.graph).empty());
  subject late{heavy_middle(64, 16, 32), "p100:1x4"};
  CHECK(systems::unequal_stages{late.pipelines}.run(late.graph, 0).empty());
}

TEST_CASE("predicted times of unequal stages are nearly unbiased and within a factor of two", "[law][exhaustive]") {
  std::size_t growing = 0;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    random_engine random{seed};
    const auto* const on = std::array{"p100:1x3", "p100:2x4", "dgx_a100:1x5", "p100:4x2"}[seed % 4];
    // Thin layers with many samples: handing over takes as long as computing.
    const bool is_thin = seed >= 4;
    tensor::builder b{operators()};
    auto width = is_thin ? 64 : 512;
    auto x = b.input("x", {is_thin ? 65536 : 1024, width});
    for (auto layers = 3 + random.below(4); layers > 0; --layers) {
      const auto next = (is_thin ? 16 : 64) << random.below(5);
      x = b.relu(b.matmul(x, b.weight("w" + std::to_string(layers), {width, next})));
      width = next;
    }
    subject s{std::move(b).finish({b.matmul(x, b.weight("end", {width, 32}))}), on};
    double sum = 0;
    std::size_t count = 0;
    for (const auto& c : systems::unequal_stages{s.pipelines}.run(s.graph)) {
      const auto sizes = group_sizes(systems::pipeline_search::pipeline_of(c));
      const auto grows = std::adjacent_find(sizes.begin(), sizes.end(), std::less<>{}) != sizes.end();
      const auto ratio = static_cast<double>(c.predicted.count()) / static_cast<double>(s.report(c).iteration.count());
      CAPTURE(seed, on, sizes, c.graph->count);
      CHECK(ratio > 0.5);
      CHECK(ratio < 1.75);
      growing += grows ? 1 : 0;
      sum += std::log(ratio);
      ++count;
    }
    CAPTURE(seed, on, count);
    CHECK(std::abs(sum) <= 0.2 * static_cast<double>(count));
  }
  CHECK(growing > 0);
}

TEST_CASE("above 64 devices the groups of unequal stages are blocks of nodes") {
  subject x{tensor::zoo::build(operators(), "zoo:mlp?layers=6&hidden=256&batch=160"), "p100:40x2"};
  const auto all = systems::unequal_stages{x.pipelines}.run(x.graph);
  REQUIRE_FALSE(all.empty());
  std::size_t unequal = 0;
  for (const auto& c : all) {
    const auto p = systems::pipeline_search::pipeline_of(c);
    CHECK(p.stages.size() == 80);
    for (const auto n : group_sizes(p)) {
      CHECK(n % 4 == 0);  // 20 blocks of two nodes
    }
    unequal += is_unequal(p) ? 1 : 0;
  }
  CHECK(unequal > 0);
  CHECK(static_cast<double>(all.front().predicted.count()) ==
        Approx(static_cast<double>(x.report(all.front()).iteration.count())).epsilon(0.5));
  subject one{heavy_middle(64, 16, 32), "dgx_a100:67x1"};  // a prime number of nodes gives one block, or too many
  CHECK(systems::unequal_stages{one.pipelines}.run(one.graph).empty());
}

TEST_CASE("Unity finds unequal stages and no simulated plan is faster") {
  const auto m = unity::hardware::preset("p100:1x3");
  const auto g = heavy_middle(4096, 1024, 4096);
  systems::unity_options o;
  constexpr auto bit = [](parallel::index_use use) { return parallel::index_uses{1} << static_cast<unsigned>(use); };
  o.uses = bit(parallel::index_use::data) | bit(parallel::index_use::model) | bit(parallel::index_use::pipeline);
  const auto r = systems::unity(operators(), {}, g, m, parallel::analytic_durations(operators(), m), o);
  CAPTURE(r.pipeline.microbatches, r.pipeline.stages);
  CHECK(is_unequal(r.pipeline));
  CHECK(r.mapping_bound.count() > 0);
  CHECK(r.mapping_bound <= r.report.iteration);
  CHECK(std::none_of(r.simulated.begin(), r.simulated.end(),
                     [&](const auto& s) { return s.report.iteration < r.report.iteration; }));
}

TEST_CASE("found pipelines of unequal stages train to the same losses as one device") {
  constexpr std::uint64_t seed = 11;
  constexpr std::uint64_t steps = 3;
  const train::update_rule rule{parallel::optimizer::momentum, 0.05};
  const auto* const on = GENERATE("p100:1x3", "dgx_a100:1x5", "p100:2x3");
  const auto g =
      tensor::converted(operators(), heavy_middle(24, 16, 48), tensor::dtype::float32, tensor::dtype::float64);
  const auto losses_of = [&](const parallel::plan& p) {
    return train::test::train_some(train::with_loss(operators(), p, tensor::loss::mean_square), rule, seed, 0, steps,
                                   {}, {});
  };
  const auto expected = losses_of(train::test::plan_for(heavy_middle(24, 16, 48), 1, "data"));
  systems::pipeline_options o;
  o.trades = GENERATE(parallel::memory_trades::none, parallel::memory_trades::recomputing);
  subject x{g, on, o};
  std::size_t trained = 0;
  std::size_t traded = 0;
  auto all = systems::unequal_stages{x.pipelines}.run(x.graph);
  if (o.trades != parallel::memory_trades::none) {  // least memory first
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.held < b.held; });
  }
  all.resize(std::min(all.size(), unity::test::all_or<std::size_t>(4, 2)));
  for (const auto& found : all) {
    for (const auto& c : x.pipelines.schedules_of(found)) {
      parallel::plan p;
      p.graph = c.graph->graph;
      p.configurations = systems::pipeline_search::strategy_of(c);
      p.pipeline = systems::pipeline_search::pipeline_of(c);
      p.machine = x.machine;
      p.synchronization =
          systems::synchronization_of(c.graph->graph, c.graph->training, c.graph->ops, c.mapping.trades);
      p.recomputed = systems::recomputation_of(c.graph->graph, c.graph->ops, c.mapping.trades);
      traded += p.recomputed.empty() && p.synchronization.is_trivial() ? 0 : 1;
      CAPTURE(on, seed, p.pipeline.stages, p.pipeline.microbatches, p.pipeline.schedule);
      const auto losses = losses_of(p);
      REQUIRE(losses.size() == expected.size());
      for (std::size_t s = 0; s < expected.size(); ++s) {
        CHECK(std::abs(losses[s] - expected[s]) <= 1e-9 * std::abs(expected[s]));
      }
      ++trained;
    }
  }
  CHECK(trained > unity::test::all_or<std::size_t>(2, 1));
  CHECK((traded > 0) == (o.trades != parallel::memory_trades::none));
}

}  // namespace tests_of_unequal_stages_search
