// What the steps of Unity's search share: the question, the tables of the machine, the time, and what was found so far.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include <unity/core/budget.hpp>
#include <unity/core/units.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/mesh/mesh_options.hpp>
#include <unity/parallel/strategies/strategy_report.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/systems/unity/computing_bound.hpp>
#include <unity/systems/unity/options.hpp>
#include <unity/systems/unity/program_size.hpp>
#include <unity/systems/unity/search_record.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::systems::detail {

// The time of a search. The polish may use all of it; the steps before have their own share. Knows whether some step
// was cut short.
class search_time {
 public:
  search_time(double all, double own) : all_{all}, own_{own} {}

  [[nodiscard]] const stopwatch& watch() const noexcept { return watch_; }
  [[nodiscard]] double seconds() const { return watch_.seconds(); }
  [[nodiscard]] double own() const noexcept { return own_; }
  // Effects: the steps before the polish end after so many seconds.
  void set_own(double seconds) noexcept { own_ = seconds; }
  // The seconds that are left of all; negative if none are.
  [[nodiscard]] double left() const { return all_ - seconds(); }
  [[nodiscard]] double own_left() const { return own_ - seconds(); }
  // The seconds for a step with this share of the own time, starting now.
  [[nodiscard]] double seconds_for(double share) const { return std::max(0.0, std::min(share * own_, own_left())); }
  // Whether to skip a further step for lack of time.
  // Effects: if so, notes that the search was cut short.
  [[nodiscard]] bool is_past_deadline(double needed = 0) { return note(seconds() + needed >= own_); }
  // The same, but for all of the time and not only for the own share.
  [[nodiscard]] bool is_over(double needed = 0) { return note(seconds() + needed >= all_); }
  // Effects: notes that a step was cut short, if it was. Returns whether it was.
  bool note(bool is_cut_short) noexcept {
    ended_early_ = ended_early_ || is_cut_short;
    return is_cut_short;
  }
  [[nodiscard]] bool ended_early() const noexcept { return ended_early_; }
  // Makes a report, and notes how long that takes, to predict the time of the next one.
  [[nodiscard]] parallel::strategy_report timed(const std::function<parallel::strategy_report()>& report);
  // The seconds of the longest report.
  [[nodiscard]] double reported() const noexcept { return reported_; }
  // Ends a phase of this name, which lasted since the end of the one before.
  [[nodiscard]] search_phase end_phase(std::string_view name);

 private:
  double all_;
  double own_;
  double reported_ = 0;
  double phase_end_ = 0;
  bool ended_early_ = false;
  stopwatch watch_{};
};

struct search_context {
  const tensor::algebra& algebra;
  const hardware::machine& machine;
  const tensor::durations durations;
  const unity_options& options;
  const bytes memory_limit;                 // of the smallest device; 0: unknown
  const std::vector<std::uint32_t> models;  // the kinds of devices
  hardware::route_table routes;
  parallel::shard_clock clock;
  computing_bound computing;
  search_record record{};
  search_time time;

  search_context(const tensor::algebra& a, const hardware::machine& m, tensor::durations d, const unity_options& o);
  search_context(const search_context&) = delete;
  search_context& operator=(const search_context&) = delete;

  [[nodiscard]] bool allows(parallel::index_use use) const { return parallel::has(options.uses, use); }
  // Effects: records the time since the last phase.
  void end_phase(std::string_view name) { record.phases.push_back(time.end_phase(name)); }
  [[nodiscard]] std::size_t devices() const { return machine.network.device_count(); }
  [[nodiscard]] parallel::lowering lowering_of(const tensor::tensor_graph& g) const {
    return {algebra, g, machine, durations, parallel::transfers::exchanges, options.optimizer};
  }
  // A lower bound on the time of the graph.
  [[nodiscard]] picoseconds computing_of(const tensor::tensor_graph& g) {
    return computing.of(analyzed_graph{algebra, g, clock.dimensions()}.ops);
  }
  // Whether a program of all devices with that many micro-batches would be too large.
  [[nodiscard]] bool is_large(std::size_t operators, std::uint32_t stages, std::int64_t microbatches) const {
    return is_large_program(options.program_tasks, devices(), operators, stages, microbatches);
  }
  // See can_fold_program.
  [[nodiscard]] bool can_fold(std::size_t operators, std::uint32_t stages, std::int64_t microbatches) const {
    return can_fold_program(options.program_tasks, devices(), operators, stages, microbatches);
  }
  // Whether the graph has so few operators, for this number of devices, that more trials cost little.
  [[nodiscard]] bool is_small(std::size_t operators) const {
    constexpr std::size_t few = 1024;
    return operators * devices() <= few;
  }
  // Whether the graph has so few operators that all kinds of moves and all graphs a substitution away are tried. For
  // larger graphs, the proposals that this takes would find more elsewhere.
  [[nodiscard]] bool is_tiny(std::size_t operators) const { return is_small(tiny_factor * operators); }

  // How much smaller a tiny graph is than a small one, and how many more proposals its polish may make.
  static constexpr std::uint64_t tiny_factor = 16;
};

[[nodiscard]] std::vector<std::uint32_t> models_of(const hardware::machine& m);
[[nodiscard]] bytes smallest_memory(const hardware::machine& m);

[[nodiscard]] constexpr parallel::index_uses bit(parallel::index_use use) {
  return parallel::index_uses{1} << static_cast<unsigned>(use);
}
inline constexpr auto samples_alone = bit(parallel::index_use::data);

// Whether a exceeds memory by less than b; if they exceed it equally, whether a is faster.
[[nodiscard]] bool is_better(const parallel::strategy_report& a, const parallel::strategy_report& b);

}  // namespace unity::systems::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_UNITY_SEARCH_CONTEXT)

#include <utility>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/parallel/strategies/memory_limits.hpp>

namespace unity::systems::detail {

UNITY_INLINE parallel::strategy_report search_time::timed(const std::function<parallel::strategy_report()>& report) {
  const auto start = seconds();
  auto r = report();
  reported_ = std::max(reported_, seconds() - start);
  return r;
}

UNITY_INLINE search_phase search_time::end_phase(std::string_view name) {
  const auto before = std::exchange(phase_end_, seconds());
  return {name, phase_end_ - before};
}

UNITY_INLINE std::vector<std::uint32_t> models_of(const hardware::machine& m) {
  std::vector<std::uint32_t> models;
  for (const auto& d : m.network.devices()) {
    if (std::find(models.begin(), models.end(), d.model) == models.end()) {
      models.push_back(d.model);
    }
  }
  return models;
}

UNITY_INLINE bytes smallest_memory(const hardware::machine& m) {
  bytes least;
  for (const auto limit : parallel::memory_limits(m)) {
    least = least == bytes{} ? limit : std::min(least, limit == bytes{} ? least : limit);
  }
  return least;
}

UNITY_INLINE search_context::search_context(const tensor::algebra& a, const hardware::machine& m, tensor::durations d,
                                            const unity_options& o)
    : algebra{a},
      machine{m},
      durations{std::move(d)},
      options{o},
      memory_limit{smallest_memory(m)},
      models{models_of(m)},
      routes{m.network, fmt::format("machine {}", m.name)},
      clock{a, durations, models},
      computing{a, durations, models, m.network.device_count()},
      time{o.limits.seconds, 0.75 * (1 - o.known_share) * o.limits.seconds} {}

UNITY_INLINE bool is_better(const parallel::strategy_report& a, const parallel::strategy_report& b) {
  const auto over = [](const parallel::strategy_report& s) {
    bytes sum{};
    for (const auto& e : s.excess) {
      sum += e.over;
    }
    return sum;
  };
  return over(a) != over(b) ? over(a) < over(b) : a.iteration < b.iteration;
}

}  // namespace unity::systems::detail

#endif
