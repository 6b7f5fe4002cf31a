// The composition of the critical path of an iteration.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/timeline.hpp>
#include <unity/tasks/fragment.hpp>
#include <unity/tasks/program.hpp>

namespace unity::simulate {

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
