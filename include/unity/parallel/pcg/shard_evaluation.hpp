// Computes one task of a divided operator from only the elements that it holds.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <variant>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/row_major.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/pcg/sharded.hpp>
#include <unity/parallel/tasks/composite_parts.hpp>
#include <unity/parallel/tasks/grid_tasks.hpp>
#include <unity/parallel/tasks/primitive_parts.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/scalar.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/space.hpp>

namespace unity::parallel {

namespace detail {

template <class Scalar>
[[nodiscard]] Scalar viewed_element(const tensor::view_map& map, std::size_t result, const tensor::shape& at,
                                    std::span<const region<Scalar>> operands) {
  if (map.relabels()) {
    return operands[0][position_of(offset_of(map.results()[0].dims, at), map.dims(0))];
  }
  auto value = tensor::scalar_traits<Scalar>::literal(map.fill());
  for (const auto& p : map.pieces()) {
    bool is_inside = p.result == result;
    for (std::size_t d = 0; is_inside && d < at.size(); ++d) {
      is_inside = at[d] >= p.origin[d] && at[d] < p.origin[d] + p.sizes[d];
    }
    if (!is_inside) {
      continue;
    }
    tensor::shape from;
    for (const auto& s : p.source) {
      const auto along = static_cast<std::size_t>(std::max(s.along, 0));
      from.push_back(s.along < 0 ? s.start : s.start + s.step * (at[along] - p.origin[along]));
    }
    value = operands[p.operand][from];
  }
  return value;
}

// Evaluates the composite on what the task reads, as if that were the whole; then takes the task's part of the results.
template <class Scalar>
[[nodiscard]] std::vector<region<Scalar>> part_of_composite(const tensor::algebra& a, const operator_dimensions& o,
                                                            const grid_task& t,
                                                            std::span<const region<Scalar>> operands) {
  const auto part = composite_on(a, o, t);
  if (!part) {
    throw error{fmt::format("a task of {}", a.signature(o.op.kind).name), "parts that the operator does not take",
                "an operator that runs on parts"};
  }
  std::vector<tensor::dense<Scalar>> values;
  for (const auto& x : operands) {
    values.push_back(x.data);
  }
  const auto results = tensor::evaluate<Scalar>(a, part->op, values, part->inputs);
  std::vector<region<Scalar>> parts;
  for (std::size_t r = 0; r < results.size(); ++r) {
    region<Scalar> all{computed_region(o, t, r)};
    all.data = results[r];
    auto& own = parts.emplace_back(result_region(o, t, r));
    for_each_position(own.place.begin, own.place.end, [&](const tensor::shape& at) { own[at] = all[at]; });
  }
  return parts;
}

}  // namespace detail

// operands: the elements that the task holds, at least operand_region() of each. Results: result_region() of each.
// Complexity: the points of the task.
// Throws: unity::error if the task reads an element that it does not hold, or the operator has no known meaning.
template <class Scalar>
[[nodiscard]] std::vector<region<Scalar>> evaluate_task(const tensor::algebra& a, const operator_dimensions& o,
                                                        const grid_task& t, std::span<const region<Scalar>> operands) {
  if (const auto s = a.iteration(o.op, o.inputs)) {
    const auto kernel = std::get<tensor::primitive>(a.definition_of(o.op.kind).body).kernel(a.read(o.op), o.inputs);
    return {detail::part_of_primitive<Scalar>{o, *s, kernel, t, operands}.run()};
  }
  const auto map = a.index_map(o.op, o.inputs);
  if (!map) {
    return detail::part_of_composite<Scalar>(a, o, t, operands);
  }
  std::vector<region<Scalar>> results;
  for (std::size_t r = 0; r < o.outputs.size(); ++r) {
    auto& out = results.emplace_back(result_region(o, t, r));
    for_each_position(out.place.begin, out.place.end, [&](const tensor::shape& at) {
      out[at] = detail::viewed_element<Scalar>(*map, r, at, operands);
    });
  }
  return results;
}

}  // namespace unity::parallel
