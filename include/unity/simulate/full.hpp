// Full simulation: the times of all tasks of a program.
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

// When a task is ready, starts and ends, in picoseconds from the start of the iteration.
struct task_times {
  std::int64_t ready = 0;
  std::int64_t start = 0;
  std::int64_t end = 0;

  friend bool operator==(const task_times&, const task_times&) = default;
};

namespace detail {

// Throws: unity::error for a program in which not all tasks can run.
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

// A task is ready when everything that it depends on has ended and arrived. Each resource runs one task at a time, in
// order of ready time, ties as program::tie says; a task without a resource starts when it is ready, concurrently with
// others.
// Source: Jia, dissertation (2020), section 3.4.2, table 3.2; ties, latencies and cut-through are additions of this
// library.
class full_simulation {
 public:
  // Returns the latest end. Memory is kept for the next run. Complexity: t log t for t tasks, and linear in
  // dependencies.
  // Throws: unity::error if tasks wait for each other.
  picoseconds run(const program::program& p) {
    begin(p);
    for_each_place(p, [&](std::uint32_t t) { expect(p, t); });
    const auto busiest = std::max_element(loads_.begin(), loads_.end());
    queue_.spread(0, busiest == loads_.end() ? 0 : *busiest + *busiest / 2, task_count_);
    const auto end = run_queue(p, std::numeric_limits<std::int64_t>::max());
    if (!is_complete()) {
      detail::report_cycle(p, [&](std::uint32_t t) { return is_done(t); });
    }
    return *end;
  }

  // The same for a program that was edited since `before` ran it. The edit must change nothing that is ready before
  // `since`: those tasks keep their times, and the others are timed. Returns the latest end, or nothing as soon as a
  // task must end after `bound`; check is_complete(). Added places must have been marked as never ready in `before`
  // (forget). Complexity: as run for the tasks that are timed, and linear in the others and their dependencies.
  std::optional<picoseconds> run_after(const program::program& p, const full_simulation& before, std::int64_t since,
                                       std::int64_t bound) {
    begin(p);
    for_each_place(p, [&](std::uint32_t t) {
      if (before.times_[t].ready < since) {
        times_[t] = before.times_[t];
      } else {
        expect(p, t);
      }
    });
    queue_.spread(since, before.latest_, task_count_);
    const auto is_kept = [&](std::uint32_t t) { return before.times_[t].ready < since; };
    kept_ = static_cast<std::size_t>(std::partition_point(before.order_.begin(), before.order_.end(), is_kept) -
                                     before.order_.begin());
    order_.assign(before.order_.begin(), before.order_.begin() + static_cast<std::ptrdiff_t>(kept_));
    for (const auto t : order_) {
      const auto& task = p.timed(t);
      const auto& times = times_[t];
      if (task.resource.valid()) {
        free_[task.resource.index()] = times.end;
      }
      latest_ = std::max(latest_, times.end);
      for (const auto link : p.after(t)) {
        if (times_[link.task()].start < 0) {
          count_down(p, link, times, task.latency);
        }
      }
    }
    return run_queue(p, bound);
  }
  // Marks places as never ready, for those that an edit adds.
  void forget(std::size_t capacity, std::uint32_t first, std::uint32_t count) {
    times_.resize(std::max(times_.size(), capacity));
    std::fill_n(times_.begin() + first, count, task_times{std::numeric_limits<std::int64_t>::max(), 0, 0});
  }

  // Whether the last run timed all tasks: none waits for itself.
  [[nodiscard]] bool is_complete() const noexcept { return order_.size() == task_count_; }
  [[nodiscard]] bool is_done(std::uint32_t place) const { return times_[place].start >= 0; }

  // By place in the program; entries of empty places are meaningless.
  [[nodiscard]] std::span<const task_times> times() const noexcept { return times_; }
  // Tasks in the order in which they were timed, which is that of their ready times. Restricted to one resource, it is
  // the order in which the resource runs them.
  [[nodiscard]] std::span<const std::uint32_t> order() const noexcept { return order_; }
  // How many of them kept their times.
  [[nodiscard]] std::size_t kept() const noexcept { return kept_; }

 private:
  template <class Visit>
  static void for_each_place(const program::program& p, const Visit& visit) {
    for (std::size_t f = 0; f < p.fragment_count(); ++f) {
      const auto range = p.tasks_of(program::fragment_id{f});
      for (auto t = range.first; t < range.first + range.count; ++t) {
        visit(t);
      }
    }
  }
  void begin(const program::program& p) {
    times_.resize(std::max(times_.size(), p.capacity()));
    free_.assign(p.resources().size(), 0);
    loads_.assign(p.resources().size(), 0);
    queue_.clear();
    order_.clear();
    task_count_ = p.task_count();
    order_.reserve(task_count_);
    latest_ = 0;
    kept_ = 0;
  }
  // A task to be timed. While it waits, `start` holds minus the number of tasks that it waits for.
  void expect(const program::program& p, std::uint32_t t) {
    const auto& task = p.timed(t);
    times_[t] = {0, -static_cast<std::int64_t>(task.before_count), 0};
    if (task.resource.valid()) {
      // a bound: a smaller value is valid, too, if the exact one would not fit
      auto& load = loads_[task.resource.index()];
      load = std::min(load + task.duration, std::int64_t{1} << 62U);
    }
    if (task.before_count == 0) {
      queue_.push({0, p.tie(t), t});
    }
  }
  std::optional<picoseconds> run_queue(const program::program& p, std::int64_t bound) {
    while (!queue_.empty()) {
      const auto least = run_next(p);
      if (latest_ > latest_end) {
        throw error{"program", fmt::format("an iteration of more than {} s", latest_end / 1'000'000'000'000),
                    "times that fit"};
      }
      if (least > bound) {
        return std::nullopt;
      }
    }
    return picoseconds{latest_};
  }
  // One of the tasks that a task waits for has been timed.
  void count_down(const program::program& p, program::task_link link, const task_times& by, std::int64_t latency) {
    auto& next = times_[link.task()];
    next.ready = std::max(next.ready, (link.cut_through() ? by.start : by.end) + latency);
    if (link.cut_through()) {
      next.end = std::max(next.end, by.end + latency);
    }
    if (++next.start == 0) {
      queue_.push({next.ready, p.tie(link.task()), link.task()});
    }
  }
  // Prefetches the data of the next events: first the task, then its links, then the other ends of these.
  void prefetch(const program::program& p) const {
    if (const auto* const e = queue_.ahead(4)) {
      __builtin_prefetch(&p.timed(e->task));
      __builtin_prefetch(&times_[e->task]);
    }
    if (const auto* const e = queue_.ahead(2)) {
      __builtin_prefetch(p.after(e->task).data());
    }
    if (const auto* const e = queue_.ahead(0)) {
      const auto links = p.after(e->task);
      for (std::size_t i = 0; i < std::min<std::size_t>(links.size(), 4); ++i) {
        __builtin_prefetch(&times_[links[i].task()]);
        __builtin_prefetch(&p.tie(links[i].task()));
      }
    }
  }
  // The earliest time at which the resource of the next task can be done with all its remaining work.
  std::int64_t run_next(const program::program& p) {
    const auto e = queue_.pop();
    prefetch(p);
    const auto& task = p.timed(e.task);
    auto& times = times_[e.task];  // its end, as far as cut-through requires it
    auto least = std::int64_t{0};
    times.start = e.time;
    if (task.resource.valid()) {
      auto& free = free_[task.resource.index()];
      times.start = std::max(e.time, free);
      times.end = free = std::max(times.end, times.start + task.duration);
      auto& load = loads_[task.resource.index()];
      load -= task.duration;
      least = times.end + load;
    } else {
      times.end = least = std::max(times.end, times.start + task.duration);
    }
    latest_ = std::max(latest_, times.end);
    order_.push_back(e.task);
    for (const auto link : p.after(e.task)) {
      count_down(p, link, times, task.latency);
    }
    return least;
  }

  static constexpr std::int64_t latest_end = std::int64_t{1} << 61U;  // 27 days
  std::vector<task_times> times_;
  std::vector<std::int64_t> free_;   // start of idle time, by resource
  std::vector<std::int64_t> loads_;  // durations of tasks that did not run yet, by resource
  std::vector<std::uint32_t> order_;
  std::size_t task_count_ = 0;
  std::size_t kept_ = 0;
  std::int64_t latest_ = 0;
  event_queue queue_;
};

}  // namespace unity::simulate
