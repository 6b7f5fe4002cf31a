// The time of every task under a policy of its resource: list scheduling, where a free resource chooses what it runs
// next; and devices that each have a queue and a clock of their own, as in dPRO's replayer.
#pragma once

#include <algorithm>
#include <concepts>
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
#include <unity/tasks/program.hpp>

namespace unity::simulate {

// Which ready task a resource runs next: the one of the lowest rank; among these the one that was ready first; among
// these the one with the lowest tie.
//   policy.rank(program, place)   of a task; constant while a program is simulated
// Models: first_in_first_out, by_kind, by_order, by_path.
template <class P>
concept scheduling_policy = requires(const P& policy, const tasks::program& p, std::uint32_t place) {
  { policy.rank(p, place) } -> std::same_as<std::int64_t>;
};

// list_simulation with this policy gives the times of full_simulation, if no task takes zero time.
struct first_in_first_out {
  [[nodiscard]] static std::int64_t rank(const tasks::program&, std::uint32_t) { return 0; }
};

// Kinds in the order of tasks::task_kind: forward first, messages after computation; weight gradients that are separate
// tasks and kinds of add_kind come last.
// Source: Hu et al., dPRO, MLSys 2022, has this order for its replayer.
struct by_kind {
  [[nodiscard]] static std::int64_t rank(const tasks::program& p, std::uint32_t place) {
    return static_cast<std::int64_t>(p[tasks::task_id{place}].kind);
  }
};

// The order of the program's fragments: front layers first.
// Source: Jayarajan et al., Priority-based parameter propagation, MLSys 2019.
struct by_order {
  [[nodiscard]] static std::int64_t rank(const tasks::program& p, std::uint32_t place) {
    return static_cast<std::int64_t>(p.tie(place) >> 32U);
  }
};

// The longest remaining path first: durations and latencies of dependent tasks, as if no resource were shared. Hops of
// a message overlap (tasks::dependency). Source: Topcuoglu et al., HEFT, IEEE TPDS 13(3), 2002, the upward rank.
class by_path {
 public:
  // Complexity: as a full simulation: t log t for t tasks, and linear in dependencies.
  // Throws: unity::error if tasks wait for each other.
  explicit by_path(const tasks::program& p) : left_(p.capacity(), 0) {
    full_simulation full;
    full.run(p);
    std::vector<std::int64_t> left_at_end(p.capacity(), 0);
    for (std::size_t i = full.order().size(); i-- > 0;) {
      const auto t = full.order()[i];
      std::int64_t after_end = 0;
      std::int64_t after_start = 0;
      for (const auto link : p.after(t)) {
        after_end = std::max(after_end, link.cut_through() ? left_at_end[link.task()] : left_[link.task()]);
        after_start = std::max(after_start, link.cut_through() ? left_[link.task()] : 0);
      }
      left_at_end[t] = p.timed(t).latency + after_end;
      left_[t] = std::max(p.timed(t).duration + left_at_end[t], p.timed(t).latency + after_start);
    }
  }
  [[nodiscard]] std::int64_t rank(const tasks::program&, std::uint32_t place) const { return -left_[place]; }

 private:
  std::vector<std::int64_t> left_;  // from the start, by place
};

namespace detail {

// A ready task in the heap of its resource.
struct ready_task {
  std::int64_t rank = 0;
  std::int64_t ready = 0;
  std::uint64_t tie = 0;
  std::uint32_t task = 0;
  // Reversed, because a heap has its greatest element on top.
  friend bool operator<(const ready_task& a, const ready_task& b) noexcept {
    return a.rank != b.rank ? a.rank > b.rank : a.ready != b.ready ? a.ready > b.ready : a.tie > b.tie;
  }
};

// The times of tasks that are started one by one.
class started_tasks {
 public:
  void begin(const tasks::program& p) {
    times_.assign(p.capacity(), {});
    order_.clear();
    order_.reserve(p.task_count());
    latest_ = 0;
    for_each_task(p, [&](std::uint32_t t) {
      times_[t].start = -static_cast<std::int64_t>(p.timed(t).before_count);  // while it waits: for how many
    });
  }
  // Calls f for the tasks that wait for none.
  template <class F>
  static void for_each_first(const tasks::program& p, const F& f) {
    for_each_task(p, [&](std::uint32_t t) {
      if (p.timed(t).before_count == 0) {
        f(t);
      }
    });
  }
  // Returns the end.
  std::int64_t start(const tasks::program& p, std::uint32_t t, std::int64_t now) {
    auto& times = times_[t];  // its end, as far as cut-through requires it
    times.start = now;
    times.end = std::max(times.end, now + p.timed(t).duration);
    latest_ = std::max(latest_, times.end);
    if (latest_ > latest_end) {
      throw error{"program", fmt::format("an iteration of more than {} s", latest_end / 1'000'000'000'000),
                  "times that fit"};
    }
    order_.push_back(t);
    return times.end;
  }
  // Calls f for the tasks that only waited for this one, which has been started.
  template <class F>
  void for_each_released(const tasks::program& p, std::uint32_t t, const F& f) {
    const auto& times = times_[t];
    const auto latency = p.timed(t).latency;
    for (const auto link : p.after(t)) {
      auto& next = times_[link.task()];
      next.ready = std::max(next.ready, (link.cut_through() ? times.start : times.end) + latency);
      if (link.cut_through()) {
        next.end = std::max(next.end, times.end + latency);
      }
      if (++next.start == 0) {
        f(link.task());
      }
    }
  }
  // Returns the latest end.
  // Throws: unity::error if tasks wait for each other.
  [[nodiscard]] picoseconds finish(const tasks::program& p) const {
    if (order_.size() < p.task_count()) {
      report_cycle(p, [&](std::uint32_t t) { return times_[t].start >= 0; });
    }
    return picoseconds{latest_};
  }

  [[nodiscard]] std::span<const task_times> times() const noexcept { return times_; }
  [[nodiscard]] std::span<const std::uint32_t> order() const noexcept { return order_; }

 private:
  static constexpr std::int64_t latest_end = std::int64_t{1} << 61U;  // 27 days

  template <class F>
  static void for_each_task(const tasks::program& p, const F& f) {
    for (std::size_t i = 0; i < p.fragment_count(); ++i) {
      const auto range = p.tasks_of(tasks::fragment_id{i});
      for (auto t = range.first; t < range.first + range.count; ++t) {
        f(t);
      }
    }
  }

  std::vector<task_times> times_;
  std::vector<std::uint32_t> order_;
  std::int64_t latest_ = 0;
};

}  // namespace detail

// A task is ready when everything that it depends on has ended and arrived. A free resource takes one of its ready
// tasks, by the policy, after all events of that time are processed; it never waits for a better one.
template <scheduling_policy Policy>
class list_simulation {
 public:
  explicit list_simulation(Policy policy = {}) : policy_{std::move(policy)} {}

  // Returns the latest end. Memory is kept for the next run. Complexity: t log t for t tasks, and linear in
  // dependencies.
  // Throws: unity::error if tasks wait for each other.
  picoseconds run(const tasks::program& p) {
    begin(p);
    while (!events_.empty()) {
      const auto now = events_.front().time;
      while (!events_.empty() && events_.front().time == now) {
        take(p, events_.pop());
      }
      for (const auto r : std::exchange(touched_, {})) {
        resources_[r].is_touched = false;
        start_next(p, r, now);
      }
    }
    return started_.finish(p);
  }

  // The times by place in the program; entries of empty places are meaningless.
  [[nodiscard]] std::span<const task_times> times() const noexcept { return started_.times(); }
  // The places of tasks in order of start.
  [[nodiscard]] std::span<const std::uint32_t> order() const noexcept { return started_.order(); }

 private:
  struct resource_state {
    std::vector<detail::ready_task> ready{};  // a heap
    bool is_busy = false;
    bool is_touched = false;  // listed in touched_
  };
  // Events are ready tasks and resources that become free.
  static constexpr std::uint32_t of_resource = 0x80000000U;

  void begin(const tasks::program& p) {
    UNITY_EXPECTS(p.capacity() < of_resource && p.resources().size() < of_resource, "fewer than 2^31 tasks");
    started_.begin(p);
    resources_.resize(p.resources().size());
    for (auto& r : resources_) {
      r.ready.clear();
      r.is_busy = r.is_touched = false;
    }
    events_.clear();
    touched_.clear();
    started_.for_each_first(p, [&](std::uint32_t t) { events_.push({0, p.tie(t), t}); });
  }
  void take(const tasks::program& p, const event& e) {
    if ((e.task & of_resource) != 0) {
      resources_[e.task - of_resource].is_busy = false;
      touch(e.task - of_resource);
      return;
    }
    const auto on = p.timed(e.task).resource;
    if (!on.valid()) {
      start(p, e.task, e.time);
      return;
    }
    auto& ready = resources_[on.index()].ready;
    ready.push_back({policy_.rank(p, e.task), e.time, e.tie, e.task});
    std::push_heap(ready.begin(), ready.end());
    touch(on.index());
  }
  void touch(std::uint32_t r) {
    if (!std::exchange(resources_[r].is_touched, true)) {
      touched_.push_back(r);
    }
  }
  void start_next(const tasks::program& p, std::uint32_t r, std::int64_t now) {
    auto& on = resources_[r];
    if (on.is_busy || on.ready.empty()) {
      return;
    }
    std::pop_heap(on.ready.begin(), on.ready.end());
    const auto t = on.ready.back().task;
    on.ready.pop_back();
    on.is_busy = true;
    events_.push({start(p, t, now), 0, r | of_resource});
  }
  // Returns the end.
  std::int64_t start(const tasks::program& p, std::uint32_t t, std::int64_t now) {
    const auto end = started_.start(p, t, now);
    started_.for_each_released(p, t, [&](std::uint32_t next) {
      events_.push({started_.times()[next].ready, p.tie(next), next});
    });
    return end;
  }

  Policy policy_;
  detail::started_tasks started_;
  std::vector<resource_state> resources_;
  std::vector<std::uint32_t> touched_;
  event_queue events_;
};

// Each resource is a device with a queue of ready tasks and a clock, the end of the last task that it ran. Of the
// devices with nonempty queues, the one with the earliest clock (the lowest number in case of ties) takes the task of
// the lowest rank, by the policy; among these the one that was ready first; among these the one with the lowest tie.
// The task starts when it is ready and the clock is reached; tasks that waited only for it are then queued. A task
// without a resource starts when it is ready.
// Unlike in list_simulation, a device chooses among the tasks that are queued so far, not among those that are ready at
// its clock: it may wait for a task of low rank although another one is ready earlier. If dependencies fix the order of
// tasks on every resource, both give the same times.
// Source: Hu et al., dPRO, MLSys 2022, section 4.3.
template <scheduling_policy Policy>
class device_queues {
 public:
  explicit device_queues(Policy policy = {}) : policy_{std::move(policy)} {}

  // Returns the latest end. Memory is kept for the next run.
  // Complexity: t log t for t tasks, and linear in dependencies. Memory linear in tasks.
  // Throws: unity::error if tasks wait for each other.
  picoseconds run(const tasks::program& p) {
    begin(p);
    while (!free_.empty() || !devices_.empty()) {
      run_free(p);
      if (!devices_.empty()) {
        run_device(p);
      }
    }
    return started_.finish(p);
  }

  // The times by place in the program; entries of empty places are meaningless.
  [[nodiscard]] std::span<const task_times> times() const noexcept { return started_.times(); }
  // The places of tasks in the order in which they were taken. Restricted to one resource, it is the order in which the
  // resource runs them.
  [[nodiscard]] std::span<const std::uint32_t> order() const noexcept { return started_.order(); }

 private:
  struct device {
    std::vector<detail::ready_task> queue{};  // a heap
    std::int64_t clock = 0;
  };
  using waiting_device = std::pair<std::int64_t, std::uint32_t>;  // clock, and number

  void begin(const tasks::program& p) {
    started_.begin(p);
    on_.resize(p.resources().size());
    for (auto& d : on_) {
      d.queue.clear();
      d.clock = 0;
    }
    devices_ = {};
    free_.clear();
    started_.for_each_first(p, [&](std::uint32_t t) { enqueue(p, t); });
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
    d.queue.push_back({policy_.rank(p, t), started_.times()[t].ready, p.tie(t), t});
    std::push_heap(d.queue.begin(), d.queue.end());
  }
  void run_free(const tasks::program& p) {
    while (!free_.empty()) {
      const auto t = free_.back();
      free_.pop_back();
      start(p, t, started_.times()[t].ready);
    }
  }
  void run_device(const tasks::program& p) {
    const auto number = devices_.top().second;
    devices_.pop();
    auto& d = on_[number];
    std::pop_heap(d.queue.begin(), d.queue.end());
    const auto t = d.queue.back().task;
    d.queue.pop_back();
    start(p, t, std::max(started_.times()[t].ready, d.clock), &d, number);
  }
  void start(const tasks::program& p, std::uint32_t t, std::int64_t now, device* on = nullptr,
             std::uint32_t number = 0) {
    const auto end = started_.start(p, t, now);
    if (on != nullptr) {
      on->clock = end;
      if (!on->queue.empty()) {
        devices_.push({on->clock, number});
      }
    }
    started_.for_each_released(p, t, [&](std::uint32_t next) { enqueue(p, next); });
  }

  Policy policy_;
  detail::started_tasks started_;
  std::vector<device> on_;
  std::priority_queue<waiting_device, std::vector<waiting_device>, std::greater<>> devices_;  // queues not empty
  std::vector<std::uint32_t> free_;  // ready, without a resource
};

}  // namespace unity::simulate
