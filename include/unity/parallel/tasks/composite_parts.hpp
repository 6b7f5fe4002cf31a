// What a task of a divided operator runs, and of a composite: the same operator on other sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/tasks/grid_tasks.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/index_structure.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

// An operator on the sizes of one part: what a device runs.
struct part_of_operation {
  tensor::operation op{};
  std::vector<tensor::tensor_type> inputs{};
  std::vector<tensor::tensor_type> outputs{};
};

namespace detail {

// Attributes that say sizes say those of the part; heads are divided with the columns of what projects onto them.
[[nodiscard]] tensor::operation resized_composite(const tensor::algebra& a, const operator_dimensions& o,
                                                  const part_of_operation& part);

}  // namespace detail

// Of a composite or opaque operator; nothing where it does not take the parts: operands that it does not use are
// divided as they like. Results are whole along statistics. Complexity: linear in operands, results and their ranks.
[[nodiscard]] std::optional<part_of_operation> composite_on(const tensor::algebra& a, const operator_dimensions& o,
                                                            const grid_task& t);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_TASKS_COMPOSITE_PARTS)

#include <span>

#include <unity/rewrite/attribute.hpp>

namespace unity::parallel::detail {

UNITY_INLINE tensor::operation resized_composite(const tensor::algebra& a, const operator_dimensions& o,
                                                 const part_of_operation& part) {
  auto op = o.op;
  const auto& fields = a.definition_of(op.kind).fields;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].signature.name == "dims") {
      op.attributes[i] = attribute(std::span<const std::int64_t>{part.outputs[0].dims});
    } else if (fields[i].signature.name == "heads") {
      op.attributes[i][0] = op.attributes[i][0] * part.inputs[3].dims[1] / o.inputs[3].dims[1];
    }
  }
  return op;
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE std::optional<part_of_operation> composite_on(const tensor::algebra& a, const operator_dimensions& o,
                                                           const grid_task& t) {
  part_of_operation part{{}, o.inputs, o.outputs};
  for (std::size_t x = 0; x < o.inputs.size(); ++x) {
    part.inputs[x].dims = operand_region(o, t, x).sizes();
  }
  for (std::size_t r = 0; r < o.outputs.size(); ++r) {
    part.outputs[r].dims = computed_region(o, t, r).sizes();
  }
  part.op = detail::resized_composite(a, o, part);
  const auto made = a.infer(part.op, part.inputs);
  return made && *made == part.outputs ? std::optional{std::move(part)} : std::nullopt;
}

}  // namespace unity::parallel

#endif
