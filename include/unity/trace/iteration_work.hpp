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

}  // namespace unity::trace::detail

namespace unity::trace {

UNITY_INLINE iteration_work work_of(const flow_graph& g, std::span<const simulate::task_times> times) {
  using intervals = std::vector<detail::task_interval>;
  const auto with_streams = detail::ranks_with_streams(g);
  std::vector<std::array<intervals, phase_names.size()>> operators(g.ranks.size());  // by rank
  std::vector<intervals> gaps(g.ranks.size());
  intervals moving;
  for (std::uint32_t t = 0; t < g.tasks.size(); ++t) {
    const auto& task = g.tasks[t];
    const detail::task_interval when{picoseconds{times[t].start}, picoseconds{times[t].end}, t};
    if (detail::computes(task, with_streams)) {
      auto& of =
          task.type == task_type::gap ? gaps[task.rank] : operators[task.rank][static_cast<std::size_t>(task.part)];
      of.push_back(when);
    } else if (is_communication(task.type)) {
      moving.push_back(when);
    }
  }
  iteration_work all;
  all.communicating = detail::covered(moving);
  std::int64_t ranks = 0;
  for (std::size_t r = 0; r < g.ranks.size(); ++r) {
    intervals together;
    for (std::size_t part = 0; part < phase_names.size(); ++part) {
      all.computing[part] += detail::covered(operators[r][part]);
      together.insert(together.end(), operators[r][part].begin(), operators[r][part].end());
    }
    ranks += together.empty() && gaps[r].empty() ? 0 : 1;
    const auto running = detail::covered(together);
    together.insert(together.end(), gaps[r].begin(), gaps[r].end());
    all.between += detail::covered(together) - running;
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
      if (!task.resource.valid()) {
        continue;
      }
      const auto& when = times[p.find(id, i).index()];
      const auto lane = all.graph.resources[task.resource.index()].kind;
      flow_task t;
      t.name = names.intern(fmt::format("{} {}", of, p.name_of(task.kind)));
      t.rank = ranks[task.resource.index()];
      t.resource = static_cast<std::uint32_t>(task.resource.index());
      t.type = lane == lane_kind::channel  ? task_type::send
               : lane == lane_kind::stream ? task_type::kernel
                                           : task_type::launch;
      t.part = detail::phase_of(task.kind);
      t.duration = t.recorded_duration = picoseconds{when.end - when.start};
      t.recorded_start = picoseconds{when.start};
      all.graph.add(t);
      all.times.push_back(when);
    }
  }
  return all;
}

}  // namespace unity::trace

#endif
