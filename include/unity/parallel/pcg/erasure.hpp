// Conversion of a parallel computation graph to the tensor graph that it computes, and back, given a grid per operator.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include <range/v3/view/zip.hpp>

#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

struct erased_graph {
  tensor::tensor_graph graph{};
  std::vector<value_id> values{};  // per value of the parallel computation graph: its value here
};

namespace detail {

class eraser {
 public:
  eraser(const pcg_algebra& a, const pcg& g) : algebra_{a}, graph_{g}, values_(g.value_count()) {}

  [[nodiscard]] erased_graph run() &&;

 private:
  void add(node_id n);

  [[nodiscard]] value_id sum(std::span<const value_id> partials, tensor::tensor_type type);

  const pcg_algebra& algebra_;
  const pcg& graph_;
  tensor::tensor_graph erased_{};
  std::vector<value_id> values_;  // per value of the graph
};

}  // namespace detail

// The tensor graph without the operators that only divide. `terms` becomes a sum, `blocks` a concat.
// Complexity: linear in the graph.
[[nodiscard]] inline erased_graph erase_values(const pcg_algebra& a, const pcg& g) {
  return detail::eraser{a, g}.run();
}
[[nodiscard]] inline tensor::tensor_graph erase(const pcg_algebra& a, const pcg& g) { return erase_values(a, g).graph; }

// The canonical parallel computation graph in which each operator runs on its grid. The canonical chain converts a
// producer's type to a consumer's, once for all consumers of the same type. Partial sums of outputs are added up.
// grids: per node; those of sources are not read. Law: erase(a, spell_out(a, g, grids)) == g.
// Complexity: linear in the graph.
// Throws: unity::error that names the node whose operator has no such grid.
[[nodiscard]] pcg spell_out(const pcg_algebra& a, const tensor::tensor_graph& g, std::span<const operator_grid> grids);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_PCG_ERASURE)

#include <array>
#include <optional>
#include <string>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/parallel/pcg/chains.hpp>

namespace unity::parallel::detail {

UNITY_INLINE erased_graph eraser::run() && {
  for (const auto i : node_ids(graph_)) {
    add(i);
  }
  std::vector<value_id> outputs;
  for (const auto v : graph_.outputs()) {
    outputs.push_back(values_[v.index()]);
  }
  erased_.set_outputs(outputs);
  return {std::move(erased_), std::move(values_)};
}

UNITY_INLINE void eraser::add(node_id n) {
  std::vector<value_id> operands;
  for (const auto v : graph_.operands(n)) {
    operands.push_back(values_[v.index()]);
  }
  const auto results = graph_.results(n);
  const auto p = algebra_.read(graph_.operation(n));
  if (p && is_unary(p->kind)) {
    values_[results[0].index()] = operands[0];
    return;
  }
  std::vector<tensor::tensor_type> types;
  for (const auto v : results) {
    types.push_back(graph_.type(v).global);
  }
  if (p && p->kind == parallel_kind::terms) {
    values_[results[0].index()] = sum(operands, types[0]);
    return;
  }
  const auto op = p ? algebra_.operators().make_operation("concat", {{"axis", p->axis}}) : graph_.operation(n);
  const auto made = erased_.results(erased_.add_node(op, operands, types));
  for (const auto& [divided, plain] : ranges::views::zip(results, made)) {
    values_[divided.index()] = plain;
  }
}

UNITY_INLINE value_id eraser::sum(std::span<const value_id> partials, tensor::tensor_type type) {
  const auto op = algebra_.operators().make_operation("add");
  auto all = partials[0];
  for (const auto v : partials.subspan(1)) {
    type.constant = erased_.type(all).constant && erased_.type(v).constant;
    all = erased_.results(erased_.add_node(op, std::array{all, v}, {&type, 1}))[0];
  }
  return all;
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE pcg spell_out(const pcg_algebra& a, const tensor::tensor_graph& g, std::span<const operator_grid> grids) {
  pcg_writer writer{a};
  std::vector<value_id> values(g.value_count());
  for (const auto n : node_ids(g)) {
    std::vector<parallel_type> global;
    for (const auto v : g.operands(n)) {
      global.push_back(undivided(g.type(v)));
    }
    std::vector<value_id> operands;
    if (!global.empty()) {
      const auto* o = a.dimensions(g.operation(n), global);
      const auto types = o != nullptr ? types_on(*o, grids[n.index()]) : std::nullopt;
      if (!types) {
        throw error{fmt::format("node {} ({})", n.index(), a.signature(g.operation(n).kind).name),
                    o == nullptr ? "operands that it does not take" : why_not(*o, grids[n.index()]),
                    "a grid of the operator"};
      }
      for (const auto& [v, type] : ranges::views::zip(g.operands(n), types->operands)) {
        operands.push_back(writer.on(values[v.index()], type));
      }
    }
    const auto made = writer.add(g.operation(n), operands);
    for (const auto& [plain, divided] : ranges::views::zip(g.results(n), writer.graph().results(made))) {
      values[plain.index()] = divided;
    }
  }
  std::vector<value_id> outputs;
  for (const auto v : g.outputs()) {
    auto wanted = writer.type(values[v.index()]);
    wanted.partial = 1;
    outputs.push_back(writer.on(values[v.index()], wanted));
  }
  return std::move(writer).finish(outputs);
}

}  // namespace unity::parallel

#endif
