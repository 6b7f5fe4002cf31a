#include <unity/gnn/partition_report.hpp>

#include <cstdint>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/gnn/graph_transforms.hpp>
#include <unity/gnn/vertex_order.hpp>
#include <unity/gnn/vertex_partition.hpp>

#include "../support/cases.hpp"
#include "../support/message_of.hpp"
#include "random_graphs.hpp"

namespace tests_of_partition_report {

using namespace unity;
using gnn::vertex_id;

TEST_CASE("edges into a part come from it or from others") {
  for (std::uint64_t seed = 0; seed < test::cases(200); ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    const auto g = test::random_graph(random, 30, 150);
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

TEST_CASE("vertices are numbered part by part") {
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

}  // namespace tests_of_partition_report
