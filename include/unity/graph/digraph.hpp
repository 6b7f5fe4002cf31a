// The structure of a dataflow graph without operators and values, for algorithms that need no more.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/graph/topological_order.hpp>

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

// Which nodes lie on every path to a node (dominators) or from it (post-dominators).

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

namespace unity::detail {

// The parts of a two-terminal graph that are connected to the rest at two points only. Used by series-parallel
// decomposition.

// Points that are connected to the rest of the graph only through the two points a < b.
struct split_component {
  std::uint32_t a;
  std::uint32_t b;
  std::uint32_t size;                // number of its points
  std::vector<std::uint32_t> inner;  // its points, without those of smaller components with the same a
};

// Depth-first searches for the points that, with one other point removed, separate a graph whose terminals are linked.
// Source: Hopcroft and Tarjan, Algorithm 447: efficient algorithms for graph manipulation, CACM 16 (1973).
class split_search {
 public:
  using point = std::uint32_t;
  using link = std::pair<node_id, node_id>;

  split_search(std::size_t points, std::span<const link> links);

  // Effects: finds the components whose first point a is `taken`.
  void search_without(point taken);
  // The components found, smaller ones first.
  [[nodiscard]] std::vector<split_component> finish();

 private:
  [[nodiscard]] point last() const { return static_cast<point>(points_ - 1); }
  void enter(point p, point parent);
  void leave(point p, point taken);
  void cut_off(point p, point taken, point above);

  std::size_t points_;
  std::vector<std::uint32_t> first_;
  std::vector<point> neighbours_;
  std::vector<split_component> found_{};
  // State of one search, by point:
  std::vector<std::uint32_t> met_{};      // discovery time, from 1; 0: not yet discovered
  std::vector<std::uint32_t> low_{};      // discovery time of the earliest point that its subtree is linked to
  std::vector<std::uint32_t> size_{};     // of its subtree
  std::vector<std::uint32_t> ways_{};     // links from the taken point into its subtree
  std::vector<std::uint32_t> covered_{};  // the most such links into one component found in its subtree
  std::vector<std::uint32_t> height_{};   // size of left_ at its discovery
  std::vector<std::uint32_t> next_{};     // the neighbour to try next
  std::vector<point> parent_{};
  std::vector<point> path_{};  // the points being visited
  std::vector<point> left_{};  // visited points that are in no component yet
  std::uint32_t clock_ = 0;
};

inline split_search::split_search(std::size_t points, std::span<const link> links)
    : points_{points}, first_(points + 2, 0), neighbours_(2 * (links.size() + 1)) {
  const auto for_each_end = [&](auto&& visit) {
    visit(point{0}, last());
    visit(last(), point{0});
    for (const auto& [from, to] : links) {
      visit(from.index(), to.index());
      visit(to.index(), from.index());
    }
  };
  for_each_end([&](point from, point) { ++first_[from + std::size_t{2}]; });
  for (std::size_t i = 1; i < first_.size(); ++i) {
    first_[i] += first_[i - 1];
  }
  for_each_end([&](point from, point to) { neighbours_[first_[from + std::size_t{1}]++] = to; });
  first_.pop_back();
}

inline void split_search::search_without(point taken) {
  for (auto* of_point : {&met_, &low_, &size_, &ways_, &covered_, &height_, &parent_}) {
    of_point->assign(points_, 0);
  }
  next_ = first_;
  left_.clear();
  clock_ = 0;
  const point root = taken == 0 ? last() : 0;
  enter(root, root);
  while (!path_.empty()) {
    const point p = path_.back();
    if (next_[p] == first_[p + std::size_t{1}]) {
      leave(p, taken);
      continue;
    }
    const point q = neighbours_[next_[p]++];
    if (q == taken) {
      ++ways_[p];
    } else if (met_[q] == 0) {
      enter(q, p);
    } else if (q != parent_[p]) {
      low_[p] = std::min(low_[p], met_[q]);
    }
  }
}

inline void split_search::enter(point p, point parent) {
  parent_[p] = parent;
  met_[p] = low_[p] = ++clock_;
  size_[p] = 1;
  height_[p] = static_cast<std::uint32_t>(left_.size());
  path_.push_back(p);
}

inline void split_search::leave(point p, point taken) {
  path_.pop_back();
  left_.push_back(p);
  if (path_.empty()) {
    return;
  }
  const point above = parent_[p];
  if (low_[p] >= met_[above] && taken < above) {
    cut_off(p, taken, above);
  }
  low_[above] = std::min(low_[above], low_[p]);
  size_[above] += size_[p];
  ways_[above] += ways_[p];
  covered_[above] = std::max(covered_[above], covered_[p]);
}

// The subtree of p is a component. If all links into it lead into one already found, it only extends that one.
inline void split_search::cut_off(point p, point taken, point above) {
  if (covered_[p] < ways_[p]) {
    covered_[p] = ways_[p];
    const auto begin = left_.begin() + height_[p];
    found_.push_back({taken, above, size_[p], {begin, left_.end()}});
    left_.erase(begin, left_.end());
  }
}

inline std::vector<split_component> split_search::finish() {
  std::ranges::sort(found_, [](const split_component& x, const split_component& y) {
    return std::tie(x.size, x.a, x.b, x.inner) < std::tie(y.size, y.a, y.b, y.inner);
  });
  return std::move(found_);
}

// The sets of points that two points a < b cut off from the rest of an acyclic graph, whose terminals 0 and points-1
// are linked from outside; smaller ones first. Points are numbered in topological order, and each is on a path from 0
// to points-1. Sets that are series compositions of others may be omitted; the last set is all points but the
// terminals, or the rest of them besides branches that are separate sets.
// Complexity: O(d * (points + links)) for d points that are the immediate dominator of a point where paths meet.
[[nodiscard]] inline std::vector<split_component> split_components(std::size_t points,
                                                                   std::span<const split_search::link> links) {
  const digraph graph{points, links};
  const node_id start{0U};
  const dominator_tree tree{graph, std::span{&start, 1}, dominator_tree::direction::forward};
  // All links into the points between a and b come from a. So either these begin with a single point, or two paths from
  // a meet at one of them, and a is the immediate dominator of that point.
  std::vector<char> parts(points, 0);
  for (std::size_t p = 1; p + 1 < points; ++p) {
    if (graph.predecessors(node_id{p}).size() > 1) {
      parts[tree.immediate(node_id{p}).index()] = 1;
    }
  }
  split_search search{points, links};
  for (std::uint32_t p = 0; p < points; ++p) {
    if (parts[p] != 0) {
      search.search_without(p);
    }
  }
  return search.finish();
}

}  // namespace unity::detail
