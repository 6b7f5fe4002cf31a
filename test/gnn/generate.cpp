#include <unity/gnn/generators.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/gnn/csr_graph.hpp>

#include "../support/message_of.hpp"

namespace tests_of_generate {

using namespace unity;
using gnn::edge;
using gnn::edge_id;
using gnn::vertex_id;

const std::filesystem::path folder{UNITY_TEST_SCRATCH_DIR};

// Reference: built by the graph transforms, which share no code with the tested function.
template <class G>
gnn::csr_graph reference(const G& g, const gnn::edge_rules& rules) {
  std::vector<edge> all;
  for (edge_id k = 0; k < g.edges(); ++k) {
    all.push_back(g(k));
    if (rules.both_directions) {
      all.push_back({g(k).target, g(k).source});
    }
  }
  for (vertex_id v = 0; rules.self_edges && v < g.vertices(); ++v) {
    all.push_back({v, v});
  }
  const auto made = gnn::from_edges(g.vertices(), all);
  return rules.distinct ? gnn::distinct(made) : made;
}

TEST_CASE("a generated graph has the drawn edges and those that the edge rules add") {
  const gnn::rmat skewed{6, 400, 3};
  const gnn::erdos_renyi even{50, 300, 3};
  const gnn::barabasi_albert grown{80, 3, 3};
  for (unsigned bits = 0; bits < 8; ++bits) {
    const gnn::edge_rules rules{(bits & 1U) != 0, (bits & 2U) != 0, (bits & 4U) != 0};
    CAPTURE(bits);
    CHECK(gnn::generate(skewed, rules) == reference(skewed, rules));
    CHECK(gnn::generate(even, rules) == reference(even, rules));
    CHECK(gnn::generate(grown, rules) == reference(grown, rules));
  }
  CHECK(gnn::generate(gnn::erdos_renyi{0, 0, 1}, {true, true, true}) == gnn::csr_graph{});
}

TEST_CASE("a generated graph does not depend on the thread count and memory limit") {
  const gnn::rmat g{12, 40000, 9};
  const gnn::edge_rules rules{true, true, true};
  const auto expected = gnn::generate(g, rules);
  CHECK(expected.edges() > 40000);
  for (const auto threads : {1UL, 2UL, 5UL}) {
    CHECK(gnn::generate(g, rules, {.threads = threads}) == expected);
    CHECK(gnn::generate(g, rules, {.memory = 0, .folder = folder, .threads = threads}) == expected);
  }
}

TEST_CASE("graph generation names a spill folder that cannot be written") {
  const auto missing = folder / "missing";
  const auto message = test::message_of(
      [&] { static_cast<void>(gnn::generate(gnn::rmat{12, 40000, 9}, {}, {.memory = 0, .folder = missing})); });
  CHECK(message.starts_with(missing.string() + ": "));
}

}  // namespace tests_of_generate
