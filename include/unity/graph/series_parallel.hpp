// The nested series-parallel structure of a graph, and its irreducible cores: reductions first, then a split of the
// remainder.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <unordered_map>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/graph/digraph.hpp>
#include <unity/graph/series_parallel_tree.hpp>

namespace unity::detail {

// A series-parallel tree under construction.

// The parts so far. Children are linked lists, so that composing two parts takes constant time.
class part_drafts {
 public:
  using index = std::uint32_t;

  [[nodiscard]] index wire() { return add(part_kind::wire); }
  [[nodiscard]] index node(node_id n) {
    const index i = add(part_kind::node);
    drafts_[i].part.node = n;
    return i;
  }
  // A wire in series with something adds nothing.
  [[nodiscard]] index series(index a, index b) {
    if (drafts_[a].part.kind == part_kind::wire) {
      return b;
    }
    return drafts_[b].part.kind == part_kind::wire ? a : compose(part_kind::series, a, b);
  }
  [[nodiscard]] index parallel(index a, index b) {
    const bool both_wires = drafts_[a].part.kind == part_kind::wire && drafts_[b].part.kind == part_kind::wire;
    return both_wires ? a : compose(part_kind::parallel, a, b);
  }
  [[nodiscard]] index core() { return add(part_kind::core); }
  void add_to_core(index core, index child, path_point from, path_point to) {
    drafts_[child].part.from = from;
    drafts_[child].part.to = to;
    append(core, child);
  }

  [[nodiscard]] series_parallel_tree finish(index root) const;

 private:
  static constexpr index none = std::numeric_limits<index>::max();

  struct draft {
    series_parallel_part part;
    index first = none;
    index last = none;
    index next = none;  // of the same parent
  };
  // A finished child and its sort key among its siblings.
  struct finished {
    std::array<std::uint32_t, 3> key;
    series_parallel_tree::part_index number;
  };

  index add(part_kind kind) {
    drafts_.push_back({});
    drafts_.back().part.kind = kind;
    return static_cast<index>(drafts_.size() - 1);
  }
  void append(index parent, index child) {
    if (drafts_[parent].first == none) {
      drafts_[parent].first = child;
    } else {
      drafts_[drafts_[parent].last].next = child;
    }
    drafts_[parent].last = child;
  }
  index compose(part_kind kind, index a, index b);
  [[nodiscard]] finished emit(const draft& d, std::vector<finished>& children, series_parallel_tree& tree) const;

  std::vector<draft> drafts_;
};

// A part of the same kind passes its children to the composition instead of becoming a child.
inline part_drafts::index part_drafts::compose(part_kind kind, index a, index b) {
  const bool into_a = drafts_[a].part.kind == kind;
  const index whole = into_a ? a : add(kind);
  if (!into_a) {
    drafts_[whole].first = drafts_[whole].last = a;
  }
  const bool open_b = drafts_[b].part.kind == kind;
  drafts_[drafts_[whole].last].next = open_b ? drafts_[b].first : b;
  drafts_[whole].last = open_b ? drafts_[b].last : b;
  return whole;
}

inline series_parallel_tree part_drafts::finish(index root) const {
  // Depth-first with explicit stacks: nesting can be as deep as the graph is large.
  struct frame {
    index draft;
    index child;
    std::size_t results;
  };
  series_parallel_tree tree;
  std::vector<frame> open{{root, drafts_[root].first, 0}};
  std::vector<finished> results;
  while (!open.empty()) {
    auto& top = open.back();
    if (top.child != none) {
      const index child = top.child;
      top.child = drafts_[child].next;
      open.push_back({child, drafts_[child].first, results.size()});
      continue;
    }
    std::vector<finished> children(results.begin() + static_cast<std::ptrdiff_t>(top.results), results.end());
    results.resize(top.results);
    results.push_back(emit(drafts_[top.draft], children, tree));
    open.pop_back();
  }
  return tree;
}

inline part_drafts::finished part_drafts::emit(const draft& d, std::vector<finished>& children,
                                               series_parallel_tree& tree) const {
  std::uint32_t smallest = d.part.kind == part_kind::node ? d.part.node.index() : none;
  for (const auto& child : children) {
    smallest = std::min(smallest, child.key.back());
  }
  if (d.part.kind == part_kind::parallel || d.part.kind == part_kind::core) {
    std::ranges::sort(children, {}, &finished::key);
  }
  std::vector<series_parallel_tree::part_index> numbers;
  for (const auto& child : children) {
    numbers.push_back(child.number);
  }
  return {{d.part.from, d.part.to, smallest}, tree.append(d.part, numbers)};
}

class series_parallel_builder {
 public:
  series_parallel_builder(const digraph& graph, const terminals& ends);

  [[nodiscard]] series_parallel_tree build();

 private:
  using branch_index = std::uint32_t;
  static constexpr branch_index none = static_cast<branch_index>(-1);

  // One edge between two points, which represents everything between them.
  struct branch {
    path_point from;
    path_point to;
    part_drafts::index part;
    branch_index next_out;  // of `from`
    branch_index next_in;   // of `to`
    bool live = true;
  };
  // The live branches at a point are found by iterating over all that ever existed.
  struct branch_list {
    std::uint32_t live = 0;
    branch_index newest = none;
  };

  static std::uint64_t key(path_point from, path_point to) { return (std::uint64_t{from} << 32U) | to; }
  [[nodiscard]] path_point start() const { return static_cast<path_point>(rank_.size() - 2); }
  [[nodiscard]] path_point finish() const { return static_cast<path_point>(rank_.size() - 1); }
  [[nodiscard]] branch_index first_out(path_point p) const;
  [[nodiscard]] branch_index first_in(path_point p) const;

  void join(path_point from, path_point to, part_drafts::index part);
  void take(branch_index b);
  void consider(path_point p);
  void reduce();

  [[nodiscard]] std::vector<std::vector<branch_index>> sections() const;
  void contract(const std::vector<branch_index>& section);
  void contract(path_point from, path_point to, const std::vector<path_point>& inner);
  void move_to_core(branch_index b, part_drafts::index core);

  part_drafts drafts_;
  std::vector<branch> branches_;
  std::unordered_map<std::uint64_t, branch_index> between_;  // live branches by their ends; never iterated
  std::vector<std::uint32_t> rank_;                          // by point: its position in topological order
  std::vector<branch_list> out_;
  std::vector<branch_list> in_;
  std::vector<path_point> ready_;
};

// The nodes on a path from a source to a sink.
inline std::vector<char> nodes_on_paths(const digraph& graph, const terminals& ends) {
  std::vector<char> from_source(graph.node_count(), 0);
  std::vector<char> to_sink(graph.node_count(), 0);
  for (const node_id n : ends.sources) {
    from_source[n.index()] = 1;
  }
  for (const node_id n : ends.sinks) {
    to_sink[n.index()] = 1;
  }
  const auto order = graph.order();
  for (const node_id n : order) {
    for (const node_id p : graph.predecessors(n)) {
      from_source[n.index()] |= from_source[p.index()];
    }
  }
  for (std::size_t i = order.size(); i-- > 0;) {
    for (const node_id s : graph.successors(order[i])) {
      to_sink[order[i].index()] |= to_sink[s.index()];
    }
  }
  for (std::size_t n = 0; n < from_source.size(); ++n) {
    from_source[n] &= to_sink[n];
  }
  return from_source;
}

inline series_parallel_builder::series_parallel_builder(const digraph& graph, const terminals& ends)
    : rank_(2 * graph.node_count() + 2, 0), out_(rank_.size()), in_(rank_.size()) {
  const auto on_path = nodes_on_paths(graph, ends);
  std::uint32_t rank = 0;
  for (const node_id n : graph.order()) {
    const path_point before = 2 * n.index();
    rank_[before] = ++rank;
    rank_[before + 1] = ++rank;
    if (on_path[n.index()] != 0) {
      join(before, before + 1, drafts_.node(n));
      for (const node_id p : graph.predecessors(n)) {
        if (on_path[p.index()] != 0) {
          join(2 * p.index() + 1, before, drafts_.wire());
        }
      }
    }
  }
  rank_[finish()] = ++rank;
  for (const node_id n : ends.sources) {
    if (on_path[n.index()] != 0) {
      join(start(), 2 * n.index(), drafts_.wire());
    }
  }
  for (const node_id n : ends.sinks) {
    if (on_path[n.index()] != 0) {
      join(2 * n.index() + 1, finish(), drafts_.wire());
    }
  }
}

inline series_parallel_tree series_parallel_builder::build() {
  if (branches_.empty()) {
    return drafts_.finish(drafts_.wire());
  }
  for (path_point p = 0; p < rank_.size(); ++p) {
    consider(p);
  }
  reduce();
  for (const auto& section : sections()) {
    contract(section);
  }
  return drafts_.finish(branches_[between_.at(key(start(), finish()))].part);
}

inline series_parallel_builder::branch_index series_parallel_builder::first_out(path_point p) const {
  auto b = out_[p].newest;
  while (b != none && !branches_[b].live) {
    b = branches_[b].next_out;
  }
  return b;
}

inline series_parallel_builder::branch_index series_parallel_builder::first_in(path_point p) const {
  auto b = in_[p].newest;
  while (b != none && !branches_[b].live) {
    b = branches_[b].next_in;
  }
  return b;
}

// Adds a branch, or composes it in parallel with the one that already connects these points.
inline void series_parallel_builder::join(path_point from, path_point to, part_drafts::index part) {
  const auto next = static_cast<branch_index>(branches_.size());
  const auto [place, inserted] = between_.try_emplace(key(from, to), next);
  if (!inserted) {
    auto& other = branches_[place->second];
    other.part = drafts_.parallel(other.part, part);
    return;
  }
  branches_.push_back({from, to, part, out_[from].newest, in_[to].newest});
  out_[from] = {out_[from].live + 1, next};
  in_[to] = {in_[to].live + 1, next};
}

inline void series_parallel_builder::take(branch_index b) {
  auto& taken = branches_[b];
  taken.live = false;
  between_.erase(key(taken.from, taken.to));
  --out_[taken.from].live;
  --in_[taken.to].live;
}

inline void series_parallel_builder::consider(path_point p) {
  if (in_[p].live == 1 && out_[p].live == 1) {
    ready_.push_back(p);
  }
}

// Applies series and parallel reductions at the queued points until none is left. Terminals have no branch on one side.
inline void series_parallel_builder::reduce() {
  while (!ready_.empty()) {
    const path_point p = ready_.back();
    ready_.pop_back();
    if (in_[p].live != 1 || out_[p].live != 1) {
      continue;
    }
    const branch before = branches_[first_in(p)];
    const branch after = branches_[first_out(p)];
    take(first_in(p));
    take(first_out(p));
    join(before.from, after.to, drafts_.series(before.part, after.part));
    consider(before.from);
    consider(after.to);
  }
}

// The live branches, split where all paths meet: each section is a two-terminal graph. Sections of one branch are
// omitted, and so are the points of the terminals, which its branches contain.
inline std::vector<std::vector<series_parallel_builder::branch_index>> series_parallel_builder::sections() const {
  std::vector<branch_index> live;
  for (branch_index b = 0; b < branches_.size(); ++b) {
    if (branches_[b].live) {
      live.push_back(b);
    }
  }
  std::ranges::sort(live, {}, [this](branch_index b) {
    return std::pair{rank_[branches_[b].from], rank_[branches_[b].to]};
  });
  std::vector<std::vector<branch_index>> found;
  std::uint32_t reach = 0;
  for (const branch_index b : live) {
    if (rank_[branches_[b].from] >= reach) {
      found.emplace_back();
    }
    found.back().push_back(b);
    reach = std::max(reach, rank_[branches_[b].to]);
  }
  std::erase_if(found, [](const auto& section) { return section.size() == 1; });
  return found;
}

// Reduces a section to one branch, from the inside: the part that two points cut off is contracted before its
// surroundings.
inline void series_parallel_builder::contract(const std::vector<branch_index>& section) {
  std::vector<path_point> points;
  for (const auto b : section) {
    points.push_back(branches_[b].from);
    points.push_back(branches_[b].to);
  }
  const auto by_rank = [this](path_point p) { return rank_[p]; };
  std::ranges::sort(points, {}, by_rank);
  points.erase(std::ranges::unique(points).begin(), points.end());
  const auto local = [&](path_point p) {
    return node_id{static_cast<std::size_t>(std::ranges::lower_bound(points, rank_[p], {}, by_rank) - points.begin())};
  };
  std::vector<split_search::link> links;
  for (const auto b : section) {
    links.emplace_back(local(branches_[b].from), local(branches_[b].to));
  }
  for (const auto& component : split_components(points.size(), links)) {
    std::vector<path_point> inner;
    for (const auto p : component.inner) {
      if (out_[points[p]].live > 0) {
        inner.push_back(points[p]);
      }
    }
    // Nothing is left if all of it was nested.
    if (!inner.empty()) {
      contract(points[component.a], points[component.b], inner);
    }
  }
}

// Makes a core of the inner points and all their branches.
inline void series_parallel_builder::contract(path_point from, path_point to, const std::vector<path_point>& inner) {
  const auto core = drafts_.core();
  for (const path_point p : inner) {
    for (auto b = in_[p].newest; b != none; b = branches_[b].next_in) {
      move_to_core(b, core);
    }
    for (auto b = out_[p].newest; b != none; b = branches_[b].next_out) {
      move_to_core(b, core);
    }
  }
  join(from, to, core);
  consider(from);
  consider(to);
  reduce();
}

inline void series_parallel_builder::move_to_core(branch_index b, part_drafts::index core) {
  if (branches_[b].live) {
    take(b);
    drafts_.add_to_core(core, branches_[b].part, branches_[b].from, branches_[b].to);
  }
}

}  // namespace unity::detail

namespace unity {

// Decomposes the part of a graph that is on paths from a source to a sink. All sources are connected to one virtual
// start and all sinks to one virtual finish; several uses between the same two nodes count as one wire.
// Without terminals: those of find_terminals. Expects an acyclic graph.
// Complexity: O((N + E) log N) if the graph is series-parallel. Otherwise each stretch of m edges between nodes that
// every path passes adds O(d * m), for d points there at which branches of a core diverge.
// Source: the reductions of Valdes, Tarjan and Lawler, STOC'79; cores are the rigid components of Hopcroft and Tarjan's
// decomposition, Dividing a graph into triconnected components, SIAM J. Computing 2 (1973).
[[nodiscard]] inline series_parallel_tree decompose_series_parallel(const digraph& g, const terminals& ends) {
  return detail::series_parallel_builder{g, ends}.build();
}
template <dataflow_graph G>
[[nodiscard]] series_parallel_tree decompose_series_parallel(const G& g, const terminals& ends) {
  return decompose_series_parallel(digraph{g}, ends);
}
template <dataflow_graph G>
[[nodiscard]] series_parallel_tree decompose_series_parallel(const G& g) {
  return decompose_series_parallel(g, find_terminals(g));
}

// Whether the graph between its terminals consists of single nodes under series and parallel composition only.
template <dataflow_graph G>
[[nodiscard]] bool is_series_parallel(const G& g) {
  return decompose_series_parallel(g).is_series_parallel();
}

}  // namespace unity
