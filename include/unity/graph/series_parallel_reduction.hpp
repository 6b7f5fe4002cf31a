// How series_parallel.hpp finds its tree: reductions first, then a split of what they leave.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/digraph.hpp>
#include <unity/graph/path_section.hpp>
#include <unity/graph/series_parallel_drafts.hpp>
#include <unity/graph/series_parallel_tree.hpp>
#include <unity/graph/split_components.hpp>

namespace unity::detail {

class series_parallel_builder {
 public:
  series_parallel_builder(const digraph& graph, const terminals& ends);

  [[nodiscard]] series_parallel_tree build();

 private:
  using branch_index = std::uint32_t;

  static std::uint64_t key(path_point from, path_point to) { return (std::uint64_t{from} << 32U) | to; }
  [[nodiscard]] path_point start() const { return static_cast<path_point>(degree_in_.size() - 2); }
  [[nodiscard]] path_point finish() const { return static_cast<path_point>(degree_in_.size() - 1); }

  void join(path_point from, path_point to, part_drafts::index part);
  void take(branch_index b);
  void consider(path_point p);
  void reduce();

  [[nodiscard]] part_drafts::index split(const path_section& whole);
  [[nodiscard]] part_drafts::index split_series(const path_section& whole, const std::vector<std::uint32_t>& cuts);
  [[nodiscard]] part_drafts::index split_parallel(const path_section& whole, const std::vector<std::uint32_t>& group);
  [[nodiscard]] part_drafts::index split_core(const path_section& whole);

  part_drafts drafts_;
  std::vector<branch> branches_;
  std::unordered_map<std::uint64_t, branch_index> between_;  // live branches by their ends; never iterated
  std::vector<std::uint32_t> rank_;                          // of each point, its place in topological order
  std::vector<std::uint32_t> degree_in_;
  std::vector<std::uint32_t> degree_out_;
  // The exclusive or of the live branches at a point: the only one, when there is one.
  std::vector<branch_index> only_in_;
  std::vector<branch_index> only_out_;
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
    : rank_(2 * graph.node_count() + 2, 0),
      degree_in_(rank_.size(), 0),
      degree_out_(rank_.size(), 0),
      only_in_(rank_.size(), 0),
      only_out_(rank_.size(), 0) {
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
  reduce();
  std::vector<branch> rest;
  for (branch_index b = 0; b < branches_.size(); ++b) {
    const auto live = between_.find(key(branches_[b].from, branches_[b].to));
    if (live != between_.end() && live->second == b) {
      rest.push_back(branches_[b]);
    }
  }
  return drafts_.finish(split(make_section(std::move(rest), rank_)));
}

// Adds a branch, or puts it in parallel with the one that already joins these points.
inline void series_parallel_builder::join(path_point from, path_point to, part_drafts::index part) {
  const auto next = static_cast<branch_index>(branches_.size());
  const auto [place, inserted] = between_.try_emplace(key(from, to), next);
  if (!inserted) {
    auto& other = branches_[place->second];
    other.part = drafts_.parallel(other.part, part);
    return;
  }
  branches_.push_back({from, to, part});
  ++degree_out_[from];
  ++degree_in_[to];
  only_out_[from] ^= next;
  only_in_[to] ^= next;
}

inline void series_parallel_builder::take(branch_index b) {
  const auto& [from, to, part] = branches_[b];
  between_.erase(key(from, to));
  --degree_out_[from];
  --degree_in_[to];
  only_out_[from] ^= b;
  only_in_[to] ^= b;
}

inline void series_parallel_builder::consider(path_point p) {
  if (degree_in_[p] == 1 && degree_out_[p] == 1) {
    ready_.push_back(p);
  }
}

// Series and parallel reductions until none is left. The terminals have no branch on one side.
inline void series_parallel_builder::reduce() {
  for (path_point p = 0; p < degree_in_.size(); ++p) {
    consider(p);
  }
  while (!ready_.empty()) {
    const path_point p = ready_.back();
    ready_.pop_back();
    if (degree_in_[p] != 1 || degree_out_[p] != 1) {
      continue;
    }
    const branch_index in = only_in_[p];
    const branch_index out = only_out_[p];
    take(in);
    take(out);
    const path_point from = branches_[in].from;
    const path_point to = branches_[out].to;
    join(from, to, drafts_.series(branches_[in].part, branches_[out].part));
    consider(from);
    consider(to);
  }
}

inline part_drafts::index series_parallel_builder::split(const path_section& whole) {
  if (whole.branches.size() == 1) {
    return whole.branches.front().part;
  }
  if (const auto cuts = sequence_points(whole); !cuts.empty()) {
    return split_series(whole, cuts);
  }
  const auto group = parallel_groups(whole);
  const bool together = std::ranges::all_of(group, [&](std::uint32_t g) { return g == group.front(); });
  return together ? split_core(whole) : split_parallel(whole, group);
}

inline part_drafts::index series_parallel_builder::split_series(const path_section& whole,
                                                                const std::vector<std::uint32_t>& cuts) {
  std::vector<std::vector<branch>> pieces(cuts.size() + 1);
  for (const auto& b : whole.branches) {
    const auto piece = std::ranges::upper_bound(cuts, b.from) - cuts.begin();
    pieces[static_cast<std::size_t>(piece)].push_back({whole.points[b.from], whole.points[b.to], b.part});
  }
  auto result = drafts_.wire();
  for (auto& piece : pieces) {
    result = drafts_.series(result, split(make_section(std::move(piece), rank_)));
  }
  return result;
}

inline part_drafts::index series_parallel_builder::split_parallel(const path_section& whole,
                                                                  const std::vector<std::uint32_t>& group) {
  std::map<std::uint32_t, std::vector<branch>> pieces;
  for (std::size_t i = 0; i < group.size(); ++i) {
    const auto& b = whole.branches[i];
    pieces[group[i]].push_back({whole.points[b.from], whole.points[b.to], b.part});
  }
  auto piece = pieces.begin();
  auto result = split(make_section(std::move(piece->second), rank_));
  for (++piece; piece != pieces.end(); ++piece) {
    result = drafts_.parallel(result, split(make_section(std::move(piece->second), rank_)));
  }
  return result;
}

// What two points cut off becomes one branch between them; the rest is irreducible.
inline part_drafts::index series_parallel_builder::split_core(const path_section& whole) {
  std::vector<split_search::link> links;
  for (const auto& b : whole.branches) {
    links.emplace_back(b.from, b.to);
  }
  std::map<split_search::link, std::vector<branch>> pieces;
  std::vector<split_search::link> owner(whole.points.size());
  for (const auto& component : maximal_split_components(whole.points.size(), links)) {
    pieces[{component.a, component.b}];
    for (const auto p : component.interior) {
      owner[p] = {component.a, component.b};
    }
  }
  const auto core = drafts_.core();
  for (const auto& b : whole.branches) {
    const auto inner = std::max(owner[b.from], owner[b.to]);
    const auto piece = pieces.find(inner == split_search::link{} ? split_search::link{b.from, b.to} : inner);
    const branch outer{whole.points[b.from], whole.points[b.to], b.part};
    if (piece != pieces.end()) {
      piece->second.push_back(outer);
    } else {
      drafts_.add_to_core(core, outer.part, outer.from, outer.to);
    }
  }
  for (auto& [ends, piece] : pieces) {
    const auto part = split(make_section(std::move(piece), rank_));
    drafts_.add_to_core(core, part, whole.points[ends.first], whole.points[ends.second]);
  }
  return core;
}

}  // namespace unity::detail
