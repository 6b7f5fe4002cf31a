// Dominators and post-dominators agree with the definition: remove a node and see which nodes are still reachable.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/graph/digraph.hpp>

#include "random_graph.hpp"

namespace tests_of_dominators {

using namespace unity;

namespace {

// The nodes reachable from the roots along the edges, or against them, when node `taken` is removed.
std::vector<char> reached_without(const digraph& g, const std::vector<node_id>& roots, bool forward, node_id taken) {
  std::vector<char> reached(g.node_count(), 0);
  std::vector<node_id> pending(roots);
  while (!pending.empty()) {
    const node_id n = pending.back();
    pending.pop_back();
    if (n == taken || reached[n.index()] != 0) {
      continue;
    }
    reached[n.index()] = 1;
    const auto next = forward ? g.successors(n) : g.predecessors(n);
    pending.insert(pending.end(), next.begin(), next.end());
  }
  return reached;
}

void check_tree(const dominator_tree& tree, const digraph& g, const std::vector<node_id>& roots, bool forward) {
  const std::size_t nodes = g.node_count();
  const auto reached = reached_without(g, roots, forward, node_id{});
  std::vector<std::vector<char>> dominated(nodes);  // [a][b]: a is on every path to b
  for (std::size_t a = 0; a < nodes; ++a) {
    const auto rest = reached_without(g, roots, forward, node_id{a});
    for (std::size_t b = 0; b < nodes; ++b) {
      dominated[a].push_back(static_cast<char>(reached[b] != 0 && rest[b] == 0));
      CAPTURE(a, b);
      REQUIRE(tree.dominates(node_id{a}, node_id{b}) == (dominated[a][b] != 0));
    }
  }
  for (std::size_t b = 0; b < nodes; ++b) {
    std::size_t depth = 0;
    node_id nearest;
    for (std::size_t a = 0; a < nodes; ++a) {
      depth += static_cast<std::size_t>(dominated[a][b]);
      // The dominators of b form a chain; all others dominate the immediate dominator.
      if (a != b && dominated[a][b] != 0 && (!nearest.valid() || dominated[nearest.index()][a] != 0)) {
        nearest = node_id{a};
      }
    }
    CAPTURE(b);
    REQUIRE(tree.reached(node_id{b}) == (reached[b] != 0));
    REQUIRE(tree.depth(node_id{b}) == depth);
    REQUIRE(tree.immediate(node_id{b}) == nearest);
  }
}

void check_nearest_common(const dominator_tree& tree, std::size_t nodes) {
  for (std::size_t a = 0; a < nodes; ++a) {
    for (std::size_t b = 0; b < nodes; ++b) {
      if (tree.reached(node_id{a}) && tree.reached(node_id{b})) {
        node_id common{a};
        while (common.valid() && !tree.dominates(common, node_id{b})) {
          common = tree.immediate(common);
        }
        REQUIRE(tree.nearest_common(node_id{a}, node_id{b}) == common);
      }
    }
  }
}

}  // namespace

TEST_CASE("dominators and post-dominators match their definition by paths on random graphs") {
  const std::uint64_t seed = GENERATE(range<std::uint64_t>(0, 80));
  CAPTURE(seed);
  random_engine rng{seed};
  const auto g = test::random_graph(rng, test::random_shape(rng, 24));
  test::in_every_form(g, rng, [](const auto& form) {
    const auto ends = find_terminals(form);
    check_tree(dominators(form), digraph{form}, ends.sources, true);
    check_tree(post_dominators(form), digraph{form}, ends.sinks, false);
    check_nearest_common(dominators(form), digraph{form}.node_count());
  });
}

TEST_CASE("dominators from chosen roots exclude nodes that the roots do not reach") {
  const std::uint64_t seed = GENERATE(range<std::uint64_t>(0, 80));
  CAPTURE(seed);
  random_engine rng{seed};
  const auto g = test::random_graph(rng, {.nodes = 1 + rng.below(24), .most_operands = 2, .window = 4});
  const std::vector roots{node_id{rng.below(g.node_count())}, node_id{rng.below(g.node_count())}};
  check_tree(dominators(g, roots), digraph{g}, roots, true);
  check_tree(post_dominators(g, roots), digraph{g}, roots, false);
}

TEST_CASE("each node of a long chain dominates the last node") {
  test::number_graph g;
  g.add_node(0, {}, std::vector{0});
  for (std::uint32_t n = 1; n < 2000; ++n) {
    const std::vector operand{value_id{n - 1}};
    g.add_node(0, operand, std::vector{0});
  }
  const auto tree = dominators(g);
  for (std::uint32_t n = 0; n < 2000; n += 7) {
    REQUIRE(tree.depth(node_id{n}) == n + 1);
    REQUIRE(tree.dominates(node_id{n}, node_id{1999U}));
    REQUIRE(tree.nearest_common(node_id{n}, node_id{1000U}) == node_id{std::min(n, 1000U)});
  }
}

}  // namespace tests_of_dominators
