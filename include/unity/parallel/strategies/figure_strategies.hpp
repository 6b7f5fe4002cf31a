// The plans that Unity's introduction compares, on all devices of a machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/pcg/figure_plans.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel {

namespace detail {

// Whether the graph is a chain of operators with two products with weights, the last operator being the output.
[[nodiscard]] bool is_two_layer_chain(const tensor::algebra& a, const tensor::tensor_graph& g);

}  // namespace detail

// Divides a perceptron's operators along the given axes, with a task of each on every device. Nothing if the graph is
// not a perceptron of two layers, or a size is not a multiple of the number of devices.
// Complexity: linear in the graph and the devices.
[[nodiscard]] std::optional<strategy> two_layer_strategy(const tensor::algebra& a, const tensor::tensor_graph& g,
                                                         const graph_dimensions& all, const hardware::topology& t,
                                                         const layer_axes& axes);

// Figures 2a and 2b, as in figure_plans.hpp.
[[nodiscard]] inline std::optional<strategy> figure_2a_strategy(const tensor::algebra& a, const tensor::tensor_graph& g,
                                                                const graph_dimensions& all,
                                                                const hardware::topology& t) {
  return two_layer_strategy(a, g, all, t, {matrix_axis::rows, matrix_axis::rows, matrix_axis::rows});
}
[[nodiscard]] inline std::optional<strategy> figure_2b_strategy(const tensor::algebra& a, const tensor::tensor_graph& g,
                                                                const graph_dimensions& all,
                                                                const hardware::topology& t) {
  return two_layer_strategy(a, g, all, t, {matrix_axis::sums, matrix_axis::copies, matrix_axis::columns});
}

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_STRATEGIES_FIGURE_STRATEGIES)

#include <algorithm>

#include <unity/core/id.hpp>
#include <unity/parallel/configuration_grid.hpp>
#include <unity/parallel/strategies/strategy.hpp>

namespace unity::parallel::detail {

UNITY_INLINE bool is_two_layer_chain(const tensor::algebra& a, const tensor::tensor_graph& g) {
  std::size_t layers = 0;
  node_id before;
  for (const auto n : node_ids(g)) {
    const auto operands = g.operands(n);
    if (operands.empty()) {
      continue;
    }
    const bool is_layer = g.operation(n).kind == a.kind("matmul") || g.operation(n).kind == a.kind("linear");
    const bool follows =
        before.valid() ? g.producer(operands[0]) == before : g.operands(g.producer(operands[0])).empty();
    const bool has_weights =
        std::all_of(operands.begin() + 1, operands.end(), [&](value_id v) { return g.type(v).constant; });
    if (!follows || (is_layer ? !has_weights : operands.size() != 1)) {
      return false;
    }
    layers += is_layer ? 1 : 0;
    before = n;
  }
  return layers == 2 && g.outputs().size() == 1 && g.producer(g.outputs()[0]) == before;
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE std::optional<strategy> two_layer_strategy(const tensor::algebra& a, const tensor::tensor_graph& g,
                                                        const graph_dimensions& all, const hardware::topology& t,
                                                        const layer_axes& axes) {
  if (!detail::is_two_layer_chain(a, g)) {
    return std::nullopt;
  }
  const auto devices = detail::all_devices(t);
  strategy s;
  std::size_t layers = 0;
  for (const auto n : node_ids(all)) {
    const auto& o = all[n];
    if (o.inputs.empty()) {
      s.emplace_back();
      continue;
    }
    const bool is_layer = o.inputs.size() > 1;
    layers += is_layer ? 1 : 0;
    const auto axis = !is_layer ? axes.between : layers == 1 ? axes.first : axes.second;
    if (axis == matrix_axis::sums && o.reductions.empty()) {
      return std::nullopt;  // the product applies an activation after the sum
    }
    const auto grid = grid_along(o, axis, static_cast<std::int64_t>(devices.size()));
    if (!why_no_configuration(o, grid).empty()) {
      return std::nullopt;
    }
    s.push_back(configuration_of(o, grid, devices));
  }
  return unsummed_output(g, s).valid() ? std::nullopt : std::optional{std::move(s)};
}

}  // namespace unity::parallel

#endif
