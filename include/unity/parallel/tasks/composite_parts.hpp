// The operation that a task of a divided composite runs: the same operator on other sizes.
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

// An operator with the sizes of one part, as a device runs it.
struct part_of_operation {
  tensor::operation op{};
  std::vector<tensor::tensor_type> inputs{};
  std::vector<tensor::tensor_type> outputs{};
};

// Of a composite or opaque operator; nothing if it does not accept the sizes of the part, because operands that it does
// not use may have any division. Results are computed whole along statistics. Complexity: linear in operands, results
// and their ranks.
[[nodiscard]] std::optional<part_of_operation> composite_on(const tensor::algebra& a, const operator_dimensions& o,
                                                            const grid_task& t);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_TASKS_COMPOSITE_PARTS)

#include <unity/tensor/convert.hpp>
#include <unity/tensor/definition.hpp>

namespace unity::parallel {

UNITY_INLINE std::optional<part_of_operation> composite_on(const tensor::algebra& a, const operator_dimensions& o,
                                                           const grid_task& t) {
  part_of_operation part{{}, o.inputs, o.outputs};
  tensor::resizing sizes{o.op, o.inputs, o.outputs, {}, {}, {}, {}};
  for (std::size_t x = 0; x < o.inputs.size(); ++x) {
    sizes.new_inputs.push_back(part.inputs[x].dims = operand_region(o, t, x).sizes());
  }
  for (std::size_t r = 0; r < o.outputs.size(); ++r) {
    sizes.new_outputs.push_back(part.outputs[r].dims = computed_region(o, t, r).sizes());
  }
  part.op = tensor::detail::resized_part(a, sizes);
  const auto made = a.infer(part.op, part.inputs);
  return made && *made == part.outputs ? std::optional{std::move(part)} : std::nullopt;
}

}  // namespace unity::parallel

#endif
