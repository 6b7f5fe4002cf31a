// A stretch of a graph between two points, for series_parallel_reduction.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include <unity/graph/series_parallel_drafts.hpp>
#include <unity/graph/series_parallel_tree.hpp>

namespace unity::detail {

// One edge between two points, standing for all that lies between them.
struct branch {
  path_point from;
  path_point to;
  part_drafts::index part;
};

// Branches between local points, numbered in topological order: the first and the last are the terminals.
struct path_section {
  std::vector<path_point> points;
  std::vector<branch> branches;
};

// rank[p] is the place of point p in topological order. Expects branches that form a two-terminal graph.
[[nodiscard]] inline path_section make_section(std::vector<branch> branches, std::span<const std::uint32_t> rank) {
  path_section made;
  for (const auto& b : branches) {
    made.points.push_back(b.from);
    made.points.push_back(b.to);
  }
  const auto by_rank = [rank](path_point p) { return rank[p]; };
  std::ranges::sort(made.points, {}, by_rank);
  made.points.erase(std::ranges::unique(made.points).begin(), made.points.end());
  const auto local = [&](path_point p) {
    const auto place = std::ranges::lower_bound(made.points, rank[p], {}, by_rank);
    return static_cast<path_point>(place - made.points.begin());
  };
  for (auto& b : branches) {
    b.from = local(b.from);
    b.to = local(b.to);
  }
  made.branches = std::move(branches);
  return made;
}

// The inner points that no branch passes by, ascending: every path meets them.
[[nodiscard]] inline std::vector<std::uint32_t> sequence_points(const path_section& whole) {
  std::vector<std::uint32_t> furthest(whole.points.size(), 0);
  for (const auto& b : whole.branches) {
    furthest[b.from] = std::max(furthest[b.from], b.to);
  }
  std::vector<std::uint32_t> cuts;
  std::uint32_t reach = furthest.front();
  for (std::uint32_t p = 1; p + 1 < whole.points.size(); ++p) {
    if (reach <= p) {
      cuts.push_back(p);
    }
    reach = std::max(reach, furthest[p]);
  }
  return cuts;
}

// For each branch a number that it shares with those it meets at an inner point; one between the terminals
// has its own.
[[nodiscard]] inline std::vector<std::uint32_t> parallel_groups(const path_section& whole) {
  std::vector<std::uint32_t> leader(whole.points.size());
  std::iota(leader.begin(), leader.end(), 0U);
  const auto find = [&](std::uint32_t p) {
    while (leader[p] != p) {
      p = leader[p] = leader[leader[p]];
    }
    return p;
  };
  const auto last = static_cast<std::uint32_t>(whole.points.size() - 1);
  for (const auto& b : whole.branches) {
    if (b.from != 0 && b.to != last) {
      leader[find(b.to)] = find(b.from);
    }
  }
  std::vector<std::uint32_t> group;
  for (const auto& b : whole.branches) {
    group.push_back(find(b.from != 0 ? b.from : b.to));
  }
  return group;
}

}  // namespace unity::detail
