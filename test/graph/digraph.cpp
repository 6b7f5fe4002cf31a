// The directed graph of a dataflow graph: edges from producers to users.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/graph/digraph.hpp>

#include "random_graph.hpp"

namespace tests_of_digraph {

using namespace unity;

namespace {

template <class G>
void check_digraph(const G& g) {
  using traits = graph_traits<G>;
  const digraph shape{g};
  REQUIRE(shape.node_count() == traits::node_count(g));
  std::multiset<std::pair<node_id, node_id>> edges;
  for (const auto n : node_ids(shape)) {
    std::vector<node_id> producers;
    for (const value_id v : traits::operands(g, n)) {
      producers.push_back(traits::producer(g, v));
      edges.emplace(traits::producer(g, v), n);
    }
    REQUIRE(std::ranges::equal(shape.predecessors(n), producers));
  }
  std::multiset<std::pair<node_id, node_id>> forward;
  for (const auto n : node_ids(shape)) {
    for (const node_id s : shape.successors(n)) {
      forward.emplace(n, s);
    }
  }
  REQUIRE(forward == edges);
  std::vector<std::size_t> place(shape.node_count());
  for (std::size_t i = 0; i < place.size(); ++i) {
    place[shape.order()[i].index()] = i;
  }
  for (const auto& [from, to] : edges) {
    REQUIRE(place[from.index()] < place[to.index()]);
  }
}

// A source has no operands. A sink has no users, or defines an output.
template <class G>
void check_terminals(const G& g) {
  using traits = graph_traits<G>;
  const auto path = test::path_matrix(g);
  terminals expected;
  for (std::size_t n = 0; n < path.size(); ++n) {
    const auto operands = traits::operands(g, node_id{n});
    if (operands.begin() == operands.end()) {
      expected.sources.emplace_back(n);
    }
    const bool read = std::ranges::any_of(path[n], [](char c) { return c != 0; });
    const auto outputs = traits::outputs(g);
    if (!read || std::ranges::any_of(outputs, [&](value_id v) { return traits::producer(g, v) == node_id{n}; })) {
      expected.sinks.emplace_back(n);
    }
  }
  REQUIRE(find_terminals(g) == expected);
}

}  // namespace

TEST_CASE("a digraph has one edge per use and a topological order") {
  const std::uint64_t seed = GENERATE(range<std::uint64_t>(0, 100));
  CAPTURE(seed);
  random_engine rng{seed};
  const auto g = test::random_graph(rng, test::random_shape(rng, 20));
  test::in_every_form(g, rng, [](const auto& form) {
    check_digraph(form);
    check_terminals(form);
  });
}

TEST_CASE("a default-constructed digraph is empty") {
  REQUIRE(digraph{}.node_count() == 0);
  REQUIRE(digraph{} == digraph{test::number_graph{}});
}

}  // namespace tests_of_digraph
