// Which nodes lie on every path to a node (dominators) or from it (post-dominators).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/graph/digraph.hpp>

namespace unity {

// A tree over the nodes that a set of roots reaches, below a virtual root above them all: a node's parent is
// the nearest other node on every path from a root to it. Regular.
// Complexity: building O(E log N) time, O(N) space; queries O(log N) or constant.
class dominator_tree {
 public:
  enum class direction : std::uint8_t { forward, backward };

  dominator_tree() = default;
  // Forward: paths run from the roots along the edges (dominators). Backward: against them (post-dominators).
  dominator_tree(const digraph& graph, std::span<const node_id> roots, direction way);

  [[nodiscard]] bool reached(node_id n) const { return depth_[checked(n)] > 0; }
  // The nearest node other than n on every path from a root to n; null if there is none.
  [[nodiscard]] node_id immediate(node_id n) const { return public_id(parent_[checked(n)]); }
  // The number of nodes on every path from a root to n, n included; 0 if no root reaches n.
  [[nodiscard]] std::size_t depth(node_id n) const { return depth_[checked(n)]; }
  // Whether a lies on every path from a root to b, as b itself does; false if no root reaches b.
  [[nodiscard]] bool dominates(node_id a, node_id b) const;
  // The nearest node that dominates both; null if there is none. Expects nodes that are reached.
  [[nodiscard]] node_id nearest_common(node_id a, node_id b) const;

  friend bool operator==(const dominator_tree&, const dominator_tree&) = default;

 private:
  using index = std::uint32_t;

  [[nodiscard]] std::size_t checked(node_id n) const {
    UNITY_EXPECTS(n.index() + std::size_t{1} < depth_.size(), "a node of the graph");
    return n.index();
  }
  [[nodiscard]] index virtual_root() const noexcept { return static_cast<index>(depth_.size() - 1); }
  [[nodiscard]] node_id public_id(index i) const noexcept { return i == virtual_root() ? node_id{} : node_id{i}; }
  [[nodiscard]] index climb(index i, index depth) const;
  [[nodiscard]] index common(index a, index b) const;
  void hang(index n, index parent);

  std::vector<index> parent_;
  // An ancestor some way up, chosen so that any ancestor is O(log N) steps away.
  // Source: Myers, An applicative random-access stack, Information Processing Letters 17 (1983).
  std::vector<index> jump_;
  std::vector<index> depth_;
};

inline dominator_tree::dominator_tree(const digraph& graph, std::span<const node_id> roots, direction way)
    : parent_(graph.node_count() + 1, static_cast<index>(graph.node_count())),
      jump_(parent_),
      depth_(graph.node_count() + 1, 0) {
  std::vector<char> is_root(graph.node_count(), 0);
  for (const node_id r : roots) {
    is_root[checked(r)] = 1;
  }
  const auto order = graph.order();
  for (std::size_t i = 0; i < order.size(); ++i) {
    const node_id n = way == direction::forward ? order[i] : order[order.size() - 1 - i];
    bool any = is_root[n.index()] != 0;
    index parent = any ? virtual_root() : n.index();
    for (const node_id p : way == direction::forward ? graph.predecessors(n) : graph.successors(n)) {
      if (depth_[p.index()] > 0) {
        parent = any ? common(parent, p.index()) : p.index();
        any = true;
      }
    }
    if (any) {
      hang(n.index(), parent);
    }
  }
}

inline void dominator_tree::hang(index n, index parent) {
  const index far = jump_[parent];
  const bool even = depth_[parent] - depth_[far] == depth_[far] - depth_[jump_[far]];
  parent_[n] = parent;
  jump_[n] = even ? jump_[far] : parent;
  depth_[n] = depth_[parent] + 1;
}

inline dominator_tree::index dominator_tree::climb(index i, index depth) const {
  while (depth_[i] > depth) {
    i = depth_[jump_[i]] >= depth ? jump_[i] : parent_[i];
  }
  return i;
}

inline dominator_tree::index dominator_tree::common(index a, index b) const {
  a = climb(a, depth_[b]);
  b = climb(b, depth_[a]);
  while (a != b) {
    const bool far = jump_[a] != jump_[b];
    a = far ? jump_[a] : parent_[a];
    b = far ? jump_[b] : parent_[b];
  }
  return a;
}

inline bool dominator_tree::dominates(node_id a, node_id b) const {
  return reached(a) && reached(b) && climb(b.index(), depth_[a.index()]) == a.index();
}

inline node_id dominator_tree::nearest_common(node_id a, node_id b) const {
  UNITY_EXPECTS(reached(a) && reached(b), "nodes that a root reaches");
  return public_id(common(a.index(), b.index()));
}

// The dominators of an acyclic graph: over paths from the given sources, or from its nodes without operands.
template <dataflow_graph G>
[[nodiscard]] dominator_tree dominators(const G& g, std::span<const node_id> sources) {
  return {digraph{g}, sources, dominator_tree::direction::forward};
}
template <dataflow_graph G>
[[nodiscard]] dominator_tree dominators(const G& g) {
  return dominators(g, find_terminals(g).sources);
}

// The post-dominators: over paths to the given sinks, or to those of find_terminals.
template <dataflow_graph G>
[[nodiscard]] dominator_tree post_dominators(const G& g, std::span<const node_id> sinks) {
  return {digraph{g}, sinks, dominator_tree::direction::backward};
}
template <dataflow_graph G>
[[nodiscard]] dominator_tree post_dominators(const G& g) {
  return post_dominators(g, find_terminals(g).sinks);
}

}  // namespace unity
