// Configurations that correspond to options on a mesh.

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/configuration_grid.hpp>
#include <unity/parallel/mesh/mesh_options.hpp>
#include <unity/parallel/mesh/mesh_plan.hpp>

#include "../devices_of.hpp"
#include "../operators.hpp"
#include "../placed_graph.hpp"
#include "../random_model.hpp"

namespace tests_of_mesh_plan {

using namespace unity;
using namespace unity::parallel;
using unity::parallel::test::operators;
using unity::parallel::test::placed_graph;
using unity::parallel::test::placed_mesh;
using unity::parallel::test::type;

namespace {

using kinds = axis_role::kinds;

}  // namespace

TEST_CASE("configuration_on orders tasks as the grid for either assignment of mesh axes") {
  const placed_mesh at{{2, 2}};
  const auto o = parallel::test::dimensions("relu", {}, {type({8, 8})});
  const std::vector<axis_role> rows_outside{{kinds::index, 0}, {kinds::index, 1}};
  const std::vector<axis_role> rows_inside{{kinds::index, 1}, {kinds::index, 0}};
  const auto a = configuration_on(o, at.mesh, rows_outside);
  CHECK(a.degrees == degree_list{2, 2});
  CHECK(parallel::test::devices_of(a) == std::vector<std::size_t>{0, 1, 2, 3});
  CHECK(parallel::test::devices_of(configuration_on(o, at.mesh, rows_inside)) == std::vector<std::size_t>{0, 2, 1, 3});
}

TEST_CASE("configuration_on has a task per replica and one for a placed axis") {
  const placed_mesh at{{2, 2}};
  const auto o = parallel::test::dimensions("relu", {}, {type({8, 8})});
  const std::vector<axis_role> copied{{kinds::copies, 0}, {kinds::index, 0}};
  const auto c = configuration_on(o, at.mesh, copied);
  CHECK(c.copies == 2);
  CHECK(c.degrees == degree_list{2, 1});
  CHECK(parallel::test::devices_of(c) == std::vector<std::size_t>{0, 1, 2, 3});
  const std::vector<axis_role> placed{{kinds::placed, 0}, {kinds::index, 0}};
  CHECK(parallel::test::devices_of(configuration_on(o, at.mesh, placed, 0)) == std::vector<std::size_t>{0, 1});
  CHECK(parallel::test::devices_of(configuration_on(o, at.mesh, placed, 3)) == std::vector<std::size_t>{2, 3});
}

TEST_CASE("mesh options of random models are valid configurations on their grid", "[law]") {
  placed_mesh at{{2, 2}};
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    const placed_graph g{parallel::test::random_model(random, 1 + random.below(8))};
    for (std::uint32_t i = 0; i < g.ops.size(); ++i) {
      const auto& d = *g.ops.placed(i).dimensions;
      for (const auto& o : at.tables.of(g.ops.placed(i)).options) {
        const auto c = configuration_on(d, at.mesh, {o.roles.data(), o.roles.size()});
        CHECK(why_not(d, c, 4).empty());
        CHECK(grid_of(d, c) == parallel::grid_of(d, at.mesh, {o.roles.data(), o.roles.size()}));
      }
    }
  }
}

}  // namespace tests_of_mesh_plan
