// The operation that a task of a divided operator runs on what it has read: the operator on other sizes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/parallel/tasks/grid_tasks.hpp>
#include <unity/parallel/tasks/task_share.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/operators/parts.hpp>
#include <unity/tensor/operators/sources.hpp>

namespace unity::parallel {

// The operator on other sizes, with the corrections that a divided sum needs.
struct task_operation {
  part_of_operation part{};
  // of operands that hold positions along a divided index, such as rows of a divided table
  std::vector<detail::index_shift> shifts{};
  double share = 1;  // factor for the results: parts of a mean are means of fewer elements
};

namespace detail {

// Sets the attribute of that name. Precondition: the operator has it.
void set_attribute(const tensor::algebra& a, tensor::operation& op, std::string_view name, attribute value);
[[nodiscard]] inline bool has_attribute(const tensor::algebra& a, const tensor::operation& op, std::string_view name) {
  const auto& fields = a.definition_of(op.kind).fields;
  return std::any_of(fields.begin(), fields.end(), [&](const auto& f) { return f.signature.name == name; });
}

// Sets the padding of a primitive with windows on images for one part: only the padding that touches the part. In
// composites with windows, images are whole.
class padded_part {
 public:
  padded_part(const tensor::algebra& a, const operator_dimensions& o) : algebra_{a}, o_{o} {}

  [[nodiscard]] bool has_windows() const;

  // Precondition: has_windows().
  void write(const shard& part, tensor::operation& op) const;

 private:
  // The window of the whole operator along spatial dimension d: of rows, then of columns.
  [[nodiscard]] tensor::operators::slide slide(std::size_t d) const;

  // The part's range of an index that alone runs along a dimension of an operand or result.
  [[nodiscard]] index_range range_of(const shard& part, int index) const;

  const tensor::algebra& algebra_;
  const operator_dimensions& o_;
};

// Adds the margins of a padding view that lie in the part, before and after its operand.
void add_margins(const tensor::algebra& a, const operator_dimensions& o, const shard& part, tensor::resizing& r);

}  // namespace detail

// The operator that computes the part's results from the part's operands, element by element as the whole operator
// does; if sums are divided, a partial of the results.
// Complexity: linear in operands, results and their ranks.
// Throws: unity::error if no such operator is known.
[[nodiscard]] task_operation operation_of_task(const tensor::algebra& a, const operator_dimensions& o,
                                               const task_grid& grid, const shard& part);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_TASKS_TASK_OPERATION)

#include <string>
#include <variant>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/tensor/convert.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel::detail {

UNITY_INLINE void set_attribute(const tensor::algebra& a, tensor::operation& op, std::string_view name,
                                attribute value) {
  const auto& fields = a.definition_of(op.kind).fields;
  const auto at = std::find_if(fields.begin(), fields.end(), [&](const auto& f) { return f.signature.name == name; });
  op.attributes[static_cast<std::size_t>(at - fields.begin())] = std::move(value);
}

UNITY_INLINE bool padded_part::has_windows() const {
  return o_.structure.windows.size() == 2 && has_attribute(algebra_, o_.op, "pads") &&
         has_attribute(algebra_, o_.op, "padding");
}

UNITY_INLINE void padded_part::write(const shard& part, tensor::operation& op) const {
  attribute pads{0, 0, 0, 0};
  for (std::size_t d = 0; d < 2; ++d) {
    const auto w = slide(d);
    const auto range = range_of(part, o_.structure.windows[d].outer);
    const auto first = range.begin * w.stride - w.before;
    const auto last = (range.end - 1) * w.stride + w.reach() - 1 - w.before;
    pads[d] = std::max(-first, std::int64_t{0});
    pads[2 + d] = std::clamp(last + 1 - w.in, std::int64_t{0}, w.after);
  }
  set_attribute(algebra_, op, "padding", {static_cast<std::int64_t>(tensor::operators::padding::from_pads)});
  set_attribute(algebra_, op, "pads", std::move(pads));
}

UNITY_INLINE tensor::operators::slide padded_part::slide(std::size_t d) const {
  const auto r = algebra_.read(o_.op);
  const auto pads = r.integers("pads");
  const auto& of = o_.structure.windows[d];
  const auto kernel = of.inner < 0 ? 1 : o_.structure.indices[static_cast<std::size_t>(of.inner)].size;
  tensor::operators::slide w{of.extent, kernel, of.stride, of.dilation, pads[d], pads[2 + d], 0};
  const bool ceil = has_attribute(algebra_, o_.op, "ceil_mode") && r.flag("ceil_mode");
  tensor::operators::resolve(w, r.choice<tensor::operators::padding>("padding"), ceil);
  return w;
}

UNITY_INLINE index_range padded_part::range_of(const shard& part, int index) const {
  const std::vector alone{static_cast<std::size_t>(index)};
  const auto find = [&](const auto& tensors, const std::vector<box>& boxes) -> std::optional<index_range> {
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      for (std::size_t d = 0; d < tensors[t].size(); ++d) {
        if (tensors[t][d].indices == alone) {
          return index_range{boxes[t].begin[d], boxes[t].end[d]};
        }
      }
    }
    return std::nullopt;
  };
  const auto of_result = find(o_.structure.results, part.results);
  const auto found = of_result ? of_result : find(o_.structure.operands, part.operands);
  return found.value_or(index_range{0, o_.structure.indices[alone[0]].size});
}

UNITY_INLINE void add_margins(const tensor::algebra& a, const operator_dimensions& o, const shard& part,
                              tensor::resizing& r) {
  const auto map = a.index_map(o.op, o.inputs);
  if (!map || map->pieces().size() != 1 || map->pieces()[0].sizes == o.outputs[0].dims) {
    return;
  }
  const auto& inside = map->pieces()[0];
  for (std::size_t d = 0; d < inside.sizes.size(); ++d) {
    const auto begin = part.results[0].begin[d];
    const auto end = part.results[0].end[d];
    r.before.push_back(std::clamp(inside.origin[d] - begin, std::int64_t{0}, end - begin));
    r.after.push_back(std::clamp(end - (inside.origin[d] + inside.sizes[d]), std::int64_t{0}, end - begin));
  }
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE task_operation operation_of_task(const tensor::algebra& a, const operator_dimensions& o,
                                              const task_grid& grid, const shard& part) {
  task_operation made{{o.op, o.inputs, o.outputs}, {}, 1};
  auto& [op, inputs, outputs] = made.part;
  tensor::resizing sizes{o.op, o.inputs, o.outputs, {}, {}, {}, {}};
  for (std::size_t x = 0; x < o.inputs.size(); ++x) {
    inputs[x].constant = false;
    sizes.new_inputs.push_back(inputs[x].dims = part.operands[x].sizes());
  }
  for (std::size_t r = 0; r < o.outputs.size(); ++r) {
    outputs[r].constant = false;
    sizes.new_outputs.push_back(outputs[r].dims = part.results[r].sizes());
  }
  detail::add_margins(a, o, part, sizes);
  op = tensor::resized_part(a, sizes);
  if (const detail::padded_part padded{a, o}; padded.has_windows()) {
    padded.write(part, op);
  }
  const auto results = a.infer(op, inputs);
  if (!results || *results != outputs) {
    throw error{fmt::format("operator {}", a.signature(o.op.kind).name),
                results ? "results of other sizes for its parts" : "no results for its parts",
                results ? "an operator that runs on parts of its operands" : a.why_not(op, inputs)};
  }
  if (const auto* p = std::get_if<tensor::primitive>(&a.definition_of(o.op.kind).body)) {
    const auto s = a.iteration(o.op, o.inputs);
    auto shifts = s ? detail::shifts_of(p->kernel(a.read(o.op), o.inputs), *s, part) : std::nullopt;
    if (!shifts) {
      throw error{fmt::format("operator {}", a.signature(o.op.kind).name), "positions along a divided dimension",
                  "elements of an operand that are only compared with them"};
    }
    made.shifts = std::move(*shifts);
  }
  if (product(grid.reductions) > 1) {
    const auto share = detail::share_of_parts(a, {o.op, o.inputs, o.outputs}, made.part);
    if (!share) {
      throw error{fmt::format("operator {}", a.signature(o.op.kind).name), "a sum whose parts do not add up to it",
                  "a sum that depends on its number of terms only by a factor"};
    }
    made.share = *share;
  }
  return made;
}

}  // namespace unity::parallel

#endif
