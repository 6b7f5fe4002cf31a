// Finds the values of an operator that its backward pass needs.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <unity/graph/concepts.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

// The operands and results that the backward pass reads; empty for an operator without a backward pass.
struct backward_reads {
  std::vector<bool> operands{};
  std::vector<bool> results{};

  friend bool operator==(const backward_reads&, const backward_reads&) = default;
};

// Per value of the adjoint's first nodes (operands, results, cotangents of results): whether the adjoint reads it.
[[nodiscard]] std::vector<bool> reads_of(const tensor::operator_adjoint& adjoint);

// The values that the adjoint of the operator reads; for a rectifier only the result, for an addition nothing. Other
// values need not be kept for the backward pass. wanted: by operand, whether its cotangent is needed. Complexity and
// exceptions: as tensor::adjoint_of.
[[nodiscard]] backward_reads reads_of_adjoint(const tensor::algebra& a, const tensor::operation& op,
                                              std::span<const tensor::tensor_type> inputs, std::size_t results,
                                              const std::vector<bool>& wanted);

// Of a node of the graph.
[[nodiscard]] backward_reads reads_of_adjoint(const tensor::algebra& a, const tensor::tensor_graph& g,
                                              const training_graph& t, node_id n);

// By node of the graph. Complexity: reads_of_adjoint for each distinct operator and set of wanted cotangents.
[[nodiscard]] std::vector<backward_reads> reads_of_adjoints(const tensor::algebra& a,
                                                            const graph_dimensions& dimensions,
                                                            const training_graph& t);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_LOWERING_BACKWARD_READS)

#include <cstdint>
#include <map>
#include <utility>

#include <unity/core/id.hpp>

namespace unity::parallel {

UNITY_INLINE std::vector<bool> reads_of(const tensor::operator_adjoint& adjoint) {
  const auto& g = adjoint.graph;
  std::vector<bool> read(g.value_count());
  for (const auto n : node_ids(g)) {
    for (const auto v : g.operands(n)) {
      read[v.index()] = true;
    }
  }
  for (const auto v : g.outputs()) {
    read[v.index()] = true;
  }
  std::vector<bool> all;
  for (const auto n : node_ids(g)) {  // each of the first nodes has one value
    all.push_back(!g.results(n).empty() && read[g.results(n)[0].index()]);
  }
  return all;
}

UNITY_INLINE backward_reads reads_of_adjoint(const tensor::algebra& a, const tensor::operation& op,
                                             std::span<const tensor::tensor_type> inputs, std::size_t results,
                                             const std::vector<bool>& wanted) {
  const auto read = reads_of(tensor::adjoint_of(a, op, inputs, wanted));
  const auto is_read = [&](std::size_t place) { return bool{read[place]}; };
  backward_reads all;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    all.operands.push_back(is_read(i));
  }
  for (std::size_t r = 0; r < results; ++r) {
    all.results.push_back(is_read(inputs.size() + r));
  }
  return all;
}

UNITY_INLINE backward_reads reads_of_adjoint(const tensor::algebra& a, const tensor::tensor_graph& g,
                                             const training_graph& t, node_id n) {
  if (!t.has_backward(n)) {
    return {};
  }
  std::vector<tensor::tensor_type> types;
  for (const auto v : g.operands(n)) {
    types.push_back(g.type(v));
  }
  return reads_of_adjoint(a, g.operation(n), types, g.results(n).size(), t.wanted(n));
}

UNITY_INLINE std::vector<backward_reads> reads_of_adjoints(const tensor::algebra& a,
                                                           const graph_dimensions& dimensions,
                                                           const training_graph& t) {
  std::map<std::pair<std::uint32_t, std::vector<bool>>, backward_reads> known;
  std::vector<backward_reads> all(dimensions.node_count());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const node_id n{i};
    if (t.has_backward(n)) {
      const auto [at, is_new] = known.try_emplace({dimensions.kind(n), t.wanted(n)});
      if (is_new) {
        const auto& o = dimensions[n];
        at->second = reads_of_adjoint(a, o.op, o.inputs, o.outputs.size(), t.wanted(n));
      }
      all[i] = at->second;
    }
  }
  return all;
}

}  // namespace unity::parallel

#endif
