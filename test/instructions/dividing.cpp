// Counted paths of searches for strategies: training a language model on sixteen devices, as in bench/proposals.cpp and
// bench/lowering_rate.cpp.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/core/units.hpp>
#include <unity/hardware/device_mesh.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/mesh/operator_graph.hpp>
#include <unity/parallel/strategies/memory_limits.hpp>
#include <unity/parallel/strategies/placements.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/simulate/delta.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/timeline.hpp>
#include <unity/systems/flexflow/evaluator.hpp>
#include <unity/systems/flexflow/moves.hpp>
#include <unity/systems/unity/mesh_solver.hpp>
#include <unity/tasks/program.hpp>
#include <unity/tasks/storage.hpp>
#include <unity/tensor/convert.hpp>
#include <unity/tensor/zoo.hpp>

#include "../parallel/fragments_around.hpp"
#include "../support/operators.hpp"
#include "paths.hpp"

namespace unity::test {

using unity::test::training::operators;
namespace {

struct division {
  tensor::tensor_graph graph = tensor::zoo::build(operators(), "zoo:rnnlm?batch=1024&seq=10");
  hardware::machine machine = hardware::preset("k80:4x4");
  parallel::lowering lowering{operators(), graph, machine};
  parallel::placements possible{lowering.dimensions(), machine.network.device_count()};
  parallel::strategy strategy = parallel::data_parallel(lowering.dimensions(), machine.network);
  std::vector<node_id> nodes{};
  random_engine random{1};

  division() {
    for (const auto n : node_ids(graph)) {
      if (!graph.operands(n).empty()) {
        nodes.push_back(n);
        strategy[n.index()] = possible.sample(n, random);
      }
    }
  }
};

}  // namespace

work simulate_in_full() {
  const division d;
  auto lowering = d.lowering;
  return [p = lowering.run(d.strategy), full = simulate::full_simulation{}]() mutable {
    std::uint64_t sum = 0;
    for (int i = 0; i < 25; ++i) {
      sum += static_cast<std::uint64_t>(full.run(p).count());
    }
    return sum;
  };
}

work simulate_changes() {
  auto d = std::make_shared<division>();
  std::vector<std::vector<parallel::lowered_fragment>> changes;
  const auto p = d->lowering.run(d->strategy);
  for (int i = 0; i < 20; ++i) {
    const auto n = d->nodes[d->random.below(d->nodes.size())];
    auto next = d->strategy;
    next[n.index()] = d->possible.sample(n, d->random);
    changes.push_back(parallel::test::fragments_around(d->lowering, next, n));
  }
  return [changes, delta = std::make_shared<simulate::delta_simulation>(p)] {
    std::uint64_t sum = 0;
    for (const auto& change : changes) {
      sum += static_cast<std::uint64_t>(delta->try_replace(replacements_of(change))->count());
      delta->rollback();
    }
    return sum;
  };
}

// A chain that accepts every proposal that costs no more.
work propose_strategies() {
  auto d = std::make_shared<division>();
  auto evaluator = std::make_shared<systems::strategy_evaluator>(d->lowering, parallel::memory_limits(d->machine));
  evaluator->reset(d->strategy);
  const auto moves = std::make_shared<systems::strategy_moves>(operators(), d->graph, evaluator->dimensions(),
                                                               d->machine.network.device_count());
  return [d, evaluator, moves] {
    const systems::strategy_proposal proposal{moves.get(), moves->unit_share(), 0.3, systems::device_choice::blocks};
    for (int i = 0; i < 40; ++i) {
      const auto drawn = proposal.sample(evaluator->state(), d->random);
      if (evaluator->try_move(drawn->move, evaluator->cost())) {
        evaluator->commit();
      }
    }
    return static_cast<std::uint64_t>(evaluator->cost());
  };
}

work lower_a_plan() {
  return [d = std::make_shared<division>()] { return d->lowering.run(d->strategy).task_count(); };
}

work map_onto_meshes() {
  const auto graph =
      tensor::with_delivered_outputs(operators(), tensor::zoo::build(operators(), "zoo:bert?layers=2&batch=16"));
  return [graph, m = hardware::preset("p100:1x4")] {
    const hardware::route_table routes{m.network};
    parallel::shard_clock clock{operators(), parallel::analytic_durations(operators(), m), {0}};
    const parallel::graph_dimensions dimensions{operators(), graph};
    const parallel::training_graph training{operators(), graph};
    const parallel::operator_graph ops{operators(), graph, dimensions, training};
    std::uint64_t sum = 0;
    for (auto& mesh : hardware::meshes_of(m.network, 2)) {
      systems::mesh_solver solver{
          operators(), m, routes, std::move(mesh), clock, parallel::all_index_uses, parallel::optimizer::sgd};
      sum += static_cast<std::uint64_t>(solver.solve(ops, {}).cost);
    }
    return sum;
  };
}

// As many values as a training step of a deep network, with few distinct sizes.
work plan_memory() {
  random_engine random{1};
  std::vector<tasks::stored_value> values;
  for (std::size_t i = 0; i < 4000; ++i) {
    values.push_back({bytes{1 << random.between(8, 20)}, i, i + 1 + random.below(i % 10 == 0 ? 400 : 8)});
  }
  return [values] { return static_cast<std::uint64_t>(tasks::plan_storage(values, bytes{64}).peak.count()); };
}

}  // namespace unity::test
