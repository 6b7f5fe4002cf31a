// What a task of a grid works on: its shard of each tensor, the elements that it reads, and for a composite the same
// operator on other sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/small_vector.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/index_structure.hpp>
#include <unity/tensor/index_types.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

// One shard of a tensor.
struct shard_place {
  std::int64_t partial = 0;
  std::int64_t copy = 0;
  tensor::shape block{};  // along every dimension
};

// A task at one step: its position along every axis of the grid.
struct grid_task {
  std::vector<std::int64_t> partials{};
  std::int64_t copy = 0;
  std::vector<std::int64_t> parts{};  // per index, numbered across all steps
  std::vector<index_range> ranges{};  // per index
};

namespace detail {

// Appends a digit to a mixed-radix number.
inline void append_digit(std::int64_t& number, std::int64_t digit, std::int64_t radix) noexcept {
  number = number * radix + digit;
}

[[nodiscard]] tensor::shape block_of(const operator_dimensions& o, const tensor::tensor_indices& dims,
                                     const operator_grid& g, const grid_task& t);

// The box of the task's part. with_whole_statistics: extends it to all elements along statistics that the task needs.
[[nodiscard]] box region_of(const operator_dimensions& o, const tensor::tensor_indices& dims,
                            const tensor::shape& sizes, const grid_task& t, bool with_whole_statistics);

// at: a position along every axis, [groups...][copies][indices...].
[[nodiscard]] grid_task task_at(const operator_dimensions& o, const operator_grid& g, std::span<const std::int64_t> at);

}  // namespace detail

[[nodiscard]] inline grid_task first_task(const operator_dimensions& o, const operator_grid& g) {
  return detail::task_at(o, g, std::vector<std::int64_t>(g.partials.size() + 1 + g.indices.size(), 0));
}

// The tasks of a valid grid of the operator, one per step, in row-major order of [groups...][copies][indices...].
// Complexity: linear in tasks and axes.
[[nodiscard]] std::vector<grid_task> tasks_of(const operator_dimensions& o, const operator_grid& g);

// The shard of an operand that the task has. Its partial and copy are numbered by the axes that act as partials and
// copies for this operand.
[[nodiscard]] shard_place operand_shard(const operator_dimensions& o, const operator_grid& g, const grid_task& t,
                                        std::size_t x);

// The shard of a result that the task produces.
[[nodiscard]] shard_place result_shard(const operator_dimensions& o, const operator_grid& g, const grid_task& t,
                                       std::size_t r);

// The elements of an operand that the task reads: its shard, the halo of windows, and all elements along indices whose
// statistics it needs.
[[nodiscard]] inline box operand_region(const operator_dimensions& o, const grid_task& t, std::size_t x) {
  return detail::region_of(o, o.structure.operands[x], o.inputs[x].dims, t, true);
}
// The elements of a result that a composite computes, which include all elements along statistics; the task keeps its
// shard of them.
[[nodiscard]] inline box computed_region(const operator_dimensions& o, const grid_task& t, std::size_t r) {
  return detail::region_of(o, o.structure.results[r], o.outputs[r].dims, t, true);
}
// The elements of a result that the task computes: its shard, or, along windows, all that its part of the sum
// contributes to.
[[nodiscard]] inline box result_region(const operator_dimensions& o, const grid_task& t, std::size_t r) {
  return detail::region_of(o, o.structure.results[r], o.outputs[r].dims, t, false);
}

// An operator with the sizes of one part, as a device runs it.
struct part_of_operation {
  tensor::operation op{};
  std::vector<tensor::tensor_type> inputs{};
  std::vector<tensor::tensor_type> outputs{};
};

// The part of a composite or opaque operator; nothing if the operator does not accept the sizes, which is possible
// because unused operands may have any division. Results are computed whole along statistics. Complexity: linear in
// operands, results and their ranks.
[[nodiscard]] std::optional<part_of_operation> composite_on(const tensor::algebra& a, const operator_dimensions& o,
                                                            const grid_task& t);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_TASKS_GRID_TASKS)

#include <unity/core/row_major.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/tensor/convert.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/space.hpp>

namespace unity::parallel::detail {

UNITY_INLINE tensor::shape block_of(const operator_dimensions& o, const tensor::tensor_indices& dims,
                                    const operator_grid& g, const grid_task& t) {
  tensor::shape block;
  for (const auto& d : dims) {
    std::int64_t number = 0;
    if (d.window) {
      number = t.parts[static_cast<std::size_t>(o.structure.windows[*d.window].outer)];
    }
    for (const auto i : d.indices) {
      append_digit(number, t.parts[i], g.indices[i] * g.steps[i]);
    }
    block.push_back(number);
  }
  return block;
}

UNITY_INLINE box region_of(const operator_dimensions& o, const tensor::tensor_indices& dims, const tensor::shape& sizes,
                           const grid_task& t, bool with_whole_statistics) {
  const auto& s = o.structure;
  return box_of_indices(s, dims, sizes, [&](std::size_t i) {
    const bool is_whole = with_whole_statistics && s.indices[i].kind == tensor::index_kind::statistic;
    return is_whole ? index_range{0, s.indices[i].size} : t.ranges[i];
  });
}

UNITY_INLINE grid_task task_at(const operator_dimensions& o, const operator_grid& g, std::span<const std::int64_t> at) {
  const auto indices = at.subspan(g.partials.size() + 1);
  grid_task t{{at.begin(), at.begin() + static_cast<std::ptrdiff_t>(g.partials.size())},
              at[g.partials.size()],
              {indices.begin(), indices.end()},
              {}};
  for (std::size_t i = 0; i < g.indices.size(); ++i) {
    const auto size = o.structure.indices[i].size / (g.indices[i] * g.steps[i]);
    t.ranges.push_back({t.parts[i] * size, (t.parts[i] + 1) * size});
  }
  return t;
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE std::vector<grid_task> tasks_of(const operator_dimensions& o, const operator_grid& g) {
  std::vector<std::int64_t> sizes(g.partials.begin(), g.partials.end());
  sizes.push_back(g.copies);
  for (std::size_t i = 0; i < g.indices.size(); ++i) {
    sizes.push_back(g.indices[i] * g.steps[i]);
  }
  std::vector<grid_task> all;
  for_each_position(sizes, [&](std::span<const std::int64_t> at) { all.push_back(detail::task_at(o, g, at)); });
  return all;
}

UNITY_INLINE shard_place operand_shard(const operator_dimensions& o, const operator_grid& g, const grid_task& t,
                                       std::size_t x) {
  shard_place s;
  for (std::size_t p = 0; p < g.partials.size(); ++p) {
    detail::append_digit(view_of_group(o, x, p) == axis_view::partial ? s.partial : s.copy, t.partials[p],
                         g.partials[p]);
  }
  detail::append_digit(s.copy, t.copy, g.copies);
  for (std::size_t i = 0; i < g.indices.size(); ++i) {
    const auto view = view_of_index(o, x, i);
    if (view != axis_view::dimension) {
      detail::append_digit(view == axis_view::partial ? s.partial : s.copy, t.parts[i] % g.indices[i], g.indices[i]);
    }
  }
  s.block = detail::block_of(o, o.structure.operands[x], g, t);
  return s;
}

UNITY_INLINE shard_place result_shard(const operator_dimensions& o, const operator_grid& g, const grid_task& t,
                                      std::size_t r) {
  shard_place s{0, t.copy, detail::block_of(o, o.structure.results[r], g, t)};
  for (std::size_t p = 0; p < g.partials.size(); ++p) {
    detail::append_digit(s.partial, t.partials[p], g.partials[p]);
  }
  for (std::size_t i = 0; i < g.indices.size(); ++i) {
    if (view_of_index_in_result(o, r, i) == axis_view::partial) {
      detail::append_digit(s.partial, t.parts[i] % g.indices[i], g.indices[i]);
    }
  }
  return s;
}

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
  part.op = tensor::resized_part(a, sizes);
  const auto made = a.infer(part.op, part.inputs);
  return made && *made == part.outputs ? std::optional{std::move(part)} : std::nullopt;
}

}  // namespace unity::parallel

#endif
