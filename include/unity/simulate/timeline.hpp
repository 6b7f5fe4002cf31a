// A summary of a simulated iteration: utilization, traffic, memory, and the critical path with its composition.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/units.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/memory.hpp>
#include <unity/tasks/fragment.hpp>
#include <unity/tasks/program.hpp>

namespace unity::simulate {

enum class wait_reason : std::uint8_t {
  nothing,     // it could start with the iteration
  dependency,  // on another task
  resource,    // another task ran there
};

// A step of the critical path; it starts when what it waited for is over.
struct critical_step {
  tasks::task_id task{};
  wait_reason reason = wait_reason::nothing;
  tasks::task_id cause{};  // the step before

  friend bool operator==(const critical_step&, const critical_step&) = default;
};

struct resource_use {
  picoseconds busy{};
  bytes moved{};  // of links
  std::size_t tasks = 0;

  friend bool operator==(const resource_use&, const resource_use&) = default;
};

// Regular.
struct timeline {
  picoseconds iteration{};
  std::size_t tasks = 0;
  std::vector<resource_use> resources{};
  bytes communicated{};  // bytes of messages, counted on every link that they cross
  std::vector<critical_step> critical_path{};
  std::vector<memory_profile> memory{};  // by device

  friend bool operator==(const timeline&, const timeline&) = default;
};

namespace detail {

class timeline_builder {
 public:
  timeline_builder(const tasks::program& p, std::span<const task_times> times) : program_{p}, times_{times} {
    for (std::size_t f = 0; f < p.fragment_count(); ++f) {
      const auto range = p.tasks_of(tasks::fragment_id{f});
      for (auto t = range.first; t < range.first + range.count; ++t) {
        order_.push_back(t);
      }
    }
    std::sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
      const auto key = [&](std::uint32_t t) {
        return std::tuple{p.timed(t).resource, times[t].start, times[t].end, times[t].ready, p.tie(t)};
      };
      return key(a) < key(b);
    });
  }

  timeline run() {
    timeline all;
    all.tasks = order_.size();
    all.resources.resize(program_.resources().size());
    for (std::size_t f = 0; f < program_.fragment_count(); ++f) {
      const tasks::fragment_id id{f};
      const auto& code = program_.code(id);
      for (std::uint32_t i = 0; i < code.tasks.size(); ++i) {
        const auto& times = times_[program_.find(id, i).index()];
        if (const auto r = code.tasks[i].resource; r.valid()) {
          auto& use = all.resources[r.index()];
          use.busy += picoseconds{times.end - times.start};
          use.moved += code.tasks[i].volume;
          ++use.tasks;
        }
        all.communicated += code.tasks[i].volume;
        all.iteration = std::max(all.iteration, picoseconds{times.end});
      }
    }
    all.critical_path = critical_path();
    all.memory = memory_profiles(program_, times_);
    return all;
  }

 private:
  // From the last end backwards; among several causes the one with the lowest tie.
  [[nodiscard]] std::vector<critical_step> critical_path() const {
    std::vector<critical_step> path;
    if (order_.empty()) {
      return path;
    }
    std::vector<std::uint32_t> previous(program_.capacity(), none);  // on its resource
    for (std::size_t i = 1; i < order_.size(); ++i) {
      const auto on = program_.timed(order_[i]).resource;
      if (on.valid() && on == program_.timed(order_[i - 1]).resource) {
        previous[order_[i]] = order_[i - 1];
      }
    }
    auto t = *std::max_element(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return times_[a].end != times_[b].end ? times_[a].end < times_[b].end : program_.tie(a) > program_.tie(b);
    });
    for (;;) {
      auto step = cause_of(t, previous[t]);
      path.push_back(step);
      if (step.reason == wait_reason::nothing) {
        break;
      }
      t = step.cause.index();
    }
    std::reverse(path.begin(), path.end());
    return path;
  }
  [[nodiscard]] critical_step cause_of(std::uint32_t t, std::uint32_t previous) const {
    const auto& times = times_[t];
    const bool ends_late = times.end > times.start + program_.timed(t).duration;  // held up by the hop before
    if (!ends_late && times.start > times.ready) {
      return {tasks::task_id{t}, wait_reason::resource, tasks::task_id{previous}};
    }
    auto cause = none;
    for (const auto link : program_.before(t)) {
      const auto& by = times_[link.task()];
      const auto latency = program_.timed(link.task()).latency;
      const bool decides = ends_late ? link.cut_through() && by.end + latency == times.end
                                     : (link.cut_through() ? by.start : by.end) + latency == times.ready;
      if (decides && (cause == none || program_.tie(link.task()) < program_.tie(cause))) {
        cause = link.task();
      }
    }
    return cause == none ? critical_step{tasks::task_id{t}, wait_reason::nothing, {}}
                         : critical_step{tasks::task_id{t}, wait_reason::dependency, tasks::task_id{cause}};
  }

  static constexpr std::uint32_t none = 0xffffffffU;
  const tasks::program& program_;
  std::span<const task_times> times_;
  std::vector<std::uint32_t> order_;  // by resource, as it runs them
};

}  // namespace detail

// Effects: none. The times must be those of a simulation of the program, by place. Complexity: n log n in tasks and
// buffers, linear in dependencies.
[[nodiscard]] inline timeline summarize(const tasks::program& p, std::span<const task_times> times) {
  UNITY_EXPECTS(times.size() >= p.capacity(), "the times of the program's tasks");
  return detail::timeline_builder{p, times}.run();
}

// How much each step of the path delays the end: the time from the end of the step before to its own end. They add up
// to the iteration. Hops of a message overlap, so a step may take less than its task.
[[nodiscard]] inline std::vector<picoseconds> step_times(std::span<const critical_step> path,
                                                         std::span<const task_times> times) {
  std::vector<picoseconds> all;
  std::int64_t before = 0;
  for (const auto& step : path) {
    const auto end = times[step.task.index()].end;
    all.push_back(picoseconds{end - before});
    before = end;
  }
  return all;
}

// Steps of one kind of task that waited for the same reason.
struct path_share {
  tasks::task_kind kind = tasks::task_kind::other;
  wait_reason reason = wait_reason::nothing;
  std::size_t steps = 0;
  picoseconds time{};

  friend bool operator==(const path_share&, const path_share&) = default;
};

// By kind, then by reason; only those that occur. Complexity: linear in the path.
[[nodiscard]] inline std::vector<path_share> path_shares(const tasks::program& p, std::span<const critical_step> path,
                                                         std::span<const task_times> times) {
  std::map<std::pair<tasks::task_kind, wait_reason>, path_share> all;
  const auto taken = step_times(path, times);
  for (std::size_t i = 0; i < path.size(); ++i) {
    const auto& step = path[i];
    const auto kind = p.code(step.task).kind;
    auto& share = all[{kind, step.reason}];
    share.kind = kind;
    share.reason = step.reason;
    ++share.steps;
    share.time += taken[i];
  }
  std::vector<path_share> list;
  for (const auto& [key, share] : all) {
    list.push_back(share);
  }
  return list;
}

}  // namespace unity::simulate
