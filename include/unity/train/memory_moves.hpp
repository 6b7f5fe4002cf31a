// Offloading: rewrites a rank's program so that values move to the host and back, and its arena stays within a limit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <unity/core/config.hpp>
#include <unity/core/units.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/placement/find_memory_plan.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/cost.hpp>
#include <unity/train/outside_arena.hpp>

namespace unity::train {

// Regular.
struct memory_moves {
  parallel::rank_program program{};
  bytes arena{};        // size that rank_executor allocates for it
  moved_bytes moved{};  // in each iteration, including first loads of inputs
  bytes bound{};        // no plan with this memory loads less, ignoring fragmentation; sizes rounded as in the arena

  friend bool operator==(const memory_moves&, const memory_moves&) = default;
};

// A program that computes the same, bit for bit, with an arena of at most `limit`. Operators are in the order of a plan
// of placement/ (or in the program's own order, if ranks communicate or values are kept between iterations), loads of
// inputs are at their first reads, `store` steps follow an operator and `fetch` steps precede one. Values are placed by
// first fit over time, which may need more than their total size; then more of them leave than in the plan. Returns the
// program unchanged if its arena is within the limit.
// Sent and received values stay from the start of the transfer to its end. Outputs, initial cotangents of the backward
// passes, and values kept between iterations stay permanently. Weights and optimizer state are not in the arena
// (held_state.hpp).
// workspaces: of the kernel of each step (workspaces_of in value_places.hpp). Unit: bytes.
// Complexity: as find_memory_plan, plus an arena plan for each additional value that leaves.
// Throws: unity::error if the limit is below what any plan needs, stating a sufficient limit; and for programs with
// messages or late steps of several iterations in progress.
[[nodiscard]] memory_moves with_moves(const tensor::algebra& a, const parallel::rank_program& p,
                                      std::span<const std::size_t> workspaces, bytes limit,
                                      const placement::memory_planning& planning = {});

// Simulates plans that exceed the memory of their devices and therefore move values to the host.

// Regular.
struct simulated_moves {
  picoseconds iteration{};
  moved_bytes moved{};  // in an iteration, by the rank that moves the most
  bytes limit{};        // of the smallest arena; the largest number if the memory of no device is known

  friend bool operator==(const simulated_moves&, const simulated_moves&) = default;
};

// For comparing strategies, where each rank of each strategy needs a memory plan: with this effort one takes at most
// about a second, while `train` may take several for its own.
inline constexpr placement::memory_planning quick_planning{.program = {.alternatives = std::uint64_t{1} << 18U},
                                                           .search = {.width = 32, .work = 2'000'000}};

// Rewrites each rank's program by with_moves, for an arena of the memory that its device has besides weights and
// optimizer state; then simulates all of them as simulated_ranks does. Moves, including first loads of inputs, are not
// overlapped, as in train. Kernels have no workspaces here; with those of real kernels, more values may have to move.
// If a device's memory is unknown, nothing leaves it. host_rate: bytes per second between a device and its host.
// Precondition: positive. Complexity: as programs_of_ranks, and with_moves for each rank.
// Throws: unity::error that names the device if its memory is below what any plan needs; as programs_of_ranks,
// with_moves and simulated_ranks.
[[nodiscard]] simulated_moves simulate_moves(const tensor::algebra& a, const parallel::plan& p,
                                             const tensor::durations& times, double host_rate,
                                             const placement::memory_planning& planning = quick_planning);

}  // namespace unity::train

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRAIN_MEMORY_MOVES)

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/backend/host_values.hpp>
#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/core/stable_sort.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/parallel/ranks/rank_lowering.hpp>
#include <unity/parallel/ranks/simulated_ranks.hpp>
#include <unity/parallel/strategies/memory_limits.hpp>
#include <unity/placement/memory_plan.hpp>
#include <unity/simulate/full.hpp>
#include <unity/tasks/storage.hpp>
#include <unity/train/detail/program_memory.hpp>
#include <unity/train/value_places.hpp>

namespace unity::train::detail {

// Rewrites a program according to a plan.
class moves_writer {
 public:
  // All arguments must outlive this object.
  moves_writer(const tensor::algebra& a, const parallel::rank_program& p, const program_memory& m,
               std::span<const std::size_t> workspaces);

  // The unchanged program.
  [[nodiscard]] memory_moves unmoved() const;
  // A program for the plan, with an arena of any size. Precondition: the plan keeps values in transit.
  [[nodiscard]] memory_moves write(const placement::memory_plan& plan);
  // Effects: lets more values leave, among those that are idle while a value of the last written program is beyond the
  // limit. Returns false if there are none.
  [[nodiscard]] bool drop_some(placement::memory_plan& plan, bytes limit) const;

 private:
  void add(parallel::rank_step step, std::size_t workspace, std::size_t at);
  void add_original(std::size_t s, std::size_t at);
  void add_copy(parallel::step_kind kind, tensor_id t, std::size_t at);
  void add_views(value_id made, std::size_t at);
  // An idle period of a value between two consecutive uses, in steps of the plan.
  struct idle_stay {
    tensor_id tensor{};
    std::size_t from = 0;
    std::size_t until = 0;
    bytes size{};

    friend auto operator<=>(const idle_stay&, const idle_stay&) = default;
  };
  // Adds the idle periods of a value's stay within a range of steps, without duplicates.
  void add_idle(value_id v, const stay& s, const placement::memory_plan& plan, const stay& within,
                std::set<idle_stay>& all) const;
  [[nodiscard]] std::set<idle_stay> idle_beyond(const placement::memory_plan& plan, bytes limit) const;

  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  const tensor::algebra& algebra_;
  const parallel::rank_program& program_;
  const program_memory& memory_;
  std::span<const std::size_t> given_;
  std::vector<std::size_t> makers_;                // per value: the step that makes it
  std::vector<std::vector<std::size_t>> views_{};  // per value: steps without work that read it
  std::vector<std::size_t> missing_{};             // per step: operands for which a view waits
  std::vector<std::size_t> missing_now_{};
  memory_moves written_{};
  std::vector<std::size_t> workspaces_{};  // of the written steps
  std::vector<std::size_t> places_{};      // of the written steps: the step of the plan that they belong to
  tasks::storage_plan storage_{};
  std::vector<std::size_t> numbers_{};  // number in the written program, by step of the given program
};

UNITY_INLINE moves_writer::moves_writer(const tensor::algebra& a, const parallel::rank_program& p,
                                        const program_memory& m, std::span<const std::size_t> workspaces)
    : algebra_{a},
      program_{p},
      memory_{m},
      given_{workspaces},
      makers_(p.graph.value_count(), none),
      views_(p.graph.value_count()),
      missing_(p.steps.size()) {
  const value_places places{a, p};
  for (std::size_t s = 0; s < p.steps.size(); ++s) {
    if (p.steps[s].node.valid()) {
      for (const auto v : p.graph.results(p.steps[s].node)) {
        makers_[v.index()] = s;
      }
    }
    if (p.steps[s].kind == parallel::step_kind::fused) {
      for (const auto v : p.kernels[p.steps[s].peer].outputs) {
        makers_[v.index()] = s;
      }
    }
    if (!places.runs(s)) {
      for (const auto v : p.graph.operands(p.steps[s].node)) {
        views_[v.index()].push_back(s);
        ++missing_[s];
      }
    }
  }
}

UNITY_INLINE void moves_writer::add(parallel::rank_step step, std::size_t workspace, std::size_t at) {
  written_.program.steps.push_back(std::move(step));
  workspaces_.push_back(workspace);
  places_.push_back(at);
}

UNITY_INLINE void moves_writer::add_views(value_id made, std::size_t at) {
  for (const auto s : views_[made.index()]) {
    if (--missing_now_[s] == 0) {
      add_original(s, at);
    }
  }
}

UNITY_INLINE void moves_writer::add_original(std::size_t s, std::size_t at) {
  using kinds = parallel::step_kind;
  auto step = program_.steps[s];
  numbers_[s] = written_.program.steps.size();
  if (step.kind == kinds::wait) {
    step.peer = static_cast<std::uint32_t>(numbers_[step.peer]);
  }
  add(step, given_[s], at);
  if (step.kind == kinds::load) {
    const auto size = backend::byte_count(program_.graph.type(program_.graph.results(step.node)[0]));
    written_.moved.loaded += bytes{static_cast<std::int64_t>(size)};
  }
  if (step.kind == kinds::fused) {
    for (const auto v : program_.kernels[step.peer].outputs) {
      add_views(v, at);
    }
  } else if (step.node.valid()) {
    for (const auto v : program_.graph.results(step.node)) {
      add_views(v, at);
    }
  }
}

UNITY_INLINE void moves_writer::add_copy(parallel::step_kind kind, tensor_id t, std::size_t at) {
  const auto v = memory_.value_of(t);
  const auto& maker = program_.steps[makers_[v.index()]];
  parallel::rank_step step;
  step.kind = kind;
  step.value = v;
  step.origin = maker.origin;
  step.is_backward = maker.is_backward;
  step.microbatch = maker.microbatch;
  add(step, 0, at);
  const bytes size{static_cast<std::int64_t>(backend::byte_count(program_.graph.type(v)))};
  (kind == parallel::step_kind::store ? written_.moved.stored : written_.moved.loaded) += size;
}

UNITY_INLINE memory_moves moves_writer::write(const placement::memory_plan& plan) {
  const auto unlimited = bytes{std::int64_t{1} << 60};
  const auto traffic = placement::replay(memory_.graph(), plan, unlimited);
  using kinds = parallel::step_kind;
  written_ = {};
  written_.program = program_;
  written_.program.steps.clear();
  workspaces_.clear();
  places_.clear();
  numbers_.assign(program_.steps.size(), none);
  missing_now_ = missing_;
  for (const auto v : value_ids(program_.graph)) {
    const auto maker = makers_[v.index()];
    if (maker == none) {
      add_views(v, 0);  // of weights, for example
    } else if (program_.steps[maker].kind == kinds::load) {
      const auto t = memory_.tensor_of(v);
      if (!t.valid() || memory_.graph().readers(t).empty()) {
        add_original(maker, 0);
      }
    }
  }
  for (std::size_t i = 0; i < plan.size(); ++i) {
    for (const auto t : traffic.steps[i].loaded) {
      const auto maker = makers_[memory_.value_of(t).index()];
      if (numbers_[maker] == none) {
        add_original(maker, i);
      } else {
        add_copy(kinds::fetch, t, i);
      }
    }
    add_original(memory_.step_of(plan[i].operation), i);
    for (const auto t : traffic.steps[i].stored) {
      add_copy(kinds::store, t, i);
    }
  }
  const auto values = arena_values(algebra_, written_.program, workspaces_);
  storage_ = tasks::plan_storage(values, arena_alignment);
  written_.arena = storage_.peak;
  return written_;
}

UNITY_INLINE memory_moves moves_writer::unmoved() const {
  memory_moves all;
  all.program = program_;
  all.arena = tasks::plan_storage(arena_values(algebra_, program_, given_), arena_alignment).peak;
  for (const auto& s : program_.steps) {
    if (s.kind == parallel::step_kind::load) {
      const auto size = backend::byte_count(program_.graph.type(program_.graph.results(s.node)[0]));
      all.moved.loaded += bytes{static_cast<std::int64_t>(size)};
    }
  }
  all.bound = all.moved.loaded;
  return all;
}

UNITY_INLINE void moves_writer::add_idle(value_id v, const stay& s, const placement::memory_plan& plan,
                                         const stay& within, std::set<idle_stay>& all) const {
  const auto t = memory_.tensor_of(v);
  auto before = s.first;
  for (const std::size_t next : s.readers) {
    const idle_stay idle{t, places_[before], places_[next], memory_.graph().tensor(t).size};
    bool may_leave = written_.program.steps[next].kind != parallel::step_kind::store && before <= within.last &&
                     within.first <= next && idle.from < idle.until;
    for (auto i = idle.from; i < idle.until && may_leave; ++i) {
      const auto& staying = memory_.under_way(plan[i].operation);
      may_leave = std::find(staying.begin(), staying.end(), t) == staying.end();
    }
    if (may_leave) {
      all.insert(idle);
    }
    before = next;
  }
}

UNITY_INLINE auto moves_writer::idle_beyond(const placement::memory_plan& plan, bytes limit) const
    -> std::set<idle_stay> {
  const value_places places{algebra_, written_.program};
  std::vector<std::pair<value_id, const stay*>> stays;  // as in the arena
  for (const auto v : value_ids(program_.graph)) {
    for (const auto& s : places[v]) {
      stays.emplace_back(v, &s);
    }
  }
  std::set<idle_stay> all;
  for (std::size_t i = 0; i < storage_.offsets.size(); ++i) {
    const auto step = i - std::min(i, stays.size());
    const bool is_value = i < stays.size();
    const auto size = is_value ? backend::byte_count(program_.graph.type(stays[i].first)) : workspaces_[step];
    if (storage_.offsets[i] + in_arena(size) <= limit) {
      continue;
    }
    const stay within = is_value ? *stays[i].second : stay{step, step, {}};
    for (const auto& [v, s] : stays) {
      if (memory_.tensor_of(v).valid()) {
        add_idle(v, *s, plan, within, all);
      }
    }
  }
  return all;
}

// Drops first the values that are unused for a long time and not much larger than the excess.
UNITY_INLINE bool moves_writer::drop_some(placement::memory_plan& plan, bytes limit) const {
  const auto excess = written_.arena - limit;
  const auto worth = [&](const idle_stay& s) {
    const auto used = static_cast<double>(std::min(s.size, excess).count()) / static_cast<double>(s.size.count());
    return used * static_cast<double>(s.until - s.from);
  };
  const auto all = idle_beyond(plan, limit);
  std::vector<idle_stay> order{all.begin(), all.end()};
  unity::stable_sort(order, [&](const idle_stay& x, const idle_stay& y) { return worth(x) > worth(y); });
  bytes dropped;
  for (const auto& s : order) {
    if (dropped >= excess) {
      break;
    }
    dropped += s.size;
    for (auto i = s.from; i < s.until; ++i) {
      std::erase(plan[i].kept, s.tensor);
    }
  }
  return !order.empty();
}

// The plan, extended to keep values in transit.
UNITY_INLINE placement::memory_plan keeping_under_way(placement::memory_plan plan, const program_memory& m) {
  for (auto& s : plan) {
    const auto& staying = m.under_way(s.operation);
    s.kept.insert(s.kept.end(), staying.begin(), staying.end());
    std::sort(s.kept.begin(), s.kept.end());
    s.kept.erase(std::unique(s.kept.begin(), s.kept.end()), s.kept.end());
  }
  return plan;
}

}  // namespace unity::train::detail

namespace unity::train {

UNITY_INLINE memory_moves with_moves(const tensor::algebra& a, const parallel::rank_program& p,
                                     std::span<const std::size_t> workspaces, bytes limit,
                                     const placement::memory_planning& planning) {
  const detail::program_memory memory{a, p, workspaces};
  const auto& g = memory.graph();
  detail::moves_writer writer{a, p, memory, workspaces};
  if (auto all = writer.unmoved(); all.arena <= limit) {
    return all;
  }
  constexpr int attempts = 3;
  const auto least = placement::least_capacity(g);
  auto capacity = limit - memory.resident();
  std::optional<memory_moves> best;
  bytes bound;
  for (int i = 0; i < attempts && capacity >= least.size; ++i) {
    const auto found = placement::find_memory_plan(g, capacity, planning);
    bound = i == 0 ? found.bound : bound;
    auto plan = detail::keeping_under_way(found.plan, memory);
    auto moves = writer.write(plan);
    const auto excess = moves.arena - limit;
    while (moves.arena > limit && writer.drop_some(plan, limit)) {
      moves = writer.write(plan);
    }
    if (moves.arena <= limit && (!best || moves.moved.loaded < best->moved.loaded)) {
      best = std::move(moves);
    }
    if (excess <= bytes{}) {
      break;
    }
    capacity -= excess;  // fragmentation needs about this much more
  }
  if (!best) {
    best = writer.write(detail::keeping_under_way(placement::streaming_plan(g, least.size), memory));
    bound = placement::input_bytes(g);
  }
  if (best->arena > limit) {
    throw error{"memory plan", fmt::format("an arena of {} bytes", limit.count()),
                fmt::format("{} bytes or more; {} reads and writes {} of them", best->arena.count(),
                            g.operation(least.operation).name, least.size.count())};
  }
  best->bound = bound;
  return std::move(*best);
}

UNITY_INLINE simulated_moves simulate_moves(const tensor::algebra& a, const parallel::plan& p,
                                            const tensor::durations& times, double host_rate,
                                            const placement::memory_planning& planning) {
  const auto programs = parallel::programs_of_ranks(a, p);
  const auto memories = parallel::memory_limits(p.machine);
  parallel::simulated_ranks ranks{a, p.machine, times, p.updates, host_rate};
  simulated_moves all{{}, {}, bytes{std::numeric_limits<std::int64_t>::max()}};
  for (std::size_t r = 0; r < programs.ranks.size(); ++r) {
    const auto& program = programs.ranks[r];
    if (memories[r] == bytes{}) {
      ranks.add(program);
      continue;
    }
    const std::vector<std::size_t> workspaces(program.steps.size());
    const auto held = memory_of_rank(a, program, p.updates, workspaces);
    const auto limit = memories[r] - (held.sum() - held.arena);
    const auto& device = p.machine.network[hardware::device_id{r}].name;
    if (limit <= bytes{}) {
      throw error{
          device, fmt::format("{} bytes", memories[r].count()),
          fmt::format("more than the {} of weights and what the optimizer keeps", (held.sum() - held.arena).count())};
    }
    all.limit = std::min(all.limit, limit);
    try {
      const auto moves = with_moves(a, program, workspaces, limit, planning);
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
