// Use lists: every operand of every node is listed among the uses of the value that it reads.
#include <cstddef>
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/graph/topological_order.hpp>

#include "random_graph.hpp"

namespace tests_of_users {

using namespace unity;

namespace {

// Searches all operands of all nodes for the value.
template <class G>
std::vector<use> uses_by_search(const G& g, value_id wanted) {
  std::vector<use> found;
  for (std::size_t n = 0; n < graph_traits<G>::node_count(g); ++n) {
    std::uint32_t position = 0;
    for (const value_id v : graph_traits<G>::operands(g, node_id{n})) {
      if (v == wanted) {
        found.push_back({node_id{n}, position});
      }
      ++position;
    }
  }
  return found;
}

template <class G>
void check_users(const G& g, const users& uses) {
  REQUIRE(uses.value_count() == graph_traits<G>::value_count(g));
  std::size_t total = 0;
  for (const auto v : value_ids(uses)) {
    const auto found = uses[v];
    total += found.size();
    REQUIRE(std::vector<use>(found.begin(), found.end()) == uses_by_search(g, v));
  }
  REQUIRE(uses.use_count() == total);
}

}  // namespace

TEST_CASE("users lists the operands that read a value by node and position") {
  const std::uint64_t seed = GENERATE(range<std::uint64_t>(0, 200));
  CAPTURE(seed);
  random_engine rng{seed};
  const auto g = test::random_graph(rng, test::random_shape(rng, 20));
  test::in_every_form(g, rng, [](const auto& form) { check_users(form, users{form}); });
}

TEST_CASE("users::assign rebuilds use lists in place for larger and smaller graphs") {
  random_engine rng{7};
  users uses;
  REQUIRE(uses.value_count() == 0);
  for (const std::size_t nodes : std::vector<std::size_t>{12, 30, 3, 0}) {
    const auto g = test::random_graph(rng, {.nodes = nodes});
    uses.assign(g);
    REQUIRE(uses == users{g});
    check_users(g, uses);
  }
}

TEST_CASE("a node that reads a value twice appears twice in the value's use list") {
  test::number_graph g;
  g.add_node(0, {}, std::vector{0});
  const std::vector twice{value_id{0U}, value_id{0U}};
  g.add_node(1, twice, std::vector{0});
  const users uses{g};
  REQUIRE(uses[value_id{0U}].size() == 2);
  CHECK(uses[value_id{0U}][0] == use{node_id{1U}, 0});
  CHECK(uses[value_id{0U}][1] == use{node_id{1U}, 1});
  CHECK(uses[value_id{1U}].empty());
}

}  // namespace tests_of_users
