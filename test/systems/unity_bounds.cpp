// The lower bounds of Unity's search, and the search's result without dynamic programming.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <unity/core/budget.hpp>
#include <unity/hardware/device_mesh.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/mesh/machine_mapping.hpp>
#include <unity/parallel/mesh/mesh_options.hpp>
#include <unity/parallel/mesh/mesh_tables.hpp>
#include <unity/parallel/mesh/operator_graph.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/parallel/strategies/mesh_report.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/systems/unity.hpp>
#include <unity/systems/unity/mapping_enumeration.hpp>
#include <unity/systems/unity/mesh_solver.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/cost.hpp>
#include <unity/tensor/zoo.hpp>

#include "../support/operators.hpp"
#include "shipped_rules.hpp"

namespace tests_of_unity_bounds {

namespace {

using namespace unity;
using unity::test::training::operators;

// Chains, branches that join and that do not, values that are read twice.
std::vector<tensor::tensor_graph> small_graphs() {
  std::vector<tensor::tensor_graph> all;
  const auto layer = [](tensor::builder& b, const std::string& name, value_id x, std::int64_t columns) {
    return b.matmul(x, b.weight(name, {b.dims(x)[1], columns}));
  };
  {
    tensor::builder b{operators()};
    const auto x = layer(b, "first", b.input("x", {64, 96}), 128);
    all.push_back(std::move(b).finish({layer(b, "second", b.relu(x), 32)}));
  }
  {
    tensor::builder b{operators()};
    const auto x = layer(b, "first", b.input("x", {16, 96}), 96);
    all.push_back(std::move(b).finish({b.add(b.relu(layer(b, "left", x, 96)), b.mul(x, x))}));
  }
  {
    tensor::builder b{operators()};
    const auto x = b.softmax(layer(b, "first", b.input("x", {24, 48}), 48), 1);
    const auto parts = b.split(x, 1, {24, 24});
    all.push_back(std::move(b).finish({b.relu(parts[0]), layer(b, "second", parts[1], 12)}));
  }
  {
    tensor::builder b{operators()};
    const auto rows = b.embedding_bag(b.weight("table", {480, 32}), b.input("ids", {48, 4}, tensor::dtype::int64));
    const auto other = layer(b, "first", b.input("x", {48, 20}), 32);
    all.push_back(std::move(b).finish({layer(b, "top", b.concat(1, std::vector{rows, other}), 8)}));
  }
  return all;
}

}  // namespace

TEST_CASE("mapping_enumeration finds the dynamic program's cost and without time some mapping") {
  const auto m = hardware::preset("p100:1x4");
  const hardware::route_table routes{m.network, "machine"};
  parallel::shard_clock clock{operators(), parallel::analytic_durations(operators(), m), {0}};
  for (const auto& mesh : hardware::meshes_of(m.network, 2)) {
    for (const parallel::index_uses uses : {parallel::all_index_uses, 3U}) {
      systems::mesh_solver solver{operators(), m, routes, mesh, clock, uses, parallel::optimizer::sgd};
      for (const auto& g : small_graphs()) {
        const systems::detail::analyzed_graph one{operators(), g};
        for (const parallel::mapping_objective& o :
             {parallel::mapping_objective{16, 0}, parallel::mapping_objective{4, 1 << 20}}) {
          const auto expected = solver.solve(one.ops, o);
          systems::mapping_enumeration all{solver.tables(), o};
          const stopwatch now;
          const auto found = all.solve(one.ops, now, 1e9);
          CHECK(all.is_complete());
          CHECK(found.cost == expected.cost);
          const auto first = all.solve(one.ops, now, 0);
          CHECK(first.cost >= expected.cost);
          CHECK(first.cost < parallel::unreachable);
        }
      }
    }
  }
}

TEST_CASE("each mapping option of an operator takes at least its share of the work") {
  const auto m = hardware::preset("summit:2x6");
  const hardware::route_table routes{m.network, "machine"};
  parallel::shard_clock clock{operators(), parallel::analytic_durations(operators(), m), {0}};
  const auto devices = static_cast<std::int64_t>(m.network.device_count());
  for (const char* name : {"zoo:gpt?layers=1&hidden=96&heads=6&seq=24&vocab=192&batch=12", "zoo:lenet?batch=24",
                           "zoo:rnnlm?seq=2&hidden=24&vocab=48&batch=12", "zoo:dlrm?form=ae&batch=96"}) {
    const auto g = tensor::zoo::build(operators(), name);
    const systems::detail::analyzed_graph one{operators(), g};
    for (const auto& mesh : hardware::meshes_of(m.network, 2)) {
      systems::mesh_solver solver{
          operators(), m, routes, mesh, clock, parallel::all_index_uses, parallel::optimizer::sgd};
      for (std::uint32_t i = 0; i < one.ops.size(); ++i) {
        const auto& p = one.ops.placed(i);
        const auto whole =
            clock.of(p, parallel::types_on(*p.dimensions, parallel::undivided_grid(*p.dimensions)).value()).value();
        for (const auto& o : solver.tables().of(p).options) {
          CHECK(o.busy.count() >= (whole.forward + whole.backward).count() / devices);
        }
      }
    }
  }
}

TEST_CASE("no simulated plan is faster than Unity's lower bounds", "[exhaustive][law]") {
  const auto* name =
      GENERATE("zoo:mlp?form=fig1", "zoo:mlp?layers=3&hidden=96&batch=48", "zoo:lenet?batch=12",
               "zoo:dlrm?form=ae&batch=96", "zoo:gpt?layers=2&hidden=48&heads=4&seq=16&vocab=96&batch=12",
               "zoo:embedding_bag?batch=24&vocab=960&hidden=48", "zoo:candle_uno?layers=1&hidden=60&batch=24",
               "zoo:rnnlm?seq=2&hidden=24&vocab=48&batch=12", "zoo:xdl?form=ae&batch=96");
  const auto* machine = GENERATE("p100:1x1", "p100:1x4", "summit:2x6");
  CAPTURE(name, machine);
  const auto g = tensor::zoo::build(operators(), name);
  const auto m = hardware::preset(machine);
  const auto r = systems::unity(operators(), test::joint_rules(), g, m, parallel::analytic_durations(operators(), m));
  CHECK(r.graphs_bound > picoseconds{});
  // Averages over devices are rounded to picoseconds per operator.
  CHECK(r.graphs_bound.count() <= r.mapping_bound.count() + static_cast<std::int64_t>(4 * r.graph.node_count()));
  CHECK(r.mapping_bound <= r.report.iteration);
  for (const auto& s : r.simulated) {
    CHECK(r.graphs_bound <= s.report.iteration);
  }
}

TEST_CASE("without dynamic programming Unity finds the same time on a small graph or times out") {
  const auto m = hardware::preset("p100:1x2");
  systems::unity_options o;
  o.joint.dynamic = false;
  o.uses = 3;
  o.mesh_axes = 1;
  o.proposals = 0;
  const auto small = tensor::zoo::build(operators(), "zoo:mlp?form=fig1");
  const auto tried =
      systems::unity(operators(), test::joint_rules(), small, m, parallel::analytic_durations(operators(), m), o);
  CHECK(tried.stopped == stop_reason::exhausted);
  CHECK(tried.goals == 0);
  auto with = o;
  with.joint.dynamic = true;
  with.uses &= ~(1U << static_cast<unsigned>(parallel::index_use::pipeline));
  CHECK(tried.report.iteration ==
        systems::unity(operators(), test::joint_rules(), small, m, parallel::analytic_durations(operators(), m), with)
            .report.iteration);

  o.limits.seconds = 0.2;
  o.proposals = 100;
  const auto large = tensor::zoo::build(operators(), "zoo:resnet50?batch=2");
  const stopwatch watch;
  const auto cut =
      systems::unity(operators(), test::joint_rules(), large, m, parallel::analytic_durations(operators(), m), o);
  CHECK(cut.stopped == stop_reason::time);
  CHECK(cut.proposals <= 100);
  CHECK(cut.report.iteration > picoseconds{});
  CHECK(watch.seconds() < 60);
}

TEST_CASE("Unity reports the time limit if its substitutions had no time") {
  const auto m = hardware::preset("p100:1x2");
  systems::unity_options o;
  o.mesh_axes = 1;
  o.proposals = 0;
  const auto g = tensor::zoo::build(operators(), "zoo:mlp?form=fig1");
  const auto stopped = [&] {
    return systems::unity(operators(), test::joint_rules(), g, m, parallel::analytic_durations(operators(), m), o)
        .stopped;
  };
  CHECK(stopped() == stop_reason::exhausted);
  o.joint.limits.seconds = 0;
  CHECK(stopped() == stop_reason::time);
}

}  // namespace tests_of_unity_bounds
