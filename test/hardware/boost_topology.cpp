#include <unity/hardware/boost_topology.hpp>

#include <boost/graph/breadth_first_search.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <boost/graph/graph_concepts.hpp>
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/hardware/topology.hpp>

#include "random_topology.hpp"

namespace tests_of_boost_topology {

namespace {

using namespace unity;
using hardware::boost_topology;
using hardware::device_id;

BOOST_CONCEPT_ASSERT((boost::VertexListGraphConcept<boost_topology>));
BOOST_CONCEPT_ASSERT((boost::EdgeListGraphConcept<boost_topology>));
BOOST_CONCEPT_ASSERT((boost::BidirectionalGraphConcept<boost_topology>));
BOOST_CONCEPT_ASSERT((boost::AdjacencyGraphConcept<boost_topology>));

TEST_CASE("Boost's breadth-first search finds as many links as routes have if devices are leaves") {
  const auto m = hardware::preset("k80:3x4");
  const hardware::route_table routes{m.network};
  const boost_topology g{m.network};
  for (std::size_t from = 0; from < m.network.device_count(); ++from) {
    std::vector<std::size_t> depth(num_vertices(g), 0);
    const auto recorder = boost::record_distances(depth.data(), boost::on_tree_edge{});
    boost::breadth_first_search(g, from, boost::visitor(boost::make_bfs_visitor(recorder)));
    for (std::size_t to = 0; to < m.network.device_count(); ++to) {
      CHECK(depth[to] == routes.between(m.network, device_id{from}, device_id{to}).size());
    }
  }
}

// The least latency from a device to each vertex if devices forward: lets each link shorten, as often as that may help.
std::vector<std::int64_t> least_latencies(const hardware::topology& t, std::size_t from) {
  std::vector<std::int64_t> least(t.vertex_count(), std::numeric_limits<std::int64_t>::max() / 2);
  least[from] = 0;
  for (std::size_t round = 1; round < t.vertex_count(); ++round) {
    for (std::size_t i = 0; i < t.link_count(); ++i) {
      const hardware::link_id l{i};
      auto& to = least[t.target(l).index()];
      to = std::min(to, least[t.source(l).index()] + t.latency(l).count());
    }
  }
  return least;
}

TEST_CASE("Boost's shortest paths have at most the latency of routes") {
  const auto seed = GENERATE(range(1U, 20U));
  CAPTURE(seed);
  random_engine random{seed};
  const auto t = test::random_topology(random, 6, 5);
  const hardware::route_table routes{t};
  const boost_topology g{t};
  for (std::size_t from = 0; from < t.device_count(); ++from) {
    std::vector<std::int64_t> latency(num_vertices(g));
    boost::dijkstra_shortest_paths(g, from, boost::weight_map(latency_map(g)).distance_map(latency.data()));
    CHECK(latency == least_latencies(t, from));
    for (std::size_t to = 0; to < t.device_count(); ++to) {
      CHECK(latency[to] <= routes.cost(t, device_id{from}, device_id{to}).latency.count());
    }
  }
}

TEST_CASE("boost_topology has an edge for each link at both of its ends") {
  const auto m = hardware::preset("summit:2x6");
  const boost_topology g{m.network};
  CHECK(num_edges(g) == m.network.link_count());
  std::size_t out = 0;
  std::size_t in = 0;
  for (auto [v, end] = vertices(g); v != end; ++v) {
    out += out_degree(*v, g);
    in += in_degree(*v, g);
    const auto [first, last] = adjacent_vertices(*v, g);
    auto [e, edges_end] = out_edges(*v, g);
    CHECK(std::equal(first, last, e, edges_end,
                     [&](std::size_t to, auto l) { return target(l, g) == to && source(l, g) == *v; }));
    const auto [from, until] = in_edges(*v, g);
    CHECK(std::all_of(from, until, [&](auto l) { return target(l, g) == *v && source(l, g) != *v; }));
  }
  CHECK(out == num_edges(g));
  CHECK(in == num_edges(g));
  std::set<hardware::link_id> met;
  for (auto [e, end] = edges(g); e != end; ++e) {
    met.insert(*e);
    CHECK(get(bandwidth_map(g), *e) == m.network.bytes_per_second(*e));
    CHECK(get(latency_map(g), *e) == m.network.latency(*e).count());
  }
  CHECK(met.size() == m.network.link_count());
}

}  // namespace

}  // namespace tests_of_boost_topology
