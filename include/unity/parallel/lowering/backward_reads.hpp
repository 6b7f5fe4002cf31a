// Which values of an operator its backward pass needs.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <unity/graph/concepts.hpp>
#include <unity/tensor/adjoint.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

// Of an operator without a backward pass: none.
struct backward_reads {
  std::vector<bool> operands{};
  std::vector<bool> results{};

  friend bool operator==(const backward_reads&, const backward_reads&) = default;
};

// Per value that the adjoint's first nodes stand for (operands, results, cotangents of results): is it read.
[[nodiscard]] std::vector<bool> reads_of(const tensor::operator_adjoint& adjoint);

// Those that the adjoint of the operator reads; a rectifier's, say, the result alone, and an addition's nothing. Values
// that no backward pass reads need not be kept for it.
// wanted: per operand, is its cotangent asked for. Complexity: as tensor::adjoint_of. Throws: as that.
[[nodiscard]] backward_reads reads_of_adjoint(const tensor::algebra& a, const tensor::operation& op,
                                              std::span<const tensor::tensor_type> inputs, std::size_t results,
                                              const std::vector<bool>& wanted);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_LOWERING_BACKWARD_READS)

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
  for (const auto n : node_ids(g)) {  // the first have one value each
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

}  // namespace unity::parallel

#endif
