// The most likely offsets of the clocks of ranks, by Clp: a quadratic program under difference constraints.
#pragma once

#include <cstddef>
#include <vector>

#include <unity/trace/alignment.hpp>
#include <unity/trace/transactions.hpp>

namespace unity::trace {

namespace detail {

// The offsets that make the function least, that of rank 0 being 0. `start`: some that fulfil the constraints.
[[nodiscard]] std::vector<double> solve_by_clp(const quadratic_function& f,
                                               const std::vector<difference_constraint>& all,
                                               const std::vector<double>& start);

}  // namespace detail

// The clocks of all ranks as one: those that the ranks state, and what alignment_problem finds most likely to be added.
// All its constraints hold. Solved again with the weights at the solution before, until that stays where it is (a
// tenth of a microsecond) or 20 times.
// Complexity: of quadratic programs with as many variables as ranks, and as many constraints as pairs of ranks that
// exchange something.
// Throws: unity::error that names transactions which no clocks bring together.
// Source: Hu et al., dPRO, MLSys 2022, section 4.2.
[[nodiscard]] clock_offsets align_clocks(const job_trace& job, const transactions& x);

}  // namespace unity::trace

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRACE_CLP_ALIGNMENT)

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>

#include <coin/ClpSimplex.hpp>
#include <coin/CoinPackedMatrix.hpp>

#include <unity/core/config.hpp>

namespace unity::trace {

namespace detail {

UNITY_INLINE std::vector<double> solve_by_clp(const quadratic_function& f,
                                              const std::vector<difference_constraint>& all,
                                              const std::vector<double>& start) {
  const auto n = static_cast<int>(f.size);
  std::vector<double> least(f.size, -COIN_DBL_MAX);
  std::vector<double> most(f.size, COIN_DBL_MAX);
  least.front() = most.front() = 0;
  CoinPackedMatrix rows{false, 0, 0};
  rows.setDimensions(0, n);
  std::vector<double> lower(all.size(), -COIN_DBL_MAX);
  std::vector<double> upper;
  for (const auto& c : all) {
    const std::array<int, 2> pair{static_cast<int>(c.before), static_cast<int>(c.after)};
    const std::array<double, 2> values{1, -1};
    rows.appendRow(2, pair.data(), values.data());
    upper.push_back(static_cast<double>(c.bound) * 1e-6);
  }
  ClpSimplex model;
  model.setLogLevel(0);
  model.loadProblem(rows, least.data(), most.data(), f.linear.data(), lower.data(), upper.data());
  std::vector<CoinBigIndex> starts{0};
  std::vector<int> columns;
  std::vector<double> elements;
  for (int i = 0; i < n; ++i) {
    for (int j = i; j < n; ++j) {  // Clp wants each pair once
      const auto h = f.quadratic[static_cast<std::size_t>(i) * f.size + static_cast<std::size_t>(j)];
      if (h != 0) {
        columns.push_back(j);
        elements.push_back(h);
      }
    }
    starts.push_back(static_cast<CoinBigIndex>(columns.size()));
  }
  model.loadQuadraticObjective(n, starts.data(), columns.data(), elements.data());
  std::copy(start.begin(), start.end(), model.primalColumnSolution());
  model.primal();
  const auto* const x = model.primalColumnSolution();
  return {x, x + n};
}

}  // namespace detail

UNITY_INLINE clock_offsets align_clocks(const job_trace& job, const transactions& x) {
  auto offsets = stated_offsets(job);
  const alignment_problem problem{job, x};
  if (problem.constraints().empty()) {
    return offsets;
  }
  std::vector<double> at;
  for (const auto o : problem.feasible()) {
    at.push_back(static_cast<double>(o) * 1e-6);
  }
  at = detail::solve_by_clp(problem.objective(std::nullopt), problem.constraints(), at);
  for (int round = 0; round < 20; ++round) {
    const auto next = detail::solve_by_clp(problem.objective(at), problem.constraints(), at);
    double moved = 0;
    for (std::size_t r = 0; r < at.size(); ++r) {
      moved = std::max(moved, std::abs(next[r] - at[r]));
    }
    at = next;
    if (moved < 0.1) {
      break;
    }
  }
  for (std::size_t r = 0; r < at.size(); ++r) {
    offsets[r] += std::llround(at[r] * 1e6);
  }
  return offsets;
}

}  // namespace unity::trace

#endif
