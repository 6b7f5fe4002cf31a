#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/offloading.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/recomputation.hpp>
#include <unity/parallel/strategies/placements.hpp>
#include <unity/parallel/strategies/plan_difference.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/zoo.hpp>

#include "../operators.hpp"
#include "../random_plan.hpp"

namespace tests_of_plan_difference {

using namespace unity;
using parallel::difference_of;
using parallel::test::operators;

namespace {

parallel::plan of_model(const std::string& model) {
  parallel::plan p;
  p.graph = tensor::zoo::build(operators(), "zoo:" + model);
  p.machine = hardware::preset("p100:1x4");
  const parallel::graph_dimensions all{operators(), p.graph};
  p.configurations = parallel::data_parallel(all, p.machine.network);
  return p;
}

}  // namespace

TEST_CASE("plan difference is empty for equal plans and names a changed configuration", "[parallel]") {
  std::size_t changed = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    const auto p = parallel::test::plan_at_random(seed);
    if (!p) {
      continue;
    }
    CHECK(difference_of(operators(), *p, *p).is_none());
    random_engine random{seed};
    const parallel::graph_dimensions all{operators(), p->graph};
    const parallel::placements places{all, p->machine.network.device_count()};
    for (const auto n : node_ids(p->graph)) {
      if (p->graph.operands(n).empty()) {
        continue;
      }
      auto other = *p;
      other.configurations[n.index()] = places.sample(n, random);
      const auto d = difference_of(operators(), *p, other);
      if (other.configurations == p->configurations) {
        CHECK(d.is_none());
        continue;
      }
      ++changed;
      CHECK(d.divided == std::vector{std::pair{n, n}});
      CHECK(d.only_first.empty());
      CHECK(d.only_second.empty());
    }
  }
  CHECK(changed > 20);
}

TEST_CASE("plan difference reports changed settings of the plan and added operators", "[parallel]") {
  const auto p = of_model("lenet");
  auto other = of_model("lenet");
  other.recomputed = parallel::full_recomputation(other.graph);
  other.offloaded = parallel::offloaded_results(operators(), other.graph, other.recomputed, false);
  other.updates = parallel::optimizer::adam;
  other.machine.name = "another";
  other.synchronization.weights.resize(parallel::training_graph{operators(), p.graph}.weights().size());
  other.synchronization.weights[0].parts[0].kind = parallel::sync_kind::sharded;
  const auto d = difference_of(operators(), p, other);
  CHECK(d.divided.empty());
  CHECK(d.recomputed.size() ==
        static_cast<std::size_t>(std::count(other.recomputed.begin(), other.recomputed.end(), true)));
  CHECK(d.offloaded.size() ==
        static_cast<std::size_t>(std::count(other.offloaded.begin(), other.offloaded.end(), true)));
  CHECK(!d.offloaded.empty());
  CHECK(d.synchronized == std::vector<std::string>{"c1.weight"});
  CHECK(d.has_other_machine);
  CHECK(d.has_other_optimizer);
  CHECK(!d.has_other_pipeline);

  // Each setting alone.
  const auto changed = [&](const auto& change) {
    auto one = p;
    change(one);
    const auto of = difference_of(operators(), p, one);
    CHECK_FALSE(of.is_none());
    CHECK(of.divided.empty());
    return of;
  };
  const auto pipeline = changed([](parallel::plan& one) { one.pipeline.microbatches = 4; });
  CHECK(pipeline.has_other_pipeline);
  CHECK_FALSE((pipeline.has_other_machine || pipeline.has_other_optimizer));
  const auto optimizer = changed([](parallel::plan& one) { one.updates = parallel::optimizer::adam; });
  CHECK(optimizer.has_other_optimizer);
  CHECK_FALSE((optimizer.has_other_machine || optimizer.has_other_pipeline));
  const auto machine = changed([](parallel::plan& one) { one.machine.name = "another"; });
  CHECK(machine.has_other_machine);
  CHECK_FALSE((machine.has_other_optimizer || machine.has_other_pipeline));
  const auto again = parallel::full_recomputation(p.graph);
  const auto recomputed = changed([&](parallel::plan& one) { one.recomputed = again; });
  CHECK_FALSE(recomputed.recomputed.empty());
  for (const auto& [n, m] : recomputed.recomputed) {
    CHECK(n == m);
    CHECK(again[n.index()]);
  }
  CHECK(recomputed.offloaded.empty());
  // Weights are compared by the names of their buckets.
  const auto bucketed = [&](const std::string& first, const std::string& second) {
    auto one = p;
    one.synchronization.weights.resize(parallel::training_graph{operators(), p.graph}.weights().size());
    one.synchronization.buckets = {first, second};
    one.synchronization.weights[0].parts[0].bucket = first < second ? 0U : 1U;
    one.synchronization.weights[1].parts[0].bucket = first < second ? 1U : 0U;
    return one;
  };
  CHECK(difference_of(operators(), bucketed("a", "b"), bucketed("b", "a")).is_none());
  CHECK(difference_of(operators(), bucketed("a", "b"), bucketed("a", "c")).synchronized.size() == 1);

  // A weight of one part is not split along any axis; one stage may be listed by device.
  auto axis = bucketed("a", "b");
  axis.synchronization.weights[0].axis = 1;
  CHECK(difference_of(operators(), bucketed("a", "b"), axis).is_none());
  auto stage = p;
  stage.pipeline.stages.assign(4, 0);
  CHECK(difference_of(operators(), p, stage).is_none());
  stage.pipeline.stages[3] = 1;
  CHECK(difference_of(operators(), p, stage).has_other_pipeline);

  // The longer graph contains the shorter one's operators in the same order.
  tensor::builder b{operators()};
  const auto x = b.input("x", {8, 8});
  const auto y = b.relu(b.matmul(x, b.weight("w", {8, 8})));
  parallel::plan shorter;
  shorter.graph = std::move(b).finish({y});
  shorter.machine = p.machine;
  tensor::builder c{operators()};
  const auto u = c.input("x", {8, 8});
  const auto v = c.tanh(c.relu(c.matmul(u, c.weight("w", {8, 8}))));
  auto longer = shorter;
  longer.graph = std::move(c).finish({v});
  for (auto* plan : {&shorter, &longer}) {
    const parallel::graph_dimensions all{operators(), plan->graph};
    plan->configurations = parallel::data_parallel(all, plan->machine.network);
  }
  const auto forth = difference_of(operators(), shorter, longer);
  const auto back = difference_of(operators(), longer, shorter);
  CHECK(forth.only_first.empty());
  REQUIRE(forth.only_second.size() == 1);
  CHECK(operators().signature(longer.graph.operation(forth.only_second[0]).kind).name == "tanh");
  CHECK(back.only_first == forth.only_second);
  CHECK(back.only_second.empty());
  CHECK(forth.common == 2);
}

}  // namespace tests_of_plan_difference
