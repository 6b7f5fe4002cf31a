// Proposals that move parts of a graph.
#include <unity/systems/unity/part_proposal.hpp>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <string>

#include <unity/core/random.hpp>
#include <unity/hardware/device_mesh.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/mesh/mesh_options.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/systems/unity/joint_search.hpp>
#include <unity/systems/unity/mesh_proposal.hpp>
#include <unity/systems/unity/mesh_solver.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/zoo.hpp>

#include "../support/operators.hpp"

namespace tests_of_part_proposal {

namespace {

using namespace unity;
using unity::test::training::operators;

struct four_devices {
  tensor::tensor_graph graph = tensor::zoo::build(operators(), "zoo:mlp?layers=3");
  hardware::machine machine = hardware::preset("p100:1x4");
  hardware::route_table routes{machine.network};
  parallel::shard_clock clock{operators(), parallel::analytic_durations(operators(), machine), {0}};
  systems::mesh_solver solver{operators(),
                              machine,
                              routes,
                              hardware::meshes_of(machine.network, 1).front(),
                              clock,
                              parallel::all_index_uses,
                              parallel::optimizer::sgd};
  systems::detail::analyzed_graph one{operators(), graph};

  // All operators on one device: no operator has readers on different devices, so none can be repeated.
  [[nodiscard]] parallel::strategy on_one_device() const {
    parallel::strategy s(graph.node_count());
    for (std::uint32_t i = 0; i < one.ops.size(); ++i) {
      s[one.ops.node(i).index()].devices = {hardware::device_id{0U}};
    }
    return s;
  }
  [[nodiscard]] systems::part_proposal proposal(systems::part_moves moves) {
    return {systems::mesh_proposal{solver, one.ops}, one.ops, 4, moves};
  }
};

}  // namespace

TEST_CASE("proposals of all parts are valid and include sums/copies/whole graphs") {
  four_devices on;
  const auto proposal = on.proposal(systems::part_moves::all);
  const auto s = on.on_one_device();
  std::size_t of_sums = 0;
  std::size_t copied = 0;
  std::size_t of_all = 0;
  random_engine random{1};
  for (int i = 0; i < 2000; ++i) {
    const auto p = proposal.sample(s, random);
    CAPTURE(i);
    REQUIRE(p);
    REQUIRE_FALSE(p->move.empty());
    for (const auto& c : p->move) {
      REQUIRE(parallel::why_not(on.one.ops.dimensions()[c.node], c.to, 4) == std::string{});
      of_sums += parallel::product(c.to.reductions) > 1 ? 1U : 0U;
      copied += c.to.copies > 1 ? 1U : 0U;
    }
    of_all += p->move.size() == on.one.ops.size() ? 1U : 0U;
  }
  CHECK(of_sums > 10);
  CHECK(copied > 10);
  CHECK(of_all > 10);
}

TEST_CASE("proposals of connected parts end if an operator cannot be repeated") {
  four_devices on;
  const auto proposal = on.proposal(systems::part_moves::connected);
  const auto s = on.on_one_device();
  random_engine random{1};
  std::size_t ends = 0;
  for (int i = 0; i < 2000; ++i) {
    ends += proposal.sample(s, random) ? 0U : 1U;
  }
  CHECK(ends > 100);  // one in eight proposals tries to repeat an operator
  CHECK(ends < 500);
}

}  // namespace tests_of_part_proposal
