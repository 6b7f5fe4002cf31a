// Which operators are placed where on a mesh.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <unity/parallel/mesh/mesh_options.hpp>
#include <unity/systems/unity/mesh_solver.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/operation.hpp>

#include "../parallel/placed_graph.hpp"

namespace tests_of_mesh_places {

namespace {

using namespace unity;
using parallel::test::operators;
using parallel::test::placed_graph;
using parallel::test::placed_mesh;
using kinds = parallel::axis_role::kinds;

// Branches of two operators with different sizes, side by side.
tensor::tensor_graph branches(const std::vector<std::int64_t>& widths) {
  tensor::builder b{operators()};
  const auto x = b.relu(b.input("x", {64, 64}));
  std::vector<value_id> ends;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const auto w = std::to_string(i);
    ends.push_back(b.matmul(b.matmul(x, b.weight("v" + w, {64, widths[i]})), b.weight("w" + w, {widths[i], 64})));
  }
  return std::move(b).finish({b.relu(b.concat(1, ends))});
}
// The option of every operator with the wanted role along all axes, where it exists; otherwise copies.
std::vector<std::uint32_t> options_with(placed_mesh& at, const placed_graph& g, kinds wanted) {
  std::vector<std::uint32_t> chosen;
  for (std::uint32_t i = 0; i < g.ops.size(); ++i) {
    const auto& all = at.tables.of(g.ops.placed(i)).options;
    const auto find = [&](kinds k) {
      return static_cast<std::size_t>(std::find_if(all.begin(), all.end(),
                                                   [&](const parallel::mesh_option& o) {
                                                     return std::all_of(
                                                         o.roles.begin(), o.roles.end(),
                                                         [&](const parallel::axis_role& r) { return r.kind == k; });
                                                   }) -
                                      all.begin());
    };
    const auto o = find(wanted) < all.size() ? find(wanted) : find(kinds::copies);
    if (o == all.size()) {
      throw std::logic_error{"an operator without copies"};
    }
    chosen.push_back(static_cast<std::uint32_t>(o));
  }
  return chosen;
}

}  // namespace

TEST_CASE("operators that are not placed are at mesh place 0") {
  placed_mesh at{{4}};
  const placed_graph g{branches({64, 64, 64, 64})};
  CHECK(systems::mesh_places(at.tables, g.ops, options_with(at, g, kinds::copies)) ==
        std::vector<std::size_t>(g.ops.size(), 0));
}

TEST_CASE("as many branches as mesh places get one place each") {
  for (const hardware::mesh_sizes& sizes : {hardware::mesh_sizes{4}, hardware::mesh_sizes{2, 2}}) {
    placed_mesh at{sizes};
    const placed_graph g{branches({64, 128, 256, 512})};
    const auto places = systems::mesh_places(at.tables, g.ops, options_with(at, g, kinds::placed));
    std::set<std::size_t> used;
    for (std::uint32_t i = 1; i < 9; i += 2) {  // relu, then pairs of products
      REQUIRE(g.ops.placed(i).siblings.size() == 4);
      CHECK(places[i] == places[i + 1]);
      used.insert(places[i]);
    }
    CHECK(used == std::set<std::size_t>{0, 1, 2, 3});
  }
}

TEST_CASE("the longest branch is placed first and gets a mesh place to itself") {
  placed_mesh at{{2, 2}};
  const placed_graph g{branches({4096, 64, 64, 64, 64})};
  const auto places = systems::mesh_places(at.tables, g.ops, options_with(at, g, kinds::placed));
  CHECK(places[1] == 0);
  for (std::uint32_t i = 3; i < 11; i += 2) {
    CHECK(places[i] != 0);  // the long branch has a device for itself
  }
}

}  // namespace tests_of_mesh_places
