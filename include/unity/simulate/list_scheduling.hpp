// List scheduling: a free resource chooses by a policy what it runs next.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
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

// Equal to full_simulation if no task takes zero time.
struct first_in_first_out {
  [[nodiscard]] static std::int64_t rank(const tasks::program&, std::uint32_t) { return 0; }
};

// Kinds in the order of tasks::task_kind: forward first, messages after computation.
// Source: Hu et al., dPRO, MLSys 2022, has this order for its replayer.
struct by_kind {
  [[nodiscard]] static std::int64_t rank(const tasks::program& p, std::uint32_t place) {
    return static_cast<std::int64_t>(p.code(tasks::task_id{place}).kind);
  }
};

// In the order of the program's fragments: front layers first.
// Source: Jayarajan et al., Priority-based parameter propagation, MLSys 2019.
struct by_order {
  [[nodiscard]] static std::int64_t rank(const tasks::program& p, std::uint32_t place) {
    return static_cast<std::int64_t>(p.tie(place) >> 32U);
  }
};

// The longest remaining path first: durations and latencies of dependent tasks, as if no resource were shared.
// Source: Topcuoglu et al., HEFT, IEEE TPDS 13(3), 2002, the upward rank.
class by_path {
 public:
  // Complexity: linear in tasks and dependencies.
  // Throws: unity::error if tasks wait for each other.
  explicit by_path(const tasks::program& p) : left_(p.capacity(), 0) {
    full_simulation full;
    full.run(p);
    for (std::size_t i = full.order().size(); i-- > 0;) {
      const auto t = full.order()[i];
      std::int64_t after = 0;
      for (const auto link : p.after(t)) {
        after = std::max(after, left_[link.task()]);
      }
      left_[t] = p.timed(t).duration + p.timed(t).latency + after;
    }
  }
  [[nodiscard]] std::int64_t rank(const tasks::program&, std::uint32_t place) const { return -left_[place]; }

 private:
  std::vector<std::int64_t> left_;  // by place
};

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
      if (now > latest_end) {
        throw error{"program", fmt::format("an iteration of more than {} s", latest_end / 1'000'000'000'000),
                    "times that fit"};
      }
      while (!events_.empty() && events_.front().time == now) {
        take(p, events_.pop());
      }
      for (const auto r : std::exchange(touched_, {})) {
        resources_[r].is_touched = false;
        start_next(p, r, now);
      }
    }
    if (order_.size() < p.task_count()) {
      detail::report_cycle(p, [&](std::uint32_t t) { return times_[t].start >= 0; });
    }
    return picoseconds{latest_};
  }

  // By place in the program; entries of empty places are meaningless.
  [[nodiscard]] std::span<const task_times> times() const noexcept { return times_; }
  // In order of start.
  [[nodiscard]] std::span<const std::uint32_t> order() const noexcept { return order_; }

 private:
  struct candidate {
    std::int64_t rank = 0;
    std::int64_t ready = 0;
    std::uint64_t tie = 0;
    std::uint32_t task = 0;
    // For heaps, which have the greatest on top.
    friend bool operator<(const candidate& a, const candidate& b) noexcept {
      return a.rank != b.rank ? a.rank > b.rank : a.ready != b.ready ? a.ready > b.ready : a.tie > b.tie;
    }
  };
  struct resource_state {
    std::vector<candidate> ready{};  // a heap
    bool is_busy = false;
    bool is_touched = false;  // listed in touched_
  };
  // Events are ready tasks and resources that become free.
  static constexpr std::uint32_t of_resource = 0x80000000U;
  static constexpr std::int64_t latest_end = std::int64_t{1} << 61U;  // 27 days

  void begin(const tasks::program& p) {
    UNITY_EXPECTS(p.capacity() < of_resource && p.resources().size() < of_resource, "fewer than 2^31 tasks");
    times_.assign(p.capacity(), {});
    resources_.resize(p.resources().size());
    for (auto& r : resources_) {
      r.ready.clear();
      r.is_busy = r.is_touched = false;
    }
    events_.clear();
    order_.clear();
    touched_.clear();
    latest_ = 0;
    for (std::size_t f = 0; f < p.fragment_count(); ++f) {
      const auto range = p.tasks_of(tasks::fragment_id{f});
      for (auto t = range.first; t < range.first + range.count; ++t) {
        times_[t].start = -static_cast<std::int64_t>(p.timed(t).before_count);  // while it waits: for how many
        if (p.timed(t).before_count == 0) {
          events_.push({0, p.tie(t), t});
        }
      }
    }
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
    start(p, t, now);
    events_.push({times_[t].end, 0, r | of_resource});
  }
  void start(const tasks::program& p, std::uint32_t t, std::int64_t now) {
    const auto& task = p.timed(t);
    auto& times = times_[t];  // its end, as far as cut-through requires it
    times.start = now;
    times.end = std::max(times.end, now + task.duration);
    latest_ = std::max(latest_, times.end);
    order_.push_back(t);
    for (const auto link : p.after(t)) {
      auto& next = times_[link.task()];
      next.ready = std::max(next.ready, (link.cut_through() ? times.start : times.end) + task.latency);
      if (link.cut_through()) {
        next.end = std::max(next.end, times.end + task.latency);
      }
      if (++next.start == 0) {
        events_.push({next.ready, p.tie(link.task()), link.task()});
      }
    }
  }

  Policy policy_;
  std::vector<task_times> times_;
  std::vector<resource_state> resources_;
  std::vector<std::uint32_t> touched_;
  std::vector<std::uint32_t> order_;
  std::int64_t latest_ = 0;
  event_queue events_;
};

}  // namespace unity::simulate
