#include <unity/gnn/range_graph.hpp>

#include <cstdint>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/gnn/csr_graph.hpp>
#include <unity/gnn/vertex_partition.hpp>

#include "../support/cases.hpp"
#include "../support/message_of.hpp"
#include "random_graphs.hpp"

namespace tests_of_partition_report {

using namespace unity;
using gnn::vertex_id;

TEST_CASE("a partition report counts edges from the same part and from others") {
  for (std::uint64_t seed = 0; seed < test::cases(200); ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    const auto g = test::random_graph(random, 200, 800);
    const auto p = gnn::equal_vertices(g.vertices(), random.below(5) + 1);
    const auto found = gnn::report(g, p);
    REQUIRE(found.size() == p.parts());
    for (std::size_t k = 0; k < p.parts(); ++k) {
      gnn::part_report expected;
      std::set<vertex_id> remote;
      for (auto v = p.range(k).begin; v < p.range(k).end; ++v) {
        ++expected.vertices;
        for (const auto s : g.view().sources_of(v)) {
          ++expected.edges;
          if (p.part_of(s) != k) {
            ++expected.edges_from_others;
            remote.insert(s);
          }
        }
      }
      expected.remote_sources = static_cast<vertex_id>(remote.size());
      REQUIRE(found[k] == expected);
      REQUIRE(gnn::remote_sources(g, p.range(k)) == std::vector<vertex_id>(remote.begin(), remote.end()));
    }
  }
  CHECK(test::message_of([] { static_cast<void>(gnn::report(gnn::csr_graph{}, gnn::equal_vertices(1, 1))); }) ==
        "partition: of 1 vertices; expected of 0");
}

TEST_CASE("ordering by part numbers vertices part by part") {
  const std::vector<std::uint32_t> parts{2, 0, 2, 1, 0};
  const auto order = gnn::order_by_part(parts, 4);
  CHECK(order.numbers == std::vector<vertex_id>{3, 0, 4, 2, 1});
  CHECK(order.partition.cuts() == std::vector<vertex_id>{0, 2, 3, 5, 5});
  for (vertex_id v = 0; v < parts.size(); ++v) {
    CHECK(order.partition.part_of(order.numbers[v]) == parts[v]);
  }
  CHECK(test::message_of([&] { static_cast<void>(gnn::order_by_part(parts, 2)); }) ==
        "part of vertex 0: 2; expected one of 2 parts");
}

TEST_CASE("the inverse of a renumbering gives the earlier vertices and edges") {
  for (std::uint64_t seed = 0; seed < test::cases(50); ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    const auto vertices = static_cast<vertex_id>(1 + random.below(12));
    const auto g = gnn::from_edges(vertices, test::random_edges(random, vertices, random.below(40)));
    std::vector<std::uint32_t> parts(vertices);
    for (auto& p : parts) {
      p = static_cast<std::uint32_t>(random.below(3));
    }
    const auto numbers = gnn::order_by_part(parts, 3).numbers;
    const auto now = gnn::renumbered(g, numbers);
    const auto before = gnn::numbers_before(now, numbers);
    for (vertex_id v = 0; v < vertices; ++v) {
      REQUIRE(before.vertices[numbers[v]] == v);
      const auto sources = now.view().sources_of(numbers[v]);
      for (std::size_t i = 0; i < sources.size(); ++i) {
        const auto e = before.edges[now.view().offsets()[numbers[v]] + i];
        REQUIRE((e >= g.view().offsets()[v] && e < g.view().offsets()[v + 1]));
        REQUIRE(g.view().sources()[e] == before.vertices[sources[i]]);
      }
    }
    const std::set<std::uint64_t> all(before.edges.begin(), before.edges.end());
    REQUIRE(all.size() == before.edges.size());
  }
}

}  // namespace tests_of_partition_report
