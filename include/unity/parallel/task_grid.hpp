// The number of parts, terms and copies into which an operator is divided, independent of devices.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <utility>

#include <unity/core/small_vector.hpp>
#include <unity/parallel/parallel_type.hpp>

namespace unity::parallel {

// Regular. Lists of ones are stored empty, so that equal grids compare equal. Tasks are numbered
// [terms...][copies][reductions...][degrees...], row-major: tasks that differ only in the last digits make one
// result together.
struct task_grid {
  degree_list degrees{};     // per divisible dimension of the results
  degree_list reductions{};  // per divisible reduction; empty: 1 each
  degree_list terms{};       // per linear group; empty: 1 each
  std::int64_t copies = 1;

  task_grid() = default;
  // Divides only dimensions of the results.
  task_grid(degree_list d) : degrees{std::move(d)} {}
  task_grid(std::initializer_list<std::int64_t> d) : degrees(d) {}
  task_grid(degree_list d, degree_list sums, degree_list groups, std::int64_t same)
      : degrees{std::move(d)}, reductions{std::move(sums)}, terms{std::move(groups)}, copies{same} {
    drop_ones(reductions);
    drop_ones(terms);
  }

  // The number of blocks of the results; all have the same number of terms and copies.
  [[nodiscard]] std::int64_t blocks() const noexcept { return product(degrees); }
  [[nodiscard]] std::int64_t result_terms() const noexcept { return product(terms) * product(reductions); }
  [[nodiscard]] std::int64_t tasks() const noexcept { return blocks() * result_terms() * copies; }

  friend bool operator==(const task_grid&, const task_grid&) = default;
  friend auto operator<=>(const task_grid&, const task_grid&) = default;

 private:
  static void drop_ones(degree_list& all);
};

// The digits of a task's number, with the axes of each kind combined into one.
struct task_place {
  std::int64_t term = 0;  // of linear groups
  std::int64_t copy = 0;
  std::int64_t reduction = 0;
  std::int64_t block = 0;

  friend bool operator==(const task_place&, const task_place&) = default;
};

[[nodiscard]] task_place place_of(const task_grid& g, std::size_t task) noexcept;

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_TASK_GRID)

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
  p.term = rest;
  return p;
}

}  // namespace unity::parallel

#endif
