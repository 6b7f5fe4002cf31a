// Fusion plans of rank programs: a strategy stated by names of steps, which are the same on all ranks. Also which
// values are divided by the samples of a batch.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
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
// The number of rows (samples) is the smallest first dimension of all inputs. Divides the inputs whose first dimension
// is a multiple of it.
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

// Names a step by the node of the plan's graph that it belongs to, its direction, and its index among that node's
// steps. The same on all ranks, however gradients are reduced. Regular.
struct step_name {
  std::uint32_t origin = 0;
  bool is_backward = false;
  std::uint32_t number = 0;
  std::string operation{};  // operator name, to detect programs of other graphs

  friend auto operator<=>(const step_name&, const step_name&) = default;
};

struct planned_step {
  step_name step{};
  bool is_copy = false;  // another kernel provides its result

  friend bool operator==(const planned_step&, const planned_step&) = default;
};

// Regular.
struct fusion_plan {
  // Whether steps belong to the program with composites spelled out (parallel/ranks/spelled_out.hpp).
  bool is_spelled_out = true;
  // Kernels of one or several steps, in the order in which they run, with their steps in order.
  std::vector<std::vector<planned_step>> kernels{};
  // Weights of the plan's graph by number, in node order; buckets in the order in which they are reduced.
  std::vector<std::vector<std::uint32_t>> buckets{};

  friend bool operator==(const fusion_plan&, const fusion_plan&) = default;
};

// The names of a spelled-out program's steps; empty for steps that do not run operators.
[[nodiscard]] std::vector<step_name> step_names(const tensor::algebra& a, const parallel::rank_program& p);

}  // namespace unity::fusion

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_FUSION_FUSION_PLAN)

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

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

UNITY_INLINE std::vector<step_name> step_names(const tensor::algebra& a, const parallel::rank_program& p) {
  std::vector<step_name> names(p.steps.size());
  std::map<std::pair<std::uint32_t, bool>, std::uint32_t> numbers;
  for (std::size_t s = 0; s < p.steps.size(); ++s) {
    const auto& step = p.steps[s];
    if (step.kind == parallel::step_kind::run) {
      const auto origin = static_cast<std::uint32_t>(step.origin.index());
      names[s] = {origin, step.is_backward, numbers[{origin, step.is_backward}]++,
                  std::string{a.signature(p.graph.operation(step.node).kind).name}};
    }
  }
  return names;
}

}  // namespace unity::fusion

#endif
