// How much an iteration computes and communicates: of a replayed job, and of a simulated program, by the same rules, so
// that a job can be compared with the plan that it ran.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/units.hpp>
#include <unity/simulate/full.hpp>
#include <unity/tasks/program.hpp>
#include <unity/trace/events.hpp>
#include <unity/trace/flow_graph.hpp>
#include <unity/trace/message.hpp>

namespace unity::trace {

// computing: by phase, the time in which operators of a rank run (as in rank_use); between: the time in which none runs
// and a host thread that computes is busy with something else, such as the interpreter. Both are means over the ranks
// that compute. communicating: the time in which data are on their way between any ranks.
struct iteration_work {
  std::array<picoseconds, phase_names.size()> computing{};
  picoseconds between{};
  picoseconds communicating{};

  friend bool operator==(const iteration_work&, const iteration_work&) = default;
};

// times: by task of the graph. Complexity: n log n in tasks.
[[nodiscard]] iteration_work work_of(const flow_graph& g, std::span<const simulate::task_times> times);

// By exchange: the number of collectives in which a rank takes part, the mean over ranks. Complexity: linear in tasks.
[[nodiscard]] std::array<double, exchange_names.size()> collectives_per_rank(const flow_graph& g);

struct simulated_iteration {
  flow_graph graph{};
  std::vector<simulate::task_times> times{};  // by task of the graph
};

// The tasks of a simulated program in the terms of a job, without dependencies: a rank for each device, and a last one
// named "links" that has all links. Tasks without a resource are left out. Recomputation counts as part of the backward
// phase. times: by position of the program's tasks. Complexity: linear in tasks.
[[nodiscard]] simulated_iteration to_flow_graph(const tasks::program& p, std::span<const simulate::task_times> times,
                                                name_table& names);

namespace detail {

// By rank: whether it has streams that compute.
[[nodiscard]] std::vector<bool> ranks_with_streams(const flow_graph& g);

// Whether the task computes on one of its rank's streams, or on a host thread if the rank has no streams.
[[nodiscard]] inline bool computes(const flow_task& t, const std::vector<bool>& with_streams) {
  return with_streams[t.rank] ? t.type == task_type::kernel || t.type == task_type::copy ||
                                    (t.type == task_type::earlier && t.part != phase::communication)
                              : t.type == task_type::host || t.type == task_type::launch || t.type == task_type::gap;
}

struct task_interval {
  picoseconds start{};
  picoseconds end{};
  std::uint32_t task = 0;

  friend auto operator<=>(const task_interval&, const task_interval&) = default;
};

// The length of the union. Effects: sorts.
[[nodiscard]] picoseconds covered(std::vector<task_interval>& all);

}  // namespace detail

}  // namespace unity::trace

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRACE_ITERATION_WORK)

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>

#include <fmt/core.h>

namespace unity::trace::detail {

UNITY_INLINE std::vector<bool> ranks_with_streams(const flow_graph& g) {
  std::vector<bool> all(g.ranks.size());
  for (const auto& t : g.tasks) {
    if (t.type == task_type::kernel || t.type == task_type::copy) {
      all[t.rank] = true;
    }
  }
  return all;
}

UNITY_INLINE picoseconds covered(std::vector<task_interval>& all) {
  std::sort(all.begin(), all.end());
  picoseconds sum;
  picoseconds at{std::numeric_limits<std::int64_t>::min()};
  for (const auto& i : all) {
    sum += std::max(picoseconds{}, i.end - std::max(at, i.start));
    at = std::max(at, i.end);
  }
  return sum;
}

// When a rank computes.
class rank_intervals {
 public:
  void add(const flow_task& t, const task_interval& when) {
    (t.type == task_type::gap ? gaps_ : operators_[static_cast<std::size_t>(t.part)]).push_back(when);
  }
  // Effects: adds the rank's times to the sums. Returns whether it computes at all.
  bool add_to(iteration_work& sums) {
    std::vector<task_interval> together;
    for (std::size_t part = 0; part < phase_names.size(); ++part) {
      sums.computing[part] += covered(operators_[part]);
      together.insert(together.end(), operators_[part].begin(), operators_[part].end());
    }
    const auto running = covered(together);
    together.insert(together.end(), gaps_.begin(), gaps_.end());
    sums.between += covered(together) - running;
    return !together.empty();
  }

 private:
  std::array<std::vector<task_interval>, phase_names.size()> operators_{};  // by phase
  std::vector<task_interval> gaps_{};
};

}  // namespace unity::trace::detail

namespace unity::trace {

UNITY_INLINE iteration_work work_of(const flow_graph& g, std::span<const simulate::task_times> times) {
  const auto with_streams = detail::ranks_with_streams(g);
  std::vector<detail::rank_intervals> by_rank(g.ranks.size());
  std::vector<detail::task_interval> moving;
  for (std::uint32_t t = 0; t < g.tasks.size(); ++t) {
    const auto& task = g.tasks[t];
    const detail::task_interval when{picoseconds{times[t].start}, picoseconds{times[t].end}, t};
    if (detail::computes(task, with_streams)) {
      by_rank[task.rank].add(task, when);
    } else if (is_communication(task.type)) {
      moving.push_back(when);
    }
  }
  iteration_work all;
  all.communicating = detail::covered(moving);
  std::int64_t ranks = 0;
  for (auto& r : by_rank) {
    ranks += r.add_to(all) ? 1 : 0;
  }
  ranks = std::max<std::int64_t>(1, ranks);
  for (auto& c : all.computing) {
    c /= ranks;
  }
  all.between /= ranks;
  return all;
}

UNITY_INLINE std::array<double, exchange_names.size()> collectives_per_rank(const flow_graph& g) {
  std::array<double, exchange_names.size()> all{};
  for (const auto& t : g.tasks) {
    if (t.type == task_type::collective && t.communication != no_index) {
      all[static_cast<std::size_t>(g.communications[t.communication].way)] += 1 / static_cast<double>(g.ranks.size());
    }
  }
  return all;
}

namespace detail {

inline phase phase_of(tasks::task_kind k) {
  switch (k) {
    case tasks::task_kind::forward: return phase::forward;
    case tasks::task_kind::update: return phase::update;
    case tasks::task_kind::transfer:
    case tasks::task_kind::reduce: return phase::communication;
    default: return phase::backward;
  }
}

// The resources of a program as those of ranks; by resource of the program, the rank of each.
UNITY_INLINE std::vector<std::uint32_t> add_simulated_ranks(const tasks::program& p, flow_graph& g) {
  std::map<tasks::device_index, std::uint32_t> ranks;  // by device
  for (const auto& r : p.resources()) {
    if (r.kind == tasks::resource_kind::stream && ranks.try_emplace(r.device, g.ranks.size()).second) {
      g.ranks.push_back({r.name});
    }
  }
  const auto links = static_cast<std::uint32_t>(g.ranks.size());
  g.ranks.push_back({"links"});
  std::vector<std::uint32_t> of;
  for (const auto& r : p.resources()) {
    const auto device = ranks.find(r.device);
    const bool is_link = r.kind == tasks::resource_kind::link || device == ranks.end();
    of.push_back(is_link ? links : device->second);
    g.resources.push_back({r.name, of.back(),
                           is_link                                  ? lane_kind::channel
                           : r.kind == tasks::resource_kind::stream ? lane_kind::stream
                                                                    : lane_kind::host});
  }
  return of;
}

inline flow_task simulated_task(const tasks::task& task, lane_kind lane, const simulate::task_times& when) {
  flow_task t;
  t.resource = static_cast<std::uint32_t>(task.resource.index());
  t.type = lane == lane_kind::channel  ? task_type::send
           : lane == lane_kind::stream ? task_type::kernel
                                       : task_type::launch;
  t.part = phase_of(task.kind);
  t.duration = t.recorded_duration = picoseconds{when.end - when.start};
  t.recorded_start = picoseconds{when.start};
  return t;
}

}  // namespace detail

UNITY_INLINE simulated_iteration to_flow_graph(const tasks::program& p, std::span<const simulate::task_times> times,
                                               name_table& names) {
  simulated_iteration all;
  const auto ranks = detail::add_simulated_ranks(p, all.graph);
  for (std::size_t f = 0; f < p.fragment_count(); ++f) {
    const tasks::fragment_id id{f};
    const auto& of = p.owner_of(id).name;
    for (std::uint32_t i = 0; i < p[id].tasks.size(); ++i) {
      const auto& task = p[id].tasks[i];
      if (task.resource.valid()) {
        const auto on = task.resource.index();
        auto t = detail::simulated_task(task, all.graph.resources[on].kind, times[p.find(id, i).index()]);
        t.name = names.intern(fmt::format("{} {}", of, p.name_of(task.kind)));
        t.rank = ranks[on];
        all.graph.add(t);
        all.times.push_back(times[p.find(id, i).index()]);
      }
    }
  }
  return all;
}

}  // namespace unity::trace

#endif
