// Operands that are sums of partials: their number, and the partial that each task reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/operator_grid.hpp>

namespace unity::parallel {

// Regular.
struct operand_partials {
  std::uint32_t count = 1;
  std::vector<std::uint32_t> of{};  // per task; empty: a single partial

  [[nodiscard]] std::uint32_t of_task(std::size_t t) const { return of.empty() ? 0 : of[t]; }

  friend bool operator==(const operand_partials&, const operand_partials&) = default;
};

// The number of partials of an operand is a product: of the partials of each linear group that contains it, and of the
// parts of each divided sum to which it is added from outside (operator_dimensions::additive). Partials are numbered by
// the task's digits along these, row-major.
// Complexity: linear in tasks.
[[nodiscard]] operand_partials partials_of(const operator_dimensions& o, const task_grid& g, std::size_t operand);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_LOWERING_OPERAND_PARTIALS)

#include <unity/core/row_major.hpp>

namespace unity::parallel {

UNITY_INLINE operand_partials partials_of(const operator_dimensions& o, const task_grid& g, std::size_t operand) {
  std::vector<bool> groups;
  std::vector<bool> sums;
  operand_partials all;
  for (std::size_t k = 0; k < g.partials.size(); ++k) {
    groups.push_back(view_of_group(o, operand, k) == axis_view::partial);
    all.count *= groups.back() ? static_cast<std::uint32_t>(g.partials[k]) : 1U;
  }
  for (std::size_t r = 0; r < g.reductions.size(); ++r) {
    sums.push_back(view_of_index(o, operand, o.reductions[r].indices[0]) == axis_view::partial);
    all.count *= sums.back() ? static_cast<std::uint32_t>(g.reductions[r]) : 1U;
  }
  if (all.count == 1) {
    return all;
  }
  const auto add = [](std::int64_t number, std::int64_t digits, const degree_list& degrees,
                      const std::vector<bool>& seen) {
    const auto at = position_of(digits, degrees);
    for (std::size_t k = 0; k < at.size(); ++k) {
      number = seen[k] ? number * degrees[k] + at[k] : number;
    }
    return number;
  };
  for (std::size_t t = 0; t < static_cast<std::size_t>(g.tasks()); ++t) {
    const auto place = place_of(g, t);
    const auto outer = add(0, place.partial, g.partials, groups);
    all.of.push_back(static_cast<std::uint32_t>(add(outer, place.reduction, g.reductions, sums)));
  }
  return all;
}

}  // namespace unity::parallel

#endif
