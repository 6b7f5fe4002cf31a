#include <unity/gnn/csr_graph.hpp>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>

#include "../support/cases.hpp"
#include "../support/message_of.hpp"
#include "random_graphs.hpp"

namespace tests_of_graph_transforms {

using namespace unity;
using gnn::edge;
using gnn::vertex_id;

std::vector<edge> edges_of(gnn::csr_view g) {
  std::vector<edge> all;
  for (vertex_id v = 0; v < g.vertices(); ++v) {
    for (const auto s : g.sources_of(v)) {
      all.push_back({s, v});
    }
  }
  return all;
}
std::multiset<std::pair<vertex_id, vertex_id>> pairs_of(gnn::csr_view g) {
  std::multiset<std::pair<vertex_id, vertex_id>> all;
  for (const auto& e : edges_of(g)) {
    all.insert({e.source, e.target});
  }
  return all;
}

TEST_CASE("graph transforms of a small graph give the expected lists") {
  const gnn::csr_graph g{{0, 3, 3, 5}, {2, 1, 1, 0, 2}};
  CHECK(gnn::transposed(g) == gnn::csr_graph{{0, 1, 3, 5}, {2, 0, 0, 0, 2}});
  CHECK(gnn::distinct(g) == gnn::csr_graph{{0, 2, 2, 4}, {1, 2, 0, 2}});
  CHECK(gnn::with_self_edges(g) == gnn::csr_graph{{0, 4, 5, 7}, {0, 2, 1, 1, 1, 0, 2}});
  CHECK(gnn::symmetric(g) == gnn::csr_graph{{0, 2, 3, 5}, {1, 2, 0, 0, 2}});
  CHECK(gnn::renumbered(g, std::vector<vertex_id>{1, 2, 0}) == gnn::csr_graph{{0, 2, 5, 5}, {0, 1, 0, 2, 2}});
  CHECK_FALSE(gnn::is_symmetric(g));
  CHECK(gnn::is_symmetric(gnn::csr_graph{}));
}

TEST_CASE("graph transforms of random graphs match edge sets") {
  for (std::uint64_t seed = 0; seed < test::cases(300); ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    const auto g = test::random_graph(random, 20, 60);
    const auto n = g.vertices();
    const auto edges = pairs_of(g);
    REQUIRE(gnn::from_edges(n, edges_of(g)) == g);

    const auto back = gnn::transposed(g);
    auto expected = edges;
    expected.clear();
    for (const auto& [s, t] : edges) {
      expected.insert({t, s});
    }
    REQUIRE(pairs_of(back) == expected);
    REQUIRE(gnn::transposed(back) == g);  // sources ascend in each list
    REQUIRE(gnn::is_symmetric(g) == (expected == edges));
    REQUIRE(gnn::in_degrees(back) == gnn::out_degrees(g));

    const std::set<std::pair<vertex_id, vertex_id>> once(edges.begin(), edges.end());
    const auto set_of = gnn::distinct(g);
    REQUIRE(pairs_of(set_of) == decltype(edges)(once.begin(), once.end()));

    const auto both = gnn::symmetric(g);
    REQUIRE(gnn::is_symmetric(both));
    auto either = once;
    either.insert(expected.begin(), expected.end());
    REQUIRE(pairs_of(both) == decltype(edges)(either.begin(), either.end()));

    auto with_self = edges;
    for (vertex_id v = 0; v < n; ++v) {
      if (once.count({v, v}) == 0) {
        with_self.insert({v, v});
      }
    }
    const auto reflexive = gnn::with_self_edges(g);
    REQUIRE(pairs_of(reflexive) == with_self);
    REQUIRE(gnn::from_edges(n, edges_of(reflexive)) == reflexive);
    REQUIRE(gnn::with_self_edges(reflexive) == reflexive);

    std::vector<vertex_id> numbers(n);
    std::iota(numbers.begin(), numbers.end(), vertex_id{0});
    for (auto i = numbers.size(); i > 1; --i) {
      std::swap(numbers[i - 1], numbers[random.below(i)]);
    }
    auto moved = edges;
    moved.clear();
    for (const auto& [s, t] : edges) {
      moved.insert({numbers[s], numbers[t]});
    }
    REQUIRE(pairs_of(gnn::renumbered(g, numbers)) == moved);
  }
}

TEST_CASE("edges and new vertex numbers out of range are refused") {
  const std::vector<edge> edges{{0, 1}, {2, 1}};
  CHECK(test::message_of([&] { static_cast<void>(gnn::from_edges(2, edges, "a.txt")); }) ==
        "a.txt: edge 1 goes from 2 to 1; expected vertices below 2");
  const auto g = gnn::from_edges(3, edges);
  const auto complaint_of = [&](const std::vector<vertex_id>& numbers) {
    return test::message_of([&] { static_cast<void>(gnn::renumbered(g, numbers)); });
  };
  CHECK(complaint_of({0, 1}) == "new numbers of vertices: 2 of them; expected 3");
  CHECK(complaint_of({0, 1, 1}) == "new number of vertex 2: 1; expected a number below 3 that no other vertex has");
  CHECK(complaint_of({0, 3, 1}) == "new number of vertex 1: 3; expected a number below 3 that no other vertex has");
}

}  // namespace tests_of_graph_transforms
