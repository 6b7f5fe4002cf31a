#include <unity/gnn/csr_graph.hpp>

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "../support/message_of.hpp"

namespace tests_of_csr_graph {

using namespace unity;
using gnn::edge_id;
using gnn::vertex_id;

std::string complaint_of(const std::vector<edge_id>& offsets, const std::vector<vertex_id>& sources) {
  return test::message_of([&] { gnn::check_csr(offsets, sources, "a.lux"); });
}

TEST_CASE("a CSR graph has sources by target and degrees and equality") {
  const gnn::csr_graph g{{0, 2, 2, 3}, {2, 1, 0}};
  const auto view = g.view();
  CHECK(g.vertices() == 3);
  CHECK(g.edges() == 3);
  CHECK(view.in_degree(0) == 2);
  CHECK(std::vector<vertex_id>(view.sources_of(0).begin(), view.sources_of(0).end()) == std::vector<vertex_id>{2, 1});
  CHECK(view.sources_of(1).empty());
  CHECK(gnn::in_degrees(g) == std::vector<edge_id>{2, 0, 1});
  CHECK(gnn::out_degrees(g) == std::vector<edge_id>{1, 1, 1});
  CHECK(gnn::csr_graph{view} == g);
  CHECK(gnn::equal(g, gnn::csr_graph{view}));
  CHECK_FALSE(gnn::equal(g, gnn::csr_graph{{0, 2, 2, 3}, {1, 2, 0}}));
  CHECK(gnn::csr_graph{}.vertices() == 0);
  CHECK(gnn::csr_graph{} == gnn::csr_graph{{0}, {}});
}

TEST_CASE("invalid CSR arrays are refused with the first wrong position") {
  CHECK(complaint_of({0, 1, 2}, {1, 0}).empty());
  CHECK(complaint_of({}, {}) == "a.lux: 0 offsets; expected 1 to 4294967296");
  CHECK(complaint_of({1, 1}, {0}) == "a.lux: vertex 0 begins at edge 1; expected edge 0");
  CHECK(complaint_of({0, 2, 1, 2}, {0, 0}) ==
        "a.lux: vertex 1 ends at edge 1; expected edge 2, at which it begins, or one behind it");
  CHECK(complaint_of({0, 1, 3}, {1, 0}) == "a.lux: the last vertex ends at edge 3; expected the number of edges, 2");
  CHECK(complaint_of({0, 1, 3}, {1, 0, 2}) == "a.lux: edge 2 comes from vertex 2; expected a vertex below 2");
  CHECK(test::message_of([] { gnn::csr_graph{{0, 1}, {1}}; }) ==
        "graph: edge 0 comes from vertex 1; expected a vertex below 1");
}

}  // namespace tests_of_csr_graph
