// Which nodes depend on which, for every pair at once.
#pragma once

#include <cstddef>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/graph/node_set.hpp>
#include <unity/graph/topological_order.hpp>

namespace unity {

// The ancestors and descendants of every node as rows of bits. A node is neither its own ancestor nor its own
// descendant. Regular; a snapshot that does not follow later changes of the graph.
// Complexity: building O(E * N / 64) time and N^2 / 4 bytes; depends() is constant.
class reachability {
 public:
  using word = node_set_view::word;

  reachability() = default;
  template <dataflow_graph G>
  explicit reachability(const G& g) {
    assign(g);
  }

  // Effects: as reachability{g}, reusing the storage. Expects an acyclic graph.
  template <dataflow_graph G>
  void assign(const G& g);

  // Whether there is a path from b to a, of at least one edge.
  [[nodiscard]] bool depends(node_id a, node_id b) const { return ancestors(a).contains(b); }
  // Whether the two can be on one path: a node with itself too.
  [[nodiscard]] bool comparable(node_id a, node_id b) const { return a == b || depends(a, b) || depends(b, a); }

  [[nodiscard]] node_set_view ancestors(node_id n) const { return row(ancestors_, n); }
  [[nodiscard]] node_set_view descendants(node_id n) const { return row(descendants_, n); }

  [[nodiscard]] std::size_t node_count() const noexcept { return nodes_; }

  friend bool operator==(const reachability&, const reachability&) = default;

 private:
  [[nodiscard]] node_set_view row(const std::vector<word>& rows, node_id n) const {
    UNITY_EXPECTS(n.index() < nodes_, "a node of the graph");
    return node_set_view{{rows.data() + n.index() * words_, words_}};
  }
  // Adds to row `to` node `n` and all that is in n's row.
  void extend(std::vector<word>& rows, node_id to, node_id n) const {
    const auto target = rows.data() + to.index() * words_;
    const auto source = rows.data() + n.index() * words_;
    for (std::size_t w = 0; w < words_; ++w) {
      target[w] |= source[w];
    }
    target[n.index() / 64] |= word{1} << (n.index() % 64);
  }

  std::size_t nodes_ = 0;
  std::size_t words_ = 0;
  std::vector<word> ancestors_;
  std::vector<word> descendants_;
};

template <dataflow_graph G>
void reachability::assign(const G& g) {
  const auto order = topological_order(g);
  UNITY_EXPECTS(order.has_value(), "an acyclic graph");
  nodes_ = graph_traits<G>::node_count(g);
  words_ = (nodes_ + 63) / 64;
  ancestors_.assign(nodes_ * words_, 0);
  descendants_.assign(nodes_ * words_, 0);
  for (std::size_t i = 0; i < nodes_; ++i) {
    for (const value_id v : graph_traits<G>::operands(g, (*order)[i])) {
      extend(ancestors_, (*order)[i], graph_traits<G>::producer(g, v));
    }
  }
  for (std::size_t i = nodes_; i-- > 0;) {
    for (const value_id v : graph_traits<G>::operands(g, (*order)[i])) {
      extend(descendants_, graph_traits<G>::producer(g, v), (*order)[i]);
    }
  }
}

// The nodes that no output depends on, ascending. Complexity: O(N + E).
template <dataflow_graph G>
[[nodiscard]] std::vector<node_id> dead_nodes(const G& g) {
  std::vector<char> live(graph_traits<G>::node_count(g), 0);
  std::vector<node_id> pending;
  const auto reach = [&](value_id v) {
    const node_id p = graph_traits<G>::producer(g, v);
    if (live[p.index()] == 0) {
      live[p.index()] = 1;
      pending.push_back(p);
    }
  };
  for (const value_id v : graph_traits<G>::outputs(g)) {
    reach(v);
  }
  while (!pending.empty()) {
    const node_id n = pending.back();
    pending.pop_back();
    for (const value_id v : graph_traits<G>::operands(g, n)) {
      reach(v);
    }
  }
  std::vector<node_id> dead;
  for (std::size_t n = 0; n < live.size(); ++n) {
    if (live[n] == 0) {
      dead.emplace_back(n);
    }
  }
  return dead;
}

}  // namespace unity
