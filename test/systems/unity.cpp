// Unity's search: the plans it finds, and that they compute the same.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/hardware/device_mesh.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/mesh_report.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/parallel/strategies/strategy_report.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/systems/unity.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/equivalence.hpp>
#include <unity/tensor/zoo.hpp>

#include "../support/cases.hpp"
#include "../support/machine_without_starts.hpp"
#include "../support/operators.hpp"
#include "shipped_rules.hpp"

namespace tests_of_unity {

namespace {

using namespace unity;
using unity::test::training::operators;

tensor::tensor_graph model(const char* name) { return tensor::zoo::build(operators(), name); }

// On tiny graphs the polish tries tens of thousands of plans, too many under sanitizers.
systems::unity_options standard_options() {
  systems::unity_options o;
  o.proposals = unity::test::all_or<std::uint64_t>(o.proposals, 10);
  return o;
}
systems::unity_result search(const tensor::tensor_graph& g, const hardware::machine& m, const rule_set& with,
                             const systems::unity_options& o = standard_options()) {
  return systems::unity(operators(), with, g, m, parallel::analytic_durations(operators(), m), o);
}
picoseconds data_parallel_time(const tensor::tensor_graph& g, const hardware::machine& m) {
  parallel::lowering l{operators(), g, m};
  return parallel::report_on(l, g, m, parallel::data_parallel(l.dimensions(), m.network)).iteration;
}
bool is_equal(const tensor::tensor_graph& a, const tensor::tensor_graph& b) {
  return tensor::check_equivalence(operators(), a, b).passed;
}

}  // namespace

TEST_CASE("Unity's plan for figure 1's perceptron on two devices communicates 1280 elements") {
  const auto g = model("zoo:mlp?form=fig1");
  const auto m = unity::test::machine_without_starts("p100:1x2");
  const auto r = search(g, m, {});
  CHECK(r.report.communicated_elements == 1280);
  CHECK(r.report.iteration >= r.mapping_bound);
  CHECK(r.rules.empty());
  parallel::lowering l{operators(), r.graph, m};
  CHECK(parallel::report_on(l, r.graph, m, r.strategy) == r.report);
  CHECK(is_equal(g, r.graph));
}

TEST_CASE("Unity is no slower than data parallelism and its rewritten graphs are equivalent") {
  constexpr const char* names[] = {"zoo:mlp?layers=3&hidden=96&batch=48",
                                   "zoo:gpt?layers=2&hidden=48&heads=4&seq=16&vocab=96&batch=12",
                                   "zoo:lenet?batch=12",
                                   "zoo:candle_uno?layers=1&hidden=60&batch=24",
                                   "zoo:dlrm?form=ae&batch=96",
                                   "zoo:embedding_bag?batch=24&vocab=960&hidden=48",
                                   "zoo:rnnlm?seq=2&hidden=24&vocab=48&batch=12"};
  for (const char* name : std::span{names}.first(unity::test::cases(std::size(names)))) {
    CAPTURE(name);
    const auto g = model(name);
    const auto m = hardware::preset("summit:2x6");
    const auto r = search(g, m, test::standard_rules());
    CHECK(r.report.iteration <= data_parallel_time(g, m));
    CHECK(r.report.iteration >= r.mapping_bound);
    CHECK_NOTHROW(parallel::check(operators(), parallel::plan{r.graph, r.strategy, m}));
    CHECK(is_equal(g, r.graph));
  }
}

TEST_CASE("substitutions for a transformer apply to several segments and do not slow its plan", "[exhaustive]") {
  const auto g = model("zoo:gpt?layers=6&hidden=64&heads=4&seq=16&vocab=128&batch=16");
  const auto m = hardware::preset("p100:1x4");
  const auto plain = search(g, m, {});
  const auto joint = search(g, m, test::standard_rules());
  CHECK(joint.report.iteration <= plain.report.iteration);
  REQUIRE_FALSE(joint.rules.empty());
  CHECK(std::any_of(joint.rules.begin(), joint.rules.end(), [](const auto& rule) { return rule.segments > 2; }));
  CHECK(joint.segments > 3);
  CHECK(is_equal(g, joint.graph));
}

TEST_CASE("Unity's search is reproducible for a graph and a seed", "[exhaustive]") {
  const auto g = model("zoo:gpt?layers=2&hidden=48&heads=4&seq=16&vocab=96&batch=12");
  const auto m = hardware::preset("summit:2x6");
  systems::unity_options o;
  o.seed = 7;
  const auto a = search(g, m, test::standard_rules(), o);
  const auto b = search(g, m, test::standard_rules(), o);
  CHECK(a.graph == b.graph);
  CHECK(a.strategy == b.strategy);
  CHECK(a.rules == b.rules);
}

TEST_CASE("Unity divides only dimensions that its options allow") {
  const auto g = model("zoo:mlp?layers=3&hidden=96&batch=48");
  const auto m = hardware::preset("p100:1x4");
  auto o = standard_options();
  o.uses = 1;  // samples only
  const auto r = search(g, m, {}, o);
  CHECK(r.report.iteration <= data_parallel_time(r.graph, m));  // data parallelism with delivered outputs
  CHECK(r.report.iteration > search(g, m, {}).report.iteration);
  for (const auto& c : r.strategy) {
    CHECK(c.reductions.empty());
    for (std::size_t k = 1; k < c.degrees.size(); ++k) {
      CHECK(c.degrees[k] == 1);
    }
  }
}

TEST_CASE("Unity uses a registered mesh if its plan is faster") {
  // Devices 0 and 3 share the fastest link, and so do 1 and 2; they are neighbours on no mesh of the machine.
  std::vector<hardware::placed_device> devices{{"a", 0, 0}, {"b", 0, 0}, {"c", 0, 0}, {"d", 0, 0}};
  std::vector<hardware::cable> cables;
  const auto join = [&](std::size_t a, std::size_t b, std::int64_t rate) {
    cables.push_back({hardware::vertex_id{a}, hardware::vertex_id{b}, rate, picoseconds{1000}, hardware::duplex::full});
  };
  join(0, 3, 100'000'000'000);
  join(1, 2, 100'000'000'000);
  for (std::size_t i = 0; i < 4; ++i) {
    join(i, 4, 1'000'000'000);
  }
  auto m = hardware::preset("p100:1x4");
  m.network = hardware::topology{devices, {"switch"}, cables};
  const auto g = model("zoo:mlp?layers=4&hidden=512&batch=16384");
  systems::unity_options plain;
  plain.proposals = 0;
  plain.mesh_axes = 2;
  auto with = plain;
  const auto id = [](std::size_t i) { return hardware::device_id{i}; };
  with.meshes.push_back({"pairs", {2, 2}, {id(0), id(3), id(1), id(2)}});
  const auto without_mesh = search(g, m, {}, plain);
  const auto with_mesh = search(g, m, {}, with);
  CHECK(with_mesh.mesh.name == "pairs");
  CHECK(with_mesh.report.iteration < without_mesh.report.iteration);
  with.meshes[0].devices[1] = id(0);
  CHECK_THROWS_WITH(search(g, m, {}, with),
                    "device mesh pairs: device 0; expected devices of the machine, each once");
}

TEST_CASE("Unity finds a plan that fits in memory where data parallelism does not") {
  const auto g = model("zoo:mlp?layers=4&hidden=1024&batch=16");
  auto m = hardware::preset("p100:1x4");
  m.devices[0].memory = bytes{14'000'000};  // weights with gradients take 33.6 million bytes
  const auto r = search(g, m, {});
  CHECK(r.report.excess.empty());
  parallel::lowering l{operators(), g, m};
  CHECK_FALSE(parallel::report_on(l, g, m, parallel::data_parallel(l.dimensions(), m.network)).excess.empty());
}

TEST_CASE("Unity places DLRM's embedding tables on separate devices") {
  const auto g = model("zoo:dlrm?batch=384");
  const auto m = unity::test::machine_without_starts("p100:1x4");
  systems::unity_options o;
  o.proposals = 0;
  const auto with = search(g, m, {}, o);
  o.uses &= ~(1U << static_cast<unsigned>(parallel::index_use::placement));
  const auto without = search(g, m, {}, o);
  CHECK(with.report.iteration < without.report.iteration);
  std::set<hardware::device_id> used;
  std::size_t alone = 0;
  for (const auto& c : with.strategy) {
    if (c.task_count() == 1) {
      ++alone;
      used.insert(c.devices[0]);
    }
  }
  CHECK(alone > 4);
  CHECK(used.size() == 4);
  for (const auto& c : without.strategy) {
    CHECK((c.task_count() == 0 || c.task_count() == 4));
  }
}

TEST_CASE("Unity without time returns replicated data parallelism and reports the time limit") {
  const auto g = model("zoo:gpt?layers=2&hidden=48&heads=4&seq=16&vocab=96&batch=12");
  const auto m = hardware::preset("p100:1x4");
  systems::unity_options o;
  o.limits.seconds = 0;
  const auto r = search(g, m, test::joint_rules(), o);
  CHECK(r.stopped == stop_reason::time);
  CHECK(r.expanded == 0);
  CHECK(r.mesh.devices.empty());
  CHECK(r.report.iteration >= r.mapping_bound);
  parallel::lowering l{operators(), r.graph, m};
  CHECK(r.strategy == parallel::replicated_data_parallel(l.dimensions(), m.network));
  CHECK(parallel::report_on(l, r.graph, m, r.strategy) == r.report);
}

TEST_CASE("Unity's polish stops when idle and is no worse than its known start") {
  const auto g = model("zoo:mlp?layers=3&hidden=96&batch=48");
  const auto m = hardware::preset("p100:1x4");
  systems::unity_options o;
  o.candidates = 1;
  o.proposals = 20'000;
  o.idle = 300;
  const auto found = search(g, m, {}, o);
  CHECK(found.proposals >= 300);
  CHECK(found.proposals < 20'000);
  CHECK(found.stopped == stop_reason::exhausted);
  // An uncompetitive start does not make the result worse than without it.
  std::size_t asked = 0;
  const auto with_known = [&](const parallel::strategy& s) {
    auto with = o;
    with.uses = parallel::all_index_uses;
    with.proposals = 1;  // too few to find anything
    with.known = [&asked, &found, &s] {
      ++asked;
      return std::vector<systems::known_plan>{{found.graph, s}};
    };
    return search(g, m, {}, with);
  };
  const auto as_good = with_known(found.strategy);
  CHECK(as_good.report.iteration <= found.report.iteration);
  parallel::lowering l{operators(), found.graph, m};
  const auto slow = parallel::model_parallel(operators(), found.graph, l.dimensions(), m.network);
  CHECK(with_known(slow).report.iteration <= parallel::report_on(l, found.graph, m, slow).iteration);
  CHECK(asked == 2);
}

TEST_CASE("all kinds of parallelism together are no slower than some of them", "[exhaustive]") {
  for (const char* name : {"zoo:mlp?layers=3&hidden=96&batch=48", "zoo:dlrm?form=ae&vocab=1000&batch=8",
                           "zoo:bert?form=ae&layers=2&hidden=64&heads=4&seq=16&batch=4"}) {
    const auto g = model(name);
    const auto m = hardware::preset("summit:1x6");
    systems::unity_options o;
    o.seed = 3;
    o.mesh_axes = 2;
    const auto all = search(g, m, test::joint_rules(), o);
    // Samples only; also weights; everything except placement.
    for (const parallel::index_uses uses : {1U, 3U, parallel::all_index_uses & ~32U}) {
      CAPTURE(name, uses);
      o.uses = uses;
      CHECK(all.report.iteration <= search(g, m, test::joint_rules(), o).report.iteration);
    }
  }
}

TEST_CASE("Adam's state adds memory and time to Unity's plan") {
  const auto g = model("zoo:mlp?layers=2&hidden=512&batch=16");
  const auto m = hardware::preset("host:1x1");
  auto o = standard_options();
  const auto sgd = search(g, m, {}, o).report;
  o.optimizer = parallel::optimizer::adam;
  const auto adam = search(g, m, {}, o).report;
  CHECK(adam.iteration > sgd.iteration);
  const std::int64_t weights = 2 * (512 * 512 + 512);
  CHECK(adam.memory_peak() - sgd.memory_peak() >= bytes{8 * weights - 8 * 1024});
}

TEST_CASE("Unity refuses tensors of too many dimensions and meshes of too many axes") {
  const auto m = hardware::preset("p100:1x4");
  tensor::builder b{operators()};
  const auto y = b.relu(b.input("x", tensor::shape(14, 2)));
  const auto g = std::move(b).finish({y});
  CHECK_THROWS_WITH(search(g, m, rule_set{}),
                    Catch::Contains("node 0: a tensor of 14 dimensions; expected 13 at most"));
  const auto large = hardware::preset("p100:128x4");
  auto o = standard_options();
  o.meshes.push_back({"fine", hardware::mesh_sizes(9, 2), hardware::meshes_of(large.network, 1).front().devices});
  CHECK_THROWS_WITH(search(model("zoo:mlp?form=fig1&batch=16"), large, rule_set{}, o),
                    Catch::Contains("device mesh fine: 9 axes; expected 8 at most"));
}

TEST_CASE("Unity refuses a graph without operators") {
  tensor::builder b{operators()};
  const auto x = b.input("x", {4});
  const auto g = std::move(b).finish({x});
  CHECK_THROWS_WITH(search(g, hardware::preset("p100:1x2"), {}),
                    "graph: an output that no operator makes; expected operators between inputs and outputs");
}

}  // namespace tests_of_unity
