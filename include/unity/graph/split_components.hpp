// The parts of a two-terminal graph that hang on two points only. Used by series-parallel decomposition.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace unity::detail {

// Points that reach the rest of the graph only through the two points a < b.
struct split_component {
  std::uint32_t a;
  std::uint32_t b;
  std::vector<std::uint32_t> interior;
};

// Depth-first search for the points that separate a graph from which one point has been taken.
class split_search {
 public:
  using point = std::uint32_t;
  using link = std::pair<point, point>;

  split_search(std::size_t points, std::span<const link> links);

  // The maximal split components that hold neither terminal; see maximal_split_components.
  [[nodiscard]] std::vector<split_component> find();

 private:
  // The subtree of `inside` is cut off when the two points a < b are taken away.
  struct candidate {
    std::uint32_t size;
    point a;
    point b;
    point inside;
  };

  void search_without(point taken);
  void enter(point p, point parent);
  void leave(point p, point taken);
  [[nodiscard]] std::vector<point> collect(const candidate& c, std::vector<char>& owned) const;

  std::size_t points_;
  std::vector<std::uint32_t> first_;
  std::vector<point> neighbours_;
  std::vector<candidate> candidates_{};
  // Of one search: when a point was met (from 1; 0 before), the earliest point its subtree is linked to, ...
  std::vector<std::uint32_t> met_{};
  std::vector<std::uint32_t> low_{};
  std::vector<std::uint32_t> size_{};
  std::vector<std::uint32_t> next_{};
  std::vector<point> parent_{};
  std::vector<point> path_{};
  std::uint32_t clock_ = 0;
};

inline split_search::split_search(std::size_t points, std::span<const link> links)
    : points_{points}, first_(points + 2, 0), neighbours_(2 * (links.size() + 1)) {
  // The terminals are linked from outside: through that link they stay together.
  const link outside{0, static_cast<point>(points - 1)};
  const auto for_each_end = [&](auto&& visit) {
    visit(outside.first, outside.second);
    visit(outside.second, outside.first);
    for (const auto& [from, to] : links) {
      visit(from, to);
      visit(to, from);
    }
  };
  for_each_end([&](point from, point) { ++first_[from + std::size_t{2}]; });
  for (std::size_t i = 1; i < first_.size(); ++i) {
    first_[i] += first_[i - 1];
  }
  for_each_end([&](point from, point to) { neighbours_[first_[from + std::size_t{1}]++] = to; });
  first_.pop_back();
}

inline std::vector<split_component> split_search::find() {
  for (point p = 0; p < points_; ++p) {
    search_without(p);
  }
  // The largest first: what overlaps one already taken lies within it.
  std::ranges::sort(candidates_, [](const candidate& x, const candidate& y) {
    return std::tie(y.size, x.a, x.b, x.inside) < std::tie(x.size, y.a, y.b, y.inside);
  });
  std::vector<split_component> found;
  std::vector<char> owned(points_, 0);
  for (const auto& c : candidates_) {
    if (owned[c.inside] == 0) {
      found.push_back({c.a, c.b, collect(c, owned)});
    }
  }
  return found;
}

inline void split_search::search_without(point taken) {
  met_.assign(points_, 0);
  low_.assign(points_, 0);
  size_.assign(points_, 0);
  parent_.assign(points_, 0);
  next_ = first_;
  clock_ = 0;
  const point root = taken == 0 ? static_cast<point>(points_ - 1) : 0;
  enter(root, root);
  while (!path_.empty()) {
    const point p = path_.back();
    if (next_[p] == first_[p + std::size_t{1}]) {
      leave(p, taken);
      continue;
    }
    const point q = neighbours_[next_[p]++];
    if (q == taken || q == parent_[p]) {
      continue;
    }
    if (met_[q] == 0) {
      enter(q, p);
    } else {
      low_[p] = std::min(low_[p], met_[q]);
    }
  }
}

inline void split_search::enter(point p, point parent) {
  parent_[p] = parent;
  met_[p] = low_[p] = ++clock_;
  size_[p] = 1;
  path_.push_back(p);
}

inline void split_search::leave(point p, point taken) {
  path_.pop_back();
  if (path_.empty()) {
    return;
  }
  const point above = parent_[p];
  low_[above] = std::min(low_[above], low_[p]);
  size_[above] += size_[p];
  const auto last = static_cast<point>(points_ - 1);
  const bool is_root = path_.size() == 1;
  bool cut_off = low_[p] >= met_[above];
  if (is_root) {
    // The root is one terminal. Below it, only what does not hold the other is cut off.
    const bool holds_other = met_[last] >= met_[p] && met_[last] < met_[p] + size_[p];
    cut_off = taken != 0 && taken != last && !holds_other;
  }
  if (cut_off) {
    candidates_.push_back({size_[p], std::min(above, taken), std::max(above, taken), p});
  }
}

inline std::vector<split_search::point> split_search::collect(const candidate& c, std::vector<char>& owned) const {
  std::vector<point> interior{c.inside};
  owned[c.inside] = 1;
  for (std::size_t i = 0; i < interior.size(); ++i) {
    for (auto n = first_[interior[i]]; n < first_[interior[i] + std::size_t{1}]; ++n) {
      const point q = neighbours_[n];
      if (q != c.a && q != c.b && owned[q] == 0) {
        owned[q] = 1;
        interior.push_back(q);
      }
    }
  }
  return interior;
}

// The largest sets of points of a graph, given as links between points 0 .. points-1, that two points cut off from the
// terminals 0 and points-1. Expects a graph that no single point and not the two terminals together cut in two, once
// the terminals are linked; then these sets do not overlap.
// Complexity: O(points * (points + links)).
[[nodiscard]] inline std::vector<split_component> maximal_split_components(std::size_t points,
                                                                          std::span<const split_search::link> links) {
  return split_search{points, links}.find();
}

}  // namespace unity::detail
