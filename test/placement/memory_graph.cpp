#include <unity/placement/memory_graph.hpp>

#include <catch2/catch.hpp>
#include <concepts>
#include <cstdint>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/core/units.hpp>
#include <unity/placement/memory_plan.hpp>

namespace tests_of_memory_graph {

using namespace unity;
using namespace unity::placement;
using Catch::Matchers::Contains;

static_assert(std::regular<memory_graph>);

TEST_CASE("a memory graph tracks writers and readers and the memory of each operator") {
  memory_graph g;
  const auto x = g.add_tensor("x", bytes{10});
  const auto y = g.add_tensor("y", bytes{20});
  const auto z = g.add_tensor("z", bytes{5}, true);
  const auto unused = g.add_tensor("unused", bytes{1000});
  const auto first = g.add_operator("first", {x, x}, {y});
  const auto second = g.add_operator("second", {y, x, y}, {z});
  CHECK(g.operation(second).reads == std::vector{x, y});
  CHECK_FALSE(g.writer(x).valid());
  CHECK(g.writer(y) == first);
  CHECK(std::vector(g.readers(x).begin(), g.readers(x).end()) == std::vector{first, second});
  CHECK(std::vector(g.predecessors(second).begin(), g.predecessors(second).end()) == std::vector{first});
  CHECK(g.predecessors(first).empty());
  CHECK(g.size_of(g.touched(second)) == bytes{35});
  CHECK(least_capacity(g).size == bytes{35});
  CHECK(least_capacity(g).operation == second);
  CHECK(input_bytes(g) == bytes{10});
  CHECK(g.readers(unused).empty());
  CHECK_NOTHROW(require_capacity(g, bytes{35}));
  CHECK_THROWS_WITH(require_capacity(g, bytes{34}),
                    "memory plan: a capacity of 34 bytes; expected 35 bytes at least, which operator 1 (second) reads "
                    "and writes");
}

TEST_CASE("an order constraint without a tensor restricts the operator order") {
  memory_graph g;
  const auto x = g.add_tensor("x", bytes{10});
  const auto first = g.add_operator("first", {x}, {});
  const auto second = g.add_operator("second", {x}, {});
  CHECK_NOTHROW(replay(g, {{second, {}}, {first, {}}}, bytes{10}));
  g.add_order(first, second);
  g.add_order(first, second);
  CHECK(std::vector(g.predecessors(second).begin(), g.predecessors(second).end()) == std::vector{first});
  CHECK_NOTHROW(replay(g, {{first, {}}, {second, {}}}, bytes{10}));
  CHECK_THROWS_WITH(replay(g, {{second, {}}, {first, {}}}, bytes{10}), Contains("operators in order"));
}

TEST_CASE("a memory graph refuses invalid tensors and operators and stays unchanged") {
  memory_graph g;
  const auto x = g.add_tensor("x", bytes{10});
  const auto y = g.add_tensor("y", bytes{20});
  g.add_operator("f", {x}, {y});
  const auto before = g;
  CHECK_THROWS_WITH(g.add_tensor("t", bytes{-1}), Contains("tensor 2 (t)") && Contains("sizes from 0"));
  constexpr auto most = std::int64_t{1} << 52;  // 30 of which are taken
  CHECK_THROWS_WITH(g.add_tensor("t", bytes{most - 29}), Contains("tensor 2 (t)") && Contains("2^52 bytes at most"));
  auto full = g;
  full.add_tensor("t", bytes{most - 30});
  CHECK_THROWS_WITH(full.add_tensor("u", bytes{1}), Contains("tensor 3 (u)"));
  CHECK_THROWS_WITH(g.add_operator("g", {tensor_id{7U}}, {}),
                    "operator 1 (g): tensor 7; expected one of the 2 tensors");
  CHECK_THROWS_WITH(g.add_operator("g", {tensor_id{}}, {}),
                    "operator 1 (g): tensor null; expected one of the 2 tensors");
  CHECK_THROWS_WITH(g.add_operator("g", {}, {y}), Contains("writes tensor 1 (y)"));
  CHECK_THROWS_WITH(g.add_operator("g", {}, {x}), Contains("writes tensor 0 (x)"));
  CHECK(g == before);
  const auto z = g.add_tensor("z", bytes{1});
  CHECK_THROWS_WITH(g.add_operator("g", {z}, {z}), Contains("writes tensor 2 (z)"));
  CHECK(before.operator_count() == g.operator_count());
  CHECK(g.readers(z).empty());
}

}  // namespace tests_of_memory_graph
