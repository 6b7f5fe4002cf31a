// A series-parallel tree under construction, for series_parallel_reduction.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/series_parallel_tree.hpp>

namespace unity::detail {

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

}  // namespace unity::detail
