// The time of every task where each device has a queue and a clock of its own, as in dPRO's replayer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <span>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/units.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/list_scheduling.hpp>
#include <unity/tasks/program.hpp>

namespace unity::simulate {

// A resource is a device with a queue of the tasks that are ready and a clock, the end of what it ran last. Of the
// devices whose queues are not empty the one with the smallest clock (the lowest number) takes the head of its queue:
// the task of the lowest rank, by the policy; of those the one that is ready first; of those the one of the lowest tie.
// It starts when it is ready and the clock has come, and whatever waited for it alone is queued. A task without a
// resource runs when it is ready.
// Unlike list_simulation, a device decides among what is queued by then, not among what is ready at the time: it may
// wait for a task of low rank that is ready later than another. Where every resource has its order stated by
// dependencies, both give the same times.
// Source: Hu et al., dPRO, MLSys 2022, section 4.3.
template <scheduling_policy Policy>
class device_queues {
 public:
  explicit device_queues(Policy policy = {}) : policy_{std::move(policy)} {}

  // The latest end. Memory is kept for the next run.
  // Complexity: t log t for t tasks, and linear in dependencies. Memory linear in tasks.
  // Throws: unity::error where tasks wait for each other.
  picoseconds run(const tasks::program& p) {
    begin(p);
    while (!free_.empty() || !devices_.empty()) {
      run_free(p);
      if (!devices_.empty()) {
        run_device(p);
      }
    }
    if (order_.size() < p.task_count()) {
      detail::report_cycle(p, [&](std::uint32_t t) { return times_[t].start >= 0; });
    }
    return picoseconds{latest_};
  }

  // By place in the program; what holds no task has no meaning.
  [[nodiscard]] std::span<const task_times> times() const noexcept { return times_; }
  // In the order in which tasks were taken; restricted to a resource, that in which it runs them.
  [[nodiscard]] std::span<const std::uint32_t> order() const noexcept { return order_; }

 private:
  struct entry {
    std::int64_t rank = 0;
    std::int64_t ready = 0;
    std::uint64_t tie = 0;
    std::uint32_t task = 0;
    // For heaps, which have the greatest on top.
    friend bool operator<(const entry& a, const entry& b) noexcept {
      return a.rank != b.rank ? a.rank > b.rank : a.ready != b.ready ? a.ready > b.ready : a.tie > b.tie;
    }
  };
  struct device {
    std::vector<entry> queue{};  // a heap
    std::int64_t clock = 0;
  };
  using waiting_device = std::pair<std::int64_t, std::uint32_t>;      // clock, and number
  static constexpr std::int64_t latest_end = std::int64_t{1} << 61U;  // 27 days

  void begin(const tasks::program& p) {
    times_.assign(p.capacity(), {});
    on_.resize(p.resources().size());
    for (auto& d : on_) {
      d.queue.clear();
      d.clock = 0;
    }
    devices_ = {};
    free_.clear();
    order_.clear();
    order_.reserve(p.task_count());
    latest_ = 0;
    for (std::size_t f = 0; f < p.fragment_count(); ++f) {
      const auto range = p.tasks_of(tasks::fragment_id{f});
      for (auto t = range.first; t < range.first + range.count; ++t) {
        times_[t].start = -static_cast<std::int64_t>(p.timed(t).before_count);  // while it waits: for how many
      }
    }
    for (std::size_t f = 0; f < p.fragment_count(); ++f) {
      const auto range = p.tasks_of(tasks::fragment_id{f});
      for (auto t = range.first; t < range.first + range.count; ++t) {
        if (p.timed(t).before_count == 0) {
          enqueue(p, t);
        }
      }
    }
  }
  void enqueue(const tasks::program& p, std::uint32_t t) {
    const auto on = p.timed(t).resource;
    if (!on.valid()) {
      free_.push_back(t);
      return;
    }
    auto& d = on_[on.index()];
    if (d.queue.empty()) {
      devices_.push({d.clock, on.index()});
    }
    d.queue.push_back({policy_.rank(p, t), times_[t].ready, p.tie(t), t});
    std::push_heap(d.queue.begin(), d.queue.end());
  }
  void run_free(const tasks::program& p) {
    while (!free_.empty()) {
      const auto t = free_.back();
      free_.pop_back();
      start(p, t, times_[t].ready);
    }
  }
  void run_device(const tasks::program& p) {
    const auto number = devices_.top().second;
    devices_.pop();
    auto& d = on_[number];
    std::pop_heap(d.queue.begin(), d.queue.end());
    const auto t = d.queue.back().task;
    d.queue.pop_back();
    start(p, t, std::max(times_[t].ready, d.clock), &d, number);
  }
  void start(const tasks::program& p, std::uint32_t t, std::int64_t now, device* on = nullptr,
             std::uint32_t number = 0) {
    const auto& task = p.timed(t);
    auto& times = times_[t];  // its end: what cut-through asks of it so far
    times.start = now;
    times.end = std::max(times.end, now + task.duration);
    latest_ = std::max(latest_, times.end);
    if (latest_ > latest_end) {
      throw error{"program", fmt::format("an iteration of more than {} s", latest_end / 1'000'000'000'000),
                  "times that fit"};
    }
    order_.push_back(t);
    if (on != nullptr) {
      on->clock = times.end;
      if (!on->queue.empty()) {
        devices_.push({on->clock, number});
      }
    }
    for (const auto link : p.after(t)) {
      auto& next = times_[link.task()];
      next.ready = std::max(next.ready, (link.cut_through() ? times.start : times.end) + task.latency);
      if (link.cut_through()) {
        next.end = std::max(next.end, times.end + task.latency);
      }
      if (++next.start == 0) {
        enqueue(p, link.task());
      }
    }
  }

  Policy policy_;
  std::vector<task_times> times_;
  std::vector<device> on_;
  std::priority_queue<waiting_device, std::vector<waiting_device>, std::greater<>> devices_;  // queues not empty
  std::vector<std::uint32_t> free_;  // ready, without a resource
  std::vector<std::uint32_t> order_;
  std::int64_t latest_ = 0;
};

}  // namespace unity::simulate
