// The plans that Unity's introduction compares, for any two-layer perceptron.
#pragma once

#include <cstddef>
#include <cstdint>

#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel {

// Axes of an operator's first result. rows, columns: its first and last dimension; sums: the dimension that it sums
// over.
enum class matrix_axis : std::uint8_t { rows, columns, sums, copies };

// The grid that divides only this axis.
// Throws: unity::error if the operator has no such axis.
[[nodiscard]] operator_grid grid_along(const operator_dimensions& o, matrix_axis axis, std::int64_t degree);

// The axes that the first layer, the operators between the layers, and the second layer divide.
struct layer_axes {
  matrix_axis first = matrix_axis::rows;
  matrix_axis between = matrix_axis::rows;
  matrix_axis second = matrix_axis::rows;
};

// The perceptron with every operator divided into `degree` tasks.
// Throws: unity::error if the graph does not have two matrix products, or a size is not a multiple of the degree.
[[nodiscard]] pcg two_layer_plan(const pcg_algebra& a, const tensor::tensor_graph& g, std::int64_t degree,
                                 const layer_axes& axes);

// Figure 2a: the batch is divided, weights are replicated.
[[nodiscard]] inline pcg figure_2a(const pcg_algebra& a, const tensor::tensor_graph& g, std::int64_t degree = 2) {
  return two_layer_plan(a, g, degree, {matrix_axis::rows, matrix_axis::rows, matrix_axis::rows});
}

// Figure 2b: the first layer divides its sum, all tasks compute the operators between the layers, the second layer
// divides its columns.
[[nodiscard]] inline pcg figure_2b(const pcg_algebra& a, const tensor::tensor_graph& g, std::int64_t degree = 2) {
  return two_layer_plan(a, g, degree, {matrix_axis::sums, matrix_axis::copies, matrix_axis::columns});
}

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_PCG_FIGURE_PLANS)

#include <string>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/parallel/pcg/erasure.hpp>

namespace unity::parallel {

UNITY_INLINE operator_grid grid_along(const operator_dimensions& o, matrix_axis axis, std::int64_t degree) {
  auto g = undivided_grid(o);
  const auto& dims = o.structure.results[0];
  const auto divide = [&](const std::vector<std::size_t>& indices) {
    if (indices.empty()) {
      throw error{"a grid", "an operator without that axis", "rows, columns or a sum to divide"};
    }
    g.indices[indices[0]] = degree;
  };
  switch (axis) {
    case matrix_axis::rows: divide(dims.empty() ? std::vector<std::size_t>{} : dims[0].indices); break;
    case matrix_axis::columns: divide(dims.empty() ? std::vector<std::size_t>{} : dims.back().indices); break;
    case matrix_axis::sums: divide(o.reductions.empty() ? std::vector<std::size_t>{} : o.reductions[0].indices); break;
    case matrix_axis::copies: g.copies = degree; break;
  }
  return g;
}

UNITY_INLINE pcg two_layer_plan(const pcg_algebra& a, const tensor::tensor_graph& g, std::int64_t degree,
                                const layer_axes& axes) {
  std::vector<operator_grid> grids;
  std::size_t layers = 0;
  for (const auto i : node_ids(g)) {
    std::vector<parallel_type> inputs;
    for (const auto v : g.operands(i)) {
      inputs.push_back(undivided(g.type(v)));
    }
    const auto* o = a.dimensions(g.operation(i), inputs);
    if (o == nullptr) {
      grids.push_back({});
      continue;
    }
    const bool is_layer = !o->reductions.empty();
    layers += is_layer ? 1 : 0;
    grids.push_back(grid_along(*o, !is_layer ? axes.between : layers == 1 ? axes.first : axes.second, degree));
  }
  if (layers != 2) {
    throw error{"a perceptron of two layers", fmt::format("{} layers", layers), "two products of matrices"};
  }
  return spell_out(a, g, grids);
}

}  // namespace unity::parallel

#endif
