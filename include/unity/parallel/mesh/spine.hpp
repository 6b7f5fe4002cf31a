// The spine of a graph: the operators that every path passes through, and the parts between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/graph/series_parallel_tree.hpp>
#include <unity/parallel/mesh/operator_graph.hpp>

namespace unity::parallel {

// An operator that every path passes through, and the part between it and the one before. `last` is none if paths end
// separately.
struct spine_step {
  series_parallel_tree::part_index part = 0;  // between; of the operator itself if it directly follows the one before
  std::uint32_t before = operand_source::none;
  std::uint32_t last = operand_source::none;
  bool is_join = false;  // there is a part between

  friend bool operator==(const spine_step&, const spine_step&) = default;
};

// The spine of a part of the tree that begins after operator `before`: the whole graph or a branch.
// Complexity: linear in the part's children.
[[nodiscard]] std::vector<spine_step> spine_of(const series_parallel_tree& tree, series_parallel_tree::part_index part,
                                               std::uint32_t before = operand_source::none);

// All operators of a step, including its last.
[[nodiscard]] std::vector<std::uint32_t> operators_of(const series_parallel_tree& tree, const spine_step& s);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_MESH_SPINE)

#include <algorithm>

namespace unity::parallel {

UNITY_INLINE std::vector<spine_step> spine_of(const series_parallel_tree& tree, series_parallel_tree::part_index part,
                                              std::uint32_t before) {
  std::vector<series_parallel_tree::part_index> parts{part};
  if (tree[part].kind == part_kind::series) {
    parts.assign(tree.children(part).begin(), tree.children(part).end());
  }
  const auto node_of = [&](std::size_t i) {
    return i < parts.size() ? static_cast<std::uint32_t>(tree[parts[i]].node.index()) : operand_source::none;
  };
  std::vector<spine_step> steps;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool is_join = tree[parts[i]].kind != part_kind::node;
    const auto last = node_of(is_join ? i + 1 : i);
    steps.push_back({parts[i], before, last, is_join});
    before = last;
    i += is_join ? 1 : 0;
  }
  return steps;
}

UNITY_INLINE std::vector<std::uint32_t> operators_of(const series_parallel_tree& tree, const spine_step& s) {
  auto all = operators_in(tree, s.part);
  if (s.is_join && s.last != operand_source::none) {
    all.push_back(s.last);
    std::sort(all.begin(), all.end());
  }
  return all;
}

}  // namespace unity::parallel

#endif
