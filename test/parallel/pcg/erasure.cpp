// Parallel computation graphs and the tensor graphs that they compute.
#include <cstddef>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/error.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/parallel/pcg/chains.hpp>
#include <unity/parallel/pcg/erasure.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/operation.hpp>

#include "../operators.hpp"
#include "../random_pcg.hpp"

namespace tests_of_erasure {

using namespace unity;
using namespace unity::parallel;
using unity::parallel::test::operators;
using unity::parallel::test::some_graph;
using unity::parallel::test::parallel_operators;

TEST_CASE("erasing a graph spelled out on random grids gives the original graph", "[law]") {
  const auto seed = GENERATE(range(0U, 50U));
  CAPTURE(seed);
  random_engine random{seed};
  const auto g = some_graph();
  for (int i = 0; i < 20; ++i) {
    std::vector<operator_grid> grids;
    for (const auto n : node_ids(g)) {
      const auto* o = parallel::test::dimensions_in(g, n);
      grids.push_back(o == nullptr ? operator_grid{} : parallel::test::random_grid(random, *o, 12));
    }
    const auto divided = spell_out(parallel_operators(), g, grids);
    REQUIRE(erase(parallel_operators(), divided) == g);
    for (const auto v : divided.outputs()) {
      REQUIRE(divided.type(v).partial == 1);
    }
    // Every node's types must be inferred from its operands'.
    for (const auto n : node_ids(divided)) {
      std::vector<parallel_type> inputs;
      for (const auto v : divided.operands(n)) {
        inputs.push_back(divided.type(v));
      }
      const auto results = parallel_operators().infer(divided.operation(n), inputs);
      REQUIRE(results.has_value());
      for (std::size_t r = 0; r < results->size(); ++r) {
        REQUIRE((*results)[r] == divided.type(divided.results(n)[r]));
      }
    }
  }
}

TEST_CASE("spell_out shares one chain between consumers with the same division") {
  tensor::builder b{operators()};
  const auto x = b.input("x", {4, 6});
  const auto g = std::move(b).finish({b.relu(x), b.tanh(x), b.gelu(x)});
  const operator_grid rows{degree_list{2, 1}, degree_list{1, 1}, degree_list{}, 1};
  const operator_grid columns{degree_list{1, 2}, degree_list{1, 1}, degree_list{}, 1};
  const auto divided = spell_out(parallel_operators(), g, std::vector{operator_grid{}, rows, rows, columns});
  CHECK(divided.node_count() == 4 + 2);
}

TEST_CASE("erasure turns terms into a sum and blocks into a concat") {
  tensor::builder b{operators()};
  const std::vector inputs{b.input("x", {4}), b.input("y", {4}), b.input("z", {4})};
  const auto& a = parallel_operators();
  const auto g = std::move(b).finish({b.add(b.add(inputs[0], inputs[1]), inputs[2]), b.concat(0, inputs)});
  pcg_writer writer{a};
  std::vector<value_id> sources;
  for (std::size_t i = 0; i < 3; ++i) {
    const auto n = writer.add(g.operation(node_id{i}), {});
    sources.push_back(writer.graph().results(n)[0]);
  }
  const auto terms = writer.add(parallel_operator{parallel_kind::terms, 0, 0}, sources);
  CHECK(to_string(writer.type(terms)) == "float32[4] partial 3");
  const auto sum = writer.add(parallel_operator{parallel_kind::reduce, 0, 3}, {&terms, 1});
  const auto blocks = writer.add(parallel_operator{parallel_kind::blocks, 0, 0}, sources);
  CHECK(to_string(writer.type(blocks)) == "float32[12/3]");
  CHECK(erase(a, std::move(writer).finish(std::vector{sum, blocks})) == g);
}

TEST_CASE("spell_out rejects an invalid grid and names the operator") {
  tensor::builder b{operators()};
  const auto g = std::move(b).finish({b.relu(b.input("x", {4, 6}))});
  const operator_grid thirds{degree_list{3, 1}, degree_list{1, 1}, degree_list{}, 1};
  CHECK_THROWS_WITH(spell_out(parallel_operators(), g, std::vector{operator_grid{}, thirds}),
                    Catch::Contains("node 1 (relu)") && Catch::Contains("3 parts"));
}

}  // namespace tests_of_erasure
