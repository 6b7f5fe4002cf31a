#include <unity/graph/compact_graph.hpp>

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/core/id.hpp>

namespace tests_of_copy_node {

using namespace unity;

using numbered = compact_graph<int, std::string>;

TEST_CASE("copy_node copies a node with its operands mapped to the target graph", "[copy_node]") {
  numbered from;
  const std::vector<std::string> one{"a"};
  const std::vector<std::string> two{"b", "c"};
  const auto source = from.add_node(1, {}, one);
  const std::vector<value_id> twice{from.results(source)[0], from.results(source)[0]};
  const auto reader = from.add_node(2, twice, two);

  numbered to;
  const std::vector<std::string> other{"x"};
  to.add_node(9, {}, other);
  std::vector<value_id> map(from.value_count());
  copy_node(from, source, to, map);
  const auto copy = copy_node(from, reader, to, map);

  REQUIRE(to.node_count() == 3);
  CHECK(copy == node_id{2U});
  CHECK(to.operation(copy) == 2);
  CHECK(to.operands(copy).size() == 2);
  CHECK(to.operands(copy)[0] == value_id{1U});
  CHECK(to.operands(copy)[1] == value_id{1U});
  CHECK(to.type(value_id{1U}) == "a");
  CHECK(to.type(value_id{2U}) == "b");
  CHECK(to.type(value_id{3U}) == "c");
  CHECK(map == std::vector<value_id>{value_id{1U}, value_id{2U}, value_id{3U}});
}

TEST_CASE("copy_node copies a node within one graph while its arrays grow", "[copy_node]") {
  numbered graph;
  const std::vector<std::string> two{"a", "b"};
  const auto source = graph.add_node(1, {}, two);
  std::vector<value_id> map(2);
  for (std::uint32_t copies = 1; copies < 100; ++copies) {
    const auto copy = copy_node(graph, source, graph, map);
    REQUIRE(graph.node_count() == copies + 1);
    REQUIRE(graph.operation(copy) == 1);
    REQUIRE(map == std::vector<value_id>{value_id{2 * copies}, value_id{2 * copies + 1}});
    REQUIRE(graph.type(map[1]) == "b");
  }
}

}  // namespace tests_of_copy_node
