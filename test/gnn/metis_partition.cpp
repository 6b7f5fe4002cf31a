#include <unity/gnn/metis_partition.hpp>

#include <cstdint>
#include <limits>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/gnn/csr_graph.hpp>
#include <unity/gnn/range_graph.hpp>
#include <unity/gnn/vertex_partition.hpp>

#include "../support/message_of.hpp"

namespace tests_of_metis_partition {

using namespace unity;
using gnn::edge;
using gnn::vertex_id;

// A 32 x 32 torus whose vertex numbers say nothing about position.
gnn::csr_graph torus() {
  constexpr vertex_id n = 32;
  const auto number = [](vertex_id x, vertex_id y) { return (x % n * n + y % n) * 389 % (n * n); };
  std::vector<edge> edges;
  for (vertex_id x = 0; x < n; ++x) {
    for (vertex_id y = 0; y < n; ++y) {
      edges.push_back({number(x, y), number(x + 1, y)});
      edges.push_back({number(x, y), number(x, y + 1)});
    }
  }
  return gnn::symmetric(gnn::from_edges(n * n, edges));
}

gnn::edge_id edges_between(gnn::csr_view g, const gnn::vertex_partition& p) {
  gnn::edge_id all = 0;
  for (const auto& part : gnn::report(g, p)) {
    all += part.edges_from_others;
  }
  return all;
}

TEST_CASE("METIS cuts fewer edges than equal ranges with balanced part sizes") {
  const auto g = torus();
  const auto parts = gnn::metis_parts(g, 4);
  CHECK(parts == gnn::metis_parts(g, 4));
  const auto order = gnn::order_by_part(parts, 4);
  const auto moved = gnn::renumbered(g, order.numbers);
  for (std::size_t k = 0; k < 4; ++k) {
    CHECK(order.partition.range(k).size() <= 264);  // a quarter plus 3%
  }
  // Four squares of 16 x 16 have 64 edges each to the others, counting both directions.
  CHECK(edges_between(moved, order.partition) < 400);
  CHECK(edges_between(g, gnn::equal_vertices(g.vertices(), 4)) > 1000);
}

TEST_CASE("METIS balances vertex weights and handles one part and tiny graphs") {
  const auto g = torus();
  std::vector<std::uint32_t> weights(g.vertices(), 1);
  for (vertex_id v = 0; v < 100; ++v) {
    weights[v] = 50;
  }
  std::vector<std::uint64_t> sums(3);
  const auto parts = gnn::metis_parts(g, 3, weights, 7);
  for (vertex_id v = 0; v < g.vertices(); ++v) {
    sums[parts[v]] += weights[v];
  }
  for (const auto s : sums) {
    CHECK(s < 2200);  // a third of the total is 1974
  }
  CHECK(gnn::metis_parts(g, 1) == std::vector<std::uint32_t>(g.vertices()));
  CHECK(gnn::metis_parts(gnn::csr_graph{}, 3).empty());
  CHECK(gnn::metis_parts(gnn::csr_graph{{0, 1}, {0}}, 3) == std::vector<std::uint32_t>{0});
}

TEST_CASE("METIS partitioning into as many parts as vertices or more gives each a part of its own") {
  const gnn::csr_graph path{{0, 1, 3, 4}, {1, 0, 2, 1}};
  for (const std::size_t parts : {3U, 4U, 1000U}) {
    CHECK(gnn::metis_parts(path, parts) == std::vector<std::uint32_t>{0, 1, 2});
  }
}

TEST_CASE("METIS partitioning refuses invalid part counts and weights") {
  const auto g = torus();
  CHECK(test::message_of([&] { static_cast<void>(gnn::metis_parts(g, 0)); }) ==
        "partition: 0 parts; expected 1 to 16777216");
  CHECK(test::message_of([&] { static_cast<void>(gnn::metis_parts(g, 2, std::vector<std::uint32_t>{1})); }) ==
        "graph for METIS: 1 weights; expected one for each of the 1024 vertices");
  const std::vector<std::uint32_t> heavy(g.vertices(), std::numeric_limits<std::uint32_t>::max());
  CHECK(test::message_of([&] { static_cast<void>(gnn::metis_parts(g, 2, heavy)); }) ==
        "graph for METIS: weights of 4398046510080; expected 2147483647 at most");
}

}  // namespace tests_of_metis_partition
