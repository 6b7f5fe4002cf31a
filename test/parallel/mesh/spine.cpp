// The operators on every path through a graph, and the parts between them.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/parallel/mesh/mapping_goals.hpp>
#include <unity/parallel/mesh/operator_graph.hpp>
#include <unity/tensor/builder.hpp>

#include "../placed_graph.hpp"
#include "../random_model.hpp"

namespace tests_of_spine {

using namespace unity;
using namespace unity::parallel;
using unity::parallel::test::operators;
using unity::parallel::test::placed_graph;

TEST_CASE("the spine of a graph has its chain operators and a join step for parallel branches") {
  tensor::builder b{operators()};
  const auto first = b.relu(b.input("x", {4, 4}));
  const auto left = b.tanh(first);
  const auto right = b.gelu(b.relu(first));
  const placed_graph g{std::move(b).finish({b.relu(b.add(left, right))})};
  const auto steps = spine_of(g.ops.tree(), g.ops.tree().root());
  REQUIRE(steps.size() == 3);  // relu; tanh, relu and gelu, then add; relu
  CHECK_FALSE(steps[0].is_join);
  CHECK(steps[0].before == operand_source::none);
  CHECK(operators_of(g.ops.tree(), steps[0]) == std::vector<std::uint32_t>{0});
  CHECK(steps[1].is_join);
  CHECK(steps[1].before == 0);
  CHECK(steps[1].last == 4);
  CHECK(operators_of(g.ops.tree(), steps[1]) == std::vector<std::uint32_t>{1, 2, 3, 4});
  CHECK(steps[2].before == 4);
  CHECK(steps[2].last == 5);
}

TEST_CASE("a spine with separate outputs ends in a join without a last operator") {
  tensor::builder b{operators()};
  const auto x = b.relu(b.input("x", {4, 4}));
  const auto y = b.tanh(x);
  const auto z = b.gelu(x);
  const placed_graph g{std::move(b).finish({y, z})};
  const auto steps = spine_of(g.ops.tree(), g.ops.tree().root());
  REQUIRE(steps.size() == 2);
  CHECK(steps[1].is_join);
  CHECK(steps[1].last == operand_source::none);
}

TEST_CASE("each unattached operator of a random graph is in exactly one spine step", "[law]") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    const placed_graph g{parallel::test::random_model(random, 1 + random.below(12))};
    std::vector<std::uint32_t> met;
    auto before = operand_source::none;
    for (const auto& s : spine_of(g.ops.tree(), g.ops.tree().root())) {
      CHECK(s.before == before);
      before = s.last;
      const auto own = operators_of(g.ops.tree(), s);
      CHECK(std::is_sorted(own.begin(), own.end()));
      met.insert(met.end(), own.begin(), own.end());
    }
    std::sort(met.begin(), met.end());
    std::vector<std::uint32_t> expected;
    for (std::uint32_t i = 0; i < g.ops.size(); ++i) {
      if (!g.ops.is_attached(i)) {
        expected.push_back(i);
      }
    }
    CHECK(met == expected);
  }
}

}  // namespace tests_of_spine
