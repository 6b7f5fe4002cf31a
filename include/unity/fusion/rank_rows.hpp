// Which values of a rank's program are divided by the samples of its batch.
#pragma once

#include <cstdint>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/fusion/row_roles.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::fusion {

struct rank_rows {
  std::int64_t rows = 1;  // samples
  row_labels labels{};
};
// Inputs have samples along their first dimension, as many as the input that has fewest.
[[nodiscard]] rank_rows rows_of_rank(const tensor::algebra& a, const parallel::rank_program& p);

// Whether the node's results alias its operand, so nothing runs.
[[nodiscard]] bool shares_memory(const tensor::algebra& a, const tensor::tensor_graph& g, node_id n);

namespace detail {

struct typed_operation {
  const tensor::operation* op = nullptr;
  std::vector<tensor::tensor_type> inputs{};
  std::vector<tensor::tensor_type> outputs{};
};

[[nodiscard]] typed_operation types_of(const tensor::tensor_graph& g, node_id n);

}  // namespace detail

}  // namespace unity::fusion

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_FUSION_RANK_ROWS)

#include <algorithm>

#include <unity/core/config.hpp>
#include <unity/tensor/work.hpp>

namespace unity::fusion {

namespace detail {

UNITY_INLINE typed_operation types_of(const tensor::tensor_graph& g, node_id n) {
  typed_operation t{&g.operation(n), {}, {}};
  for (const auto v : g.operands(n)) {
    t.inputs.push_back(g.type(v));
  }
  for (const auto v : g.results(n)) {
    t.outputs.push_back(g.type(v));
  }
  return t;
}

}  // namespace detail

UNITY_INLINE rank_rows rows_of_rank(const tensor::algebra& a, const parallel::rank_program& p) {
  rank_rows all;
  std::int64_t rows = 0;
  for (const auto& x : p.inputs) {
    const auto& dims = p.graph.type(x.value).dims;
    rows = dims.empty() ? rows : rows == 0 ? dims[0] : std::min(rows, dims[0]);
  }
  all.rows = std::max<std::int64_t>(rows, 1);
  std::vector<value_id> divided;
  for (const auto& x : p.inputs) {
    const auto& dims = p.graph.type(x.value).dims;
    if (!dims.empty() && dims[0] % all.rows == 0) {
      divided.push_back(x.value);
    }
  }
  all.labels = row_roles(a, p.graph, divided, all.rows);
  return all;
}

UNITY_INLINE bool shares_memory(const tensor::algebra& a, const tensor::tensor_graph& g, node_id n) {
  const auto t = detail::types_of(g, n);
  const auto map = a.index_map(*t.op, t.inputs);
  return map && tensor::shared_parts(*map, t.inputs, t.outputs).has_value();
}

}  // namespace unity::fusion

#endif
