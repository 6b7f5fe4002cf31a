// Units of operators that are best divided alike: steps of an unrolled layer, and elementwise operators that follow
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel {

// The configuration of an operator that matches configuration `c` of another operator, `lead`: equal degrees along
// equal dimensions of their results, on the same devices. If such a degree does not divide the operator, its tasks
// divide other dimensions instead, from the first on; if that is impossible, too, there are fewer tasks.
// Complexity: linear in tasks, times dimensions. Precondition: neither is a source, the devices of `c` differ.
[[nodiscard]] configuration following(const operator_dimensions& o, const operator_dimensions& lead,
                                      const configuration& c);

// A unit: nodes in topological order, and the one that the others follow.
struct operator_unit {
  node_id lead{};
  std::vector<node_id> nodes{};
};

namespace detail {

class unit_finder {
 public:
  unit_finder(const tensor::algebra& a, const tensor::tensor_graph& g, const graph_dimensions& all)
      : algebra_{a}, graph_{g}, all_{all}, parent_(g.node_count()) {
    std::iota(parent_.begin(), parent_.end(), std::uint32_t{0});
  }

  [[nodiscard]] std::vector<operator_unit> run();

 private:
  // Joins operators that share a weight, and equal operators of one layer.
  void join_layers();
  // Joins an operator without sums to its only computed operand, if that has the same shape and no other reader.
  void join_followers();
  [[nodiscard]] static bool adds(const operator_dimensions& o);
  // The only value that the operator reads from another operator.
  [[nodiscard]] std::optional<value_id> single_operand(node_id n) const;
  // The first node of the most frequent kind.
  [[nodiscard]] node_id lead_of(std::span<const node_id> nodes) const;

  [[nodiscard]] std::uint32_t root(std::uint32_t n);
  void join(std::uint32_t a, std::uint32_t b) { parent_[root(a)] = root(b); }

  static constexpr std::uint32_t none = 0xffffffffU;
  const tensor::algebra& algebra_;
  const tensor::tensor_graph& graph_;
  const graph_dimensions& all_;
  std::vector<std::uint32_t> parent_;
};

}  // namespace detail

// Assigns each operator of the graph to one unit; units are in the order of their first nodes. Operators are joined if
// they share a weight, if they are equal and in one layer (layers_of), or if one reads only the other's result and
// keeps its shape.
// Complexity: linear in the graph, up to logarithms.
[[nodiscard]] inline std::vector<operator_unit> units_of(const tensor::algebra& a, const tensor::tensor_graph& g,
                                                         const graph_dimensions& all) {
  return detail::unit_finder{a, g, all}.run();
}

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_STRATEGIES_UNITS)

#include <algorithm>
#include <map>

#include <unity/parallel/strategies/strategy.hpp>
#include <unity/tensor/space.hpp>

namespace unity::parallel {

UNITY_INLINE configuration following(const operator_dimensions& o, const operator_dimensions& lead,
                                     const configuration& c) {
  configuration same{degree_list(o.divisible.size(), 1), {}};
  auto left = static_cast<std::int64_t>(c.task_count());
  std::int64_t tasks = 1;
  const auto give = [&](std::size_t k, std::int64_t degree) {
    const auto before = same.degrees[k];
    same.degrees[k] *= degree;
    if (left % degree != 0 || o.divisible[k].size % same.degrees[k] != 0 || !detail::index_degrees(o, same.degrees)) {
      same.degrees[k] = before;
      return;
    }
    left /= degree;
    tasks *= degree;
  };
  for (std::size_t k = 0; k < o.divisible.size(); ++k) {
    for (std::size_t l = 0; l < lead.divisible.size(); ++l) {
      if (lead.divisible[l].dimension == o.divisible[k].dimension) {
        give(k, c.degrees[l]);
      }
    }
  }
  for (std::size_t k = 0; k < o.divisible.size(); ++k) {
    for (auto degree = left; degree > 1; --degree) {
      give(k, degree <= left && left % degree == 0 ? degree : 1);
    }
  }
  // If there are fewer tasks, the first device of each run.
  const auto step = c.task_count() / static_cast<std::size_t>(tasks);
  for (std::size_t t = 0; t < static_cast<std::size_t>(tasks); ++t) {
    same.devices.push_back(c.devices[t * step]);
  }
  if (!why_not(o, same, std::max_element(same.devices.begin(), same.devices.end())->index() + std::size_t{1}).empty()) {
    return on_device(o, c.devices[0]);
  }
  return same;
}

}  // namespace unity::parallel

namespace unity::parallel::detail {

UNITY_INLINE std::vector<operator_unit> unit_finder::run() {
  join_layers();
  join_followers();
  std::map<std::uint32_t, std::size_t> number;  // per root, in the order of first nodes
  std::vector<operator_unit> units;
  for (const auto n : node_ids(graph_)) {
    if (!graph_.operands(n).empty()) {
      const auto [at, is_new] = number.try_emplace(root(n.index()), units.size());
      if (is_new) {
        units.emplace_back();
      }
      units[at->second].nodes.push_back(n);
    }
  }
  for (auto& u : units) {
    u.lead = lead_of(u.nodes);
  }
  return units;
}

UNITY_INLINE void unit_finder::join_layers() {
  const auto weight = algebra_.kind("weight");
  const auto layers = layers_of(algebra_, graph_);
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> first;
  std::vector<std::uint32_t> reader(graph_.node_count(), none);
  for (const auto n : node_ids(graph_)) {
    if (graph_.operands(n).empty()) {
      continue;
    }
    join(n.index(), first.try_emplace({layers.layer_of[n.index()], all_.kind(n)}, n.index()).first->second);
    for (const auto v : graph_.operands(n)) {
      const auto from = graph_.producer(v);
      if (graph_.operation(from).kind == weight) {
        auto& r = reader[from.index()];
        r = r == none ? n.index() : r;
        join(n.index(), r);
      }
    }
  }
}

UNITY_INLINE void unit_finder::join_followers() {
  std::vector<std::uint32_t> readers(graph_.value_count(), 0);
  for (const auto n : node_ids(graph_)) {
    for (const auto v : graph_.operands(n)) {
      ++readers[v.index()];
    }
  }
  for (const auto n : node_ids(graph_)) {
    const auto read = single_operand(n);
    if (read && readers[read->index()] == 1 && !adds(all_[n]) && graph_.type(*read).dims == all_[n].outputs[0].dims) {
      join(n.index(), graph_.producer(*read).index());
    }
  }
}

UNITY_INLINE bool unit_finder::adds(const operator_dimensions& o) {
  const auto& all = o.structure.indices;
  return std::any_of(all.begin(), all.end(),
                     [](const tensor::index& i) { return i.kind == tensor::index_kind::reduction && i.size > 1; });
}

UNITY_INLINE std::optional<value_id> unit_finder::single_operand(node_id n) const {
  std::optional<value_id> one;
  for (const auto v : graph_.operands(n)) {
    if (!graph_.operands(graph_.producer(v)).empty()) {
      if (one && *one != v) {
        return std::nullopt;
      }
      one = v;
    }
  }
  return one;
}

UNITY_INLINE node_id unit_finder::lead_of(std::span<const node_id> nodes) const {
  std::map<std::uint32_t, std::size_t> count;
  for (const auto n : nodes) {
    ++count[all_.kind(n)];
  }
  return *std::max_element(nodes.begin(), nodes.end(),
                           [&](node_id a, node_id b) { return count[all_.kind(a)] < count[all_.kind(b)]; });
}

UNITY_INLINE std::uint32_t unit_finder::root(std::uint32_t n) {
  while (parent_[n] != n) {
    n = parent_[n] = parent_[parent_[n]];
  }
  return n;
}

}  // namespace unity::parallel::detail

#endif
