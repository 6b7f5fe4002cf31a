// The data-flow graph of a job: the local graphs of its ranks, joined by messages and collectives, averaged over steps;
// and how well the iterations of a job predict each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/stable_sort.hpp>
#include <unity/trace/events.hpp>
#include <unity/trace/flow_graph.hpp>
#include <unity/trace/local_graph.hpp>
#include <unity/trace/replay.hpp>
#include <unity/trace/transactions.hpp>

namespace unity::trace {

// A job with a common clock. Keeps a reference to the job.
class aligned_job {
 public:
  // Complexity: linear in events.
  aligned_job(const job_trace& job, const transactions& x, clock_offsets offsets)
      : job_{&job},
        transactions_{&x},
        offsets_{std::move(offsets)},
        durations_{busy_durations(job, x, offsets_)},
        events_(job.ranks.begin(), job.ranks.end()) {}

  [[nodiscard]] const job_trace& job() const noexcept { return *job_; }
  [[nodiscard]] const clock_offsets& offsets() const noexcept { return offsets_; }

  // The graph of one step, with the durations of that step. A send takes its time on its channel; its receive is ready
  // once the send has begun. A collective is ready on all ranks once it is on the last one; ranks without a trace are
  // not waited for, because the recorded event includes waiting for them. Precondition: a step that all ranks have.
  // Complexity: n log n in the events of the job.
  [[nodiscard]] flow_graph graph(std::int64_t step, const inference_limits& limits = {}) const;

  // The duration of the step: the longest of its ranks, each by its own clock.
  [[nodiscard]] picoseconds measured(std::int64_t step) const;

 private:
  const job_trace* job_;
  const transactions* transactions_;
  clock_offsets offsets_;
  std::vector<std::vector<picoseconds>> durations_;
  std::vector<step_events> events_;  // by rank
};

// Durations of tasks over several steps. Tasks of different steps correspond if they have the same key.
class step_profile {
 public:
  // Complexity: linear in tasks.
  void add(const flow_graph& g);
  [[nodiscard]] std::size_t steps() const noexcept { return steps_; }

  // Effects: sets each task to the mean and the standard deviation of its durations.
  void average(flow_graph& g) const;
  // Effects: sets each task to the mean over the steps other than the graph's own, which must have been added. Keeps
  // the durations of tasks that do not belong to this step (the begin of its ranks, and the work that is running on
  // their streams then), of tasks that no other step has, and, with `keep_absent`, of tasks that wait for ranks without
  // a trace, because no profile tells when those arrive. Returns the number of tasks that no other step has.
  std::size_t average_of_others(flow_graph& g, bool keep_absent) const;

 private:
  struct sums {
    double sum = 0;
    double squares = 0;
    std::uint32_t count = 0;
  };
  std::unordered_map<std::uint64_t, sums> of_;
  std::size_t steps_ = 0;
};

// The representative graph of the job: the structure of the step of median length, with durations averaged over all
// steps.
// Throws: unity::error if tasks wait for each other.
struct averaged_graph {
  flow_graph graph{};
  std::int64_t step = 0;  // step that gave the structure
};
[[nodiscard]] averaged_graph average_steps(const aligned_job& job, const inference_limits& limits = {});

// A measured step, replayed with the average durations of the other steps.
struct step_accuracy {
  std::int64_t number = 0;
  picoseconds measured{};
  picoseconds replayed{};
  // Tasks that waited for ranks without a trace also take the average of the other steps, instead of their recorded
  // time.
  picoseconds replayed_alone{};
  picoseconds coarse{};  // Daydream's model: communication without detail, one queue
  std::vector<picoseconds> rank_measured{};
  std::vector<picoseconds> rank_replayed{};
  std::size_t tasks = 0;
  std::size_t unmatched = 0;  // tasks that no other step has; they keep their durations

  friend bool operator==(const step_accuracy&, const step_accuracy&) = default;
};

// Replays each step that all ranks have without its own durations: they are averages of the other steps. Its operators,
// their order, and the work that is running when it begins are its own. A job of one step is replayed with its own
// durations. `bytes_per_second`: as for drop_communication_detail. Complexity: n log n in events, times steps.
// Throws: unity::error if tasks wait for each other.
[[nodiscard]] std::vector<step_accuracy> leave_one_out(const aligned_job& job, double bytes_per_second = 0);

}  // namespace unity::trace

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRACE_GLOBAL_GRAPH)

#include <algorithm>
#include <cmath>
#include <utility>

#include <unity/trace/what_if.hpp>

namespace unity::trace {

namespace detail {

inline const step_window& window_of(const rank_trace& t, std::int64_t step) {
  const auto w = std::find_if(t.steps.begin(), t.steps.end(), [&](const auto& s) { return s.number == step; });
  UNITY_EXPECTS(w != t.steps.end(), "a step that all ranks have");
  return *w;
}

// The tasks of all events with messages.
class joined_events {
 public:
  void add(std::uint32_t rank, const std::vector<communication_tasks>& list) {
    for (const auto& c : list) {
      of_.emplace(std::uint64_t{rank} << 32U | c.event, c);
    }
  }
  [[nodiscard]] const communication_tasks* find(event_place p) const {
    const auto c = of_.find(std::uint64_t{p.rank} << 32U | p.event);
    return c == of_.end() ? nullptr : &c->second;
  }

 private:
  std::unordered_map<std::uint64_t, communication_tasks> of_;
};

inline void join(flow_graph& g, const transactions& x, const joined_events& events) {
  for (const auto& m : x.messages) {
    const auto* const send = events.find(m.send);
    const auto* const receive = events.find(m.receive);
    if (send == nullptr || receive == nullptr) {
      continue;
    }
    g.link(send->arrival, receive->main);
    for (const auto* end : {send, receive}) {
      auto& c = g.communications[g.tasks[end->main].communication];
      c.sender = m.send.rank;
      c.receiver = m.receive.rank;
    }
  }
  std::vector<const communication_tasks*> members;
  for (const auto& c : x.collectives) {
    members.clear();
    for (const auto& p : c.members) {
      if (const auto* const e = events.find(p); e != nullptr) {
        members.push_back(e);
      }
    }
    if (members.size() < 2) {
      continue;
    }
    auto meeting = g.tasks[members.front()->arrival];
    meeting.type = task_type::meeting;
    meeting.resource = no_index;
    meeting.key = 0;
    for (const auto* e : members) {
      meeting.recorded_start = std::max(meeting.recorded_start, g.tasks[e->arrival].recorded_start);
    }
    const auto place = g.add(meeting);
    for (const auto* e : members) {
      g.link(e->arrival, place);
      g.link(place, e->main);
    }
  }
}

// A collective is complete if as many ranks participate as its group, or else the job, has; a message is if both ends
// are recorded.
inline void note_absent(flow_graph& g, const job_trace& job, const transactions& x, const joined_events& events) {
  std::vector<std::uint32_t> members(g.communications.size(), 1);
  for (const auto& c : x.collectives) {
    for (const auto& p : c.members) {
      if (const auto* const e = events.find(p); e != nullptr) {
        members[g.tasks[e->main].communication] = static_cast<std::uint32_t>(c.members.size());
      }
    }
  }
  for (const auto& t : g.tasks) {
    if (t.communication == no_index) {
      continue;
    }
    auto& c = g.communications[t.communication];
    const auto size =
        c.group_size > 0 ? c.group_size : static_cast<std::uint32_t>(std::max(0, job.ranks[t.rank].world_size));
    if (t.type == task_type::collective) {
      c.is_whole = members[t.communication] >= size;
    } else if (t.type == task_type::receive) {
      c.is_whole = c.sender != no_index;
    }
  }
}

}  // namespace detail

UNITY_INLINE flow_graph aligned_job::graph(std::int64_t step, const inference_limits& limits) const {
  flow_graph g;
  std::vector<const step_window*> windows;
  picoseconds first{std::numeric_limits<std::int64_t>::max()};
  for (std::uint32_t r = 0; r < job_->ranks.size(); ++r) {
    windows.push_back(&detail::window_of(job_->ranks[r], step));
    first = std::min(first, windows[r]->start + offsets_[r]);
    g.ranks.push_back({job_->ranks[r].name, no_index, no_index});
  }
  detail::joined_events events;
  for (std::uint32_t r = 0; r < job_->ranks.size(); ++r) {
    const auto lead = windows[r]->start + offsets_[r] - first;
    events.add(r, add_local_graph(g, r, job_->ranks[r], *windows[r], durations_[r], lead, offsets_[r] - first,
                                  events_[r].of(step), limits));
  }
  detail::join(g, *transactions_, events);
  detail::note_absent(g, *job_, *transactions_, events);
  return g;
}

UNITY_INLINE picoseconds aligned_job::measured(std::int64_t step) const {
  picoseconds longest;
  for (const auto& r : job_->ranks) {
    longest = std::max(longest, detail::window_of(r, step).duration());
  }
  return longest;
}

UNITY_INLINE void step_profile::add(const flow_graph& g) {
  for (const auto& t : g.tasks) {
    if (t.key != 0) {
      auto& s = of_[t.key];
      s.sum += static_cast<double>(t.duration.count());
      s.squares += static_cast<double>(t.duration.count()) * static_cast<double>(t.duration.count());
      ++s.count;
    }
  }
  ++steps_;
}

UNITY_INLINE void step_profile::average(flow_graph& g) const {
  for (auto& t : g.tasks) {
    if (const auto s = of_.find(t.key); t.key != 0 && s != of_.end()) {
      const auto n = static_cast<double>(s->second.count);
      const auto mean = s->second.sum / n;
      t.duration = picoseconds{std::llround(mean)};
      t.spread = picoseconds{std::llround(std::sqrt(std::max(0.0, s->second.squares / n - mean * mean)))};
      t.samples = s->second.count;
    }
  }
}

UNITY_INLINE std::size_t step_profile::average_of_others(flow_graph& g, bool keep_absent) const {
  std::size_t alone = 0;
  for (auto& t : g.tasks) {
    const bool waits_for_absent =
        is_communication(t.type) && t.communication != no_index && !g.communications[t.communication].is_whole;
    if (t.key == 0 || t.type == task_type::begin || t.type == task_type::earlier || (keep_absent && waits_for_absent)) {
      continue;
    }
    const auto s = of_.find(t.key);
    if (s == of_.end() || s->second.count < 2) {
      ++alone;
      continue;
    }
    const auto n = static_cast<double>(s->second.count - 1);
    t.duration = std::max(picoseconds{},
                          picoseconds{std::llround((s->second.sum - static_cast<double>(t.duration.count())) / n)});
    t.samples = s->second.count - 1;
  }
  return alone;
}

UNITY_INLINE averaged_graph average_steps(const aligned_job& job, const inference_limits& limits) {
  auto steps = common_steps(job.job());
  unity::stable_sort(steps, [&](auto a, auto b) { return job.measured(a) < job.measured(b); });
  step_profile profile;
  for (const auto s : steps) {
    profile.add(job.graph(s, limits));
  }
  const auto middle = steps[(steps.size() - 1) / 2];
  averaged_graph all{job.graph(middle, limits), middle};
  profile.average(all.graph);
  return all;
}

UNITY_INLINE std::vector<step_accuracy> leave_one_out(const aligned_job& job, double bytes_per_second) {
  const auto& names = job.job().names;
  const auto steps = common_steps(job.job());
  step_profile profile;
  for (const auto s : steps) {
    profile.add(job.graph(s));
  }
  std::vector<step_accuracy> all;
  for (const auto s : steps) {
    step_accuracy a;
    a.number = s;
    a.measured = job.measured(s);
    const auto own = job.graph(s);
    auto known = own;
    profile.average_of_others(known, true);
    const auto r = replay(known, names);
    a.replayed = r.iteration;
    a.rank_replayed = r.rank_time;
    for (const auto& rank : own.ranks) {
      a.rank_measured.push_back(rank.measured);
    }
    auto alone = own;
    a.unmatched = profile.average_of_others(alone, false);
    a.tasks = alone.tasks.size();
    a.replayed_alone = replay(alone, names).iteration;
    drop_communication_detail(alone, bytes_per_second);
    a.coarse = replay(alone, names, replay_rule::global_queue).iteration;
    all.push_back(std::move(a));
  }
  return all;
}

}  // namespace unity::trace

#endif
