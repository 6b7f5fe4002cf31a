// The options of an operator on a mesh.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/core/units.hpp>
#include <unity/parallel/mesh/mesh_layout.hpp>
#include <unity/parallel/mesh/mesh_options.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/tensor/builder.hpp>

#include "../placed_graph.hpp"
#include "../random_model.hpp"

namespace tests_of_mesh_options {

using namespace unity;
using namespace unity::parallel;
using unity::parallel::test::operators;
using unity::parallel::test::placed_graph;
using unity::parallel::test::placed_mesh;

namespace {

// Per axis a dimension, or c(opies), p(artial), o(ne place).
std::string text_of(const placed_mesh& at, mesh_layout l) {
  std::string text;
  for (std::size_t a = 0; a < at.mesh.axis_count(); ++a) {
    text += l[a] < mesh_layout::placed     ? std::to_string(l[a])
            : l[a] == mesh_layout::copies  ? "c"
            : l[a] == mesh_layout::partial ? "p"
                                           : "o";
  }
  return text;
}
// "operands>results" of each option of an operator.
std::set<std::string> options_of(placed_mesh& at, const placed_graph& g, std::uint32_t op) {
  std::set<std::string> all;
  for (const auto& o : at.tables.of(g.ops.placed(op)).options) {
    std::string text;
    for (const auto l : o.operands) {
      text += text_of(at, l) + " ";
    }
    all.insert(text + "> " + text_of(at, o.results[0]));
  }
  return all;
}

}  // namespace

TEST_CASE("mesh options of a matmul divide rows or columns or the sum or replicate it") {
  tensor::builder b{operators()};
  const auto x = b.relu(b.input("x", {8, 12}));
  const placed_graph g{std::move(b).finish({b.relu(b.matmul(x, b.weight("w", {12, 6})))})};
  placed_mesh row{{4}};
  CHECK(options_of(row, g, 1) ==
        std::set<std::string>{"0 c > 0", "1 0 > p", "c c > c"});  // 4 does not divide 6 columns
  placed_mesh square{{2, 2}};
  CHECK(options_of(square, g, 1).contains("0c c1 > 01"));
  CHECK(options_of(square, g, 1).contains("11 00 > pp"));
  CHECK(options_of(square, g, 1).size() == 15);  // four roles per axis, except columns on both axes
  CHECK(options_of(row, g, 2) == std::set<std::string>{"0 > 0", "c > c"});
}

TEST_CASE("mesh options of an add accept partial sums; options of a graph output do not") {
  tensor::builder b{operators()};
  const auto x = b.relu(b.input("x", {8, 8}));
  const auto y = b.add(x, b.matmul(x, b.weight("w", {8, 8})));
  const placed_graph g{std::move(b).finish({b.add(y, x)})};
  placed_mesh row{{4}};
  CHECK(options_of(row, g, 2) == std::set<std::string>{"0 0 > 0", "1 1 > 1", "c c > c", "p p > p"});
  CHECK(options_of(row, g, 3) == std::set<std::string>{"0 0 > 0", "1 1 > 1", "c c > c"});
}

TEST_CASE("mesh options synchronize gradients of a replicated weight and not of a divided one") {
  tensor::builder b{operators()};
  const auto x = b.relu(b.input("x", {8, 8}));
  const placed_graph g{std::move(b).finish({b.relu(b.matmul(x, b.weight("w", {8, 8})))})};
  placed_mesh row{{4}};
  for (const auto& o : row.tables.of(g.ops.placed(1)).options) {
    const bool is_copied = o.operands[1][0] == mesh_layout::copies;
    CHECK((o.synchronizing > picoseconds{0}) == is_copied);
    CHECK(o.weights == bytes{(is_copied ? 4 : 1) * 2 * 64});
    CHECK(o.activations == bytes{o.results[0][0] < mesh_layout::placed ? 64 : 256});
    CHECK(o.busy <= o.computing);
  }
}

TEST_CASE("mesh options contain allowed index uses only") {
  tensor::builder b{operators()};
  const auto x = b.relu(b.input("x", {8, 8}));
  const placed_graph g{std::move(b).finish({b.relu(b.matmul(x, b.weight("w", {8, 8})))})};
  const auto bit = [](index_use use) { return index_uses{1} << static_cast<unsigned>(use); };
  placed_mesh data{{4}, bit(index_use::data)};
  CHECK(options_of(data, g, 1) == std::set<std::string>{"0 c > 0", "c c > c"});
  placed_mesh reduction{{4}, bit(index_use::reduction)};
  CHECK(options_of(reduction, g, 1) == std::set<std::string>{"1 0 > p", "c c > c"});
}

TEST_CASE("layouts of mesh options equal the types on their operator grid", "[law]") {
  for (const hardware::mesh_sizes& sizes : {hardware::mesh_sizes{4}, hardware::mesh_sizes{2, 2}}) {
    placed_mesh at{sizes};
    std::size_t options = 0;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      CAPTURE(seed, sizes.size());
      random_engine random{seed};
      const placed_graph g{parallel::test::random_model(random, 1 + random.below(8))};
      for (std::uint32_t i = 0; i < g.ops.size(); ++i) {
        const auto& d = *g.ops.placed(i).dimensions;
        for (const auto& o : at.tables.of(g.ops.placed(i)).options) {
          const auto types = types_on(d, parallel::grid_of(d, at.mesh, {o.roles.data(), o.roles.size()}));
          REQUIRE(types);
          ++options;
          for (std::size_t x = 0; x < d.inputs.size(); ++x) {
            CHECK(type_of(d.inputs[x], at.mesh, o.operands[x]) == types->operands[x]);
          }
          for (std::size_t r = 0; r < d.outputs.size(); ++r) {
            CHECK(type_of(d.outputs[r], at.mesh, o.results[r]) == types->results[r]);
          }
        }
      }
    }
    CHECK(options > 500);
  }
}

}  // namespace tests_of_mesh_options
