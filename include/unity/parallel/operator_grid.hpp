// The grid of tasks of a divided operator, and the resulting types of its operands and results.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/small_vector.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/tensor/index_structure.hpp>
#include <unity/tensor/index_types.hpp>

namespace unity::parallel {

// The number of parts, partials and copies into which an operator is divided, independent of devices.

// Regular. `reductions` and `partials` are stored empty if all are 1, so that equal grids compare equal. Tasks are
// numbered [partials...][copies][reductions...][degrees...], row-major: tasks that differ only in the digits of the
// degrees make the blocks of one partial of a result, or of one copy.
struct task_grid {
  degree_list degrees{};     // per divisible dimension of the results
  degree_list reductions{};  // per divisible reduction; empty: 1 each
  degree_list partials{};    // per linear group; empty: 1 each
  std::int64_t copies = 1;

  task_grid() = default;
  // Divides only dimensions of the results.
  task_grid(degree_list d) : degrees{std::move(d)} {}
  task_grid(std::initializer_list<std::int64_t> d) : degrees(d) {}
  task_grid(degree_list d, degree_list sums, degree_list groups, std::int64_t same)
      : degrees{std::move(d)}, reductions{std::move(sums)}, partials{std::move(groups)}, copies{same} {
    drop_ones(reductions);
    drop_ones(partials);
  }

  // The number of blocks of the results; all have the same number of partials and copies.
  [[nodiscard]] std::int64_t blocks() const noexcept { return product(degrees); }
  [[nodiscard]] std::int64_t result_partials() const noexcept { return product(partials) * product(reductions); }
  [[nodiscard]] std::int64_t tasks() const noexcept { return blocks() * result_partials() * copies; }

  friend bool operator==(const task_grid&, const task_grid&) = default;
  friend auto operator<=>(const task_grid&, const task_grid&) = default;

 private:
  static void drop_ones(degree_list& all);
};

// The digits of a task's number, with the axes of each kind combined into one.
struct task_place {
  std::int64_t partial = 0;  // of linear groups
  std::int64_t copy = 0;
  std::int64_t reduction = 0;
  std::int64_t block = 0;

  friend bool operator==(const task_place&, const task_place&) = default;
};

[[nodiscard]] task_place place_of(const task_grid& g, std::size_t task) noexcept;

// Regular. The axes of a grid of tasks: one per linear group, one for tasks that compute the same, one per index. Each
// task has one shard of every operand and result. Tasks are numbered [groups...][copies][indices...], row-major.
struct operator_grid {
  degree_list indices{};   // per index of operator_dimensions::structure
  degree_list steps{};     // per index: blocks that are processed one after another
  degree_list partials{};  // per linear group: the number of partials of its operands, and so of the results
  std::int64_t copies = 1;

  friend bool operator==(const operator_grid&, const operator_grid&) = default;
};

[[nodiscard]] inline operator_grid undivided_grid(const operator_dimensions& o) {
  const auto indices = o.structure.indices.size();
  return {degree_list(indices, 1), degree_list(indices, 1), degree_list(o.groups.size(), 1), 1};
}

[[nodiscard]] inline std::int64_t task_count(const operator_grid& g) noexcept {
  return product(g.indices) * product(g.partials) * g.copies;
}

// How an operand or result is divided along an axis of a grid.
enum class axis_view : std::uint8_t { dimension, copies, partial };

namespace detail {

[[nodiscard]] inline bool is_in(const std::vector<std::size_t>& set, std::size_t i) {
  return std::find(set.begin(), set.end(), i) != set.end();
}

// Sets degrees and steps of a tensor's dimensions. False if blocks of an inner index would be scattered or processed in
// steps within those of an outer one, or if degrees do not divide the sizes.
[[nodiscard]] bool divide(const tensor::index_structure& s, const tensor::tensor_indices& dims, const operator_grid& g,
                          parallel_type& t);

// Whether parts of the index can be processed one after another. Steps of a sum add up in their result, like gradients
// of micro-batches, but what is added outside of the sum would be added at each step.
[[nodiscard]] bool can_step(const operator_dimensions& o, std::size_t index);

}  // namespace detail

[[nodiscard]] axis_view view_of_index(const operator_dimensions& o, std::size_t operand, std::size_t index);
[[nodiscard]] inline axis_view view_of_index_in_result(const operator_dimensions& o, std::size_t result,
                                                       std::size_t index) {
  return detail::has_index(o.structure, o.structure.results[result], index) ? axis_view::dimension : axis_view::partial;
}
[[nodiscard]] inline axis_view view_of_group(const operator_dimensions& o, std::size_t operand, std::size_t group) {
  return detail::is_in(o.groups[group], operand) ? axis_view::partial : axis_view::copies;
}

// Types of the operands and results of an operator on a grid. global: those that the operator infers.
struct grid_types {
  std::vector<parallel_type> operands{};
  std::vector<parallel_type> results{};

  friend bool operator==(const grid_types&, const grid_types&) = default;
};

// Why an operator cannot have this grid, in one line; empty if it can. `whole` indices cannot be divided, and sums only
// if nothing but sums follows them. A result that lacks an index can be divided along it only if its parts add up.
// Parts also add up where windows of a result overlap.
[[nodiscard]] std::string why_not(const operator_dimensions& o, const operator_grid& g);

// Nothing if the operator cannot have this grid.
// Source: the table of axes and views of Unger et al., Unity (OSDI 2022), section 3, completed by linear groups.
[[nodiscard]] std::optional<grid_types> types_on(const operator_dimensions& o, const operator_grid& g);

namespace detail {

// The degrees of the indices along a dimension of that degree: outer indices first, fully before inner ones. False if
// the degree does not factor this way, or contradicts other operands.
[[nodiscard]] bool assign(const tensor::index_structure& s, const std::vector<std::size_t>& along, std::int64_t degree,
                          std::int64_t steps, std::vector<std::optional<std::pair<std::int64_t, std::int64_t>>>& known);

}  // namespace detail

// The unique grid on which an operator's operands have these types; nothing if there is none. A dimension that no index
// runs along, of size 1 or broadcast, does not constrain the grid.
// Complexity: operands and results, times indices and groups.
[[nodiscard]] std::optional<operator_grid> infer_grid(const operator_dimensions& o,
                                                      std::span<const parallel_type> operands);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_OPERATOR_GRID)

#include <fmt/core.h>

#include <unity/tensor/shape.hpp>
#include <unity/tensor/space.hpp>

namespace unity::parallel {

UNITY_INLINE void task_grid::drop_ones(degree_list& all) {
  if (product(all) == 1) {
    all.clear();
  }
}

UNITY_INLINE task_place place_of(const task_grid& g, std::size_t task) noexcept {
  auto rest = static_cast<std::int64_t>(task);
  const auto next = [&rest](std::int64_t count) {
    const auto digit = rest % count;
    rest /= count;
    return digit;
  };
  task_place p;
  p.block = next(g.blocks());
  p.reduction = next(product(g.reductions));
  p.copy = next(g.copies);
  p.partial = rest;
  return p;
}

}  // namespace unity::parallel

namespace unity::parallel::detail {

UNITY_INLINE bool divide(const tensor::index_structure& s, const tensor::tensor_indices& dims, const operator_grid& g,
                         parallel_type& t) {
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d].window) {
      const auto outer = static_cast<std::size_t>(s.windows[*dims[d].window].outer);
      t.degrees[d] = g.indices[outer];
      t.steps[d] = g.steps[outer];
      continue;
    }
    bool outer_is_single = true;  // each block has one element of all outer indices
    for (const auto i : dims[d].indices) {
      const bool is_scattered = g.indices[i] * g.steps[i] > 1 && !outer_is_single;
      if (is_scattered || (g.steps[i] > 1 && t.degrees[d] > 1)) {
        return false;
      }
      t.degrees[d] *= g.indices[i];
      t.steps[d] *= g.steps[i];
      outer_is_single = outer_is_single && g.indices[i] * g.steps[i] == s.indices[i].size;
    }
  }
  return is_valid(t);
}

UNITY_INLINE bool can_step(const operator_dimensions& o, std::size_t index) {
  const auto kind = o.structure.indices[index].kind;
  for (std::size_t x = 0; kind == tensor::index_kind::reduction && x < o.inputs.size(); ++x) {
    if (o.additive[x] && !has_index(o.structure, o.structure.operands[x], index)) {
      return false;
    }
  }
  return kind == tensor::index_kind::reduction || kind == tensor::index_kind::parallel;
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE axis_view view_of_index(const operator_dimensions& o, std::size_t operand, std::size_t index) {
  if (detail::has_index(o.structure, o.structure.operands[operand], index)) {
    return axis_view::dimension;
  }
  const bool is_summed = o.structure.indices[index].kind == tensor::index_kind::reduction;
  return is_summed && o.additive[operand] ? axis_view::partial : axis_view::copies;
}

UNITY_INLINE std::string why_not(const operator_dimensions& o, const operator_grid& g) {
  const auto& s = o.structure;
  if (g.indices.size() != s.indices.size() || g.steps.size() != s.indices.size() ||
      g.partials.size() != o.groups.size() || g.copies < 1) {
    return "degrees of another operator";
  }
  for (std::size_t i = 0; i < s.indices.size(); ++i) {
    const auto& index = s.indices[i];
    const auto parts = g.indices[i] * g.steps[i];
    if (g.indices[i] < 1 || g.steps[i] < 1 || index.size % parts != 0) {
      return fmt::format("{} parts of index {}, whose size is {}", parts, index.name, index.size);
    }
    if (parts == 1) {
      continue;
    }
    const bool adds =
        std::any_of(o.reductions.begin(), o.reductions.end(), [&](const auto& r) { return r.indices[0] == i; });
    const bool is_seen = std::any_of(s.operands.begin(), s.operands.end(),
                                     [&](const auto& dims) { return detail::has_index(s, dims, i); });
    if (index.kind == tensor::index_kind::whole || (index.kind == tensor::index_kind::reduction && !adds) || !is_seen ||
        (g.steps[i] > 1 && !detail::can_step(o, i)) ||
        (index.kind != tensor::index_kind::reduction &&
         !std::all_of(s.results.begin(), s.results.end(),
                      [&](const auto& dims) { return detail::has_index(s, dims, i); }))) {
      return fmt::format("parts of index {}, which cannot be divided", index.name);
    }
  }
  return {};
}

UNITY_INLINE std::optional<grid_types> types_on(const operator_dimensions& o, const operator_grid& g) {
  if (!why_not(o, g).empty()) {
    return std::nullopt;
  }
  grid_types all;
  const auto& s = o.structure;
  for (std::size_t x = 0; x < o.inputs.size(); ++x) {
    auto t = undivided(o.inputs[x]);
    if (!detail::divide(s, s.operands[x], g, t)) {
      return std::nullopt;
    }
    t.copies = g.copies;
    for (std::size_t i = 0; i < g.indices.size(); ++i) {
      const auto view = view_of_index(o, x, i);
      t.copies *= view == axis_view::copies ? g.indices[i] : 1;
      t.partial *= view == axis_view::partial ? g.indices[i] : 1;
    }
    for (std::size_t p = 0; p < g.partials.size(); ++p) {
      (view_of_group(o, x, p) == axis_view::partial ? t.partial : t.copies) *= g.partials[p];
    }
    all.operands.push_back(std::move(t));
  }
  for (std::size_t r = 0; r < o.outputs.size(); ++r) {
    auto t = undivided(o.outputs[r]);
    if (!detail::divide(s, s.results[r], g, t)) {
      return std::nullopt;
    }
    t.copies = g.copies;
    t.partial = product(g.partials);
    for (std::size_t i = 0; i < g.indices.size(); ++i) {
      t.partial *= view_of_index_in_result(o, r, i) == axis_view::partial ? g.indices[i] : 1;
    }
    all.results.push_back(std::move(t));
  }
  return all;
}

}  // namespace unity::parallel

namespace unity::parallel::detail {

UNITY_INLINE bool assign(const tensor::index_structure& s, const std::vector<std::size_t>& along, std::int64_t degree,
                         std::int64_t steps, std::vector<std::optional<std::pair<std::int64_t, std::int64_t>>>& known) {
  for (const auto i : along) {
    const auto size = s.indices[i].size;
    // Steps are the outermost digits of a dimension.
    const auto step = steps % size == 0 ? size : steps;
    if (size % step != 0) {
      return false;
    }
    const auto left = size / step;
    const auto part = degree % left == 0 && (left > 1 || degree == 1) ? left : degree;
    const auto own = left == 1 ? 1 : part;
    if (left % own != 0) {
      return false;
    }
    steps /= step;
    degree /= own;
    const std::pair value{own, step};
    if (known[i] && *known[i] != value) {
      return false;
    }
    known[i] = value;
  }
  return degree == 1 && steps == 1;
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE std::optional<operator_grid> infer_grid(const operator_dimensions& o,
                                                     std::span<const parallel_type> operands) {
  if (operands.size() != o.inputs.size() || operands.empty()) {
    return std::nullopt;
  }
  const auto& s = o.structure;
  auto g = undivided_grid(o);
  std::vector<std::optional<std::pair<std::int64_t, std::int64_t>>> known(s.indices.size());
  for (std::size_t x = 0; x < operands.size(); ++x) {
    for (std::size_t d = 0; d < s.operands[x].size(); ++d) {
      const auto& dim = s.operands[x][d];
      const auto along = dim.window ? std::vector{static_cast<std::size_t>(s.windows[*dim.window].outer)} : dim.indices;
      if (!detail::assign(s, along, operands[x].degrees[d], operands[x].steps[d], known)) {
        return std::nullopt;
      }
    }
  }
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (known[i]) {
      g.indices[i] = known[i]->first;
      g.steps[i] = known[i]->second;
    }
  }
  for (std::size_t p = 0; p < o.groups.size(); ++p) {
    for (const auto x : o.groups[p]) {
      const bool is_only_here = std::count_if(o.groups.begin(), o.groups.end(),
                                              [&](const auto& other) { return detail::is_in(other, x); }) == 1;
      if (!is_only_here) {
        continue;
      }
      std::int64_t seen = 1;
      for (std::size_t i = 0; i < g.indices.size(); ++i) {
        seen *= view_of_index(o, x, i) == axis_view::partial ? g.indices[i] : 1;
      }
      if (operands[x].partial % seen != 0) {
        return std::nullopt;
      }
      g.partials[p] = operands[x].partial / seen;
      break;
    }
  }
  const auto others = product(g.indices) * product(g.partials);
  if (total(operands[0]) % others != 0) {
    return std::nullopt;
  }
  g.copies = total(operands[0]) / others;
  const auto types = types_on(o, g);
  for (std::size_t x = 0; types && x < operands.size(); ++x) {
    auto t = types->operands[x];
    t.global.constant = operands[x].global.constant;
    if (t != operands[x]) {
      return std::nullopt;
    }
  }
  return types ? std::optional{g} : std::nullopt;
}

}  // namespace unity::parallel

#endif
