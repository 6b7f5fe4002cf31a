// A graph as a tree of series, parallel and irreducible parts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>

namespace unity {

enum class part_kind : std::uint8_t {
  wire,      // nothing: a value that bypasses the other branches of a parallel part
  node,      // one node of the graph
  series,    // children in sequence, in the order of children()
  parallel,  // children in parallel between the same two points; the wire, if any, last
  core,      // children connected in a way that series and parallel composition cannot express
};

// A position between nodes, where paths meet: before or after a node, or an end of the whole graph. Point 2 n is before
// node n, 2 n + 1 after it; those past the last node are the start and the finish.
using path_point = std::uint32_t;

struct series_parallel_part {
  part_kind kind = part_kind::wire;
  node_id node;             // of a node; null for other kinds
  path_point from = 0;      // the ends of a child of a core, including wires at its ends;
  path_point to = 0;        // 0 for a child of any other part
  std::uint32_t first = 0;  // its children: see series_parallel_tree::children
  std::uint32_t last = 0;

  friend bool operator==(const series_parallel_part&, const series_parallel_part&) = default;
};

// Regular. Every node on a path is in one part of kind node; a child's number is below its parent's, so one pass over
// the parts in order visits children first. Series parts have no series children and parallel parts no parallel ones.
class series_parallel_tree {
 public:
  using part_index = std::uint32_t;

  [[nodiscard]] std::size_t size() const noexcept { return parts_.size(); }
  [[nodiscard]] part_index root() const {
    UNITY_EXPECTS(!parts_.empty(), "a tree that has been built");
    return static_cast<part_index>(parts_.size() - 1);
  }
  [[nodiscard]] const series_parallel_part& operator[](part_index i) const {
    UNITY_EXPECTS(i < parts_.size(), "a part of this tree");
    return parts_[i];
  }
  [[nodiscard]] std::span<const part_index> children(part_index i) const {
    const auto& part = (*this)[i];
    return {children_.data() + part.first, part.last - part.first};
  }

  // The irreducible parts, innermost first. Complexity: O(size()).
  [[nodiscard]] std::vector<part_index> cores() const {
    std::vector<part_index> found;
    for (part_index i = 0; i < parts_.size(); ++i) {
      if (parts_[i].kind == part_kind::core) {
        found.push_back(i);
      }
    }
    return found;
  }
  [[nodiscard]] bool is_series_parallel() const {
    return std::ranges::none_of(parts_, [](const auto& part) { return part.kind == part_kind::core; });
  }

  // Effects: appends a part whose children were appended before; returns its number. The last part is the root.
  part_index append(series_parallel_part part, std::span<const part_index> children) {
    part.first = static_cast<std::uint32_t>(children_.size());
    for (const part_index child : children) {
      UNITY_EXPECTS(child < parts_.size(), "children that are parts of this tree");
      children_.push_back(child);
    }
    part.last = static_cast<std::uint32_t>(children_.size());
    parts_.push_back(part);
    return static_cast<part_index>(parts_.size() - 1);
  }

  friend bool operator==(const series_parallel_tree&, const series_parallel_tree&) = default;

 private:
  std::vector<series_parallel_part> parts_;
  std::vector<part_index> children_;
};

}  // namespace unity
