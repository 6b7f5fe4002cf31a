// Unity's joint search, against all graphs that substitutions reach in three steps with all their mappings.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/hardware/device_mesh.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/mesh/mesh_layout.hpp>
#include <unity/parallel/mesh/mesh_options.hpp>
#include <unity/parallel/mesh/mesh_tables.hpp>
#include <unity/parallel/mesh/operator_graph.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/systems/unity/joint_search.hpp>
#include <unity/systems/unity/mesh_solver.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/convert.hpp>
#include <unity/tensor/operation.hpp>

#include "../support/cases.hpp"
#include "../support/operators.hpp"
#include "all_mappings.hpp"
#include "rewritten_graphs.hpp"
#include "shipped_rules.hpp"
#include "training_graphs.hpp"

namespace tests_of_unity_optimality {

namespace {

using namespace unity;
using unity::test::training::operators;

// Four devices as meshes of 4 and of 2 x 2.
struct meshes {
  hardware::machine machine = hardware::preset("p100:1x4");
  hardware::route_table routes{machine.network};
  parallel::shard_clock clock{operators(), parallel::analytic_durations(operators(), machine), {0}};
  std::vector<std::unique_ptr<systems::mesh_solver>> solvers{};
  std::vector<std::unique_ptr<test::all_mappings>> slow{};

  explicit meshes(const parallel::mapping_objective& objective) {
    for (auto& m : hardware::meshes_of(machine.network, 2)) {
      solvers.push_back(std::make_unique<systems::mesh_solver>(operators(), machine, routes, std::move(m), clock,
                                                               parallel::all_index_uses, parallel::optimizer::sgd));
      slow.push_back(std::make_unique<test::all_mappings>(solvers.back()->tables(), objective));
    }
  }
};

using systems::detail::analyzed_graph;

constexpr parallel::mapping_objective objective{16, 0};

tensor::tensor_graph graph_of(std::uint64_t seed, std::size_t least, std::size_t most) {
  random_engine random{seed};
  const auto size = least + random.below(most - least + 1);
  return tensor::with_delivered_outputs(operators(), test::random_training_graph(random, operators(), size));
}

// Tries every choice of options.
std::int64_t least_of_all(test::all_mappings& slow, parallel::mesh_tables& tables, const parallel::operator_graph& g) {
  std::vector<std::uint32_t> chosen(g.size(), 0);
  auto least = parallel::unreachable;
  while (true) {
    least = std::min(least, slow.cost(g, chosen));
    std::uint32_t i = 0;
    while (i < g.size() && ++chosen[i] == tables.of(g.placed(i)).options.size()) {
      chosen[i++] = 0;
    }
    if (i == g.size()) {
      return least;
    }
  }
}

}  // namespace

TEST_CASE("eliminating operators one by one finds the cheapest of all mappings") {
  meshes at{objective};
  std::size_t compared = 0;
  for (std::uint64_t seed = 0; compared < 10; ++seed) {
    CAPTURE(seed);
    const auto g = graph_of(seed, 2, 3);
    const analyzed_graph one{operators(), g};
    if (one.ops.size() <= 4) {
      CHECK(at.slow[0]->least(one.ops) == least_of_all(*at.slow[0], at.solvers[0]->tables(), one.ops));
      ++compared;
    }
  }
}

TEST_CASE("improve reaches the best of all three-step rewrites for 95% of random graphs") {
  meshes at{objective};
  constexpr std::uint64_t count = unity::test::cases(200);
  std::size_t equal = 0;
  std::size_t improved = 0;
  std::size_t irreducible = 0;
  std::size_t graphs = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto seed = i * (200 / count);
    auto& solver = *at.solvers[i % 2];
    auto& slow = *at.slow[i % 2];
    const auto g = graph_of(seed, 2, 8);
    const auto found = systems::improve(operators(), test::standard_rules(), g, solver, objective);
    const analyzed_graph cheapest{operators(), found.graph};
    const auto s = solver.solve(cheapest.ops, objective);
    CAPTURE(seed, s.cost);
    REQUIRE(s.cost == slow.cost(cheapest.ops, s.options));
    const analyzed_graph given{operators(), g};
    improved += s.cost < slow.least(given.ops) * 99 / 100 ? 1 : 0;
    irreducible += given.ops.tree().is_series_parallel() ? 0 : 1;

    auto least = parallel::unreachable;
    REQUIRE(test::for_each_rewritten(operators(), test::standard_rules(), g, 3, 20000,
                                     [&](const tensor::tensor_graph& h, std::size_t) {
                                       const analyzed_graph one{operators(), h};
                                       ++graphs;
                                       if (slow.bound(one.ops) < least) {
                                         least = std::min(least, slow.least(one.ops));
                                       }
                                     }));
    equal += s.cost <= least ? 1 : 0;  // the search may go beyond three steps
    CHECK(static_cast<double>(s.cost) <= 1.1 * static_cast<double>(least));
  }
  CAPTURE(equal, improved, irreducible, graphs);
  CHECK(equal >= count * 95 / 100);
  CHECK(improved > count / 10);     // substitutions help
  CHECK(irreducible > count / 20);  // not only where the mapping is trivial
  CHECK(graphs > 20 * count);
}

}  // namespace tests_of_unity_optimality
