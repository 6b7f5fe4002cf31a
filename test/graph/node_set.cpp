// Sets of nodes behave as sets.
#include <cstddef>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/graph/node_set.hpp>

namespace tests_of_node_set {

using namespace unity;

TEST_CASE("a node set holds what a std::set would") {
  const std::uint64_t seed = GENERATE(range<std::uint64_t>(0, 50));
  CAPTURE(seed);
  random_engine rng{seed};
  const std::size_t nodes = 1 + rng.below(200);
  node_set set{nodes};
  std::set<node_id> expected;
  for (int step = 0; step < 300; ++step) {
    const node_id n{rng.below(nodes)};
    if (rng.below(3) == 0) {
      set.erase(n);
      expected.erase(n);
    } else {
      set.insert(n);
      expected.insert(n);
    }
    REQUIRE(set.contains(n) == expected.contains(n));
    REQUIRE(set.size() == expected.size());
  }
  REQUIRE(set.to_vector() == std::vector<node_id>(expected.begin(), expected.end()));
  REQUIRE(node_set{nodes, set.to_vector()} == set);
  REQUIRE(node_set{set.view()} == set);
}

TEST_CASE("inserting a set is the union, and sets intersect where they share a node") {
  const std::vector low{node_id{1U}, node_id{63U}};
  const std::vector high{node_id{64U}, node_id{99U}};
  node_set a{100, low};
  const node_set b{100, high};
  REQUIRE(!intersects(a, b));
  a.insert(b.view());
  REQUIRE(intersects(a, b));
  REQUIRE(a.to_vector() == std::vector{node_id{1U}, node_id{63U}, node_id{64U}, node_id{99U}});
}

}  // namespace tests_of_node_set
