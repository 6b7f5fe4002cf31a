// The time of every task, from nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

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
                    "task " + std::to_string(t - range.first) + " of fragment " + std::to_string(f) +
                        (of.name.empty() ? "" : " (" + of.name + ")") + " waits for itself",
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
    times_.resize(p.capacity());
    waiting_.resize(p.capacity());
    free_.assign(p.resources().size(), 0);
    queue_.clear();
    order_.clear();
    order_.reserve(p.task_count());
    for (std::size_t f = 0; f < p.fragment_count(); ++f) {
      const auto range = p.tasks_of(program::fragment_id{f});
      for (auto t = range.first; t < range.first + range.count; ++t) {
        const auto& task = p.timed(t);
        times_[t] = {};
        waiting_[t] = task.before_count;
        if (task.before_count == 0) {
          queue_.push({0, p.tie(t), t});
        }
      }
    }
    std::int64_t latest = 0;
    while (!queue_.empty()) {
      latest = std::max(latest, run_next(p));
    }
    if (order_.size() != p.task_count()) {
      detail::report_cycle(p, [&](std::uint32_t t) { return waiting_[t] == 0; });
    }
    return picoseconds{latest};
  }

  // By place in the program; what holds no task has no meaning.
  [[nodiscard]] std::span<const task_times> times() const noexcept { return times_; }
  // Tasks in order of ready time and ties; restricted to a resource, the order in which that runs them.
  [[nodiscard]] std::span<const std::uint32_t> order() const noexcept { return order_; }

 private:
  std::int64_t run_next(const program::program& p) {
    const auto e = queue_.pop();
    if (!queue_.empty()) {  // most likely the next: its lines come from memory meanwhile
      __builtin_prefetch(&p.timed(queue_.front().task));
      __builtin_prefetch(&times_[queue_.front().task]);
    }
    const auto& task = p.timed(e.task);
    auto& times = times_[e.task];  // its end: what cut-through asks of it so far
    auto& free = free_[task.resource.index()];
    const auto start = std::max(e.time, free);
    const auto end = std::max(times.end, start + task.duration);
    times.start = start;
    times.end = free = end;
    order_.push_back(e.task);
    for (const auto link : p.after(e.task)) {
      auto& next = times_[link.task()];
      next.ready = std::max(next.ready, (link.cut_through() ? start : end) + task.latency);
      if (link.cut_through()) {
        next.end = std::max(next.end, end + task.latency);
      }
      if (--waiting_[link.task()] == 0) {
        queue_.push({next.ready, p.tie(link.task()), link.task()});
      }
    }
    return end;
  }

  std::vector<task_times> times_;
  std::vector<std::uint32_t> waiting_;  // for how many
  std::vector<std::int64_t> free_;  // from when on, by resource
  std::vector<std::uint32_t> order_;
  event_queue queue_;
};

}  // namespace unity::simulate
