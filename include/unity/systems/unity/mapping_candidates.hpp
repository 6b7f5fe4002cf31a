// Mappings of a graph that are worth simulating.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <unity/core/budget.hpp>
#include <unity/core/units.hpp>
#include <unity/parallel/mesh/machine_mapping.hpp>
#include <unity/parallel/mesh/mesh_tables.hpp>
#include <unity/parallel/mesh/operator_graph.hpp>
#include <unity/systems/unity/mesh_solver.hpp>

namespace unity::systems {

// A mapping that is optimal for its mesh, index uses and objective.
struct mapping_candidate {
  mesh_solver* solver = nullptr;
  parallel::mapping_objective objective{};
  parallel::machine_mapping::solution solution{};
  picoseconds predicted{};  // with gradient reductions counted in full
  bytes memory{};           // per device, with all activations counted
};

// Fractions of gradient reductions that objectives count, in sixteenths: their overlap with the backward pass is known
// only after simulation.
inline constexpr std::array<int, 6> overlap_shares{16, 12, 8, 4, 2, 0};

// Total time and memory of a solution.
struct mapping_totals {
  picoseconds computing{};
  picoseconds synchronizing{};
  bytes memory{};  // per device
};

[[nodiscard]] mapping_totals totals_of(mesh_solver& solver, const parallel::operator_graph& g,
                                       const parallel::machine_mapping::solution& s);

// Prices of a mebibyte in picoseconds, from zero to more than any operator takes.
inline constexpr std::array<std::int64_t, 10> memory_prices{0,         1LL << 10, 1LL << 13, 1LL << 16, 1LL << 19,
                                                            1LL << 22, 1LL << 25, 1LL << 28, 1LL << 31, 1LL << 34};

// One mapping for each solver and share. If the cheapest does not fit in memory, also the one with the lowest price of
// memory that fits, or else with the highest price; then of the further shares only the last is tried. Duplicates are
// removed. Cheapest first.
// Stops after `seconds`: each solver gets a third of the remaining time, and no more solutions once one was
// interrupted. Earlier solvers are sure to get their share.
// Complexity: a solution for each solver and share, or up to 16 for each solver if memory is short.
[[nodiscard]] std::vector<mapping_candidate> mapping_candidates(
    const std::vector<mesh_solver*>& solvers, const parallel::operator_graph& g, bytes memory_limit,
    double seconds = std::numeric_limits<double>::infinity());

// The most promising candidates, at most `most`. Takes in turn the first of each kind of objective and index uses, on
// all devices or on some, fitting in memory or not; begins with the first of the fewest index uses.
[[nodiscard]] std::vector<mapping_candidate> chosen_candidates(const std::vector<mapping_candidate>& all,
                                                               std::size_t most, bytes memory_limit);

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_UNITY_MAPPING_CANDIDATES)

#include <algorithm>
#include <bit>
#include <numeric>
#include <tuple>

#include <unity/hardware/device_mesh.hpp>

namespace unity::systems {

UNITY_INLINE mapping_totals totals_of(mesh_solver& solver, const parallel::operator_graph& g,
                                      const parallel::machine_mapping::solution& s) {
  mapping_totals t;
  for (std::uint32_t i = 0; i < g.size(); ++i) {
    const auto& o = solver.tables().of(g.placed(i)).options[s.options[i]];
    t.computing += o.computing;
    t.synchronizing += o.synchronizing;
    t.memory += o.weights + o.activations;
  }
  return t;
}

UNITY_INLINE std::vector<mapping_candidate> mapping_candidates(const std::vector<mesh_solver*>& solvers,
                                                               const parallel::operator_graph& g, bytes memory_limit,
                                                               double seconds) {
  const stopwatch watch;
  std::vector<mapping_candidate> all;
  const auto add = [&](mesh_solver& solver, const parallel::mapping_objective& o) -> bytes {
    mapping_candidate c{&solver, o, solver.solve(g, o)};
    if (c.solution.cost >= parallel::unreachable) {
      return {};
    }
    const auto t = totals_of(solver, g, c.solution);
    const auto priced = parallel::price_of_memory(t.memory, o.per_mebibyte);
    c.memory = t.memory;
    c.predicted = picoseconds{c.solution.cost - priced} + t.synchronizing * (16 - o.synchronizing_16ths) / 16;
    const bool is_known = std::any_of(all.begin(), all.end(), [&](const mapping_candidate& k) {
      return k.solver == c.solver && k.solution.options == c.solution.options;
    });
    if (!is_known) {
      all.push_back(std::move(c));
    }
    return t.memory;
  };
  const auto solve_shares = [&](mesh_solver* solver) {
    bool is_short = false;
    for (const auto share : overlap_shares) {
      if (is_short && share != overlap_shares.back()) {
        continue;
      }
      const auto memory = add(*solver, {share, memory_prices.front()});
      if (solver->is_over()) {
        return;
      }
      if (memory_limit == bytes{} || memory <= memory_limit) {
        continue;
      }
      is_short = true;
      if (add(*solver, {share, memory_prices.back()}) > memory_limit) {
        continue;
      }
      auto above = std::size_t{0};  // does not fit at this price; fits at the other
      auto below = memory_prices.size() - 1;
      while (below - above > 1 && !solver->is_over()) {
        const auto middle = (above + below) / 2;
        (add(*solver, {share, memory_prices[middle]}) <= memory_limit ? below : above) = middle;
      }
    }
  };
  for (auto* solver : solvers) {
    solver->end_in((seconds - watch.seconds()) / 3);
    solve_shares(solver);
    solver->end_in(std::numeric_limits<double>::infinity());
  }
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return all[a].predicted != all[b].predicted ? all[a].predicted < all[b].predicted : a < b;
  });
  std::vector<mapping_candidate> sorted;
  for (const auto i : order) {
    sorted.push_back(std::move(all[i]));
  }
  all.swap(sorted);
  return all;
}

UNITY_INLINE std::vector<mapping_candidate> chosen_candidates(const std::vector<mapping_candidate>& all,
                                                              std::size_t most, bytes memory_limit) {
  std::vector<mapping_candidate> chosen;
  std::vector<bool> taken(all.size());
  std::size_t devices = 0;
  for (const auto& c : all) {
    devices = std::max(devices, c.solver->mesh().devices.size());
  }
  // The candidate that synchronizes most is predicted to be the slowest, but may overlap best.
  const auto simplest =
      std::min_element(all.begin(), all.end(), [](const mapping_candidate& a, const mapping_candidate& b) {
        return std::popcount(a.solver->uses()) < std::popcount(b.solver->uses());
      });
  if (simplest != all.end() && most > 0) {
    taken[static_cast<std::size_t>(simplest - all.begin())] = true;
    chosen.push_back(*simplest);
  }
  while (chosen.size() < std::min(most, all.size())) {
    std::vector<std::tuple<parallel::index_uses, int, bool, bool>> met;
    for (std::size_t i = 0; i < all.size() && chosen.size() < most; ++i) {
      const bool fits = memory_limit == bytes{} || all[i].memory <= memory_limit;
      const std::tuple kind{all[i].solver->uses(), all[i].objective.synchronizing_16ths, fits,
                            all[i].solver->mesh().devices.size() == devices};
      if (!taken[i] && std::find(met.begin(), met.end(), kind) == met.end()) {
        met.push_back(kind);
        taken[i] = true;
        chosen.push_back(all[i]);
      }
    }
  }
  return chosen;
}

}  // namespace unity::systems

#endif
