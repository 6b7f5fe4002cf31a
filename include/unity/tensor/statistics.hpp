// The contents of a tensor graph, in numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::tensor {

struct graph_counts {
  std::size_t operators = 0;    // nodes with operands
  std::size_t sources = 0;      // nodes without operands: inputs, weights, constants and fills
  std::size_t edges = 0;        // uses of values: the operands of all operators
  std::int64_t parameters = 0;  // elements of weights that training changes
  std::int64_t statistics = 0;  // elements of weights that are used only as a batch norm's mean or variance

  friend bool operator==(const graph_counts&, const graph_counts&) = default;
};

namespace detail {

// Per value: whether it is used, and whether every use is the mean or variance of a batch norm.
struct statistic_uses {
  std::vector<bool> used;
  std::vector<bool> otherwise;

  statistic_uses(const algebra& a, const tensor_graph& g);
  [[nodiscard]] bool is_statistic(value_id v) const { return used[v.index()] && !otherwise[v.index()]; }
};

}  // namespace detail

// Complexity: linear in the graph.
[[nodiscard]] graph_counts count(const algebra& operators, const tensor_graph& g);

// The number of trained parameters of a model, without running statistics of batch norms.
[[nodiscard]] inline std::int64_t parameter_count(const algebra& operators, const tensor_graph& g) {
  return count(operators, g).parameters;
}

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_STATISTICS)

#include <unity/tensor/shape.hpp>

namespace unity::tensor::detail {

UNITY_INLINE statistic_uses::statistic_uses(const algebra& a, const tensor_graph& g)
    : used(g.value_count()), otherwise(g.value_count()) {
  const auto batch_norm = a.kind("batch_norm");
  for (const auto n : node_ids(g)) {
    const auto operands = g.operands(n);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      used[operands[i].index()] = true;
      if (g.operation(n).kind != batch_norm || i < 3) {
        otherwise[operands[i].index()] = true;
      }
    }
  }
}

}  // namespace unity::tensor::detail

namespace unity::tensor {

UNITY_INLINE graph_counts count(const algebra& operators, const tensor_graph& g) {
  const auto weight = operators.kind("weight");
  const detail::statistic_uses uses{operators, g};
  graph_counts counts;
  for (const auto n : node_ids(g)) {
    counts.edges += g.operands(n).size();
    ++(g.operands(n).empty() ? counts.sources : counts.operators);
    if (g.operation(n).kind == weight) {
      const auto v = g.results(n)[0];
      (uses.is_statistic(v) ? counts.statistics : counts.parameters) += element_count(g.type(v).dims);
    }
  }
  return counts;
}

}  // namespace unity::tensor

#endif
