// The tasks of a rank's host threads in one iteration, the work that they launch, and their waits. The rules are those
// of add_local_graph (trace/local_graph.hpp).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/trace/events.hpp>
#include <unity/trace/local_tasks.hpp>

namespace unity::trace::detail {

// A part of a host thread's time: that of the innermost running event, or of none.
struct host_segment {
  picoseconds start{};
  picoseconds end{};
  std::uint32_t event = no_index;
  std::uint32_t outer = no_index;  // the enclosing event
  bool is_last = false;            // part of the event
};

class host_threads {
 public:
  explicit host_threads(local_tasks& to) : to_{to} {}

  // Effects: adds the tasks of all host threads. Precondition: the tasks of streams and channels exist.
  void add();
  // Effects: lets `finish`, the last task of the iteration, follow the gap at the end of the main thread, if there is
  // one.
  void end_with(std::uint32_t finish);
  // Effects: makes threads that were idle for long wait for what presumably woke them.
  void explain_gaps();

 private:
  void add_lane(std::uint32_t lane);
  [[nodiscard]] bool waits_for(std::uint32_t launched, const host_segment& call) const;
  [[nodiscard]] bool does_work(std::span<const std::uint32_t> list) const;
  std::uint32_t add_segment(std::uint32_t lane, const host_segment& s);
  std::uint32_t add_waiting_call(std::uint32_t lane, const host_segment& s, const local_tasks::ending& of);
  void cut_launch(std::uint32_t lane, const host_segment& s);
  void note_launch(const host_segment& s);

  struct host_gap {
    std::uint32_t lane = 0;
    picoseconds start{};
    picoseconds end{};
    std::uint32_t task = 0;
    std::uint32_t next = 0;
  };

  local_tasks& to_;
  std::vector<local_tasks::ending> idle_;  // when threads became idle
  std::vector<host_gap> gaps_;
};

}  // namespace unity::trace::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRACE_HOST_THREADS)

#include <algorithm>
#include <utility>

#include <unity/core/id.hpp>
#include <unity/trace/flow_graph.hpp>

namespace unity::trace::detail {

// The segments of one host thread within [from, to), in order; `list`: its events, by start.
class host_sweep {
 public:
  host_sweep(const rank_trace& t, picoseconds from, picoseconds to) : trace_{t}, cursor_{from}, to_{to} {}

  std::vector<host_segment> run(std::span<const std::uint32_t> list) {
    for (const auto i : list) {
      const auto start = std::clamp(trace_.events[i].start, cursor_, to_);
      close_until(start);
      emit(start);
      const auto end = std::min(std::max(trace_.events[i].end(), start), stack_.empty() ? to_ : stack_.back().end);
      stack_.push_back({i, end});
    }
    close_until(to_);
    emit(to_);
    return std::move(all_);
  }

 private:
  struct open_event {
    std::uint32_t event = 0;
    picoseconds end{};
  };

  [[nodiscard]] std::uint32_t outer() const { return stack_.size() < 2 ? no_index : stack_[stack_.size() - 2].event; }
  void close_until(picoseconds time) {
    while (!stack_.empty() && stack_.back().end <= time) {
      // Every event has a last part, possibly of zero length: dependencies refer to it.
      auto& top = stack_.back();
      all_.push_back({cursor_, top.end, top.event, outer(), true});
      cursor_ = top.end;
      stack_.pop_back();
    }
  }
  void emit(picoseconds until) {
    if (until <= cursor_) {
      return;
    }
    if (stack_.empty()) {
      all_.push_back({cursor_, until, no_index, no_index, false});
    } else {
      all_.push_back({cursor_, until, stack_.back().event, outer(), false});
    }
    cursor_ = until;
  }

  const rank_trace& trace_;
  picoseconds cursor_;
  picoseconds to_;
  std::vector<open_event> stack_;
  std::vector<host_segment> all_;
};

UNITY_INLINE void host_threads::add() {
  for (std::uint32_t l = 0; l < to_.trace.lanes.size(); ++l) {
    if (to_.kind_of(l) == lane_kind::host) {
      add_lane(l);
    }
  }
}

UNITY_INLINE void host_threads::add_lane(std::uint32_t lane) {
  const auto& list = to_.lists[lane];
  if (list.empty() && lane != to_.main_lane) {
    return;
  }
  auto to = to_.window.end;
  if (lane != to_.main_lane) {
    to = to_.window.start;
    for (const auto i : list) {
      to = std::max(to, to_.at(i).end());
    }
  }
  const auto all = host_sweep{to_.trace, to_.window.start, to}.run(list);
  const bool is_waited_for = does_work(list);
  for (std::size_t k = 0; k < all.size(); ++k) {
    const auto task = add_segment(lane, all[k]);
    to_.all_ends.push_back({all[k].end, task, lane});
    // A thread becomes idle if a long gap follows, or nothing.
    const bool is_long = k + 1 < all.size() && all[k + 1].event == no_index &&
                         all[k + 1].end - all[k + 1].start >= to_.limits.shortest_wait;
    if (is_waited_for && all[k].event != no_index && (is_long || k + 1 == all.size())) {
      idle_.push_back({all[k].end, task, lane});
    }
  }
}

// Whether the call waits for what it launched: a copy that ends within the call, or a collective that ends just before
// the call returns.
UNITY_INLINE bool host_threads::waits_for(std::uint32_t launched, const host_segment& call) const {
  const auto& e = to_.at(launched);
  const auto left = call.end - e.end();
  return left >= picoseconds{} &&
         (e.kind == event_kind::copy || (e.kind == event_kind::collective &&
                                         left <= std::max(to_.limits.longest_wakeup, (call.end - call.start) / 8)));
}

// Whether the thread computes. Nobody waits for a thread that only polls streams.
UNITY_INLINE bool host_threads::does_work(std::span<const std::uint32_t> list) const {
  return std::any_of(list.begin(), list.end(), [&](auto i) {
    const auto& e = to_.at(i);
    return e.kind == event_kind::operation || e.message != no_message ||
           (e.correlation != 0 && to_.launched.contains(e.correlation));
  });
}

UNITY_INLINE std::uint32_t host_threads::add_segment(std::uint32_t lane, const host_segment& s) {
  const auto previous = to_.last[lane];
  const auto settle = [&](std::uint32_t task) {
    if (!gaps_.empty() && gaps_.back().lane == lane && gaps_.back().next == no_index) {
      gaps_.back().next = task;
    }
    return task;
  };
  if (s.event == no_index) {
    auto gap = to_.task_of(task_type::gap, lane, s.start, s.end - s.start);
    gap.name = to_.graph.tasks[previous.task].name;
    gap.part = to_.graph.tasks[previous.task].part;
    gap.key = to_.next_key(lane, task_type::gap, gap.name);
    const auto task = to_.graph.add(gap);
    to_.append(lane, task);
    if (s.end - s.start >= to_.limits.shortest_wait) {
      gaps_.push_back({lane, s.start, s.end, task, no_index});
    }
    return task;
  }
  const auto& e = to_.at(s.event);
  if (e.message != no_message) {  // a host thread that receives
    if (const auto known = to_.last_task.find(s.event); known != to_.last_task.end()) {
      return known->second;
    }
    const auto last = to_.add_event(s.event);
    to_.append(lane, to_.first_task[s.event]);
    settle(to_.first_task[s.event]);
    to_.last[lane] = {s.end, last, lane};
    return last;
  }
  if (s.is_last && (e.kind == event_kind::synchronization || e.kind == event_kind::launch)) {
    const auto launched = to_.launched.find(e.correlation);
    const bool is_copy =
        e.kind == event_kind::launch && launched != to_.launched.end() && waits_for(launched->second, s);
    const auto* const of = e.kind == event_kind::synchronization
                               ? local_tasks::last_in(to_.device_ends, s.start, s.end, no_index)
                               : nullptr;
    if (is_copy || of != nullptr) {
      const auto task = add_waiting_call(
          lane, s,
          is_copy ? local_tasks::ending{to_.at(launched->second).end(), to_.last_task[launched->second], 0} : *of);
      settle(to_.first_task[s.event]);
      return task;
    }
  }
  auto t = to_.task_of(e.kind == event_kind::launch            ? task_type::launch
                       : e.kind == event_kind::synchronization ? task_type::synchronization
                                                               : task_type::host,
                       lane, s.start, s.end - s.start);
  t.name = e.name;
  t.part = e.part;
  t.key = to_.next_key(lane, t.type, e.name);
  const auto task = to_.graph.add(t);
  to_.append(lane, task);
  settle(task);
  to_.first_task.try_emplace(s.event, task);
  to_.last_task[s.event] = task;
  if (s.is_last && e.correlation != 0) {
    note_launch(s);
    cut_launch(lane, s);
  }
  return to_.last[lane].task;
}

// Adds a call that returns when something else has ended, as two tasks: one that starts what it waits for, and the
// wait.
UNITY_INLINE std::uint32_t host_threads::add_waiting_call(std::uint32_t lane, const host_segment& s,
                                                          const local_tasks::ending& of) {
  const auto& e = to_.at(s.event);
  constexpr picoseconds call{5'000'000};  // a launch, as CUDA calls take it
  auto t = to_.task_of(e.kind == event_kind::launch ? task_type::launch : task_type::synchronization, lane, s.start,
                       std::min({s.end - s.start, call, std::max(of.time - s.start, picoseconds{})}));
  if (const auto launched = to_.launched.find(e.correlation); launched != to_.launched.end()) {
    t.duration = t.recorded_duration =
        std::min(t.duration, std::max(to_.at(launched->second).start - s.start, picoseconds{}));
    to_.launches[e.correlation] = {s.start + t.duration, static_cast<std::uint32_t>(to_.graph.tasks.size()), lane};
    note_launch(s);
  }
  t.name = e.name;
  t.part = e.part;
  t.key = to_.next_key(lane, t.type, e.name);
  const auto task = to_.graph.add(t);
  to_.append(lane, task);
  to_.first_task.try_emplace(s.event, task);
  // The end of the call, which later tasks may wait for.
  auto end = to_.task_of(task_type::synchronization, lane, s.end, {});
  end.name = e.name;
  end.part = e.part;
  end.key = to_.next_key(lane, task_type::synchronization, e.name);
  const auto last = to_.graph.add(end);
  to_.append(lane, last);
  to_.link_after(of.task, s.end - of.time, last);
  to_.last_task[s.event] = last;
  return last;
}

// Work that a call starts may begin before the call returns: the rest of the call becomes a task of its own.
UNITY_INLINE void host_threads::cut_launch(std::uint32_t lane, const host_segment& s) {
  const auto& e = to_.at(s.event);
  const auto task = to_.last[lane].task;
  const auto launched = to_.launched.find(e.correlation);
  const auto start = launched == to_.launched.end() ? s.end : to_.at(launched->second).start;
  auto& t = to_.graph.tasks[task];
  if (start >= s.end || start < s.start) {
    to_.launches[e.correlation] = {s.end, task, lane};
  } else {
    to_.launches[e.correlation] = {start, task, lane};
    auto rest = t;
    rest.recorded_start = start + to_.shift;
    rest.duration = rest.recorded_duration = s.end - start;
    t.duration = t.recorded_duration = start - s.start;
    rest.key = to_.next_key(lane, rest.type, rest.name);
    const auto place = to_.graph.add(rest);
    to_.append(lane, place);
    to_.last_task[s.event] = place;
  }
}

// Assigns launched work to the enclosing operation, and to the part of the iteration in which it is launched.
UNITY_INLINE void host_threads::note_launch(const host_segment& s) {
  const auto launched = to_.launched.find(to_.at(s.event).correlation);
  if (launched == to_.launched.end()) {
    return;
  }
  for (auto t = to_.first_task[launched->second]; t <= to_.last_task[launched->second]; ++t) {
    to_.graph.tasks[t].operation = s.outer == no_index ? name_id{} : to_.at(s.outer).name;
    if (to_.graph.tasks[t].part != phase::communication) {
      to_.graph.tasks[t].part = to_.at(s.event).part;
    }
  }
}

UNITY_INLINE void host_threads::end_with(std::uint32_t finish) {
  for (auto& gap : gaps_) {
    gap.next = gap.next == no_index && gap.lane == to_.main_lane ? finish : gap.next;
  }
}

UNITY_INLINE void host_threads::explain_gaps() {
  std::sort(idle_.begin(), idle_.end());
  for (const auto& gap : gaps_) {
    if (gap.next == no_index) {
      continue;
    }
    const auto* const thread = local_tasks::last_in(idle_, gap.start, gap.end, gap.lane);
    const auto* const channel = local_tasks::last_in(to_.channel_ends, gap.start, gap.end, no_index);
    const auto* cause = thread == nullptr || (channel != nullptr && thread->time < channel->time) ? channel : thread;
    if (cause == nullptr || cause->task == no_index) {
      continue;
    }
    const auto wakeup = gap.end - cause->time;
    if (wakeup > to_.limits.longest_wakeup && 8 * wakeup > gap.end - gap.start) {
      continue;
    }
    to_.graph.tasks[gap.task].duration = to_.graph.tasks[gap.task].recorded_duration = {};
    to_.graph.tasks[gap.task].key = 0;
    to_.link_after(cause->task, wakeup, gap.next);
  }
}

}  // namespace unity::trace::detail

#endif
