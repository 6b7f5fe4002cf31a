// A topology as Boost's graph algorithms see one.
#pragma once

#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include <boost/graph/graph_traits.hpp>
#include <boost/graph/properties.hpp>
#include <boost/iterator/counting_iterator.hpp>
#include <boost/property_map/function_property_map.hpp>
#include <boost/property_map/property_map.hpp>

#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/hardware/topology.hpp>

namespace unity::hardware {

// Vertices are devices, then switches, by number; edges are links, by id. Models of Boost's concepts: VertexListGraph,
// EdgeListGraph, IncidenceGraph, BidirectionalGraph, AdjacencyGraph. Unlike in route_table, Boost's algorithms let
// devices forward. Refers to the topology, which must outlive the view.
// Complexity: O(links) to build, then constant.
class boost_topology {
 public:
  using vertex_descriptor = std::size_t;
  using edge_descriptor = link_id;
  struct traversal_category : boost::bidirectional_graph_tag,
                              boost::adjacency_graph_tag,
                              boost::vertex_list_graph_tag,
                              boost::edge_list_graph_tag {};
  using directed_category = boost::bidirectional_tag;
  using edge_parallel_category = boost::allow_parallel_edge_tag;
  using vertex_iterator = boost::counting_iterator<vertex_descriptor>;
  using edge_iterator = const link_id*;
  using out_edge_iterator = const link_id*;
  using in_edge_iterator = const link_id*;
  using adjacency_iterator = const vertex_descriptor*;
  using vertices_size_type = std::size_t;
  using edges_size_type = std::size_t;
  using degree_size_type = std::size_t;

  static vertex_descriptor null_vertex() noexcept { return std::numeric_limits<vertex_descriptor>::max(); }

  explicit boost_topology(const topology& t);
  explicit boost_topology(const topology&&) = delete;

  [[nodiscard]] const topology& graph() const noexcept { return *topology_; }

  friend std::pair<vertex_iterator, vertex_iterator> vertices(const boost_topology& g) {
    return {vertex_iterator{0}, vertex_iterator{num_vertices(g)}};
  }
  friend vertices_size_type num_vertices(const boost_topology& g) { return g.first_.size() - 1; }
  friend std::pair<edge_iterator, edge_iterator> edges(const boost_topology& g) {
    return {g.links_.data(), g.links_.data() + g.links_.size()};
  }
  friend edges_size_type num_edges(const boost_topology& g) { return g.links_.size(); }
  friend vertex_descriptor source(link_id l, const boost_topology& g) { return g.topology_->source(l).index(); }
  friend vertex_descriptor target(link_id l, const boost_topology& g) { return g.topology_->target(l).index(); }
  friend std::pair<out_edge_iterator, out_edge_iterator> out_edges(vertex_descriptor v, const boost_topology& g) {
    return {g.links_.data() + g.first_[v], g.links_.data() + g.first_[v + 1]};
  }
  friend degree_size_type out_degree(vertex_descriptor v, const boost_topology& g) {
    return g.first_[v + 1] - g.first_[v];
  }
  friend std::pair<in_edge_iterator, in_edge_iterator> in_edges(vertex_descriptor v, const boost_topology& g) {
    const auto in = g.topology_->links_to(vertex_id{v});
    return {in.data(), in.data() + in.size()};
  }
  friend degree_size_type in_degree(vertex_descriptor v, const boost_topology& g) {
    return g.topology_->links_to(vertex_id{v}).size();
  }
  friend degree_size_type degree(vertex_descriptor v, const boost_topology& g) {
    return in_degree(v, g) + out_degree(v, g);
  }
  friend std::pair<adjacency_iterator, adjacency_iterator> adjacent_vertices(vertex_descriptor v,
                                                                             const boost_topology& g) {
    return {g.targets_.data() + g.first_[v], g.targets_.data() + g.first_[v + 1]};
  }
  friend boost::typed_identity_property_map<vertex_descriptor> get(boost::vertex_index_t, const boost_topology&) {
    return {};
  }
  friend vertex_descriptor get(boost::vertex_index_t, const boost_topology&, vertex_descriptor v) { return v; }

 private:
  const topology* topology_;
  std::vector<std::size_t> first_{0};
  std::vector<link_id> links_{};  // by source
  std::vector<vertex_descriptor> targets_{};
};

// Edge properties. Units: picoseconds; bytes per second.
[[nodiscard]] inline auto latency_map(const boost_topology& g) {
  return boost::make_function_property_map<link_id>([t = &g.graph()](link_id l) { return t->latency(l).count(); });
}
[[nodiscard]] inline auto bandwidth_map(const boost_topology& g) {
  return boost::make_function_property_map<link_id>([t = &g.graph()](link_id l) { return t->bytes_per_second(l); });
}

}  // namespace unity::hardware

template <>
struct boost::property_map<unity::hardware::boost_topology, boost::vertex_index_t> {
  using type = boost::typed_identity_property_map<std::size_t>;
  using const_type = type;
};

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_HARDWARE_BOOST_TOPOLOGY)

namespace unity::hardware {

UNITY_INLINE boost_topology::boost_topology(const topology& t) : topology_{&t} {
  for (std::size_t v = 0; v < t.vertex_count(); ++v) {
    for (const auto l : t.links_from(vertex_id{v})) {
      links_.push_back(l);
      targets_.push_back(t.target(l).index());
    }
    first_.push_back(links_.size());
  }
}

}  // namespace unity::hardware

#endif
