// The copies between a device and its host in a pipeline, and when they start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/tasks/fragment.hpp>

namespace unity::parallel {

// The copies of a device in the program of one micro-batch. Tasks are given by their position in `tasks`.
struct device_copies {
  // Copies results back from the host.
  struct fetch {
    tasks::task_ref task{};
    std::size_t begun = 0;   // a task after which it starts
    std::size_t needed = 0;  // the first task that reads the result
  };
  // Copies of a task's results to the host.
  struct store {
    std::size_t maker = 0;
    std::vector<tasks::task_ref> tasks{};
  };
  // The device's tasks of the forward pass, then those of the backward pass, each in an order in which they can run.
  std::vector<tasks::task_ref> tasks{};
  std::vector<store> stores{};   // in the order of tasks
  std::vector<fetch> fetches{};  // in the order in which results are needed
};

// The largest number of tasks of a device with results that are not stored yet: the next such task waits, so that
// results do not pile up if the link is slower than the device. With two, a copy runs beside the next task.
inline constexpr std::size_t tasks_with_stores = 2;

namespace detail {

// The tasks of a device over all phases, in an order in which they can run, and its fetches in the order in which they
// are needed. Durations are in picoseconds.
struct phase_sequence {
  struct fetch {
    std::size_t needed = 0;  // the task that needs it
    std::size_t begun = 0;   // the last task of the micro-batch's forward pass
    std::int64_t takes = 0;
  };
  std::vector<std::int64_t> durations{};  // by task
  std::vector<std::size_t> phases{};      // the first task of each
  std::vector<fetch> fetches{};
};

// How long before a phase its fetches must start so that no task waits, if tasks run one after another, and so do
// fetches; at most the time of the fetches for the first two tasks that need any, because results fetched ahead of a
// phase occupy memory for longer. tasks: the durations of the phase's tasks; fetches: those that they need; first: the
// number of the first task.
// Complexity: linear.
[[nodiscard]] std::int64_t lead_of(std::span<const std::int64_t> tasks, std::span<const phase_sequence::fetch> fetches,
                                   std::size_t first);

// By fetch: the number of tasks that have ended when it starts, ascending. First finds when tasks would start if they
// waited only for fetches, and if the fetches of a phase started lead_of before the phase, but not before the forward
// pass of the micro-batch has ended. Then each fetch starts as late as possible: it ends before the next fetch starts,
// and before the task that needs it would start.
// Complexity: n log n in tasks and fetches.
[[nodiscard]] std::vector<std::size_t> ended_before(const phase_sequence& s);

}  // namespace detail

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_LOWERING_DEVICE_COPIES)

#include <algorithm>
#include <limits>

#include <unity/core/config.hpp>

namespace unity::parallel::detail {

UNITY_INLINE std::int64_t lead_of(std::span<const std::int64_t> tasks, std::span<const phase_sequence::fetch> fetches,
                                  std::size_t first) {
  constexpr std::size_t most = 2;
  std::size_t needing = 0;
  std::int64_t of_first_tasks = 0;
  std::int64_t copied = 0;
  std::int64_t now = 0;
  std::int64_t lead = 0;
  std::size_t f = 0;
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    const auto before = f;
    for (; f < fetches.size() && fetches[f].needed == first + t; ++f) {
      copied += fetches[f].takes;
    }
    needing += f > before ? 1 : 0;
    of_first_tasks = needing <= most ? copied : of_first_tasks;
    lead = std::max(lead, copied - now);
    now += tasks[t];
  }
  return std::min(lead, of_first_tasks);
}

UNITY_INLINE std::vector<std::size_t> ended_before(const phase_sequence& s) {
  std::vector<std::int64_t> ends(s.durations.size());
  std::int64_t copied = 0;
  std::int64_t now = 0;
  std::size_t f = 0;
  for (std::size_t k = 0; k < s.phases.size(); ++k) {
    const auto first = s.phases[k];
    const auto end = k + 1 < s.phases.size() ? s.phases[k + 1] : s.durations.size();
    const auto from = f;
    while (f < s.fetches.size() && s.fetches[f].needed < end) {
      ++f;
    }
    const auto needed = std::span{s.fetches}.subspan(from, f - from);
    if (!needed.empty()) {
      const auto lead = lead_of(std::span{s.durations}.subspan(first, end - first), needed, first);
      copied = std::max({copied, now - lead, ends[needed.front().begun]});
    }
    auto next = needed.begin();
    for (auto t = first; t < end; ++t) {
      for (; next != needed.end() && next->needed == t; ++next) {
        copied += next->takes;
        now = std::max(now, copied);
      }
      now += s.durations[t];
      ends[t] = now;
    }
  }
  std::vector<std::size_t> ended(s.fetches.size());
  auto start = std::numeric_limits<std::int64_t>::max();
  for (auto i = s.fetches.size(); i-- > 0;) {
    const auto& own = s.fetches[i];
    start = std::min(start, ends[own.needed] - s.durations[own.needed]) - own.takes;
    ended[i] = static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), start) - ends.begin());
  }
  return ended;
}

}  // namespace unity::parallel::detail

#endif
