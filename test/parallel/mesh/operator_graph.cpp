// Operators of a graph in context: what they read, which are equal, and which are side by side.

#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include <unity/parallel/mesh/mesh_options.hpp>
#include <unity/parallel/mesh/operator_graph.hpp>
#include <unity/tensor/builder.hpp>

#include "../placed_graph.hpp"

namespace tests_of_operator_graph {

using namespace unity;
using namespace unity::parallel;
using unity::parallel::test::operators;
using unity::parallel::test::placed_graph;

TEST_CASE("operator_graph classifies operands as made or weight or given") {
  tensor::builder b{operators()};
  const auto x = b.input("x", {4, 4});
  const auto y = b.matmul(x, b.weight("w", {4, 4}));
  const placed_graph g{std::move(b).finish({b.add(y, b.constant("c", {4, 4}))})};
  REQUIRE(g.ops.size() == 2);
  using enum operand_use;
  CHECK(g.ops.placed(0).uses == std::vector{given, weight});
  CHECK(g.ops.placed(1).uses == std::vector{made, given});
  CHECK(g.ops.sources(1)[0] == operand_source{0, 0});
  CHECK(g.ops.sources(1)[1].from == operand_source::none);
  CHECK_FALSE(g.ops.placed(0).is_output);
  CHECK(g.ops.placed(1).is_output);
  CHECK(g.ops.placed(0).wanted == std::vector{false, true});
  CHECK(g.ops.placed(1).wanted == std::vector{true, false});
  CHECK(g.graph.operation(g.ops.node(1)).kind == operators().kind("add"));
}

TEST_CASE("an operator on weights alone with one reader is attached to its reader") {
  tensor::builder b{operators()};
  const auto x = b.input("x", {4, 4});
  const auto alone = b.relu(b.weight("v", {4, 4}));
  const auto shared = b.relu(b.weight("w", {4, 4}));
  const auto y = b.matmul(b.matmul(x, alone), shared);
  const placed_graph g{std::move(b).finish({b.matmul(y, shared)})};
  REQUIRE(g.ops.size() == 5);
  CHECK(g.ops.is_attached(0));
  CHECK_FALSE(g.ops.is_attached(1));  // two operators read it
  CHECK(g.ops.graph().successors(node_id{0U}).empty());
  CHECK(g.ops.graph().successors(node_id{1U}).size() == 2);
}

TEST_CASE("operator_graph keys are equal for equal operators in equal contexts only") {
  tensor::builder b{operators()};
  const auto x = b.relu(b.input("x", {4, 4}));
  const auto chain = b.relu(b.relu(x));
  const auto left = b.tanh(chain);
  const auto middle = b.tanh(chain);
  const auto right = b.relu(chain);
  const placed_graph g{std::move(b).finish({b.relu(b.add(b.add(left, middle), right))})};
  const auto key = [&](std::uint32_t i) { return g.ops.placed(i).key; };
  CHECK(key(1) == key(2));
  CHECK(key(0) != key(1));  // it reads an input of the graph
  CHECK(key(3) == key(4));
  CHECK(key(5) != key(1));
  CHECK(key(8) != key(1));
  CHECK(g.ops.placed(1).siblings.empty());
  CHECK(g.ops.placed(3).siblings.size() == 2);  // within the innermost parallel branches
  CHECK(g.ops.placed(5).siblings.size() == 2);
  CHECK(g.ops.placed(7).siblings.empty());
}

}  // namespace tests_of_operator_graph
