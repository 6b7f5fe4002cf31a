// The time of every task, from nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/units.hpp>
#include <unity/program/program.hpp>
#include <unity/simulate/event_queue.hpp>

namespace unity::simulate {

// When a task can run, and when it does. Picoseconds from the start of the iteration.
struct task_times {
  std::int64_t ready = 0;
  std::int64_t start = 0;
  std::int64_t end = 0;

  friend bool operator==(const task_times&, const task_times&) = default;
};

namespace detail {

// Throws: unity::error, for a program in which not all tasks could run.
template <class IsDone>
[[noreturn]] void report_cycle(const program::program& p, const IsDone& is_done) {
  for (std::size_t f = 0; f < p.fragment_count(); ++f) {
    const auto range = p.tasks_of(program::fragment_id{f});
    for (auto t = range.first; t < range.first + range.count; ++t) {
      if (!is_done(t)) {
        const auto& of = p.owner_of(program::fragment_id{f});
        throw error{"program",
                    fmt::format("task {} of fragment {}{} waits for itself", t - range.first, f,
                                of.name.empty() ? "" : fmt::format(" ({})", of.name)),
                    "dependencies without a cycle"};
      }
    }
  }
  throw error{"program", "tasks that wait for each other", "dependencies without a cycle"};
}

}  // namespace detail

// A task is ready when all that it depends on has ended and arrived; each resource runs one task at a time, in order of
// ready time, ties as program::tie says.
// Source: Jia, dissertation (2020), section 3.4.2, table 3.2; ties, latencies and cut-through are this library's.
class full_simulation {
 public:
  // The latest end. Memory is kept for the next run.
  // Complexity: t log t for t tasks, and linear in dependencies.
  // Throws: unity::error where tasks wait for each other.
  picoseconds run(const program::program& p) {
    free_.assign(p.resources().size(), 0);
    const auto none_known = [](std::uint32_t) { return static_cast<const task_times*>(nullptr); };
    const auto end = run_from(p, none_known, std::numeric_limits<std::int64_t>::max());
    if (!is_complete()) {
      detail::report_cycle(p, [&](std::uint32_t t) { return waiting_[t] == 0; });
    }
    return *end;
  }

  // The same where the first tasks have their times already. known(place): those, or null; what comes before a known
  // task in order of ready time and ties is known, too. free_from: by resource, when the last known task there ends.
  // The latest end of the others, or nothing as soon as one ends after `bound`. Check is_complete().
  // Complexity: as run, of the others, and linear in the known ones and their dependencies.
  template <class Known>
  std::optional<picoseconds> run_from(const program::program& p, std::span<const std::int64_t> free_from,
                                      const Known& known, std::int64_t bound) {
    free_.assign(free_from.begin(), free_from.end());
    return run_from(p, known, bound);
  }
  // Whether the last run came to the end of all tasks: none waits for itself.
  [[nodiscard]] bool is_complete() const noexcept { return order_.size() == left_; }
  [[nodiscard]] bool is_done(std::uint32_t place) const { return waiting_[place] == 0; }

  // By place in the program; what holds no task has no meaning.
  [[nodiscard]] std::span<const task_times> times() const noexcept { return times_; }
  // Tasks that were timed, in order of ready time and ties; restricted to a
  // resource, the order in which that runs them.
  [[nodiscard]] std::span<const std::uint32_t> order() const noexcept { return order_; }

 private:
  template <class Known>
  std::optional<picoseconds> run_from(const program::program& p, const Known& known, std::int64_t bound) {
    begin(p, known);
    std::int64_t latest = 0;
    while (!queue_.empty()) {
      const auto times = run_next(p);
      if (times.end > latest_end) {
        throw error{"program", fmt::format("an iteration of more than {} s", latest_end / 1'000'000'000'000),
                    "times that fit"};
      }
      latest = std::max(latest, times.end);
      if (times.least > bound) {
        return std::nullopt;
      }
    }
    return picoseconds{latest};
  }
  template <class Known>
  void begin(const program::program& p, const Known& known) {
    times_.resize(p.capacity());
    waiting_.resize(p.capacity());
    loads_.assign(p.resources().size(), 0);
    known_.clear();
    queue_.clear();
    order_.clear();
    left_ = p.task_count();
    for (std::size_t f = 0; f < p.fragment_count(); ++f) {
      const auto range = p.tasks_of(program::fragment_id{f});
      for (auto t = range.first; t < range.first + range.count; ++t) {
        if (const task_times* has = known(t)) {
          times_[t] = *has;
          waiting_[t] = 0;
          known_.push_back(t);
          continue;
        }
        const auto& task = p.timed(t);
        times_[t] = {};
        waiting_[t] = task.before_count;
        auto& load = loads_[task.resource.index()];  // a bound: less is right, too, where it would not fit
        load = std::min(load + task.duration, std::int64_t{1} << 62U);
        if (waiting_[t] == 0) {
          queue_.push({0, p.tie(t), t});
        }
      }
    }
    left_ -= known_.size();
    order_.reserve(left_);
    for (const auto t : known_) {
      for (const auto link : p.after(t)) {
        if (waiting_[link.task()] != 0) {
          count_down(p, link, times_[t], p.timed(t).latency);
        }
      }
    }
  }
  // One of the tasks that a task waits for has its times.
  void count_down(const program::program& p, program::task_link link, const task_times& by, std::int64_t latency) {
    auto& next = times_[link.task()];
    next.ready = std::max(next.ready, (link.cut_through() ? by.start : by.end) + latency);
    if (link.cut_through()) {
      next.end = std::max(next.end, by.end + latency);
    }
    if (--waiting_[link.task()] == 0) {
      queue_.push({next.ready, p.tie(link.task()), link.task()});
    }
  }
  struct task_end {
    std::int64_t end = 0;
    std::int64_t least = 0;  // when the last task on its resource ends, if they follow each other from now on
  };
  task_end run_next(const program::program& p) {
    const auto e = queue_.pop();
    if (!queue_.empty()) {  // most likely the next: its lines come from memory meanwhile
      __builtin_prefetch(&p.timed(queue_.front().task));
      __builtin_prefetch(&times_[queue_.front().task]);
    }
    const auto& task = p.timed(e.task);
    auto& times = times_[e.task];  // its end: what cut-through asks of it so far
    auto& free = free_[task.resource.index()];
    times.start = std::max(e.time, free);
    times.end = free = std::max(times.end, times.start + task.duration);
    order_.push_back(e.task);
    for (const auto link : p.after(e.task)) {
      count_down(p, link, times, task.latency);
    }
    auto& load = loads_[task.resource.index()];
    load -= task.duration;
    return {times.end, times.end + load};
  }

  static constexpr std::int64_t latest_end = std::int64_t{1} << 61U;  // 27 days
  std::vector<task_times> times_;
  std::vector<std::uint32_t> waiting_;  // for how many
  std::vector<std::int64_t> free_;   // from when on, by resource
  std::vector<std::int64_t> loads_;  // of tasks that did not run yet, by resource
  std::vector<std::uint32_t> order_;
  std::vector<std::uint32_t> known_;
  std::size_t left_ = 0;  // tasks to time
  event_queue queue_;
};

}  // namespace unity::simulate
