// Topological orders, and cycles where there is none.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/graph/topological_order.hpp>

#include "random_graph.hpp"

namespace tests_of_topological_order {

using namespace unity;

namespace {

// The definition: takes the smallest node whose producers have all been placed, until none is left.
template <class G>
std::vector<node_id> order_by_search(const G& g) {
  const std::size_t nodes = graph_traits<G>::node_count(g);
  std::vector<char> placed(nodes, 0);
  std::vector<node_id> order;
  for (std::size_t n = 0; n < nodes;) {
    bool ready = placed[n] == 0;
    for (const value_id v : graph_traits<G>::operands(g, node_id{n})) {
      ready = ready && placed[graph_traits<G>::producer(g, v).index()] != 0;
    }
    if (ready) {
      placed[n] = 1;
      order.emplace_back(n);
      n = 0;
    } else {
      ++n;
    }
  }
  return order;
}

bool reads_from(const test::loose_graph& g, node_id user, node_id producer) {
  return std::ranges::any_of(g.operands(user), [&](value_id v) { return g.producer(v) == producer; });
}

// Whether some node is on a cycle.
bool cyclic_by_search(const test::loose_graph& g) {
  const auto path = test::path_matrix(g);
  for (std::size_t n = 0; n < path.size(); ++n) {
    if (path[n][n] != 0) {
      return true;
    }
  }
  return false;
}

}  // namespace

TEST_CASE("topological_order takes the smallest ready node at each step") {
  const std::uint64_t seed = GENERATE(range<std::uint64_t>(0, 200));
  CAPTURE(seed);
  random_engine rng{seed};
  const auto g = test::random_graph(rng, test::random_shape(rng, 20));
  test::in_every_form(g, rng, [](const auto& form) {
    REQUIRE(topological_order(form) == order_by_search(form));
    REQUIRE(find_cycle(form).empty());
  });
}

TEST_CASE("find_cycle returns a cycle exactly if topological_order returns nothing") {
  int cycles = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    random_engine rng{seed};
    auto g = test::relabelled(test::random_graph(rng, {.nodes = 2 + rng.below(12), .most_results = 1}), rng);
    for (int i = 0; i < 2; ++i) {  // make an operand any value
      auto& operands = g.nodes[rng.below(g.nodes.size())].operands;
      if (!operands.empty()) {
        operands[rng.below(operands.size())] = value_id{rng.below(g.value_count())};
      }
    }
    const auto cycle = find_cycle(g);
    REQUIRE(cyclic_by_search(g) == !cycle.empty());
    REQUIRE(topological_order(g).has_value() == cycle.empty());
    for (std::size_t i = 0; i < cycle.size(); ++i) {
      REQUIRE(reads_from(g, cycle[(i + 1) % cycle.size()], cycle[i]));
      REQUIRE(std::ranges::count(cycle, cycle[i]) == 1);
      REQUIRE(cycle.front() <= cycle[i]);
    }
    cycles += cycle.empty() ? 0 : 1;
  }
  REQUIRE(cycles > 50);
  REQUIRE(cycles < 350);
}

TEST_CASE("the topological order of an empty graph is empty") {
  REQUIRE(topological_order(test::number_graph{}) == std::vector<node_id>{});
}

}  // namespace tests_of_topological_order
