// Simulates plans that exceed the memory of their devices and therefore move values to the host.
#pragma once

#include <cstdint>

#include <unity/core/units.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/placement/find_memory_plan.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/cost.hpp>
#include <unity/train/moved_values.hpp>

namespace unity::train {

// Regular.
struct offloading {
  picoseconds iteration{};
  moved_bytes moved{};  // in an iteration, by the rank that moves the most
  bytes limit{};        // of the smallest arena

  friend bool operator==(const offloading&, const offloading&) = default;
};

// For comparing strategies, where each rank of each strategy needs a memory plan: with this effort one takes at most
// about a second, while `train` may take several for its own.
inline constexpr placement::memory_planning quick_planning{.program = {.alternatives = std::uint64_t{1} << 18U},
                                                           .search = {.width = 32, .work = 2'000'000}};

// Rewrites each rank's program by with_moves, for an arena of the memory that its device has besides weights and
// optimizer state; then simulates all of them as simulated_ranks does. Moves, including first loads of inputs, are not
// overlapped, as in train. Kernels have no workspaces here: with those of real ones, more may have to move. If a
// device's memory is unknown, nothing leaves it. host_rate: bytes per second between a device and its host.
// Precondition: positive. Complexity: as programs_of_ranks, and with_moves for each rank.
// Throws: unity::error that names the device if its memory is below what any plan needs; as programs_of_ranks,
// with_moves and simulated_ranks.
[[nodiscard]] offloading offload(const tensor::algebra& a, const parallel::plan& p, const tensor::durations& times,
                                 double host_rate, const placement::memory_planning& how = quick_planning);

}  // namespace unity::train

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRAIN_OFFLOADING)

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/machine/machine.hpp>
#include <unity/parallel/ranks/rank_lowering.hpp>
#include <unity/parallel/ranks/simulated_ranks.hpp>
#include <unity/parallel/strategies/memory_limits.hpp>
#include <unity/simulate/full.hpp>
#include <unity/train/memory_moves.hpp>
#include <unity/train/planned_memory.hpp>

namespace unity::train {

UNITY_INLINE offloading offload(const tensor::algebra& a, const parallel::plan& p, const tensor::durations& times,
                                double host_rate, const placement::memory_planning& how) {
  const auto programs = parallel::programs_of_ranks(a, p);
  const auto memories = parallel::memory_limits(p.machine);
  parallel::simulated_ranks ranks{a, p.machine, times, p.updates, host_rate};
  offloading all{{}, {}, bytes{std::numeric_limits<std::int64_t>::max()}};
  for (std::size_t r = 0; r < programs.ranks.size(); ++r) {
    const auto& program = programs.ranks[r];
    if (memories[r] == bytes{}) {
      ranks.add(program);
      continue;
    }
    const std::vector<std::size_t> workspaces(program.steps.size());
    const auto held = memory_of_rank(a, program, p.updates, workspaces);
    const auto limit = memories[r] - (held.sum() - held.arena);
    const auto& device = p.machine.network[machine::device_id{r}].name;
    if (limit <= bytes{}) {
      throw error{
          device, fmt::format("{} bytes", memories[r].count()),
          fmt::format("more than the {} of weights and what the optimizer keeps", (held.sum() - held.arena).count())};
    }
    all.limit = std::min(all.limit, limit);
    try {
      const auto moves = with_moves(a, program, workspaces, limit, how);
      ranks.add(moves.program);
      if (moves.moved.loaded + moves.moved.stored > all.moved.loaded + all.moved.stored) {
        all.moved = moves.moved;
      }
    } catch (const error& e) {
      throw error{fmt::format("{}, {}", device, e.what())};
    }
  }
  const auto whole = std::move(ranks).finish(programs.groups);
  all.iteration = simulate::full_simulation{}.run(whole);
  return all;
}

}  // namespace unity::train

#endif
