// The structure of a dataflow graph without operators and values, for algorithms that need no more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/graph/topological_order.hpp>
#include <unity/graph/users.hpp>

namespace unity {

// The nodes of an acyclic graph with an edge from producer to user for each use. Regular; a snapshot.
// Complexity: lookups constant; building as topological_order.
class digraph {
 public:
  digraph() = default;
  // Expects an acyclic graph.
  template <dataflow_graph G>
  explicit digraph(const G& g);
  // The graph of these edges (from, to). Expects from < to, so that ascending ids are an order.
  digraph(std::size_t nodes, std::span<const std::pair<node_id, node_id>> edges);

  [[nodiscard]] std::size_t node_count() const noexcept { return order_.size(); }
  // The producers that n reads from, in the order of its operands; once for each operand.
  [[nodiscard]] std::span<const node_id> predecessors(node_id n) const { return predecessors_.of(n); }
  // The nodes that read from n, result after result, ascending for each; once for each operand.
  [[nodiscard]] std::span<const node_id> successors(node_id n) const { return successors_.of(n); }
  // Every node, after its predecessors.
  [[nodiscard]] std::span<const node_id> order() const noexcept { return order_; }

  friend bool operator==(const digraph&, const digraph&) = default;

 private:
  struct lists {
    std::vector<std::uint32_t> first{0};
    std::vector<node_id> nodes;

    [[nodiscard]] std::span<const node_id> of(node_id n) const {
      UNITY_EXPECTS(n.index() + std::size_t{1} < first.size(), "a node of the graph");
      return {nodes.data() + first[n.index()], first[n.index() + std::size_t{1}] - first[n.index()]};
    }
    void close() { first.push_back(static_cast<std::uint32_t>(nodes.size())); }
    friend bool operator==(const lists&, const lists&) = default;
  };

  lists predecessors_;
  lists successors_;
  std::vector<node_id> order_;
};

template <dataflow_graph G>
digraph::digraph(const G& g) {
  auto order = topological_order(g);
  UNITY_EXPECTS(order.has_value(), "an acyclic graph");
  order_ = std::move(*order);
  const users uses{g};
  for (std::size_t n = 0; n < order_.size(); ++n) {
    for (const value_id v : graph_traits<G>::operands(g, node_id{n})) {
      predecessors_.nodes.push_back(graph_traits<G>::producer(g, v));
    }
    predecessors_.close();
    for (const value_id v : graph_traits<G>::results(g, node_id{n})) {
      for (const use& u : uses[v]) {
        successors_.nodes.push_back(u.user);
      }
    }
    successors_.close();
  }
}

inline digraph::digraph(std::size_t nodes, std::span<const std::pair<node_id, node_id>> edges) {
  for (std::size_t n = 0; n < nodes; ++n) {
    order_.emplace_back(n);
  }
  const auto fill = [&](lists& to_fill, auto owner, auto other) {
    to_fill.first.assign(nodes + 2, 0);
    to_fill.nodes.resize(edges.size());
    for (const auto& e : edges) {
      UNITY_EXPECTS(e.first < e.second && e.second.index() < nodes, "edges of ascending nodes");
      ++to_fill.first[(e.*owner).index() + std::size_t{2}];
    }
    std::partial_sum(to_fill.first.begin(), to_fill.first.end(), to_fill.first.begin());
    for (const auto& e : edges) {
      to_fill.nodes[to_fill.first[(e.*owner).index() + std::size_t{1}]++] = e.*other;
    }
    to_fill.first.pop_back();
  };
  using edge = std::pair<node_id, node_id>;
  fill(predecessors_, &edge::second, &edge::first);
  fill(successors_, &edge::first, &edge::second);
}

// The ends of paths through a graph. An algorithm with terminals only considers paths from a source to a sink, so
// leaving the weights out of the sources ignores them.
struct terminals {
  std::vector<node_id> sources;
  std::vector<node_id> sinks;

  friend bool operator==(const terminals&, const terminals&) = default;
};

// Sources: the nodes without operands. Sinks: the producers of outputs, and the nodes that nothing reads.
// Ascending, each once. Complexity: O(N + E).
template <dataflow_graph G>
[[nodiscard]] terminals find_terminals(const G& g) {
  const std::size_t nodes = graph_traits<G>::node_count(g);
  std::vector<char> is_source(nodes, 1);
  std::vector<char> is_sink(nodes, 1);
  for (std::size_t n = 0; n < nodes; ++n) {
    for (const value_id v : graph_traits<G>::operands(g, node_id{n})) {
      is_source[n] = 0;
      is_sink[graph_traits<G>::producer(g, v).index()] = 0;
    }
  }
  for (const value_id v : graph_traits<G>::outputs(g)) {
    is_sink[graph_traits<G>::producer(g, v).index()] = 1;
  }
  terminals found;
  for (std::size_t n = 0; n < nodes; ++n) {
    if (is_source[n] != 0) {
      found.sources.emplace_back(n);
    }
    if (is_sink[n] != 0) {
      found.sinks.emplace_back(n);
    }
  }
  return found;
}

}  // namespace unity
