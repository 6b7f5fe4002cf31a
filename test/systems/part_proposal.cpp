// Proposals that move parts of a graph.
#include <unity/systems/unity/part_proposal.hpp>

#include <catch2/catch.hpp>

#include <cstdint>

#include <unity/core/random.hpp>
#include <unity/machine/device_mesh.hpp>
#include <unity/machine/presets.hpp>
#include <unity/machine/topology.hpp>
#include <unity/parallel/mesh/mesh_options.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/systems/unity/joint_search.hpp>
#include <unity/systems/unity/mesh_proposal.hpp>
#include <unity/systems/unity/mesh_room.hpp>
#include <unity/tensor/zoo.hpp>

#include "../support/operators.hpp"

namespace tests_of_part_proposal {

namespace {

using namespace unity;
using unity::test::training::operators;

TEST_CASE("there is always a proposal, as a chain ends without one") {
  const auto g = tensor::zoo::build(operators(), "zoo:mlp?layers=3");
  const auto m = machine::preset("p100:1x4");
  const machine::route_table routes{m.network};
  parallel::shard_clock clock{operators(), parallel::analytic_durations(operators(), m), {0}};
  systems::mesh_room room{
      operators(), m, routes, machine::meshes_of(m.network, 1).front(), clock, parallel::all_index_uses,
      parallel::optimizer::sgd};
  const systems::detail::analyzed_graph one{operators(), g};
  const systems::part_proposal proposal{systems::mesh_proposal{room, one.ops}, one.ops, 4};
  // All operators on one device: none has two readers on different devices, so none can be repeated.
  parallel::strategy s(g.node_count());
  for (std::uint32_t i = 0; i < one.ops.size(); ++i) {
    auto& c = s[one.ops.node(i).index()];
    c.devices = {machine::device_id{0U}};
  }
  random_engine random{1};
  for (int i = 0; i < 2000; ++i) {
    const auto p = proposal.sample(s, random);
    CAPTURE(i);
    REQUIRE(p);
    CHECK_FALSE(p->move.empty());
  }
}

}  // namespace

}  // namespace tests_of_part_proposal
