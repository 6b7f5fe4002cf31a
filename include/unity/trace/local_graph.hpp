// What one rank did in one iteration, as tasks and inferred dependencies. Over 500 lines because all rules of the
// inference share what one pass over the events finds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/trace/events.hpp>
#include <unity/trace/flow_graph.hpp>

namespace unity::trace {

// Assumptions of the inference. Picoseconds.
struct inference_limits {
  // a shorter gap of a host thread counts as work that the profiler does not see
  std::int64_t shortest_wait = 30'000'000;
  std::int64_t longest_wakeup = 200'000'000;   // from what a thread waits for to when it continues
  std::int64_t longest_handover = 20'000'000;  // from the end of a kernel to the start of one on another stream
};

// The tasks of communication events in the graph.
struct communication_tasks {
  std::uint32_t event = 0;    // index in the rank's list
  std::uint32_t arrival = 0;  // the task `in`: this rank has arrived
  std::uint32_t main = 0;
};

// Effects: adds the tasks of an iteration of a rank to the graph, which has the rank already: with `begin`, all that
// happens, and `finish`, which the iteration of the rank ends with. Rules, in the order in which they apply:
// - A host thread does one thing after the other. An operation counts for the time in which no operation inside runs;
//   the time between operations is a gap.
// - A stream runs one thing after the other, each once it was launched. What starts later than either explains, and
//   just behind the end of something on another stream, waited for that; if instead another stream runs something then,
//   it waited for what that stream ran before: the device had no room. What is left is a delay.
// - A call that synchronizes, and one whose copy or collective ends in it, goes on behind the last end of a stream or
// channel in it.
// - A host thread that is idle for longer than `shortest_wait` waited for the last of these in the gap: another host
//   thread that fell idle, the end of a collective or message. If there is none, the gap is work.
// - What has neither launch nor stated dependency follows the last end before its start. In a queue it is there then,
//   and its turn comes when the resource falls free.
// - What ran when the iteration began, started by an earlier one, holds its stream until it ends.
// - Memory is there from the first task of the event that made it, or from the beginning, to the last task of the event
//   that freed it, or to the end; that which was freed before or is made later is left out.
// `durations`: of the rank's events, by place; of collectives and receives the part that is not waiting. `lead`: by how
// much the rank begins behind the first one. `shift`: is added to times to get those of `recorded_start`. `events`:
// places of those that may matter, in their order: those of the step, and those of earlier ones that end in it.
// Preconditions: sorted events with steps.
// Complexity: n log n in `events`, linear in allocations.
// Source: the rules for launches and gaps are those of Zhu et al., Daydream, USENIX ATC 2020, section 4.2; others own.
std::vector<communication_tasks> add_local_graph(flow_graph& g, std::uint32_t rank, const rank_trace& t,
                                                 const step_window& window, std::span<const std::int64_t> durations,
                                                 std::int64_t lead, std::int64_t shift,
                                                 std::span<const std::uint32_t> events,
                                                 const inference_limits& limits = {});

// Which events matter to each of a rank's steps. Complexity: linear in events and in how many steps each spans.
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
#include <iterator>
#include <utility>

#include <unity/core/hash.hpp>

namespace unity::trace::detail {

// A part of a host thread's time: of the innermost event that runs, or of none.
struct host_segment {
  std::int64_t start = 0;
  std::int64_t end = 0;
  std::uint32_t event = no_index;
  std::uint32_t outer = no_index;  // the enclosing event
  bool is_last = false;            // part of the event
};

// The segments of one host thread within [from, to), in order; `list`: its events, by start.
class host_sweep {
 public:
  host_sweep(const rank_trace& t, std::int64_t from, std::int64_t to) : trace_{t}, cursor_{from}, to_{to} {}

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
    std::int64_t end = 0;
  };

  [[nodiscard]] std::uint32_t outer() const { return stack_.size() < 2 ? no_index : stack_[stack_.size() - 2].event; }
  void close_until(std::int64_t time) {
    while (!stack_.empty() && stack_.back().end <= time) {
      // Every event has a last part, possibly of zero length: dependencies refer to it.
      auto& top = stack_.back();
      all_.push_back({cursor_, top.end, top.event, outer(), true});
      cursor_ = top.end;
      stack_.pop_back();
    }
  }
  void emit(std::int64_t until) {
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
  std::int64_t cursor_;
  std::int64_t to_;
  std::vector<open_event> stack_;
  std::vector<host_segment> all_;
};

class local_builder {
 public:
  local_builder(flow_graph& g, std::uint32_t rank, const rank_trace& t, const step_window& window,
                std::span<const std::int64_t> durations, std::int64_t shift, std::span<const std::uint32_t> events,
                const inference_limits& limits)
      : graph_{g},
        rank_{rank},
        trace_{t},
        window_{window},
        durations_{durations},
        shift_{shift},
        events_{events},
        limits_{limits} {}

  std::vector<communication_tasks> run(std::int64_t lead);

 private:
  // When a task of this rank ended, as recorded.
  struct ending {
    std::int64_t time = 0;
    std::uint32_t task = 0;
    std::uint32_t lane = 0;
    friend bool operator<(const ending& a, const ending& b) noexcept {
      return a.time != b.time ? a.time < b.time : a.task < b.task;
    }
  };

  void choose_events();
  void add_resources();
  void add_device_lanes();
  void add_earlier(std::uint32_t lane, std::span<const std::uint32_t> list);
  std::uint32_t add_event(std::uint32_t i);
  void add_host_lane(std::uint32_t lane);
  [[nodiscard]] bool waits_for(std::uint32_t launched, const host_segment& call) const;
  [[nodiscard]] bool does_work(std::span<const std::uint32_t> list) const;
  std::uint32_t add_segment(std::uint32_t lane, const host_segment& s);
  std::uint32_t add_waiting_call(std::uint32_t lane, const host_segment& s, const ending& of);
  void cut_launch(std::uint32_t lane, const host_segment& s);
  void note_launch(const host_segment& s);
  void append(std::uint32_t lane, std::uint32_t task);
  void explain_gaps();
  void link_device_lanes();
  void link_device_event(std::uint32_t i, const ending& previous, std::int64_t typical);
  [[nodiscard]] std::optional<ending> last_before_running(const event& e, std::int64_t bound) const;
  void link_stated();
  void link_messages();
  void add_allocations();
  void add_gradients();
  void finish();
  [[nodiscard]] std::int64_t typical_launch_delay() const;

  [[nodiscard]] const event& at(std::uint32_t i) const { return trace_.events[i]; }
  [[nodiscard]] lane_kind kind_of(std::uint32_t lane) const { return trace_.lanes[lane].kind; }
  [[nodiscard]] static const ending* last_in(const std::vector<ending>& all, std::int64_t from, std::int64_t to,
                                             std::uint32_t except);
  // before -> delay -> after; without the delay if it takes no time.
  void link_after(std::uint32_t before, std::int64_t delay, std::uint32_t after);
  std::uint64_t next_key(std::uint32_t lane, task_type type, name_id name);
  flow_task task_of(task_type type, std::uint32_t lane, std::int64_t start, std::int64_t duration) const;

  flow_graph& graph_;
  std::uint32_t rank_;
  const rank_trace& trace_;
  const step_window& window_;
  std::span<const std::int64_t> durations_;
  std::int64_t shift_;
  std::span<const std::uint32_t> events_;
  const inference_limits& limits_;

  std::uint32_t first_ = 0;  // task of this rank
  std::uint32_t begin_ = 0;
  std::uint32_t main_lane_ = no_index;
  std::vector<std::vector<std::uint32_t>> lists_;                // events of the iteration, by lane
  std::vector<std::vector<std::uint32_t>> earlier_;              // of earlier iterations, ending in this one
  std::vector<std::uint32_t> resources_;                         // by lane
  std::vector<ending> last_;                                     // by lane: its last task so far
  std::unordered_map<std::uint64_t, std::uint32_t> launched_;    // events on streams and channels, by correlation
  std::unordered_map<std::uint64_t, ending> launches_;           // task, and time from which it can start
  std::unordered_map<std::uint32_t, std::uint32_t> first_task_;  // of an event of this iteration
  std::unordered_map<std::uint32_t, std::uint32_t> last_task_;
  std::unordered_map<std::uint64_t, std::uint32_t> occurrences_;
  std::vector<ending> device_ends_;   // of streams and channels, in order
  std::vector<ending> channel_ends_;  // of channels alone
  std::vector<ending> idle_;          // of host threads: when they became idle
  std::vector<ending> all_ends_;
  struct host_gap {
    std::uint32_t lane = 0;
    std::int64_t start = 0;
    std::int64_t end = 0;
    std::uint32_t task = 0;
    std::uint32_t next = 0;
  };
  std::vector<host_gap> gaps_;
  std::vector<communication_tasks> communications_;
};

UNITY_INLINE std::vector<communication_tasks> local_builder::run(std::int64_t lead) {
  first_ = static_cast<std::uint32_t>(graph_.tasks.size());
  choose_events();
  add_resources();
  auto b = task_of(task_type::begin, no_index, window_.start, lead);
  b.recorded_start -= lead;
  b.key = next_key(no_index, task_type::begin, {});
  begin_ = graph_.add(b);
  graph_.ranks[rank_].begin = begin_;
  last_.assign(trace_.lanes.size(), {window_.start, begin_, no_index});
  add_device_lanes();
  for (std::uint32_t l = 0; l < trace_.lanes.size(); ++l) {
    if (kind_of(l) == lane_kind::host) {
      add_host_lane(l);
    }
  }
  finish();
  std::sort(all_ends_.begin(), all_ends_.end());
  std::sort(idle_.begin(), idle_.end());
  explain_gaps();
  link_device_lanes();
  link_stated();
  link_messages();
  add_allocations();
  add_gradients();
  return std::move(communications_);
}

UNITY_INLINE void local_builder::choose_events() {
  lists_.resize(trace_.lanes.size());
  earlier_.resize(trace_.lanes.size());
  for (const auto i : events_) {
    const auto& e = at(i);
    if (e.kind == event_kind::step) {
      main_lane_ = e.step == window_.number ? e.lane : main_lane_;
    } else if (e.step == window_.number) {
      lists_[e.lane].push_back(i);
      if (e.correlation != 0 && e.kind != event_kind::launch && e.kind != event_kind::synchronization) {
        launched_.emplace(e.correlation, i);
      }
    } else if (kind_of(e.lane) != lane_kind::host && e.end() > window_.start && e.step < window_.number &&
               e.start < window_.end) {
      earlier_[e.lane].push_back(i);
    }
  }
}

UNITY_INLINE void local_builder::add_resources() {
  resources_.assign(trace_.lanes.size(), no_index);
  for (std::uint32_t l = 0; l < trace_.lanes.size(); ++l) {
    if (!lists_[l].empty() || !earlier_[l].empty() || l == main_lane_) {
      resources_[l] = static_cast<std::uint32_t>(graph_.resources.size());
      graph_.resources.push_back({trace_.lanes[l].name, rank_, kind_of(l)});
    }
  }
}

UNITY_INLINE flow_task local_builder::task_of(task_type type, std::uint32_t lane, std::int64_t start,
                                              std::int64_t duration) const {
  flow_task t;
  t.type = type;
  t.duration = t.recorded_duration = duration;
  t.recorded_start = start + shift_;
  t.rank = rank_;
  t.resource = lane == no_index ? no_index : resources_[lane];
  t.samples = 1;
  return t;
}

// Threads of a pool take any work, so a channel's number says nothing about what runs there.
UNITY_INLINE std::uint64_t local_builder::next_key(std::uint32_t lane, task_type type, name_id name) {
  const auto place = lane == no_index                      ? std::uint64_t{no_index}
                     : kind_of(lane) == lane_kind::channel ? std::uint64_t{no_index} - 1
                                                           : std::uint64_t{lane};
  auto key = hash_combine(hash_combine(hash_combine(0x7ace, rank_), place), static_cast<std::uint64_t>(type));
  key = hash_combine(key, name.index());
  key = hash_combine(key, occurrences_[key]++);
  return key == 0 ? 1 : key;
}

UNITY_INLINE void local_builder::link_after(std::uint32_t before, std::int64_t delay, std::uint32_t after) {
  if (delay <= 0) {
    graph_.link(before, after);
    return;
  }
  const auto& b = graph_.tasks[before];
  auto d = task_of(task_type::delay, no_index, b.recorded_start - shift_ + b.recorded_duration, delay);
  d.name = graph_.tasks[after].name;
  d.part = graph_.tasks[after].part;
  d.key = hash_combine(hash_combine(b.key, 0xde1a), graph_.tasks[after].key);
  d.key = hash_combine(d.key, occurrences_[d.key]++);
  const auto place = graph_.add(d);
  graph_.link(before, place);
  graph_.link(place, after);
}

UNITY_INLINE void local_builder::append(std::uint32_t lane, std::uint32_t task) {
  graph_.link(last_[lane].task, task);
  last_[lane] = {0, task, lane};
}

// Tasks of streams and channels come first, because host threads wait for them; what they wait for themselves comes
// last.
UNITY_INLINE void local_builder::add_device_lanes() {
  for (std::uint32_t l = 0; l < trace_.lanes.size(); ++l) {
    if (kind_of(l) == lane_kind::host) {
      continue;
    }
    add_earlier(l, earlier_[l]);
    for (const auto i : lists_[l]) {
      const auto task = add_event(i);
      device_ends_.push_back({at(i).end(), task, l});
    }
  }
  std::sort(device_ends_.begin(), device_ends_.end());
  std::copy_if(device_ends_.begin(), device_ends_.end(), std::back_inserter(channel_ends_),
               [&](const ending& e) { return kind_of(e.lane) == lane_kind::channel; });
  all_ends_ = device_ends_;
}

UNITY_INLINE void local_builder::add_earlier(std::uint32_t lane, std::span<const std::uint32_t> list) {
  auto end = window_.start;
  for (const auto i : list) {
    end = std::max(end, at(i).end());
  }
  if (end == window_.start) {
    return;
  }
  auto t = task_of(task_type::earlier, lane, window_.start, end - window_.start);
  t.name = at(list.back()).name;
  t.part = at(list.back()).part;
  t.key = next_key(lane, task_type::earlier, {});
  const auto task = graph_.add(t);
  append(lane, task);
  last_[lane].time = end;
  device_ends_.push_back({end, task, lane});
}

// The task that ends when the event does: `out` of a communication, which begins with `in`.
UNITY_INLINE std::uint32_t local_builder::add_event(std::uint32_t i) {
  const auto& e = at(i);
  const auto type = e.kind == event_kind::kernel       ? task_type::kernel
                    : e.kind == event_kind::copy       ? task_type::copy
                    : e.kind == event_kind::collective ? task_type::collective
                    : e.kind == event_kind::send       ? task_type::send
                    : e.kind == event_kind::receive    ? task_type::receive
                                                       : task_type::host;
  auto t = task_of(type, e.lane, e.end() - durations_[i], durations_[i]);
  t.name = e.name;
  t.part = is_communication(type) ? phase::communication : e.part;
  t.key = next_key(e.lane, type, e.name);
  if (e.message == no_message) {
    const auto task = graph_.add(t);
    first_task_[i] = last_task_[i] = task;
    return task;
  }
  const auto& m = trace_.messages[e.message];
  t.communication = static_cast<std::uint32_t>(graph_.communications.size());
  graph_.communications.push_back(
      {m.tensor, m.group, m.way, m.size, m.group_size, no_index, no_index, m.chunk, m.round, m.sequence});
  // Identified by what it is, not by when it was: another order of messages does not make another message.
  auto key =
      hash_combine(hash_combine(hash_combine(m.group.index(), m.tensor.index()), m.sender.index()), m.receiver.index());
  key = hash_combine(hash_combine(hash_combine(key, m.chunk), m.round), static_cast<std::uint64_t>(m.way));
  key = hash_combine(hash_combine(hash_combine(key, rank_), static_cast<std::uint64_t>(type)),
                     static_cast<std::uint64_t>(m.sequence));
  t.key = hash_combine(key, occurrences_[key]++);
  auto in = task_of(task_type::in, no_index, e.start, 0);  // lanes keep their order by dependencies
  in.name = m.tensor.valid() ? m.tensor : e.name;
  in.part = phase::communication;
  in.communication = t.communication;
  in.key = hash_combine(t.key, static_cast<std::uint64_t>(task_type::in));
  auto out = in;
  out.type = task_type::out;
  out.key = hash_combine(t.key, static_cast<std::uint64_t>(task_type::out));
  out.recorded_start = e.end() + shift_;
  const auto arrival = graph_.add(in);
  const auto main = graph_.add(t);
  const auto last = graph_.add(out);
  graph_.link(arrival, main);
  graph_.link(main, last);
  communications_.push_back({i, arrival, main});
  first_task_[i] = arrival;
  last_task_[i] = last;
  return last;
}

UNITY_INLINE const local_builder::ending* local_builder::last_in(const std::vector<ending>& all, std::int64_t from,
                                                                 std::int64_t to, std::uint32_t except) {
  auto i = std::upper_bound(all.begin(), all.end(), to, [](std::int64_t t, const ending& e) { return t < e.time; });
  for (; i != all.begin() && std::prev(i)->time > from; --i) {
    if (std::prev(i)->lane != except) {
      return &*std::prev(i);
    }
  }
  return nullptr;
}

UNITY_INLINE void local_builder::add_host_lane(std::uint32_t lane) {
  const auto& list = lists_[lane];
  if (list.empty() && lane != main_lane_) {
    return;
  }
  auto to = window_.end;
  if (lane != main_lane_) {
    to = window_.start;
    for (const auto i : list) {
      to = std::max(to, at(i).end());
    }
  }
  const auto all = host_sweep{trace_, window_.start, to}.run(list);
  const bool is_waited_for = does_work(list);
  for (std::size_t k = 0; k < all.size(); ++k) {
    const auto task = add_segment(lane, all[k]);
    all_ends_.push_back({all[k].end, task, lane});
    // A thread becomes idle if a long gap follows, or nothing.
    const bool is_long = k + 1 < all.size() && all[k + 1].event == no_index &&
                         all[k + 1].end - all[k + 1].start >= limits_.shortest_wait;
    if (is_waited_for && all[k].event != no_index && (is_long || k + 1 == all.size())) {
      idle_.push_back({all[k].end, task, lane});
    }
  }
}

// A copy that ends within the call that starts it, or a collective that ends just before the call does.
UNITY_INLINE bool local_builder::waits_for(std::uint32_t launched, const host_segment& call) const {
  const auto& e = at(launched);
  const auto left = call.end - e.end();
  return left >= 0 &&
         (e.kind == event_kind::copy ||
          (e.kind == event_kind::collective && left <= std::max(limits_.longest_wakeup, (call.end - call.start) / 8)));
}

// Not a thread that only polls streams: nobody waits for that.
UNITY_INLINE bool local_builder::does_work(std::span<const std::uint32_t> list) const {
  return std::any_of(list.begin(), list.end(), [&](auto i) {
    const auto& e = at(i);
    return e.kind == event_kind::operation || e.message != no_message ||
           (e.correlation != 0 && launched_.contains(e.correlation));
  });
}

UNITY_INLINE std::uint32_t local_builder::add_segment(std::uint32_t lane, const host_segment& s) {
  const auto previous = last_[lane];
  const auto settle = [&](std::uint32_t task) {
    if (!gaps_.empty() && gaps_.back().lane == lane && gaps_.back().next == no_index) {
      gaps_.back().next = task;
    }
    return task;
  };
  if (s.event == no_index) {
    auto gap = task_of(task_type::gap, lane, s.start, s.end - s.start);
    gap.name = graph_.tasks[previous.task].name;
    gap.part = graph_.tasks[previous.task].part;
    gap.key = next_key(lane, task_type::gap, gap.name);
    const auto task = graph_.add(gap);
    append(lane, task);
    if (s.end - s.start >= limits_.shortest_wait) {
      gaps_.push_back({lane, s.start, s.end, task, no_index});
    }
    return task;
  }
  const auto& e = at(s.event);
  if (e.message != no_message) {  // a host thread that receives
    if (const auto known = last_task_.find(s.event); known != last_task_.end()) {
      return known->second;
    }
    const auto last = add_event(s.event);
    append(lane, first_task_[s.event]);
    settle(first_task_[s.event]);
    last_[lane] = {s.end, last, lane};
    return last;
  }
  if (s.is_last && (e.kind == event_kind::synchronization || e.kind == event_kind::launch)) {
    const auto launched = launched_.find(e.correlation);
    const bool is_copy = e.kind == event_kind::launch && launched != launched_.end() && waits_for(launched->second, s);
    const auto* const of =
        e.kind == event_kind::synchronization ? last_in(device_ends_, s.start, s.end, no_index) : nullptr;
    if (is_copy || of != nullptr) {
      const auto task = add_waiting_call(
          lane, s, is_copy ? ending{at(launched->second).end(), last_task_[launched->second], 0} : *of);
      settle(first_task_[s.event]);
      return task;
    }
  }
  auto t = task_of(e.kind == event_kind::launch            ? task_type::launch
                   : e.kind == event_kind::synchronization ? task_type::synchronization
                                                           : task_type::host,
                   lane, s.start, s.end - s.start);
  t.name = e.name;
  t.part = e.part;
  t.key = next_key(lane, t.type, e.name);
  const auto task = graph_.add(t);
  append(lane, task);
  settle(task);
  first_task_.try_emplace(s.event, task);
  last_task_[s.event] = task;
  if (s.is_last && e.correlation != 0) {
    note_launch(s);
    cut_launch(lane, s);
  }
  return last_[lane].task;
}

// A call that returns when something has ended: the part before, which starts what it waits for, and a wait.
UNITY_INLINE std::uint32_t local_builder::add_waiting_call(std::uint32_t lane, const host_segment& s,
                                                           const ending& of) {
  const auto& e = at(s.event);
  constexpr std::int64_t call = 5'000'000;  // a launch, as CUDA calls take it
  auto t = task_of(e.kind == event_kind::launch ? task_type::launch : task_type::synchronization, lane, s.start,
                   std::min({s.end - s.start, call, std::max(of.time - s.start, std::int64_t{0})}));
  if (const auto launched = launched_.find(e.correlation); launched != launched_.end()) {
    t.duration = t.recorded_duration =
        std::min(t.duration, std::max(at(launched->second).start - s.start, std::int64_t{0}));
    launches_[e.correlation] = {s.start + t.duration, static_cast<std::uint32_t>(graph_.tasks.size()), lane};
    note_launch(s);
  }
  t.name = e.name;
  t.part = e.part;
  t.key = next_key(lane, t.type, e.name);
  const auto task = graph_.add(t);
  append(lane, task);
  first_task_.try_emplace(s.event, task);
  // The end of the call, which others may follow.
  auto end = task_of(task_type::synchronization, lane, s.end, 0);
  end.name = e.name;
  end.part = e.part;
  end.key = next_key(lane, task_type::synchronization, e.name);
  const auto last = graph_.add(end);
  append(lane, last);
  link_after(of.task, s.end - of.time, last);
  last_task_[s.event] = last;
  return last;
}

// What a call starts may run before the call returns: the rest of the call is a task of its own.
UNITY_INLINE void local_builder::cut_launch(std::uint32_t lane, const host_segment& s) {
  const auto& e = at(s.event);
  const auto task = last_[lane].task;
  const auto launched = launched_.find(e.correlation);
  const auto start = launched == launched_.end() ? s.end : at(launched->second).start;
  auto& t = graph_.tasks[task];
  if (start >= s.end || start < s.start) {
    launches_[e.correlation] = {s.end, task, lane};
  } else {
    launches_[e.correlation] = {start, task, lane};
    auto rest = t;
    rest.recorded_start = start + shift_;
    rest.duration = rest.recorded_duration = s.end - start;
    t.duration = t.recorded_duration = start - s.start;
    rest.key = next_key(lane, rest.type, rest.name);
    const auto place = graph_.add(rest);
    append(lane, place);
    last_task_[s.event] = place;
  }
}

// What is launched belongs to the enclosing operation, in its part of the iteration.
UNITY_INLINE void local_builder::note_launch(const host_segment& s) {
  const auto launched = launched_.find(at(s.event).correlation);
  if (launched == launched_.end()) {
    return;
  }
  for (auto t = first_task_[launched->second]; t <= last_task_[launched->second]; ++t) {
    graph_.tasks[t].operation = s.outer == no_index ? name_id{} : at(s.outer).name;
    if (graph_.tasks[t].part != phase::communication) {
      graph_.tasks[t].part = at(s.event).part;
    }
  }
}

UNITY_INLINE void local_builder::finish() {
  auto t = task_of(task_type::finish, no_index, window_.end, 0);
  t.key = next_key(no_index, task_type::finish, {});
  const auto task = graph_.add(t);
  graph_.ranks[rank_].finish = task;
  graph_.ranks[rank_].measured = window_.duration();
  if (main_lane_ != no_index) {
    graph_.link(last_[main_lane_].task, task);
    if (!gaps_.empty()) {
      for (auto& gap : gaps_) {
        gap.next = gap.next == no_index && gap.lane == main_lane_ ? task : gap.next;
      }
    }
  } else {
    graph_.link(begin_, task);
    for (std::uint32_t l = 0; l < trace_.lanes.size(); ++l) {
      if (kind_of(l) == lane_kind::host) {
        graph_.link(last_[l].task, task);
      } else if (!lists_[l].empty()) {
        graph_.link(last_task_[lists_[l].back()], task);
      }
    }
  }
}

UNITY_INLINE void local_builder::explain_gaps() {
  for (const auto& gap : gaps_) {
    if (gap.next == no_index) {
      continue;
    }
    const auto* const thread = last_in(idle_, gap.start, gap.end, gap.lane);
    const auto* const channel = last_in(channel_ends_, gap.start, gap.end, no_index);
    const auto* cause = thread == nullptr || (channel != nullptr && thread->time < channel->time) ? channel : thread;
    if (cause == nullptr || cause->task == no_index) {
      continue;
    }
    const auto wakeup = gap.end - cause->time;
    if (wakeup > limits_.longest_wakeup && 8 * wakeup > gap.end - gap.start) {
      continue;
    }
    graph_.tasks[gap.task].duration = graph_.tasks[gap.task].recorded_duration = 0;
    graph_.tasks[gap.task].key = 0;
    link_after(cause->task, wakeup, gap.next);
  }
}

// The median time from a launch to what it starts, if the stream is free; an upper bound if it is not.
UNITY_INLINE std::int64_t local_builder::typical_launch_delay() const {
  std::vector<std::int64_t> delays;
  for (std::uint32_t l = 0; l < lists_.size(); ++l) {
    auto free = window_.start;
    for (const auto i : earlier_[l]) {
      free = std::max(free, at(i).end());
    }
    for (const auto i : lists_[l]) {
      const auto launch = launches_.find(at(i).correlation);
      if (launch != launches_.end() && kind_of(l) != lane_kind::host && launch->second.time >= free) {
        delays.push_back(at(i).start - launch->second.time);
      }
      free = std::max(free, at(i).end());
    }
  }
  if (delays.empty()) {
    return 0;
  }
  const auto middle = delays.begin() + static_cast<std::ptrdiff_t>(delays.size() / 2);
  std::nth_element(delays.begin(), middle, delays.end());
  return std::max(*middle, std::int64_t{0});
}

UNITY_INLINE void local_builder::link_device_lanes() {
  const auto typical = typical_launch_delay();
  for (std::uint32_t l = 0; l < lists_.size(); ++l) {
    if (kind_of(l) == lane_kind::host) {
      continue;
    }
    for (const auto i : lists_[l]) {
      link_device_event(i, last_[l], typical);
      last_[l] = {at(i).end(), last_task_[i], l};
    }
  }
}

// What a stream ran before the work that runs on it when the event starts; among streams whose work ended after
// `bound`, the last one.
UNITY_INLINE std::optional<local_builder::ending> local_builder::last_before_running(const event& e,
                                                                                     std::int64_t bound) const {
  std::optional<ending> last;
  for (std::uint32_t l = 0; l < lists_.size(); ++l) {
    if (l == e.lane || kind_of(l) != lane_kind::stream) {
      continue;
    }
    const auto& list = lists_[l];
    const auto next = std::upper_bound(list.begin(), list.end(), e.start,
                                       [&](std::int64_t t, std::uint32_t i) { return t < at(i).start; });
    if (next - list.begin() < 2 || at(*std::prev(next)).end() <= e.start) {
      continue;
    }
    const auto before = *std::prev(next, 2);
    if (at(before).end() > bound && (!last || at(before).end() > last->time)) {
      last = ending{at(before).end(), last_task_.at(before), l};
    }
  }
  return last;
}

UNITY_INLINE void local_builder::link_device_event(std::uint32_t i, const ending& previous, std::int64_t typical) {
  const auto& e = at(i);
  const auto task = first_task_[i];
  if (trace_.lanes[e.lane].is_queue) {  // its resource keeps the order
    const auto* const before = last_in(all_ends_, window_.start - 1, e.start, e.lane);
    link_after(before == nullptr ? begin_ : before->task, e.start - (before == nullptr ? window_.start : before->time),
               task);
    return;
  }
  const auto launch = launches_.find(e.correlation);
  const bool is_launched = e.correlation != 0 && launch != launches_.end();
  const auto launched_at = is_launched ? launch->second.time : window_.start;
  // What has arrived between the launch and the start.
  const auto free = std::min(previous.time, e.start);
  const auto bound = std::max(free, launched_at);
  const ending* other = nullptr;
  if (!is_launched || e.start - bound > limits_.longest_handover) {
    const auto& ends = is_launched ? device_ends_ : all_ends_;
    other = last_in(ends, bound, e.start, e.lane);
    if (other != nullptr && is_launched && e.start - other->time > limits_.longest_handover) {
      other = nullptr;
    }
  }
  const auto before_running = other == nullptr && is_launched && e.start - bound > limits_.longest_handover
                                  ? last_before_running(e, bound)
                                  : std::nullopt;
  if (before_running) {
    other = &*before_running;
  }
  const auto on_stream = e.start - free;
  const auto since_launch = e.start - launched_at;
  if (other != nullptr) {
    link_after(other->task, e.start - other->time, task);
    graph_.link(previous.task, task);
    if (is_launched) {
      link_after(launch->second.task, std::min(std::max(since_launch, std::int64_t{0}), typical), task);
    }
  } else if (is_launched && launched_at >= free) {
    link_after(launch->second.task, std::max(since_launch, std::int64_t{0}), task);
    graph_.link(previous.task, task);
  } else {
    link_after(previous.task, on_stream, task);
    if (is_launched) {
      link_after(launch->second.task, std::min(std::max(since_launch, std::int64_t{0}), typical), task);
    }
  }
}

UNITY_INLINE void local_builder::link_stated() {
  for (const auto& d : trace_.dependencies) {
    const auto before = last_task_.find(d.before);
    const auto after = first_task_.find(d.after);
    if (before != last_task_.end() && after != first_task_.end()) {
      graph_.link(before->second, after->second);
    }
  }
}

// Within a rank: a chunk continues when it has arrived, and a server sends back when all pushes have arrived.
UNITY_INLINE void local_builder::link_messages() {
  const auto chunk_key = [&](const message& m, std::uint32_t round) {
    return hash_combine(hash_combine(m.tensor.index(), m.chunk), round);
  };
  std::unordered_map<std::uint64_t, std::uint32_t> received;
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> pushed;  // by tensor
  for (const auto& c : communications_) {
    const auto& m = trace_.messages[at(c.event).message];
    if (at(c.event).kind == event_kind::receive && m.way == exchange::chunk) {
      received[chunk_key(m, m.round)] = last_task_[c.event];
    } else if (at(c.event).kind == event_kind::receive && m.way == exchange::push) {
      pushed[m.tensor.index()].push_back(last_task_[c.event]);
    }
  }
  for (const auto& c : communications_) {
    const auto& m = trace_.messages[at(c.event).message];
    if (at(c.event).kind != event_kind::send) {
      continue;
    }
    if (m.way == exchange::chunk && m.round > 0) {
      if (const auto r = received.find(chunk_key(m, m.round - 1)); r != received.end()) {
        graph_.link(r->second, c.arrival);
      }
    } else if (m.way == exchange::pull) {
      if (const auto p = pushed.find(m.tensor.index()); p != pushed.end()) {
        for (const auto task : p->second) {
          graph_.link(task, c.arrival);
        }
      }
    }
  }
}

UNITY_INLINE void local_builder::add_allocations() {
  // Before the iteration, in it, or after it.
  const auto side_of = [&](std::uint32_t i) {
    const auto& e = at(i);
    return e.step == no_step         ? (e.start < window_.start  ? -1
                                        : e.start >= window_.end ? 1
                                                                 : 0)
           : e.step < window_.number ? -1
           : e.step > window_.number ? 1
                                     : 0;
  };
  std::vector<std::uint32_t> places(trace_.allocations.size(), no_index);
  for (std::uint32_t number = 0; number < trace_.allocations.size(); ++number) {
    const auto& a = trace_.allocations[number];
    const auto made = a.made_by == no_event ? -1 : side_of(a.made_by);
    const auto freed = a.freed_by == no_event ? 1 : side_of(a.freed_by);
    if (made > 0 || freed < 0) {
      continue;
    }
    const auto first = first_task_.find(a.made_by);
    const auto last = last_task_.find(a.freed_by);
    places[number] = static_cast<std::uint32_t>(graph_.allocations.size());
    graph_.allocations.push_back({rank_, made == 0 && first != first_task_.end() ? first->second : begin_,
                                  freed == 0 && last != last_task_.end() ? last->second : no_index, a.size});
  }
  for (const auto& r : trace_.reads) {
    const auto task = first_task_.find(r.event);
    if (places[r.allocation] != no_index && task != first_task_.end()) {
      graph_.reads.push_back({places[r.allocation], task->second});
    }
  }
  graph_.ranks[rank_].held = trace_.held;
}

UNITY_INLINE void local_builder::add_gradients() {
  for (const auto& g : trace_.gradients) {
    if (const auto last = last_task_.find(g.event); last != last_task_.end()) {
      graph_.gradients.push_back({last->second, g.size});
    }
  }
}

}  // namespace unity::trace::detail

namespace unity::trace {

UNITY_INLINE std::vector<communication_tasks> add_local_graph(flow_graph& g, std::uint32_t rank, const rank_trace& t,
                                                              const step_window& window,
                                                              std::span<const std::int64_t> durations,
                                                              std::int64_t lead, std::int64_t shift,
                                                              std::span<const std::uint32_t> events,
                                                              const inference_limits& limits) {
  return detail::local_builder{g, rank, t, window, durations, shift, events, limits}.run(lead);
}

UNITY_INLINE step_events::step_events(const rank_trace& t) {
  auto windows = t.steps;
  std::sort(windows.begin(), windows.end(), [](auto& a, auto& b) { return a.start < b.start; });
  std::vector<std::int64_t> last_end;  // of the windows up to each
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
                              [](const step_window& one, std::int64_t end) { return one.start < end; });
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
