#include <unity/gnn/range_graph.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/gnn/csr_graph.hpp>
#include <unity/gnn/vertex_partition.hpp>

#include "../support/cases.hpp"
#include "../support/message_of.hpp"
#include "random_graphs.hpp"

namespace tests_of_range_graph {

using namespace unity;
using gnn::edge_split;
using gnn::vertex_id;

// Edges as (source, target) pairs, in the order of in-edges.
std::vector<std::pair<std::int32_t, std::int32_t>> pairs(const gnn::edge_lists& e) {
  std::vector<std::pair<std::int32_t, std::int32_t>> all;
  for (std::size_t t = 0; t + 1 < e.offsets.size(); ++t) {
    for (auto k = e.offsets[t]; k < e.offsets[t + 1]; ++k) {
      all.emplace_back(e.sources[static_cast<std::size_t>(k)], static_cast<std::int32_t>(t));
    }
  }
  return all;
}

// The out-edge lists must be the transpose of the in-edge lists.
void check_out_edges(const gnn::edge_lists& e, std::size_t rows) {
  const auto in = pairs(e);
  REQUIRE(e.out_offsets.size() == (e.offsets.empty() ? e.out_offsets.size() : rows + 1));
  std::vector<bool> seen(in.size());
  for (std::size_t s = 0; s + 1 < e.out_offsets.size(); ++s) {
    for (auto k = e.out_offsets[s]; k < e.out_offsets[s + 1]; ++k) {
      const auto edge = static_cast<std::size_t>(e.out_edges[static_cast<std::size_t>(k)]);
      REQUIRE_FALSE(seen[edge]);
      seen[edge] = true;
      REQUIRE(in[edge] == std::pair{static_cast<std::int32_t>(s), e.targets[static_cast<std::size_t>(k)]});
      REQUIRE((k == e.out_offsets[s] ||
               e.out_edges[static_cast<std::size_t>(k) - 1] < e.out_edges[static_cast<std::size_t>(k)]));
    }
  }
  REQUIRE(std::all_of(seen.begin(), seen.end(), [](bool b) { return b; }));
}

TEST_CASE("a range graph has its in-edges and sends its rows to the parts that read them") {
  for (std::uint64_t seed = 0; seed < test::cases(150); ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    const auto g = test::random_graph(random, 200, 800);
    const auto p = gnn::equal_vertices(g.vertices(), random.below(std::min<vertex_id>(5, g.vertices())) + 1);
    for (const auto split : {edge_split::apart, edge_split::joint}) {
      std::vector<gnn::range_graph> all;
      for (std::size_t k = 0; k < p.parts(); ++k) {
        all.push_back(gnn::range_graph_of(g, p, k, split));
      }
      for (std::size_t k = 0; k < p.parts(); ++k) {
        const auto& r = all[k];
        const auto size = static_cast<std::int32_t>(r.range.size());
        std::vector<std::pair<std::int32_t, std::int32_t>> own;
        std::vector<std::pair<std::int32_t, std::int32_t>> remote;
        for (auto v = r.range.begin; v < r.range.end; ++v) {
          for (const auto s : g.view().sources_of(v)) {
            const auto target = static_cast<std::int32_t>(v - r.range.begin);
            const auto in_halo = static_cast<std::int32_t>(std::find(r.halo.begin(), r.halo.end(), s) - r.halo.begin());
            if (r.range.contains(s)) {
              own.emplace_back(static_cast<std::int32_t>(s - r.range.begin), target);
            } else if (split == edge_split::joint) {
              own.emplace_back(size + in_halo, target);
            } else {
              remote.emplace_back(in_halo, target);
            }
          }
        }
        REQUIRE(pairs(r.own) == own);
        REQUIRE(pairs(r.remote) == remote);
        check_out_edges(r.own, r.range.size() + (split == edge_split::joint ? r.halo.size() : 0));
        check_out_edges(r.remote, split == edge_split::joint ? 0 : r.halo.size());
        std::size_t arrived = 0;
        for (const auto& from : r.received) {
          const auto& sender = all[from.part];
          const auto to = std::find_if(sender.sent.begin(), sender.sent.end(), [&](auto& s) { return s.part == k; });
          REQUIRE(to != sender.sent.end());
          std::vector<vertex_id> vertices;
          for (auto i = to->begin; i < to->end; ++i) {
            vertices.push_back(sender.range.begin + static_cast<vertex_id>(sender.rows[i]));
          }
          REQUIRE(from.begin == arrived);
          arrived = from.end;
          REQUIRE(vertices == std::vector<vertex_id>(r.halo.begin() + static_cast<std::ptrdiff_t>(from.begin),
                                                     r.halo.begin() + static_cast<std::ptrdiff_t>(from.end)));
        }
        REQUIRE(arrived == r.halo.size());
      }
    }
  }
}

TEST_CASE("edge lists of a symmetric graph on one device are symmetric") {
  random_engine random{1};
  const auto g = gnn::symmetric(test::random_graph(random, 200, 800));
  CHECK(gnn::range_graph_of(g, gnn::equal_vertices(g.vertices(), 1), 0, edge_split::apart).own.is_symmetric());
  const gnn::csr_graph arrow{{0, 0, 1}, {0}};
  CHECK_FALSE(gnn::range_graph_of(arrow, gnn::equal_vertices(2, 1), 0, edge_split::apart).own.is_symmetric());
}

TEST_CASE("a range graph of another graph's partition or an empty part is refused") {
  const gnn::csr_graph g{{0, 0, 1}, {0}};
  CHECK(test::message_of([&] {
          static_cast<void>(gnn::range_graph_of(g, gnn::equal_vertices(3, 1), 0, edge_split::apart));
        }) == "partition: of 3 vertices; expected of 2");
  CHECK(test::message_of([&] {
          static_cast<void>(gnn::range_graph_of(g, gnn::undivided(2, 2), 1, edge_split::joint));
        }) == "part 1: 0 vertices, 0 edges; expected at least one vertex and at most 2147483647 edges");
}

}  // namespace tests_of_range_graph
