// The parts of a two-terminal graph that are connected to the rest at two points only. Used by series-parallel
// decomposition.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/digraph.hpp>
#include <unity/graph/dominators.hpp>

namespace unity::detail {

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
  // The points between a and b are entered through a only. Unless they begin with a single point, links that diverge at
  // a meet within them, and a is the immediate dominator there.
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
