// Reachability agrees with the definition of a path.
#include <cstddef>
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/graph/reachability.hpp>

#include "random_graph.hpp"

namespace tests_of_reachability {

using namespace unity;

namespace {

template <class G>
void check_reachability(const G& g, const reachability& reach) {
  const auto path = test::path_matrix(g);
  REQUIRE(reach.node_count() == path.size());
  for (std::size_t a = 0; a < path.size(); ++a) {
    for (std::size_t b = 0; b < path.size(); ++b) {
      CAPTURE(a, b);
      REQUIRE(reach.depends(node_id{a}, node_id{b}) == (path[b][a] != 0));
      REQUIRE(reach.ancestors(node_id{a}).contains(node_id{b}) == (path[b][a] != 0));
      REQUIRE(reach.descendants(node_id{a}).contains(node_id{b}) == (path[a][b] != 0));
      REQUIRE(reach.comparable(node_id{a}, node_id{b}) == (a == b || path[a][b] != 0 || path[b][a] != 0));
    }
  }
}

// Dead: not an output's producer, and no path to one.
template <class G>
std::vector<node_id> dead_by_search(const G& g) {
  const auto path = test::path_matrix(g);
  std::vector<node_id> dead;
  for (std::size_t n = 0; n < path.size(); ++n) {
    bool live = false;
    for (const value_id v : graph_traits<G>::outputs(g)) {
      const auto p = graph_traits<G>::producer(g, v).index();
      live = live || p == n || path[n][p] != 0;
    }
    if (!live) {
      dead.emplace_back(n);
    }
  }
  return dead;
}

}  // namespace

TEST_CASE("a node depends on another if and only if a path leads from it") {
  const std::uint64_t seed = GENERATE(range<std::uint64_t>(0, 60));
  CAPTURE(seed);
  random_engine rng{seed};
  const auto g = test::random_graph(rng, test::random_shape(rng, seed % 8 == 0 ? 140 : 20));
  test::in_every_form(g, rng, [](const auto& form) { check_reachability(form, reachability{form}); });
}

TEST_CASE("reachability can be computed again in place") {
  random_engine rng{3};
  reachability reach;
  for (const std::size_t nodes : std::vector<std::size_t>{70, 200, 5, 0}) {
    const auto g = test::random_graph(rng, {.nodes = nodes});
    reach.assign(g);
    REQUIRE(reach == reachability{g});
  }
}

TEST_CASE("dead nodes are those that no output depends on") {
  const std::uint64_t seed = GENERATE(range<std::uint64_t>(0, 60));
  CAPTURE(seed);
  random_engine rng{seed};
  const auto g = test::random_graph(rng, test::random_shape(rng, 20));
  test::in_every_form(g, rng, [](const auto& form) { REQUIRE(dead_nodes(form) == dead_by_search(form)); });
}

}  // namespace tests_of_reachability
