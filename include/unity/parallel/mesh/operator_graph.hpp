// The operators of a training graph without its sources, to be mapped onto devices, and their series-parallel
// decomposition.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/graph/digraph.hpp>
#include <unity/graph/series_parallel_tree.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/mesh/mesh_options.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel {

// The source of an operand: a result of an operator, or none for a source of the graph.
struct operand_source {
  static constexpr std::uint32_t none = 0xffffffffU;

  std::uint32_t from = none;  // operator
  std::uint32_t result = 0;

  friend bool operator==(const operand_source&, const operand_source&) = default;
};

// All operators of a part of the tree, ascending. Complexity: linear in the part, except for sorting.
[[nodiscard]] std::vector<std::uint32_t> operators_in(const series_parallel_tree& tree,
                                                      series_parallel_tree::part_index part);

// Operators are numbered in the order of their nodes, which is topological. Holds a reference to the dimensions, which
// must outlive it.
class operator_graph {
 public:
  // Complexity: linear in the graph, and as decompose_series_parallel.
  operator_graph(const tensor::algebra& a, const tensor::tensor_graph& g, const graph_dimensions& dimensions,
                 const training_graph& training);

  [[nodiscard]] std::size_t size() const noexcept { return nodes_.size(); }
  [[nodiscard]] node_id node(std::uint32_t i) const { return nodes_[i]; }  // of the tensor graph
  [[nodiscard]] const placed_operator& placed(std::uint32_t i) const { return placed_[i]; }
  [[nodiscard]] std::span<const operand_source> sources(std::uint32_t i) const { return sources_[i]; }
  // Whether the operator depends only on weights and constants and has only one reader: it is attached to that reader
  // and on no path.
  [[nodiscard]] bool is_attached(std::uint32_t i) const { return attached_[i]; }
  [[nodiscard]] const digraph& graph() const noexcept { return graph_; }
  [[nodiscard]] const series_parallel_tree& tree() const noexcept { return tree_; }
  [[nodiscard]] const graph_dimensions& dimensions() const noexcept { return *dimensions_; }

 private:
  void find_attached(const tensor::tensor_graph& g);

  // Sets the siblings of operators from the innermost parallel parts.
  void find_siblings();
  // Sorts descending and rounds to halves of the average, so that operators with similar siblings are equal.
  static void in_parts(std::vector<std::int64_t>& work);
  // The number of elements that the operators of a part read from sources and make.
  [[nodiscard]] std::int64_t elements_of(series_parallel_tree::part_index part) const;

  [[nodiscard]] static fingerprint key_of(const placed_operator& p);

  const graph_dimensions* dimensions_;
  std::vector<node_id> nodes_{};
  std::vector<placed_operator> placed_{};
  std::vector<std::vector<operand_source>> sources_{};
  std::vector<bool> attached_{};
  digraph graph_{};
  series_parallel_tree tree_{};
};

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_MESH_OPERATOR_GRAPH)

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include <unity/graph/series_parallel.hpp>

namespace unity::parallel {

UNITY_INLINE std::vector<std::uint32_t> operators_in(const series_parallel_tree& tree,
                                                     series_parallel_tree::part_index part) {
  std::vector<std::uint32_t> all;
  std::vector<series_parallel_tree::part_index> todo{part};
  while (!todo.empty()) {
    const auto next = todo.back();
    todo.pop_back();
    if (tree[next].kind == part_kind::node) {
      all.push_back(static_cast<std::uint32_t>(tree[next].node.index()));
    }
    const auto below = tree.children(next);
    todo.insert(todo.end(), below.begin(), below.end());
  }
  std::sort(all.begin(), all.end());
  return all;
}

UNITY_INLINE operator_graph::operator_graph(const tensor::algebra& a, const tensor::tensor_graph& g,
                                            const graph_dimensions& dimensions, const training_graph& training)
    : dimensions_{&dimensions} {
  const auto weight = a.kind("weight");
  std::vector<std::uint32_t> number(g.node_count(), operand_source::none);
  std::vector<std::pair<node_id, node_id>> edges;
  std::vector<bool> trained(g.value_count());
  for (const auto& w : training.weights()) {
    trained[w.value.index()] = w.is_trained;
  }
  std::vector<bool> leaves(g.node_count());
  for (const auto v : g.outputs()) {
    leaves[g.producer(v).index()] = true;
  }
  for (const auto n : node_ids(g)) {
    if (g.operands(n).empty()) {
      continue;
    }
    number[n.index()] = static_cast<std::uint32_t>(nodes_.size());
    nodes_.push_back(n);
    placed_operator p{&dimensions[n], {}, {}, training.wanted(n), leaves[n.index()]};
    auto& sources = sources_.emplace_back();
    for (const auto v : g.operands(n)) {
      const auto maker = g.producer(v);
      const auto from = number[maker.index()];
      const bool is_weight = g.operation(maker).kind == weight && trained[v.index()];
      p.uses.push_back(from != operand_source::none ? operand_use::made
                       : is_weight                  ? operand_use::weight
                                                    : operand_use::given);
      const auto results = g.results(maker);
      sources.push_back(
          {from, static_cast<std::uint32_t>(std::find(results.begin(), results.end(), v) - results.begin())});
    }
    placed_.push_back(std::move(p));
  }
  find_attached(g);
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    for (const auto& s : sources_[i]) {
      if (s.from != operand_source::none && !attached_[s.from]) {
        edges.emplace_back(node_id{s.from}, node_id{i});
      }
    }
  }
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  graph_ = digraph{nodes_.size(), edges};
  terminals ends;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (attached_[i]) {
      continue;
    }
    if (graph_.predecessors(node_id{i}).empty()) {
      ends.sources.emplace_back(i);
    }
    if (graph_.successors(node_id{i}).empty()) {
      ends.sinks.emplace_back(i);
    }
  }
  if (!nodes_.empty()) {
    tree_ = decompose_series_parallel(graph_, ends);
    find_siblings();
  }
  for (auto& p : placed_) {
    p.key = key_of(p);
  }
}

UNITY_INLINE void operator_graph::find_attached(const tensor::tensor_graph& g) {
  std::vector<std::size_t> readers(nodes_.size(), 0);
  for (const auto& sources : sources_) {
    for (const auto& s : sources) {
      if (s.from != operand_source::none) {
        ++readers[s.from];
      }
    }
  }
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    const auto results = g.results(nodes_[i]);
    const bool is_constant =
        std::all_of(results.begin(), results.end(), [&](value_id v) { return g.type(v).constant; });
    const bool is_alone = std::all_of(sources_[i].begin(), sources_[i].end(), [&](const operand_source& s) {
      return s.from == operand_source::none || attached_[s.from];
    });
    attached_.push_back(is_constant && is_alone && readers[i] == 1 && !placed_[i].is_output);
  }
}

UNITY_INLINE void operator_graph::find_siblings() {
  for (series_parallel_tree::part_index i = 0; i < tree_.size(); ++i) {  // children come first
    if (tree_[i].kind != part_kind::parallel) {
      continue;
    }
    std::vector<std::int64_t> branches;
    for (const auto c : tree_.children(i)) {
      if (tree_[c].kind != part_kind::wire) {
        branches.push_back(elements_of(c));
      }
    }
    in_parts(branches);
    for (const auto op : operators_in(tree_, i)) {
      if (placed_[op].siblings.empty()) {
        placed_[op].siblings = branches;
      }
    }
  }
}

UNITY_INLINE void operator_graph::in_parts(std::vector<std::int64_t>& work) {
  constexpr std::int64_t parts = 2;
  const auto sum = std::max<std::int64_t>(std::accumulate(work.begin(), work.end(), std::int64_t{0}), 1);
  for (auto& w : work) {
    w = std::llround(static_cast<double>(w) / static_cast<double>(sum) *
                     static_cast<double>(parts * static_cast<std::int64_t>(work.size())));
  }
  std::sort(work.rbegin(), work.rend());
}

UNITY_INLINE std::int64_t operator_graph::elements_of(series_parallel_tree::part_index part) const {
  std::int64_t sum = 0;
  for (const auto op : operators_in(tree_, part)) {
    const auto& o = *placed_[op].dimensions;
    for (std::size_t x = 0; x < o.inputs.size(); ++x) {
      sum += placed_[op].uses[x] != operand_use::made ? tensor::element_count(o.inputs[x].dims) : 0;
    }
    for (const auto& t : o.outputs) {
      sum += tensor::element_count(t.dims);
    }
  }
  return sum;
}

UNITY_INLINE fingerprint operator_graph::key_of(const placed_operator& p) {
  const auto& o = *p.dimensions;
  hasher h{std::hash<tensor::operation>{}(o.op)};
  h.add(p.is_output ? 1 : 0);
  for (const auto work : p.siblings) {
    h.add(static_cast<std::uint64_t>(work));
  }
  for (std::size_t x = 0; x < o.inputs.size(); ++x) {
    h.add(std::hash<tensor::tensor_type>{}(o.inputs[x]));
    h.add(static_cast<std::uint64_t>(p.uses[x]) << 1U | (p.wanted[x] ? 1U : 0U));
  }
  return h.result();
}

}  // namespace unity::parallel

#endif
