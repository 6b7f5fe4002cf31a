// The tasks of one rank in one iteration while its graph is built: a task for each event, and what the rules that infer
// dependencies look up about them.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/trace/events.hpp>
#include <unity/trace/flow_graph.hpp>

namespace unity::trace {

// Assumptions of the inference.
struct inference_limits {
  // a shorter gap of a host thread counts as work that the profiler does not see
  picoseconds shortest_wait{30'000'000};
  picoseconds longest_wakeup{200'000'000};   // from the end of what a thread waits for until it continues
  picoseconds longest_handover{20'000'000};  // from the end of a kernel to the start of one on another stream
};

// The tasks of communication events in the graph.
struct communication_tasks {
  std::uint32_t event = 0;    // index in the rank's list
  std::uint32_t arrival = 0;  // the task `in`: this rank has arrived
  std::uint32_t main = 0;
};

}  // namespace unity::trace

namespace unity::trace::detail {

// Tasks and lookup tables of a rank's iteration. The first members are those of add_local_graph
// (trace/local_graph.hpp).
struct local_tasks {
  // A time at which a task of this rank ended, as recorded.
  struct ending {
    picoseconds time{};
    std::uint32_t task = 0;
    std::uint32_t lane = 0;
    friend bool operator<(const ending& a, const ending& b) noexcept {
      return a.time != b.time ? a.time < b.time : a.task < b.task;
    }
  };

  flow_graph& graph;
  std::uint32_t rank = 0;
  const rank_trace& trace;
  const step_window& window;
  std::span<const picoseconds> durations{};
  picoseconds shift{};
  std::span<const std::uint32_t> events{};
  const inference_limits& limits;

  std::uint32_t begin = 0;
  std::uint32_t main_lane = no_index;
  std::vector<std::vector<std::uint32_t>> lists{};    // events of the iteration, by lane
  std::vector<std::vector<std::uint32_t>> earlier{};  // events of earlier iterations that end in this one, by lane
  std::vector<std::uint32_t> resources{};             // by lane
  std::vector<ending> last{};                         // by lane: its last task so far
  std::unordered_map<std::uint64_t, std::uint32_t> launched{};    // events on streams and channels, by correlation
  std::unordered_map<std::uint64_t, ending> launches{};           // by correlation: launch, and when its work can start
  std::unordered_map<std::uint32_t, std::uint32_t> first_task{};  // of an event of this iteration
  std::unordered_map<std::uint32_t, std::uint32_t> last_task{};
  std::unordered_map<std::uint64_t, std::uint32_t> occurrences{};
  std::vector<ending> device_ends{};   // of streams and channels, in order
  std::vector<ending> channel_ends{};  // of channels alone
  std::vector<ending> all_ends{};
  std::vector<communication_tasks> communications{};

  // Effects: lists the events that matter, adds `begin`, with the duration `lead`, and the tasks of streams and
  // channels.
  void start(picoseconds lead);

  [[nodiscard]] const event& at(std::uint32_t i) const { return trace.events[i]; }
  [[nodiscard]] lane_kind kind_of(std::uint32_t lane) const { return trace.lanes[lane].kind; }
  // The last ending in (from, to] on another lane than `except`; null if there is none. Precondition: ascending times.
  [[nodiscard]] static const ending* last_in(const std::vector<ending>& all, picoseconds from, picoseconds to,
                                             std::uint32_t except);
  // before -> delay -> after; without the delay if it takes no time.
  void link_after(std::uint32_t before, picoseconds delay, std::uint32_t after);
  std::uint64_t next_key(std::uint32_t lane, task_type type, name_id name);
  [[nodiscard]] flow_task task_of(task_type type, std::uint32_t lane, picoseconds start, picoseconds duration) const;
  void append(std::uint32_t lane, std::uint32_t task);
  // Adds the tasks of an event. Returns the one that ends when the event does: `out` for communication, which begins
  // with `in`.
  std::uint32_t add_event(std::uint32_t i);

 private:
  void choose_events();
  void add_resources();
  void add_device_lanes();
  void add_earlier(std::uint32_t lane, std::span<const std::uint32_t> list);
};

}  // namespace unity::trace::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRACE_LOCAL_TASKS)

#include <algorithm>
#include <iterator>

#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>

namespace unity::trace::detail {

UNITY_INLINE void local_tasks::start(picoseconds lead) {
  choose_events();
  add_resources();
  auto b = task_of(task_type::begin, no_index, window.start, lead);
  b.recorded_start -= lead;
  b.key = next_key(no_index, task_type::begin, {});
  begin = graph.add(b);
  graph.ranks[rank].begin = begin;
  last.assign(trace.lanes.size(), {window.start, begin, no_index});
  add_device_lanes();
}

UNITY_INLINE void local_tasks::choose_events() {
  lists.resize(trace.lanes.size());
  earlier.resize(trace.lanes.size());
  for (const auto i : events) {
    const auto& e = at(i);
    if (e.kind == event_kind::step) {
      main_lane = e.step == window.number ? e.lane : main_lane;
    } else if (e.step == window.number) {
      lists[e.lane].push_back(i);
      if (e.correlation != 0 && e.kind != event_kind::launch && e.kind != event_kind::synchronization) {
        launched.emplace(e.correlation, i);
      }
    } else if (kind_of(e.lane) != lane_kind::host && e.end() > window.start && e.step < window.number &&
               e.start < window.end) {
      earlier[e.lane].push_back(i);
    }
  }
}

UNITY_INLINE void local_tasks::add_resources() {
  resources.assign(trace.lanes.size(), no_index);
  for (std::uint32_t l = 0; l < trace.lanes.size(); ++l) {
    if (!lists[l].empty() || !earlier[l].empty() || l == main_lane) {
      resources[l] = static_cast<std::uint32_t>(graph.resources.size());
      graph.resources.push_back({trace.lanes[l].name, rank, kind_of(l)});
    }
  }
}

UNITY_INLINE flow_task local_tasks::task_of(task_type type, std::uint32_t lane, picoseconds start,
                                            picoseconds duration) const {
  flow_task t;
  t.type = type;
  t.duration = t.recorded_duration = duration;
  t.recorded_start = start + shift;
  t.rank = rank;
  t.resource = lane == no_index ? no_index : resources[lane];
  t.samples = 1;
  return t;
}

// A thread pool runs any work on any of its threads, so a channel's number says nothing about what runs there.
UNITY_INLINE std::uint64_t local_tasks::next_key(std::uint32_t lane, task_type type, name_id name) {
  const auto place = lane == no_index                      ? std::uint64_t{no_index}
                     : kind_of(lane) == lane_kind::channel ? std::uint64_t{no_index} - 1
                                                           : std::uint64_t{lane};
  auto key = hash_combine(hash_combine(hash_combine(0x7ace, rank), place), static_cast<std::uint64_t>(type));
  key = hash_combine(key, name.index());
  key = hash_combine(key, occurrences[key]++);
  return key == 0 ? 1 : key;
}

UNITY_INLINE void local_tasks::link_after(std::uint32_t before, picoseconds delay, std::uint32_t after) {
  if (delay <= picoseconds{}) {
    graph.link(before, after);
    return;
  }
  const auto& b = graph.tasks[before];
  auto d = task_of(task_type::delay, no_index, b.recorded_start - shift + b.recorded_duration, delay);
  d.name = graph.tasks[after].name;
  d.part = graph.tasks[after].part;
  d.key = hash_combine(hash_combine(b.key, 0xde1a), graph.tasks[after].key);
  d.key = hash_combine(d.key, occurrences[d.key]++);
  const auto place = graph.add(d);
  graph.link(before, place);
  graph.link(place, after);
}

UNITY_INLINE void local_tasks::append(std::uint32_t lane, std::uint32_t task) {
  graph.link(last[lane].task, task);
  last[lane] = {{}, task, lane};
}

// Adds tasks of streams and channels before those of host threads, which wait for them.
UNITY_INLINE void local_tasks::add_device_lanes() {
  for (std::uint32_t l = 0; l < trace.lanes.size(); ++l) {
    if (kind_of(l) == lane_kind::host) {
      continue;
    }
    add_earlier(l, earlier[l]);
    for (const auto i : lists[l]) {
      const auto task = add_event(i);
      device_ends.push_back({at(i).end(), task, l});
    }
  }
  std::sort(device_ends.begin(), device_ends.end());
  std::copy_if(device_ends.begin(), device_ends.end(), std::back_inserter(channel_ends),
               [&](const ending& e) { return kind_of(e.lane) == lane_kind::channel; });
  all_ends = device_ends;
}

UNITY_INLINE void local_tasks::add_earlier(std::uint32_t lane, std::span<const std::uint32_t> list) {
  auto end = window.start;
  for (const auto i : list) {
    end = std::max(end, at(i).end());
  }
  if (end == window.start) {
    return;
  }
  auto t = task_of(task_type::earlier, lane, window.start, end - window.start);
  t.name = at(list.back()).name;
  t.part = at(list.back()).part;
  t.key = next_key(lane, task_type::earlier, {});
  const auto task = graph.add(t);
  append(lane, task);
  last[lane].time = end;
  device_ends.push_back({end, task, lane});
}

UNITY_INLINE std::uint32_t local_tasks::add_event(std::uint32_t i) {
  const auto& e = at(i);
  const auto type = e.kind == event_kind::kernel       ? task_type::kernel
                    : e.kind == event_kind::copy       ? task_type::copy
                    : e.kind == event_kind::collective ? task_type::collective
                    : e.kind == event_kind::send       ? task_type::send
                    : e.kind == event_kind::receive    ? task_type::receive
                                                       : task_type::host;
  auto t = task_of(type, e.lane, e.end() - durations[i], durations[i]);
  t.name = e.name;
  t.part = is_communication(type) ? phase::communication : e.part;
  t.key = next_key(e.lane, type, e.name);
  if (e.message == no_message) {
    const auto task = graph.add(t);
    first_task[i] = last_task[i] = task;
    return task;
  }
  const auto& m = trace.messages[e.message];
  t.communication = static_cast<std::uint32_t>(graph.communications.size());
  graph.communications.push_back(
      {m.tensor, m.group, m.way, m.size, m.group_size, no_index, no_index, m.chunk, m.round, m.sequence});
  // The key states the message, not its time: messages in another order have the same keys.
  auto key =
      hash_combine(hash_combine(hash_combine(m.group.index(), m.tensor.index()), m.sender.index()), m.receiver.index());
  key = hash_combine(hash_combine(hash_combine(key, m.chunk), m.round), static_cast<std::uint64_t>(m.way));
  key = hash_combine(hash_combine(hash_combine(key, rank), static_cast<std::uint64_t>(type)),
                     static_cast<std::uint64_t>(m.sequence));
  t.key = hash_combine(key, occurrences[key]++);
  auto in = task_of(task_type::in, no_index, e.start, {});  // lanes keep their order by dependencies
  in.name = m.tensor.valid() ? m.tensor : e.name;
  in.part = phase::communication;
  in.communication = t.communication;
  in.key = hash_combine(t.key, static_cast<std::uint64_t>(task_type::in));
  auto out = in;
  out.type = task_type::out;
  out.key = hash_combine(t.key, static_cast<std::uint64_t>(task_type::out));
  out.recorded_start = e.end() + shift;
  const auto arrival = graph.add(in);
  const auto main = graph.add(t);
  const auto ended = graph.add(out);
  graph.link(arrival, main);
  graph.link(main, ended);
  communications.push_back({i, arrival, main});
  first_task[i] = arrival;
  last_task[i] = ended;
  return ended;
}

UNITY_INLINE const local_tasks::ending* local_tasks::last_in(const std::vector<ending>& all, picoseconds from,
                                                             picoseconds to, std::uint32_t except) {
  auto i = std::upper_bound(all.begin(), all.end(), to, [](picoseconds t, const ending& e) { return t < e.time; });
  for (; i != all.begin() && std::prev(i)->time > from; --i) {
    if (std::prev(i)->lane != except) {
      return &*std::prev(i);
    }
  }
  return nullptr;
}

}  // namespace unity::trace::detail

#endif
