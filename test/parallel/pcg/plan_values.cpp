// Divided graphs on small sizes, compared with the undivided graphs.

#include <array>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/parallel/pcg/erasure.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/parallel/pcg/plan_values.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

#include "../random_model.hpp"
#include "../random_pcg.hpp"

namespace tests_of_plan_values {

using namespace unity;
using namespace unity::parallel;
using unity::parallel::test::operators;
using unity::parallel::test::parallel_operators;
using verdicts = value_comparison::verdicts;

namespace {

// A product with rows, columns or sums divided into four, followed by an operator that every task repeats.
struct divided_product {
  tensor::tensor_graph graph{};
  std::vector<operator_grid> grids{};

  explicit divided_product(std::size_t index) {
    tensor::builder b{operators()};
    const auto x = b.input("x", {64, 96});
    graph = std::move(b).finish({b.tanh(b.matmul(x, b.weight("w", {96, 32})))});
    for (const auto n : node_ids(graph)) {
      const auto* o = parallel::test::dimensions_in(graph, n);
      grids.push_back(o == nullptr ? operator_grid{} : undivided_grid(*o));
    }
    grids[2].indices[index] = 4;
    grids[3].copies = 4;
  }
};

}  // namespace

TEST_CASE("shrink_divided makes sizes small and keeps divided sizes divisible") {
  for (std::size_t index = 0; index < 3; ++index) {
    CAPTURE(index);
    const divided_product p{index};
    const auto small = shrink_divided(parallel_operators(), p.graph, p.grids).first;
    const auto& x = small.type(value_id{0U}).dims;
    const auto& w = small.type(value_id{1U}).dims;
    const std::array sizes{x[0], w[1], x[1]};  // rows, columns, sums
    const auto structure = parallel::test::dimensions_in(p.graph, node_id{2U})->structure;
    const std::array numbers{structure.results[0][0].indices[0], structure.results[0][1].indices[0],
                             structure.operands[0][1].indices[0]};
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(sizes[i] < 20);
      CHECK((numbers[i] != index || sizes[i] % 4 == 0));
    }
  }
}

TEST_CASE("compare_values finds a matmul divided by rows or columns or sums equal to the whole") {
  for (std::size_t index = 0; index < 3; ++index) {
    const divided_product p{index};
    const auto r = compare_values(parallel_operators(), p.graph, p.grids);
    CHECK(r.verdict == verdicts::equal);
    CHECK(r.gradients == 1);
    CHECK(r.nodes > p.graph.node_count());
    CHECK(r.sizes.find("x float32[64,96] as") == 0);
  }
}

TEST_CASE("compare_values accepts operators of unknown meaning") {
  tensor::builder b{operators()};
  const auto x = b.input("x", {64, 96});
  const auto mask =
      b.apply("opaque", {x}, {{"name", "Mystery"}, {"signature", "m"}, {"elements", {0}}, {"dims", {2, 64, 32}}})[0];
  const auto g = std::move(b).finish({b.add(b.matmul(x, b.weight("w", {96, 32})), mask)});
  std::vector<operator_grid> grids;
  for (const auto n : node_ids(g)) {
    const auto* o = parallel::test::dimensions_in(g, n);
    grids.push_back(o == nullptr ? operator_grid{} : undivided_grid(*o));
    grids.back().copies = 4;
  }
  const auto r = compare_values(parallel_operators(), g, grids);
  CHECK(r.verdict == verdicts::equal);
  CHECK(r.gradients == 1);
}

TEST_CASE("compare_values reports graphs that are too large and rejects invalid grids") {
  divided_product p{0};
  CHECK(compare_values(parallel_operators(), p.graph, p.grids, 10).verdict == verdicts::too_large);
  p.grids[2].indices[0] = 5;
  CHECK_THROWS_AS(compare_values(parallel_operators(), p.graph, p.grids), error);
}

TEST_CASE("random graphs on random grids keep their grids when shrunk and compare equal", "[law]") {
  std::size_t smaller = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    const auto g = parallel::test::random_model(random, 1 + random.below(6));
    std::vector<operator_grid> grids;
    for (const auto n : node_ids(g)) {
      const auto* o = parallel::test::dimensions_in(g, n);
      grids.push_back(o == nullptr ? operator_grid{} : parallel::test::random_grid(random, *o, 8));
    }
    const auto small = shrink_divided(parallel_operators(), g, grids).first;
    CHECK_NOTHROW(spell_out(parallel_operators(), small, grids));
    smaller += small == g ? 0 : 1;
    const auto r = compare_values(parallel_operators(), g, grids, 20'000'000, seed);
    CHECK(r.verdict == verdicts::equal);
  }
  CHECK(smaller > 5);
}

}  // namespace tests_of_plan_values
