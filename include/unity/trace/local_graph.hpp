// What one rank did in one iteration, as tasks and inferred dependencies.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/trace/events.hpp>
#include <unity/trace/flow_graph.hpp>
#include <unity/trace/local_tasks.hpp>

namespace unity::trace {

// Effects: adds the tasks of one iteration of a rank to the graph, which has the rank already: its `begin`, its
// `finish` and all tasks between. Rules, in the order in which they apply:
// - A host thread does one thing after another. An operation takes the time in which no operation nested in it runs;
//   the time between operations is a gap.
// - A stream runs its events in order, each after its launch. An event that starts later than these explain, and just
//   after an event of another stream ended, waited for that event. If instead another stream is running an event at
//   that time, it waited for the event before that one: the device had no room for more. The time that remains is a
//   delay.
// - A call that synchronizes, or whose copy or collective ends within it, continues after the last end of an event of a
//   stream or channel during the call.
// - A host thread that is idle for longer than `shortest_wait` waited for the last of these during the gap: another
//   host thread became idle, or a collective or message ended. If there is none, the gap is work.
// - An event with neither a launch nor a stated dependency follows the last event that ended before its start. If its
//   lane is a queue, this is when it enters the queue; it runs when the resource becomes free.
// - Work of an earlier iteration that still runs when this one begins occupies its stream until it ends.
// - An allocation lives from the first task of the event that made it, or the begin, to the last task of the event that
//   freed it, or the end. Allocations that were freed before the iteration or are made after it are left out.
// `durations`: of the rank's events, by index; of collectives and receives only the part that is not waiting. `lead`:
// how much later than the first rank this rank begins. `shift`: added to times to get `recorded_start`. `events`:
// indices of the events that may matter, ascending: those of the step, and those of earlier steps that end in it.
// Preconditions: sorted events with steps.
// Complexity: n log n in `events`, linear in allocations.
// Source: the rules for launches and gaps are those of Zhu et al., Daydream, USENIX ATC 2020, section 4.2; others own.
std::vector<communication_tasks> add_local_graph(flow_graph& g, std::uint32_t rank, const rank_trace& t,
                                                 const step_window& window, std::span<const picoseconds> durations,
                                                 picoseconds lead, picoseconds shift,
                                                 std::span<const std::uint32_t> events,
                                                 const inference_limits& limits = {});

// Lists the events that matter to each of a rank's steps. Complexity: linear in events and in the steps that each
// spans.
class step_events {
 public:
  explicit step_events(const rank_trace& t);
  [[nodiscard]] std::span<const std::uint32_t> of(std::int64_t step) const;

 private:
  std::unordered_map<std::int64_t, std::vector<std::uint32_t>> of_;
};

}  // namespace unity::trace

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRACE_LOCAL_GRAPH)

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/core/stable_sort.hpp>
#include <unity/trace/host_threads.hpp>

namespace unity::trace::detail {

class local_builder {
 public:
  explicit local_builder(local_tasks to) : to_{std::move(to)} {}
  local_builder(const local_builder&) = delete;
  local_builder& operator=(const local_builder&) = delete;

  std::vector<communication_tasks> run(picoseconds lead);

 private:
  void finish();
  [[nodiscard]] picoseconds typical_launch_delay() const;
  void link_device_lanes();
  [[nodiscard]] std::optional<local_tasks::ending> last_before_running(const event& e, picoseconds bound) const;
  void link_device_event(std::uint32_t i, const local_tasks::ending& previous, picoseconds typical);
  void link_stated();
  void link_messages();
  void add_allocations();
  void add_gradients();

  local_tasks to_;
  host_threads threads_{to_};
};

// Adds streams and channels before host threads, which wait for them. Infers what streams and channels wait for at the
// end.
UNITY_INLINE std::vector<communication_tasks> local_builder::run(picoseconds lead) {
  to_.start(lead);
  threads_.add();
  finish();
  std::sort(to_.all_ends.begin(), to_.all_ends.end());
  threads_.explain_gaps();
  link_device_lanes();
  link_stated();
  link_messages();
  add_allocations();
  add_gradients();
  return std::move(to_.communications);
}

UNITY_INLINE void local_builder::finish() {
  auto t = to_.task_of(task_type::finish, no_index, to_.window.end, {});
  t.key = to_.next_key(no_index, task_type::finish, {});
  const auto task = to_.graph.add(t);
  to_.graph.ranks[to_.rank].finish = task;
  to_.graph.ranks[to_.rank].measured = to_.window.duration();
  if (to_.main_lane != no_index) {
    to_.graph.link(to_.last[to_.main_lane].task, task);
    threads_.end_with(task);
  } else {
    to_.graph.link(to_.begin, task);
    for (std::uint32_t l = 0; l < to_.trace.lanes.size(); ++l) {
      if (to_.kind_of(l) == lane_kind::host) {
        to_.graph.link(to_.last[l].task, task);
      } else if (!to_.lists[l].empty()) {
        to_.graph.link(to_.last_task[to_.lists[l].back()], task);
      }
    }
  }
}

// The median time from a launch to a free stream until its work starts; 0 if there is no such launch. For work that
// found its stream busy, an upper bound of this delay.
UNITY_INLINE picoseconds local_builder::typical_launch_delay() const {
  std::vector<picoseconds> delays;
  for (std::uint32_t l = 0; l < to_.lists.size(); ++l) {
    auto free = to_.window.start;
    for (const auto i : to_.earlier[l]) {
      free = std::max(free, to_.at(i).end());
    }
    for (const auto i : to_.lists[l]) {
      const auto launch = to_.launches.find(to_.at(i).correlation);
      if (launch != to_.launches.end() && to_.kind_of(l) != lane_kind::host && launch->second.time >= free) {
        delays.push_back(to_.at(i).start - launch->second.time);
      }
      free = std::max(free, to_.at(i).end());
    }
  }
  if (delays.empty()) {
    return {};
  }
  const auto middle = delays.begin() + static_cast<std::ptrdiff_t>(delays.size() / 2);
  std::nth_element(delays.begin(), middle, delays.end());
  return std::max(*middle, picoseconds{});
}

UNITY_INLINE void local_builder::link_device_lanes() {
  const auto typical = typical_launch_delay();
  for (std::uint32_t l = 0; l < to_.lists.size(); ++l) {
    if (to_.kind_of(l) == lane_kind::host) {
      continue;
    }
    for (const auto i : to_.lists[l]) {
      link_device_event(i, to_.last[l], typical);
      to_.last[l] = {to_.at(i).end(), to_.last_task[i], l};
    }
  }
}

// The last event of another stream before the one that is running there when the event starts. Among streams, takes the
// event that ended last, if after `bound`.
UNITY_INLINE std::optional<local_tasks::ending> local_builder::last_before_running(const event& e,
                                                                                   picoseconds bound) const {
  std::optional<local_tasks::ending> last;
  for (std::uint32_t l = 0; l < to_.lists.size(); ++l) {
    if (l == e.lane || to_.kind_of(l) != lane_kind::stream) {
      continue;
    }
    const auto& list = to_.lists[l];
    const auto next = std::upper_bound(list.begin(), list.end(), e.start,
                                       [&](picoseconds t, std::uint32_t i) { return t < to_.at(i).start; });
    if (next - list.begin() < 2 || to_.at(*std::prev(next)).end() <= e.start) {
      continue;
    }
    const auto before = *std::prev(next, 2);
    if (to_.at(before).end() > bound && (!last || to_.at(before).end() > last->time)) {
      last = local_tasks::ending{to_.at(before).end(), to_.last_task.at(before), l};
    }
  }
  return last;
}

UNITY_INLINE void local_builder::link_device_event(std::uint32_t i, const local_tasks::ending& previous,
                                                   picoseconds typical) {
  const auto& e = to_.at(i);
  const auto task = to_.first_task[i];
  // What ended by then may have been waited for. Events that take no time, at one instant, do not wait for each other.
  const auto until = e.duration > picoseconds{} ? e.start : e.start - picoseconds{1};
  if (to_.trace.lanes[e.lane].is_queue) {  // the resource keeps the order within the queue
    const auto* const before = local_tasks::last_in(to_.all_ends, to_.window.start - picoseconds{1}, until, e.lane);
    to_.link_after(before == nullptr ? to_.begin : before->task,
                   e.start - (before == nullptr ? to_.window.start : before->time), task);
    return;
  }
  const auto launch = to_.launches.find(e.correlation);
  const bool is_launched = e.correlation != 0 && launch != to_.launches.end();
  const auto launched_at = is_launched ? launch->second.time : to_.window.start;
  // The time from which the stream was free, and the time from which the event could run.
  const auto free = std::min(previous.time, e.start);
  const auto bound = std::max(free, launched_at);
  const local_tasks::ending* other = nullptr;
  if (!is_launched || e.start - bound > to_.limits.longest_handover) {
    const auto& ends = is_launched ? to_.device_ends : to_.all_ends;
    other = local_tasks::last_in(ends, bound, until, e.lane);
    if (other != nullptr && is_launched && e.start - other->time > to_.limits.longest_handover) {
      other = nullptr;
    }
  }
  const auto before_running = other == nullptr && is_launched && e.start - bound > to_.limits.longest_handover
                                  ? last_before_running(e, bound)
                                  : std::nullopt;
  if (before_running) {
    other = &*before_running;
  }
  const auto on_stream = e.start - free;
  const auto since_launch = e.start - launched_at;
  if (other != nullptr) {
    to_.link_after(other->task, e.start - other->time, task);
    to_.graph.link(previous.task, task);
    if (is_launched) {
      to_.link_after(launch->second.task, std::min(std::max(since_launch, picoseconds{}), typical), task);
    }
  } else if (is_launched && launched_at >= free) {
    to_.link_after(launch->second.task, std::max(since_launch, picoseconds{}), task);
    to_.graph.link(previous.task, task);
  } else {
    to_.link_after(previous.task, on_stream, task);
    if (is_launched) {
      to_.link_after(launch->second.task, std::min(std::max(since_launch, picoseconds{}), typical), task);
    }
  }
}

UNITY_INLINE void local_builder::link_stated() {
  for (const auto& d : to_.trace.dependencies) {
    const auto before = to_.last_task.find(d.before);
    const auto after = to_.first_task.find(d.after);
    if (before != to_.last_task.end() && after != to_.first_task.end()) {
      to_.graph.link(before->second, after->second);
    }
  }
}

// Links messages within a rank: a chunk is sent on when it has arrived, and a server replies when all pushes have
// arrived. If a tensor is exchanged several times in a step, the k-th message waits for the k-th ones.
UNITY_INLINE void local_builder::link_messages() {
  auto order = to_.communications;
  unity::stable_sort(order,
                     [&](const auto& x, const auto& y) { return to_.at(x.event).start < to_.at(y.event).start; });
  std::unordered_map<std::uint64_t, std::uint32_t> counts;
  const auto chunk_key = [](const message& m, std::uint32_t round) {
    return hash_combine(hash_combine(m.tensor.index(), m.chunk), round);
  };
  // Numbers messages with one key, from 0.
  const auto chunk_turn = [&](std::uint64_t key) { return hash_combine(key, counts[key]++); };
  const auto server_turn = [&](const message& m, name_id worker) {
    const auto key = hash_combine(hash_combine(m.tensor.index(), m.chunk), worker.index());
    return hash_combine(m.tensor.index(), counts[key]++);
  };
  std::unordered_map<std::uint64_t, std::uint32_t> received;
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> pushed;  // by tensor and number
  for (const auto& c : order) {
    const auto& m = to_.trace.messages[to_.at(c.event).message];
    if (to_.at(c.event).kind == event_kind::receive && m.way == exchange::chunk) {
      received[chunk_turn(chunk_key(m, m.round))] = to_.last_task[c.event];
    } else if (to_.at(c.event).kind == event_kind::receive && m.way == exchange::push) {
      pushed[server_turn(m, m.sender)].push_back(to_.last_task[c.event]);
    }
  }
  counts.clear();
  for (const auto& c : order) {
    const auto& m = to_.trace.messages[to_.at(c.event).message];
    if (to_.at(c.event).kind != event_kind::send) {
      continue;
    }
    if (m.way == exchange::chunk && m.round > 0) {
      if (const auto r = received.find(chunk_turn(chunk_key(m, m.round - 1))); r != received.end()) {
        to_.graph.link(r->second, c.arrival);
      }
    } else if (m.way == exchange::pull) {
      if (const auto p = pushed.find(server_turn(m, m.receiver)); p != pushed.end()) {
        for (const auto task : p->second) {
          to_.graph.link(task, c.arrival);
        }
      }
    }
  }
}

UNITY_INLINE void local_builder::add_allocations() {
  // -1: before the iteration; 0: in it; 1: after it.
  const auto side_of = [&](std::uint32_t i) {
    const auto& e = to_.at(i);
    return e.step == no_step            ? (e.start < to_.window.start  ? -1
                                           : e.start >= to_.window.end ? 1
                                                                       : 0)
           : e.step < to_.window.number ? -1
           : e.step > to_.window.number ? 1
                                        : 0;
  };
  std::vector<std::uint32_t> places(to_.trace.allocations.size(), no_index);
  for (std::uint32_t number = 0; number < to_.trace.allocations.size(); ++number) {
    const auto& a = to_.trace.allocations[number];
    const auto made = a.made_by == no_event ? -1 : side_of(a.made_by);
    const auto freed = a.freed_by == no_event ? 1 : side_of(a.freed_by);
    if (made > 0 || freed < 0) {
      continue;
    }
    const auto first = to_.first_task.find(a.made_by);
    const auto last = to_.last_task.find(a.freed_by);
    places[number] = static_cast<std::uint32_t>(to_.graph.allocations.size());
    to_.graph.allocations.push_back({to_.rank, made == 0 && first != to_.first_task.end() ? first->second : to_.begin,
                                     freed == 0 && last != to_.last_task.end() ? last->second : no_index, a.size});
  }
  for (const auto& r : to_.trace.reads) {
    const auto task = to_.first_task.find(r.event);
    if (places[r.allocation] != no_index && task != to_.first_task.end()) {
      to_.graph.reads.push_back({places[r.allocation], task->second});
    }
  }
  to_.graph.ranks[to_.rank].held = to_.trace.held;
}

UNITY_INLINE void local_builder::add_gradients() {
  for (const auto& g : to_.trace.gradients) {
    if (const auto last = to_.last_task.find(g.event); last != to_.last_task.end()) {
      to_.graph.gradients.push_back({last->second, g.size});
    }
  }
}

}  // namespace unity::trace::detail

namespace unity::trace {

UNITY_INLINE std::vector<communication_tasks> add_local_graph(flow_graph& g, std::uint32_t rank, const rank_trace& t,
                                                              const step_window& window,
                                                              std::span<const picoseconds> durations, picoseconds lead,
                                                              picoseconds shift, std::span<const std::uint32_t> events,
                                                              const inference_limits& limits) {
  return detail::local_builder{{g, rank, t, window, durations, shift, events, limits}}.run(lead);
}

UNITY_INLINE step_events::step_events(const rank_trace& t) {
  auto windows = t.steps;
  std::sort(windows.begin(), windows.end(), [](auto& a, auto& b) { return a.start < b.start; });
  std::vector<picoseconds> last_end;  // latest end of the windows up to each
  for (const auto& w : windows) {
    last_end.push_back(last_end.empty() ? w.end : std::max(last_end.back(), w.end));
  }
  for (std::uint32_t i = 0; i < t.events.size(); ++i) {
    const auto& e = t.events[i];
    of_[e.step].push_back(i);
    if (t.lanes[e.lane].kind == lane_kind::host || e.kind == event_kind::step) {
      continue;
    }
    auto w = std::lower_bound(windows.begin(), windows.end(), e.end(),
                              [](const step_window& one, picoseconds end) { return one.start < end; });
    while (w != windows.begin() && last_end[static_cast<std::size_t>(w - windows.begin()) - 1] > e.start) {
      --w;
      if (w->number > e.step && w->end > e.start) {
        of_[w->number].push_back(i);
      }
    }
  }
}

UNITY_INLINE std::span<const std::uint32_t> step_events::of(std::int64_t step) const {
  const auto list = of_.find(step);
  return list == of_.end() ? std::span<const std::uint32_t>{} : std::span{list->second};
}

}  // namespace unity::trace

#endif
