#include <unity/io/graph_text.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/gnn/csr_graph.hpp>

#include "../gnn/random_graphs.hpp"
#include "../support/cases.hpp"
#include "../support/message_of.hpp"

namespace tests_of_graph_text {

using namespace unity;

TEST_CASE("neighbour lists are written and parsed with one line per vertex") {
  const gnn::csr_graph g{{0, 3, 3, 4}, {2, 1, 1, 0}};
  CHECK(io::neighbours_text(g) == "2 1 1\n\n0\n");
  CHECK(io::parse_neighbours("2 1 1\n\n0\n", "a.graph") == g);
  CHECK(io::parse_neighbours(" 2\t1  1 \r\n \n0", "a.graph") == g);
  CHECK(io::parse_neighbours("", "a.graph") == gnn::csr_graph{});
}

TEST_CASE("edge lists are parsed with one line per edge and an optional vertex count") {
  CHECK(io::parse_edges("# a comment\n2 0\n0\t2\n1 0\n", "a.txt") == gnn::csr_graph{{0, 2, 2, 3}, {1, 2, 0}});
  CHECK(io::parse_edges("1 0\n", "a.txt", 3) == gnn::csr_graph{{0, 1, 1, 1}, {1}});
  CHECK(io::parse_edges("", "a.txt") == gnn::csr_graph{});
  CHECK(io::parse_edges("\xef\xbb\xbf"
                        "1 0\n",
                        "a.txt", 3) == gnn::csr_graph{{0, 1, 1, 1}, {1}});
}

TEST_CASE("random graphs survive round trips through neighbour and edge lists") {
  for (std::uint64_t seed = 0; seed < test::cases(100); ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    const auto g = test::random_graph(random, 20, 60);
    const auto neighbours = io::neighbours_text(g);
    REQUIRE(io::parse_neighbours(neighbours, "a.graph") == g);
    REQUIRE(io::neighbours_text(io::parse_neighbours(neighbours, "a.graph")) == neighbours);
    const auto edges = io::edges_text(g);
    REQUIRE(io::parse_edges(edges, "a.txt", g.vertices()) == g);
    REQUIRE(io::edges_text(io::parse_edges(edges, "a.txt")) == edges);
  }
}

TEST_CASE("invalid neighbour and edge lists are refused with the file and what was expected") {
  const auto neighbours = [](std::string_view text) {
    return test::message_of([&] { static_cast<void>(io::parse_neighbours(text, "a.graph")); });
  };
  CHECK(neighbours("1\n2\n") == "a.graph:2: 2; expected one of the 2 vertices");
  CHECK(neighbours("1\nx\n") == "a.graph:2: x; expected the number of a vertex");
  const auto edges = [](std::string_view text, std::optional<gnn::vertex_id> vertices = {}) {
    return test::message_of([&] { static_cast<void>(io::parse_edges(text, "a.txt", vertices)); });
  };
  CHECK(edges("0 1\n1\n") == "a.txt:2: the end of the line; expected two numbers of vertices");
  CHECK(edges("0 1 5\n") == "a.txt:1: 5; expected the end of the line after two numbers of vertices");
  CHECK(edges("0 -1\n") == "a.txt:1: -1; expected two numbers of vertices");
  CHECK(edges("0 2\n", 2) == "a.txt:1: 2; expected a vertex below 2");
  CHECK(edges("0 4294967295\n") == "a.txt:1: 4294967295; expected a vertex below 4294967295");
  CHECK(edges("0 4000000000\n") ==
        "a.txt: 4000000001 vertices with 1 edges; expected an edge for every thousand vertices at least");
}

}  // namespace tests_of_graph_text
