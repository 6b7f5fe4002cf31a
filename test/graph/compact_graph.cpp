#include <array>
#include <cstddef>
#include <cstdint>
#include <concepts>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>

#include "../support/child.hpp"

namespace tests_of_compact_graph {

using unity::node_id;
using unity::value_id;
using graph = unity::compact_graph<std::string, int>;
using ids = std::vector<value_id>;

static_assert(unity::mutable_dataflow_graph<graph>);
static_assert(std::regular<graph>);
static_assert(std::same_as<unity::operation_t<graph>, std::string>);
static_assert(std::same_as<unity::type_t<graph>, int>);

namespace {

ids to_ids(std::span<const value_id> values) { return {values.begin(), values.end()}; }

// a -> pair(a) = (b, c);  sum(c, b, c) = d;  output d
graph small_graph(const std::string& last = "sum", int type = 4) {
  graph g;
  const auto a = g.add_node("input", {}, std::array{1});
  const auto pair = g.add_node("pair", g.results(a), std::array{2, 3});
  const std::array operands{g.results(pair)[1], g.results(pair)[0], g.results(pair)[1]};
  const auto sum = g.add_node(last, operands, std::array{type});
  g.set_outputs(g.results(sum));
  return g;
}

// A node of the reference implementation.
struct plain_node {
  std::string operation;
  ids operands;
  ids results;
  std::vector<int> types;
};

}  // namespace

TEST_CASE("a default-constructed compact_graph is empty") {
  const graph g;
  CHECK(g.node_count() == 0);
  CHECK(g.value_count() == 0);
  CHECK(g.edge_count() == 0);
  CHECK(g.outputs().empty());
}

TEST_CASE("compact_graph keeps operand order and repetitions and result types") {
  const auto g = small_graph();
  CHECK(g.node_count() == 3);
  CHECK(g.value_count() == 4);
  CHECK(g.edge_count() == 4);
  CHECK(to_ids(g.operands(node_id{2U})) == ids{value_id{2U}, value_id{1U}, value_id{2U}});
  CHECK(to_ids(g.results(node_id{1U})) == ids{value_id{1U}, value_id{2U}});
  CHECK(g.type(value_id{2U}) == 3);
  CHECK(g.producer(value_id{2U}) == node_id{1U});
  CHECK(g.operation(node_id{1U}) == "pair");
  CHECK(to_ids(g.outputs()) == ids{value_id{3U}});
}

TEST_CASE("compact_graph returns what was added for random sequences of nodes") {
  const auto seed = GENERATE(range(std::uint64_t{0}, std::uint64_t{30}));
  CAPTURE(seed);
  unity::random_engine random{seed};
  graph g;
  std::vector<plain_node> oracle;
  for (int n = 0; n < 60; ++n) {
    plain_node node{std::to_string(random.below(5)), {}, {}, std::vector<int>(random.below(4))};
    for (auto i = g.value_count() == 0 ? 0 : random.below(4); i > 0; --i) {
      node.operands.push_back(value_id{random.below(g.value_count())});
    }
    for (auto& type : node.types) {
      type = static_cast<int>(random.below(100));
    }
    const auto added = g.add_node(node.operation, node.operands, node.types);
    REQUIRE(added.index() == oracle.size());
    node.results = to_ids(g.results(added));
    oracle.push_back(node);
  }
  std::size_t values = 0;
  for (std::size_t n = 0; n < oracle.size(); ++n) {
    const node_id id{n};
    REQUIRE(g.operation(id) == oracle[n].operation);
    REQUIRE(to_ids(g.operands(id)) == oracle[n].operands);
    REQUIRE(to_ids(g.results(id)) == oracle[n].results);
    REQUIRE(oracle[n].results.size() == oracle[n].types.size());
    for (std::size_t i = 0; i < oracle[n].results.size(); ++i) {
      REQUIRE(oracle[n].results[i] == value_id{values++});  // values are numbered densely in order of creation
      REQUIRE(g.producer(oracle[n].results[i]) == id);
      REQUIRE(g.type(oracle[n].results[i]) == oracle[n].types[i]);
    }
  }
  REQUIRE(g.value_count() == values);
}

TEST_CASE("a node of a compact_graph may read the operands of another one") {
  auto g = small_graph();
  const auto sum = g.producer(g.outputs()[0]);
  const auto expected = to_ids(g.operands(sum));
  for (int i = 0; i < 20; ++i) {  // the arrays grow several times
    const auto n = g.add_node("again", g.operands(sum), std::array{5});
    REQUIRE(to_ids(g.operands(n)) == expected);
  }
}

TEST_CASE("compact_graphs compare by content and copies are independent") {
  const auto g = small_graph();
  CHECK(g == small_graph());
  CHECK(g != small_graph("product"));
  CHECK(g != small_graph("sum", 5));
  auto copy = g;
  CHECK(copy == g);
  copy.set_outputs({});
  CHECK(copy != g);
  CHECK(g.outputs().size() == 1);
  auto longer = g;
  longer.add_node("input", {}, std::array{1});
  CHECK(longer != g);
  CHECK(g.node_count() == 3);
}

TEST_CASE("compact_graph::set_outputs replaces the outputs and accepts a repeated value") {
  auto g = small_graph();
  g.set_outputs(ids{value_id{1U}, value_id{1U}});
  CHECK(to_ids(g.outputs()) == ids{value_id{1U}, value_id{1U}});
}

TEST_CASE("unknown ids in a compact_graph violate a precondition") {
  const auto forward = unity::test::in_child([] { graph{}.add_node("sum", ids{value_id{0U}}, std::array{1}); });
  CHECK(forward.aborted);
  CHECK_THAT(forward.messages, Catch::Contains("operands that are values of this graph"));
  const auto no_node = unity::test::in_child([] { small_graph().operation(node_id{3U}).size(); });
  CHECK_THAT(no_node.messages, Catch::Contains("a node of this graph"));
  const auto null_value = unity::test::in_child([] { static_cast<void>(small_graph().type(value_id{})); });
  CHECK_THAT(null_value.messages, Catch::Contains("a value of this graph"));
}

}  // namespace tests_of_compact_graph
