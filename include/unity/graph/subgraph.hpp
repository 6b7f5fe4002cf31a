// A region of a graph as a graph of its own.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/graph/node_set.hpp>
#include <unity/graph/reachability.hpp>
#include <unity/graph/topological_order.hpp>

namespace unity {

// Nodes cut out of a graph. "Outer" ids are those of the graph they were cut from.
template <class Op, class Type>
struct region {
  compact_graph<Op, Type> graph;
  std::vector<value_id> inputs;   // outer values that the region reads: node i of `graph` stands for inputs[i]
  std::vector<value_id> outputs;  // outer values that are read outside or are outputs: those of `graph`, in order
  std::vector<node_id> nodes;     // of each node of `graph`, the outer node; null for a stand-in

  friend bool operator==(const region&, const region&) = default;
};

namespace detail {

// The outer values that nodes of the set define and that matter outside it, ascending.
template <dataflow_graph G>
std::vector<value_id> values_leaving(const G& g, node_set_view set) {
  std::vector<char> leaves(graph_traits<G>::value_count(g), 0);
  for (std::size_t n = 0; n < graph_traits<G>::node_count(g); ++n) {
    if (!set.contains(node_id{n})) {
      for (const value_id v : graph_traits<G>::operands(g, node_id{n})) {
        leaves[v.index()] = 1;
      }
    }
  }
  for (const value_id v : graph_traits<G>::outputs(g)) {
    leaves[v.index()] = 1;
  }
  std::vector<value_id> leaving;
  for (std::size_t v = 0; v < leaves.size(); ++v) {
    if (leaves[v] != 0 && set.contains(graph_traits<G>::producer(g, value_id{v}))) {
      leaving.emplace_back(v);
    }
  }
  return leaving;
}

// The steps of extract_region over one graph. inner_ names each outer value in the region, once it is there.
template <dataflow_graph G>
class region_cutter {
 public:
  region_cutter(const G& g, node_set_view set) : graph_{g}, set_{set}, inner_(graph_traits<G>::value_count(g)) {}

  [[nodiscard]] region<operation_t<G>, type_t<G>> finish() && {
    cut_.outputs = values_leaving(graph_, set_);
    cut_.graph.set_outputs(renamed(cut_.outputs));
    return std::move(cut_);
  }
  template <class StandIn>
  void add_stand_ins(node_id n, StandIn& stand_in) {
    for (const value_id v : graph_traits<G>::operands(graph_, n)) {
      if (!inner_[v.index()].valid() && !set_.contains(graph_traits<G>::producer(graph_, v))) {
        const type_t<G> type = graph_traits<G>::type(graph_, v);
        const node_id made = cut_.graph.add_node(stand_in(v), {}, std::span{&type, 1});
        inner_[v.index()] = cut_.graph.results(made).front();
        cut_.inputs.push_back(v);
        cut_.nodes.emplace_back();
      }
    }
  }
  void copy(node_id n) {
    std::vector<type_t<G>> types;
    for (const value_id v : graph_traits<G>::results(graph_, n)) {
      types.push_back(graph_traits<G>::type(graph_, v));
    }
    const auto operands = renamed(graph_traits<G>::operands(graph_, n));
    const node_id made = cut_.graph.add_node(graph_traits<G>::operation(graph_, n), operands, types);
    cut_.nodes.push_back(n);
    std::size_t i = 0;
    for (const value_id v : graph_traits<G>::results(graph_, n)) {
      inner_[v.index()] = cut_.graph.results(made)[i++];
    }
  }

 private:
  template <class Values>
  [[nodiscard]] std::vector<value_id> renamed(const Values& outer) const {
    std::vector<value_id> names;
    for (const value_id v : outer) {
      names.push_back(inner_[v.index()]);
    }
    return names;
  }

  const G& graph_;
  node_set_view set_;
  region<operation_t<G>, type_t<G>> cut_{};
  std::vector<value_id> inner_;
};

}  // namespace detail

// Whether no path leaves the set and comes back: then it can be replaced by one node.
// Expects the reachability of g. Complexity: O(N^2 / 64).
template <dataflow_graph G>
[[nodiscard]] bool is_convex(const G& g, const reachability& reach, node_set_view set) {
  for (std::size_t n = 0; n < graph_traits<G>::node_count(g); ++n) {
    if (!set.contains(node_id{n}) && intersects(set, reach.ancestors(node_id{n})) &&
        intersects(set, reach.descendants(node_id{n}))) {
      return false;
    }
  }
  return true;
}

// Copies the nodes of the set, in topological order, behind one stand-in for each value that they read from outside,
// in the order in which they first do. stand_in(v) makes the operator of the node that stands for outer value v; it has
// that value's type. Expects an acyclic graph.
// Complexity: O(N + E); more as topological_order where ids are not one.
template <dataflow_graph G, std::invocable<value_id> StandIn>
[[nodiscard]] region<operation_t<G>, type_t<G>> extract_region(const G& g, node_set_view set, StandIn&& stand_in) {
  auto order = topological_order(g);
  UNITY_EXPECTS(order.has_value(), "an acyclic graph");
  std::erase_if(*order, [set](node_id n) { return !set.contains(n); });
  detail::region_cutter<G> cutter{g, set};
  for (const node_id n : *order) {
    cutter.add_stand_ins(n, stand_in);
  }
  for (const node_id n : *order) {
    cutter.copy(n);
  }
  return std::move(cutter).finish();
}

}  // namespace unity
