// Mappings by dynamic programming, against all combinations of options.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/hardware/device_mesh.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/mesh/machine_mapping.hpp>
#include <unity/parallel/mesh/mesh_costs.hpp>
#include <unity/parallel/mesh/mesh_tables.hpp>
#include <unity/parallel/mesh/operator_graph.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/search/dynamic_programming.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/zoo.hpp>

#include "../../support/cases.hpp"
#include "../../support/operators.hpp"

namespace tests_of_machine_mapping {

namespace {

using namespace unity;
using parallel::unreachable;
using unity::test::training::operators;

static_assert(decomposition<parallel::machine_mapping>);

// Values are 8 x 8; every operator reads one or two recent values.
tensor::tensor_graph random_graph(random_engine& random, std::size_t size) {
  tensor::builder b{operators()};
  std::vector<value_id> values{b.input("x", {8, 8})};
  const auto drawn = [&] { return values[random.below(values.size())]; };
  std::vector<bool> is_read(1, false);
  const auto read = [&](value_id v) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      is_read[i] = is_read[i] || values[i] == v;
    }
    return v;
  };
  for (std::size_t i = 0; i < size; ++i) {
    const auto w = "w" + std::to_string(i);
    switch (random.below(6)) {
      case 0: values.push_back(b.relu(read(drawn()))); break;
      case 1: values.push_back(b.matmul(read(drawn()), b.weight(w, {8, 8}))); break;
      case 2: values.push_back(b.matmul(read(drawn()), read(drawn()))); break;
      case 4: values.push_back(b.matmul(read(drawn()), b.relu(b.weight(w, {8, 8})))); break;
      case 3: values.push_back(b.mul(read(drawn()), read(drawn()))); break;
      default: values.push_back(b.add(read(drawn()), read(drawn()))); break;
    }
    is_read.push_back(false);
  }
  std::vector<value_id> outputs;
  for (std::size_t i = 1; i < values.size(); ++i) {
    if (!is_read[i]) {
      outputs.push_back(values[i]);
    }
  }
  return std::move(b).finish(outputs);
}

// Shortest chains from one layout to all others, by Bellman-Ford.
std::vector<std::int64_t> slow_distances(const parallel::layout_space& space, std::uint32_t from) {
  std::vector<std::int64_t> d(space.size(), unreachable);
  d[from] = 0;
  for (std::size_t round = 0; round < space.size(); ++round) {
    for (const auto& arc : space.arcs()) {
      d[arc.to] = std::min(d[arc.to], d[arc.from] + arc.takes);
    }
  }
  return d;
}

// The cost of a choice of options: operators and the chains between them.
class slow_mapping {
 public:
  slow_mapping(parallel::mesh_tables& tables, const parallel::operator_graph& g, const parallel::mapping_objective& o)
      : g_{g}, objective_{o} {
    for (std::uint32_t i = 0; i < g.size(); ++i) {
      tables_.push_back(&tables.of(g.placed(i)));
    }
  }
  std::int64_t cost(const std::vector<std::uint32_t>& options) {
    std::int64_t sum = 0;
    for (std::uint32_t i = 0; i < g_.size(); ++i) {
      sum += added(options, i);
    }
    return sum;
  }
  std::int64_t least() {
    std::vector<std::uint32_t> options;
    best_ = unreachable;
    extend(options, 0);
    return best_;
  }

 private:
  std::int64_t added(const std::vector<std::uint32_t>& options, std::uint32_t i) {
    auto sum = parallel::price_of(tables_[i]->options[options[i]], objective_);
    const auto sources = g_.sources(i);
    for (std::size_t x = 0; x < sources.size(); ++x) {
      if (sources[x].from != parallel::operand_source::none) {
        const auto& space = *tables_[i]->operands[x];
        const auto& before = tables_[sources[x].from]->options[options[sources[x].from]].results[sources[x].result];
        auto& row = distances_[{&space, space.number(before)}];
        if (row.empty()) {
          row = slow_distances(space, space.number(before));
        }
        sum = std::min(unreachable, sum + row[space.number(tables_[i]->options[options[i]].operands[x])]);
      }
    }
    return sum;
  }
  void extend(std::vector<std::uint32_t>& options, std::int64_t sum) {
    if (sum >= best_) {
      return;
    }
    if (options.size() == g_.size()) {
      best_ = sum;
      return;
    }
    const auto i = static_cast<std::uint32_t>(options.size());
    for (std::uint32_t o = 0; o < tables_[i]->options.size(); ++o) {
      options.push_back(o);
      extend(options, sum + added(options, i));
      options.pop_back();
    }
  }

  const parallel::operator_graph& g_;
  parallel::mapping_objective objective_;
  std::vector<const parallel::operator_table*> tables_{};
  std::map<std::pair<const parallel::layout_space*, std::uint32_t>, std::vector<std::int64_t>> distances_{};
  std::int64_t best_ = 0;
};

struct mapped_machine {
  hardware::machine machine;
  hardware::route_table routes;
  parallel::shard_clock clock;

  explicit mapped_machine(const char* preset)
      : machine{hardware::preset(preset)},
        routes{machine.network},
        clock{operators(), parallel::analytic_durations(operators(), machine), {0}} {}
};

}  // namespace

TEST_CASE("machine mapping by dynamic programming finds the exhaustive minimum on random graphs") {
  const std::uint64_t seed = 22;
  INFO("seed " << seed);
  random_engine random{seed};
  mapped_machine at{"p100:1x4"};
  const auto meshes = hardware::meshes_of(at.machine.network, 2);
  REQUIRE(meshes.size() == 2);
  std::size_t irreducible = 0;
  for (const auto& mesh : meshes) {
    const parallel::mesh_costs costs{at.machine, at.routes, mesh};
    parallel::mesh_tables tables{
        operators(), mesh, costs, at.clock, parallel::all_index_uses, parallel::optimizer::sgd};
    parallel::machine_mapping mapping{tables, {16, 0}, 1U << 20U};
    dynamic_program program{mapping};  // shared by all graphs: common parts are solved once
    for (std::uint64_t i = 0; i < unity::test::cases(100); ++i) {
      const auto g = random_graph(random, 3 + random.below(mesh.sizes.size() == 1 ? 4U : 2U));
      CAPTURE(i, mesh.sizes.size());
      const parallel::graph_dimensions dimensions{operators(), g};
      const parallel::training_graph training{operators(), g};
      const parallel::operator_graph ops{operators(), g, dimensions, training};
      irreducible += ops.tree().is_series_parallel() ? 0 : 1;
      mapping.set_graph(ops);
      const auto s = mapping.solve(program);
      slow_mapping slow{tables, ops, {16, 0}};
      REQUIRE(s.cost == slow.least());
      REQUIRE(s.cost == slow.cost(s.options));
      CHECK(mapping.least(program) == s.cost);
    }
    CHECK_FALSE(mapping.is_bounded());
    CHECK(program.asked() > program.goals());
  }
  CHECK(irreducible > unity::test::cases(10));
}

TEST_CASE("meshes of the same devices share the costs of their groups") {
  const auto machine = hardware::preset("dgx_a100:4x8");
  const hardware::route_table routes{machine.network};
  parallel::known_group_costs known;
  const auto meshes = hardware::meshes_of(machine.network, 3);
  std::size_t sets = 0;
  for (const auto& mesh : meshes) {
    const parallel::mesh_costs alone{machine, routes, mesh};
    const parallel::mesh_costs shared{machine, routes, mesh, 16, &known};
    for (parallel::axis_set s = 0; s < (1U << mesh.axis_count()); ++s) {
      CAPTURE(mesh.sizes.size(), s);
      const bytes size{1 << 20};
      CHECK(alone.size(s) == shared.size(s));
      CHECK(alone.all_reduce(s, size) == shared.all_reduce(s, size));
      CHECK(alone.reduce_scatter(s, size) == shared.reduce_scatter(s, size));
      CHECK(alone.all_gather(s, size) == shared.all_gather(s, size));
      CHECK(alone.all_to_all(s, size) == shared.all_to_all(s, size));
      CHECK(alone.shift(s, size) == shared.shift(s, size));
      CHECK(alone.delay(s) == shared.delay(s));
      ++sets;
    }
  }
  CHECK(known.size() + meshes.size() < sets);  // the empty set of each is not measured
}

TEST_CASE("meshes take the measured times of collectives, as lowering does") {
  auto machine = hardware::preset("p100:1x4");
  const hardware::route_table routes{machine.network};
  const auto mesh = hardware::meshes_of(machine.network, 1).front();
  const bytes size{1 << 20};
  const parallel::mesh_costs fitted{machine, routes, mesh};
  CHECK(fitted.gather_back(1, size) == fitted.all_gather(1, bytes{size.count() / 4}));
  using hardware::exchange;
  hardware::link measured{"measured", 4, {}};
  measured.costs[exchange::all_reduce] = {{.alpha = 3e-6}};
  measured.costs[exchange::reduce_scatter] = {{.alpha = 5e-6}};
  measured.costs[exchange::all_gather] = {{.alpha = 7e-6}};
  machine.links = {measured};
  const parallel::mesh_costs costs{machine, routes, mesh};
  CHECK(costs.all_reduce(1, size) == picoseconds{3'000'000});
  CHECK(costs.all_reduce_start(1, size) == picoseconds{});
  CHECK(costs.reduce_scatter(1, size) == picoseconds{5'000'000});
  CHECK(costs.gather_back(1, size) == picoseconds{7'000'000});
  CHECK(costs.all_gather(1, size) == fitted.all_gather(1, size));  // messages
}

TEST_CASE("machine mapping solves equal layers of a graph once") {
  mapped_machine at{"summit:2x6"};
  const auto mesh = hardware::meshes_of(at.machine.network, 2).front();
  const parallel::mesh_costs costs{at.machine, at.routes, mesh};
  parallel::mesh_tables tables{operators(), mesh, costs, at.clock, parallel::all_index_uses, parallel::optimizer::sgd};
  parallel::machine_mapping mapping{tables, {16, 0}};
  const auto goals_of = [&](const char* model) {
    const auto g = tensor::zoo::build(operators(), model);
    const parallel::graph_dimensions dimensions{operators(), g};
    const parallel::training_graph training{operators(), g};
    const parallel::operator_graph ops{operators(), g, dimensions, training};
    mapping.set_graph(ops);
    dynamic_program program{mapping};
    CHECK(mapping.least(program) < unreachable);
    return program.goals();
  };
  const auto of_three = goals_of("zoo:gpt?layers=3&hidden=48&heads=4&seq=16&vocab=96&batch=12");
  CHECK(goals_of("zoo:gpt?layers=24&hidden=48&heads=4&seq=16&vocab=96&batch=12") == of_three);
}

TEST_CASE("machine mapping bounds the states of a graph that is not series-parallel") {
  mapped_machine at{"p100:1x2"};
  const auto mesh = hardware::meshes_of(at.machine.network, 1).front();
  const parallel::mesh_costs costs{at.machine, at.routes, mesh};
  parallel::mesh_tables tables{operators(), mesh, costs, at.clock, parallel::all_index_uses, parallel::optimizer::sgd};
  const auto g = tensor::zoo::build(operators(), "zoo:nasnet_a?form=taso&layers=1");
  const parallel::graph_dimensions dimensions{operators(), g};
  const parallel::training_graph training{operators(), g};
  const parallel::operator_graph ops{operators(), g, dimensions, training};
  CHECK_FALSE(ops.tree().is_series_parallel());
  std::int64_t narrow = 0;
  for (const std::size_t width : {4U, 64U}) {
    parallel::machine_mapping mapping{tables, {16, 0}, width};
    mapping.set_graph(ops);
    dynamic_program program{mapping};
    const auto s = mapping.solve(program);
    REQUIRE(s.cost < unreachable);
    CHECK(mapping.is_bounded());
    slow_mapping slow{tables, ops, {16, 0}};
    CHECK(slow.cost(s.options) == s.cost);
    narrow = narrow == 0 ? s.cost : narrow;
    CHECK(s.cost <= narrow);
  }
}

}  // namespace tests_of_machine_mapping
