// Replay of a job's iteration: when each task runs, the critical path, and what each rank waits for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/stable_sort.hpp>
#include <unity/core/units.hpp>
#include <unity/simulate/full.hpp>
#include <unity/trace/flow_graph.hpp>
#include <unity/trace/iteration_work.hpp>

namespace unity::trace {

// How the replay chooses what a device runs next.
//   device_queues   a queue and a clock per device (simulate::device_queues), by part of the iteration: dPRO's
//   global_queue    one queue for all, first in, first out (simulate::full_simulation): Daydream's
enum class replay_rule : std::uint8_t { device_queues, global_queue };

// What determined when a task started.
enum class step_cause : std::uint8_t { begin, dependency, resource };

// A task of the critical path of the execution graph, which is the graph plus the order on each device. `time`: from
// the end of the previous task to its own end.
struct critical_task {
  std::uint32_t task = 0;
  step_cause cause = step_cause::begin;
  picoseconds time{};

  friend bool operator==(const critical_task&, const critical_task&) = default;
};

// Regular.
struct replayed_iteration {
  std::vector<simulate::task_times> times{};  // by task of the graph
  std::vector<std::uint32_t> order{};         // the order in which tasks ran; restricted to a resource, its order
  std::vector<picoseconds> rank_time{};       // by rank: from its begin to its finish
  picoseconds iteration{};                    // the longest of these
  picoseconds last_end{};                     // of any task

  friend bool operator==(const replayed_iteration&, const replayed_iteration&) = default;
};

// Complexity: t log t in tasks, linear in edges. Deterministic.
// Throws: unity::error that names tasks which wait for each other.
[[nodiscard]] replayed_iteration replay(const flow_graph& g, const name_table& names,
                                        replay_rule rule = replay_rule::device_queues);

// The chain of tasks that ends with the finish of the slowest rank, from its begin. If a task has several causes, takes
// the first of them in the graph. Complexity: linear in tasks and edges.
[[nodiscard]] std::vector<critical_task> critical_path(const flow_graph& g, const replayed_iteration& r);

// Why a rank's device is idle, by the chain of what the next task waited for.
//   launch         the host had not launched it yet, or it was on its way to the stream
//   host           a host thread that computes was idle: for ranks without streams
//   communication  data in flight: a running collective or message
//   straggler      others that come later to a collective, or send later
//   synchronization  a host thread waits for a stream
//   drained        nothing is left to do in the iteration, or nothing has begun
enum class idle_cause : std::uint8_t { launch, host, communication, straggler, synchronization, drained };
inline constexpr std::array<std::string_view, 6> idle_cause_names{
    "launch", "host", "communication", "straggler", "synchronization", "drained"};

// The use of a rank's computing streams together, or of its host threads if it has no streams.
struct rank_use {
  picoseconds busy{};           // time in which at least one of them computes
  picoseconds communication{};  // time in which data are on their way to or from it
  std::array<picoseconds, 6> idle{};

  friend bool operator==(const rank_use&, const rank_use&) = default;
};

// busy + idle of a rank: its replayed time. Complexity: n log n in tasks.
[[nodiscard]] std::vector<rank_use> rank_uses(const flow_graph& g, const replayed_iteration& r);

// A rank that others wait for.
struct straggler {
  std::uint32_t rank = 0;
  picoseconds waited{};      // total time of others at collectives to which it came last, and for late sends
  std::size_t meetings = 0;  // number of these

  friend bool operator==(const straggler&, const straggler&) = default;
};
// Stragglers, the most waited for first. Complexity: linear in tasks and edges.
[[nodiscard]] std::vector<straggler> stragglers(const flow_graph& g, const replayed_iteration& r);

// Partial replay: the time of the communication of one tensor alone, as if every rank had it at time 0; 0 if there is
// none. Uses the communication tasks with this tensor and the edges between them. Complexity: linear in the graph, t
// log t in the tasks of the tensor.
// Source: Hu et al., dPRO, MLSys 2022, section 5.3.
[[nodiscard]] picoseconds replay_tensor(const flow_graph& g, const name_table& names, name_id tensor);
// The graph that replay_tensor replays.
[[nodiscard]] flow_graph tensor_graph(const flow_graph& g, name_id tensor);

// Memory of one rank. Regular.
struct memory_peak {
  bytes held{};           // held all the time
  bytes peak{};           // peak, including what is held
  picoseconds time{};     // the first time of the peak
  bool is_known = false;  // its trace records memory

  friend bool operator==(const memory_peak&, const memory_peak&) = default;
};

// By rank. An allocation lives from the start of its first task to the end of its last one, exclusive. An allocation
// that lives for no time counts at its instant, after the frees of that instant. Rounding and fragmentation of
// allocators are not modelled. Complexity: n log n in allocations.
[[nodiscard]] std::vector<memory_peak> memory_use(const flow_graph& g, const replayed_iteration& r);

}  // namespace unity::trace

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRACE_REPLAY)

#include <algorithm>
#include <tuple>
#include <utility>

#include <unity/simulate/list_scheduling.hpp>

namespace unity::trace {

namespace detail {

template <class Simulation>
replayed_iteration take(const tasks::program& p, Simulation& s) {
  s.run(p);
  const auto first = p.tasks_of(tasks::fragment_id{0u}).first;
  UNITY_EXPECTS(first == 0, "a program of one fragment, whose tasks have its places");
  replayed_iteration all;
  all.times.assign(s.times().begin(), s.times().begin() + static_cast<std::ptrdiff_t>(p.task_count()));
  all.order.assign(s.order().begin(), s.order().end());
  return all;
}

}  // namespace detail

UNITY_INLINE replayed_iteration replay(const flow_graph& g, const name_table& names, replay_rule rule) {
  const auto p = to_program(g);
  replayed_iteration all;
  try {
    if (rule == replay_rule::device_queues) {
      simulate::device_queues<by_phase> s{by_phase{g}};
      all = detail::take(p, s);
    } else {
      simulate::full_simulation s;
      all = detail::take(p, s);
    }
  } catch (const error&) {
    static_cast<void>(topological_order(g, adjacency{g}, names));  // throws a more specific error for a cycle
    throw;
  }
  for (const auto& t : all.times) {
    all.last_end = std::max(all.last_end, picoseconds{t.end});
  }
  for (const auto& r : g.ranks) {
    const bool is_whole = r.begin != no_index && r.finish != no_index;
    all.rank_time.push_back(is_whole ? picoseconds{all.times[r.finish].end - all.times[r.begin].end} : all.last_end);
    all.iteration = std::max(all.iteration, all.rank_time.back());
  }
  return all;
}

namespace detail {

// Goes back along the execution graph: what each task waited for last.
class causes {
 public:
  causes(const flow_graph& g, const replayed_iteration& r)
      : replayed_{r}, neighbours_{g}, previous_(g.tasks.size(), no_index) {
    std::vector<std::uint32_t> last(g.resources.size(), no_index);
    for (const auto t : r.order) {
      if (const auto on = g.tasks[t].resource; on != no_index) {
        previous_[t] = std::exchange(last[on], t);
      }
    }
  }
  // The task before it on its resource; no_index for the first.
  [[nodiscard]] std::uint32_t previous(std::uint32_t t) const { return previous_[t]; }
  [[nodiscard]] const adjacency& neighbours() const noexcept { return neighbours_; }

  // Dependencies take precedence over the order of the device. Among dependencies that end when the task starts, takes
  // the first.
  [[nodiscard]] std::pair<std::uint32_t, step_cause> of(std::uint32_t t) const {
    const auto start = replayed_.times[t].start;
    for (const auto b : neighbours_.before(t)) {
      if (replayed_.times[b].end == start) {
        return {b, step_cause::dependency};
      }
    }
    const auto p = previous_[t];
    if (p != no_index && replayed_.times[p].end == start) {
      return {p, step_cause::resource};
    }
    return {no_index, step_cause::begin};
  }

 private:
  const replayed_iteration& replayed_;
  adjacency neighbours_;
  std::vector<std::uint32_t> previous_;
};

}  // namespace detail

UNITY_INLINE std::vector<critical_task> critical_path(const flow_graph& g, const replayed_iteration& r) {
  std::vector<critical_task> path;
  if (g.tasks.empty()) {
    return path;
  }
  auto t = static_cast<std::uint32_t>(
      std::max_element(r.times.begin(), r.times.end(), [](auto& a, auto& b) { return a.end < b.end; }) -
      r.times.begin());
  std::int64_t from = 0;
  for (std::size_t k = 0; k < g.ranks.size(); ++k) {
    if (g.ranks[k].finish != no_index && r.rank_time[k] == r.iteration) {
      t = g.ranks[k].finish;
      from = r.times[g.ranks[k].begin].end;
      break;
    }
  }
  const detail::causes causes{g, r};
  for (;;) {
    const auto [before, cause] = causes.of(t);
    const auto begins = before == no_index || r.times[t].start < from || r.times[before].end <= from;
    const auto since = begins ? from : r.times[before].end;
    path.push_back(
        {t, begins ? step_cause::begin : cause, picoseconds{std::max(std::int64_t{0}, r.times[t].end - since)}});
    if (begins) {
      break;
    }
    t = before;
  }
  std::reverse(path.begin(), path.end());
  return path;
}

namespace detail {

// Adds up how the devices of a rank are used. Time is that of the union of intervals over its resources.
class use_counter {
 public:
  use_counter(const flow_graph& g, const replayed_iteration& r)
      : graph_{g}, replayed_{r}, causes_{g, r}, with_streams_{ranks_with_streams(g)}, by_rank_(g.ranks.size()) {
    for (std::uint32_t t = 0; t < g.tasks.size(); ++t) {
      by_rank_[g.tasks[t].rank].push_back(t);
    }
  }

  rank_use run(std::uint32_t rank) const {
    rank_use all;
    const auto& of = graph_.ranks[rank];
    if (of.begin == no_index || of.finish == no_index) {
      return all;
    }
    const picoseconds from{replayed_.times[of.begin].end};
    const picoseconds to{replayed_.times[of.finish].end};
    std::vector<task_interval> busy;
    std::vector<task_interval> moving;
    for (const auto t : by_rank_[rank]) {
      const auto& times = replayed_.times[t];
      const task_interval i{std::max(picoseconds{times.start}, from), std::min(picoseconds{times.end}, to), t};
      if (i.end > i.start) {
        if (computes(graph_.tasks[t], with_streams_)) {
          busy.push_back(i);
        } else if (is_communication(graph_.tasks[t].type)) {
          moving.push_back(i);
        }
      }
    }
    all.communication = covered(moving);
    std::sort(busy.begin(), busy.end());
    auto at = from;
    for (const auto& i : busy) {
      if (i.start > at) {
        explain(i.task, at, i.start, all);
      }
      all.busy += std::max(picoseconds{}, i.end - std::max(at, i.start));
      at = std::max(at, i.end);
    }
    if (at < to) {
      explain(of.finish, at, to, all);
    }
    return all;
  }

 private:
  // Attributes the idle time [from, to) before a task: goes back along what was waited for, and attributes each part of
  // the time to what ran on that path.
  void explain(std::uint32_t t, picoseconds from, picoseconds to, rank_use& all) const {
    const auto own = graph_.tasks[t].rank;
    auto at = to;
    if (graph_.tasks[t].type == task_type::finish && !is_on_way(t)) {
      all.idle[static_cast<std::size_t>(idle_cause::drained)] += to - from;
      return;
    }
    while (at > from) {
      const auto [before, cause] = causes_.of(t);
      if (before == no_index) {
        break;
      }
      t = before;
      const auto start = std::clamp(picoseconds{replayed_.times[t].start}, from, at);
      all.idle[static_cast<std::size_t>(cause_of(t, own))] += at - start;
      at = start;
    }
    all.idle[static_cast<std::size_t>(idle_cause::drained)] += at - from;
  }
  [[nodiscard]] bool is_on_way(std::uint32_t finish) const { return causes_.of(finish).first != no_index; }
  [[nodiscard]] idle_cause cause_of(std::uint32_t t, std::uint32_t own) const {
    const auto& task = graph_.tasks[t];
    if (task.rank != own) {
      return is_communication(task.type) ? idle_cause::communication : idle_cause::straggler;
    }
    if (is_communication(task.type) || task.part == phase::communication) {
      return idle_cause::communication;
    }
    if (task.type == task_type::begin) {
      return idle_cause::drained;
    }
    if (!with_streams_[own]) {
      return task.type == task_type::synchronization ? idle_cause::synchronization : idle_cause::host;
    }
    return task.type == task_type::synchronization ? idle_cause::synchronization : idle_cause::launch;
  }

  const flow_graph& graph_;
  const replayed_iteration& replayed_;
  causes causes_;
  std::vector<bool> with_streams_;
  std::vector<std::vector<std::uint32_t>> by_rank_;
};

}  // namespace detail

UNITY_INLINE std::vector<rank_use> rank_uses(const flow_graph& g, const replayed_iteration& r) {
  const detail::use_counter count{g, r};
  std::vector<rank_use> all;
  for (std::uint32_t k = 0; k < g.ranks.size(); ++k) {
    all.push_back(count.run(k));
  }
  return all;
}

UNITY_INLINE std::vector<straggler> stragglers(const flow_graph& g, const replayed_iteration& r) {
  std::vector<straggler> all(g.ranks.size());
  for (std::uint32_t k = 0; k < g.ranks.size(); ++k) {
    all[k].rank = k;
  }
  const adjacency neighbours{g};
  for (std::uint32_t t = 0; t < g.tasks.size(); ++t) {
    const auto arrivals = neighbours.before(t);
    if (g.tasks[t].type == task_type::meeting && !arrivals.empty()) {  // drop_communication_detail takes them away
      const auto last = *std::max_element(arrivals.begin(), arrivals.end(),
                                          [&](auto a, auto b) { return r.times[a].end < r.times[b].end; });
      picoseconds waited;
      for (const auto a : arrivals) {
        waited += picoseconds{r.times[last].end - r.times[a].end};
      }
      auto& s = all[g.tasks[last].rank];
      s.waited += waited;
      s.meetings += waited > picoseconds{} ? 1 : 0;
    } else if (g.tasks[t].type == task_type::receive) {
      std::int64_t own = 0;
      for (const auto b : neighbours.before(t)) {
        own = g.tasks[b].rank == g.tasks[t].rank ? std::max(own, r.times[b].end) : own;
      }
      for (const auto b : neighbours.before(t)) {
        if (g.tasks[b].rank != g.tasks[t].rank && r.times[b].end > own) {
          all[g.tasks[b].rank].waited += picoseconds{r.times[b].end - own};
          ++all[g.tasks[b].rank].meetings;
        }
      }
    }
  }
  std::erase_if(all, [](const straggler& s) { return s.waited == picoseconds{}; });
  unity::stable_sort(all, [](const auto& a, const auto& b) { return a.waited > b.waited; });
  return all;
}

UNITY_INLINE flow_graph tensor_graph(const flow_graph& g, name_id tensor) {
  flow_graph part;
  part.ranks = g.ranks;
  for (auto& r : part.ranks) {
    r.begin = r.finish = no_index;
  }
  part.resources = g.resources;
  part.communications = g.communications;
  std::vector<std::uint32_t> place(g.tasks.size(), no_index);
  for (std::uint32_t t = 0; t < g.tasks.size(); ++t) {
    const auto c = g.tasks[t].communication;
    if (c != no_index && g.communications[c].tensor == tensor) {
      place[t] = part.add(g.tasks[t]);
    }
  }
  for (const auto& e : g.edges) {
    if (place[e.before] != no_index && place[e.after] != no_index) {
      part.link(place[e.before], place[e.after]);
    }
  }
  return part;
}

UNITY_INLINE picoseconds replay_tensor(const flow_graph& g, const name_table& names, name_id tensor) {
  const auto part = tensor_graph(g, tensor);
  return part.tasks.empty() ? picoseconds{} : replay(part, names).last_end;
}

namespace detail {

// At one instant, frees come first, then allocations, then frees of allocations that live for no time.
enum class memory_change_kind : std::uint8_t { freed, made, freed_at_once };
struct memory_change {
  picoseconds time{};
  memory_change_kind kind = memory_change_kind::made;
  std::uint32_t rank = 0;
  bytes size{};
};

}  // namespace detail

UNITY_INLINE std::vector<memory_peak> memory_use(const flow_graph& g, const replayed_iteration& r) {
  using kinds = detail::memory_change_kind;
  std::vector<memory_peak> all;
  for (const auto& rank : g.ranks) {
    all.push_back({rank.held, rank.held, {}, rank.held > bytes{}});
  }
  std::vector<detail::memory_change> changes;
  for (const auto& a : g.allocations) {
    const picoseconds start{r.times[a.from].start};
    changes.push_back({start, kinds::made, a.rank, a.size});
    if (a.last != no_index) {
      const picoseconds end{r.times[a.last].end};
      changes.push_back({std::max(start, end), end > start ? kinds::freed : kinds::freed_at_once, a.rank, a.size});
    }
    all[a.rank].is_known = true;
  }
  std::sort(changes.begin(), changes.end(),
            [](const auto& a, const auto& b) { return std::tie(a.time, a.kind) < std::tie(b.time, b.kind); });
  std::vector<bytes> now;
  for (const auto& rank : g.ranks) {
    now.push_back(rank.held);
  }
  for (const auto& c : changes) {
    now[c.rank] += c.kind == kinds::made ? c.size : -c.size;
    if (now[c.rank] > all[c.rank].peak) {
      all[c.rank].peak = now[c.rank];
      all[c.rank].time = c.time;
    }
  }
  return all;
}

}  // namespace unity::trace

#endif
