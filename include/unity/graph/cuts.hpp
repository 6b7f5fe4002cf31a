// Places where a graph can be cut in two: at a node that every path passes, or through the values that a
// prefix hands on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/graph/digraph.hpp>
#include <unity/graph/dominators.hpp>
#include <unity/graph/maximum_flow.hpp>
#include <unity/graph/node_set.hpp>
#include <unity/graph/reachability.hpp>

namespace unity {

// The nodes through which every path from a source to a sink runs, in the order in which paths meet them;
// a single source or sink is one of them. Without terminals: those of find_terminals. Expects an acyclic graph.
// Complexity: O(E log N).
template <dataflow_graph G>
[[nodiscard]] std::vector<node_id> sequence_cuts(const G& g, const terminals& ends) {
  const auto tree = dominators(g, ends.sources);
  node_id common;
  bool first = true;
  for (const node_id sink : ends.sinks) {
    if (!tree.reached(sink)) {
      continue;
    }
    common = first ? sink : tree.nearest_common(common, sink);
    first = false;
    if (!common.valid()) {
      return {};
    }
  }
  std::vector<node_id> cuts;
  for (node_id n = common; n.valid(); n = tree.immediate(n)) {
    cuts.push_back(n);
  }
  std::ranges::reverse(cuts);
  return cuts;
}
template <dataflow_graph G>
[[nodiscard]] std::vector<node_id> sequence_cuts(const G& g) {
  return sequence_cuts(g, find_terminals(g));
}

// Whether the set holds, with each node, all that the node reads from. Complexity: O(N + E).
template <dataflow_graph G>
[[nodiscard]] bool is_prefix(const G& g, node_set_view set) {
  for (std::size_t n = 0; n < graph_traits<G>::node_count(g); ++n) {
    if (set.contains(node_id{n})) {
      for (const value_id v : graph_traits<G>::operands(g, node_id{n})) {
        if (!set.contains(graph_traits<G>::producer(g, v))) {
          return false;
        }
      }
    }
  }
  return true;
}

// The values defined by a node of the set and read by a node outside it, ascending. A value that is only an
// output of the graph is handed to nobody, so it is not among them. Complexity: O(V + E).
template <dataflow_graph G>
[[nodiscard]] std::vector<value_id> cut_values(const G& g, node_set_view set) {
  std::vector<char> crosses(graph_traits<G>::value_count(g), 0);
  for (std::size_t n = 0; n < graph_traits<G>::node_count(g); ++n) {
    if (!set.contains(node_id{n})) {
      for (const value_id v : graph_traits<G>::operands(g, node_id{n})) {
        crosses[v.index()] = static_cast<char>(set.contains(graph_traits<G>::producer(g, v)));
      }
    }
  }
  std::vector<value_id> values;
  for (std::size_t v = 0; v < crosses.size(); ++v) {
    if (crosses[v] != 0) {
      values.emplace_back(v);
    }
  }
  return values;
}

// For each position 0 .. N of a topological order: the total weight of cut_values of the nodes before it.
// weight(v) is a number of at least 0. Complexity: O(N + V + E).
template <dataflow_graph G, class Weight>
[[nodiscard]] std::vector<std::int64_t> cut_weights(const G& g, std::span<const node_id> order, const Weight& weight) {
  const std::size_t values = graph_traits<G>::value_count(g);
  std::vector<std::size_t> defined(values, 0);
  std::vector<std::size_t> last_read(values, 0);
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (const value_id v : graph_traits<G>::operands(g, order[i])) {
      last_read[v.index()] = i;
    }
    for (const value_id v : graph_traits<G>::results(g, order[i])) {
      defined[v.index()] = i;
    }
  }
  std::vector<std::int64_t> change(order.size() + 1, 0);
  for (std::size_t v = 0; v < values; ++v) {
    if (last_read[v] > defined[v]) {
      const auto w = static_cast<std::int64_t>(weight(value_id{v}));
      change[defined[v] + 1] += w;
      change[last_read[v] + 1] -= w;
    }
  }
  for (std::size_t i = 1; i < change.size(); ++i) {
    change[i] += change[i - 1];
  }
  return change;
}

// A prefix of a graph and what it hands on.
struct value_cut {
  node_set before;
  std::vector<value_id> values;  // cut_values(before)
  std::int64_t weight = 0;       // their total weight

  friend bool operator==(const value_cut&, const value_cut&) = default;
};

// Among all prefixes that hold every node of `before` and none of `after`, the one whose cut_values weigh
// least; of several, the one with the fewest nodes. Nothing if there is no such prefix, since a node of
// `before` is or depends on a node of `after`. weight(v) is a number of at least 0; sums must fit in 62 bits.
// Expects an acyclic graph. Complexity: one maximum flow over N + V points and V + 2 E edges.
template <dataflow_graph G, class Weight>
[[nodiscard]] std::optional<value_cut> minimum_cut(const G& g, node_set_view before, node_set_view after,
                                                   const Weight& weight) {
  using point = flow_network::point;
  const std::size_t nodes = graph_traits<G>::node_count(g);
  const std::size_t values = graph_traits<G>::value_count(g);
  const auto value_point = [nodes](value_id v) { return static_cast<point>(nodes + v.index()); };
  const auto source = static_cast<point>(nodes + values);
  const auto sink = static_cast<point>(nodes + values + 1);
  std::int64_t unlimited = 1;
  for (std::size_t v = 0; v < values; ++v) {
    unlimited += static_cast<std::int64_t>(weight(value_id{v}));
  }
  flow_network network{nodes + values + 2};
  for (std::size_t v = 0; v < values; ++v) {
    network.add_edge(graph_traits<G>::producer(g, value_id{v}).index(), value_point(value_id{v}),
                     static_cast<std::int64_t>(weight(value_id{v})));
  }
  for (std::size_t n = 0; n < nodes; ++n) {
    for (const value_id v : graph_traits<G>::operands(g, node_id{n})) {
      network.add_edge(value_point(v), static_cast<point>(n), unlimited);
      // Where the reader is before the cut, the producer must be.
      network.add_edge(static_cast<point>(n), graph_traits<G>::producer(g, v).index(), unlimited);
    }
    if (before.contains(node_id{n})) {
      network.add_edge(source, static_cast<point>(n), unlimited);
    }
    if (after.contains(node_id{n})) {
      network.add_edge(static_cast<point>(n), sink, unlimited);
    }
  }
  const auto flow = network.maximum_flow(source, sink);
  if (flow >= unlimited) {
    return std::nullopt;
  }
  value_cut cut{node_set{nodes}, {}, flow};
  for (std::size_t n = 0; n < nodes; ++n) {
    if (network.source_side(static_cast<point>(n))) {
      cut.before.insert(node_id{n});
    }
  }
  cut.values = cut_values(g, cut.before);
  return cut;
}

// The cheapest cut right after node n: n is before it, and all that depends on n is after it.
template <dataflow_graph G, class Weight>
[[nodiscard]] value_cut minimum_cut_after(const G& g, const reachability& reach, node_id n, const Weight& weight) {
  node_set before{graph_traits<G>::node_count(g)};
  before.insert(n);
  auto cut = minimum_cut(g, before, reach.descendants(n), weight);
  UNITY_EXPECTS(cut.has_value(), "an acyclic graph, and its own reachability");
  return *std::move(cut);
}

}  // namespace unity
