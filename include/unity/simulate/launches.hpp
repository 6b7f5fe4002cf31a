// Host threads that launch the tasks of devices.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/units.hpp>
#include <unity/simulate/full.hpp>
#include <unity/tasks/program.hpp>

namespace unity::simulate {

// The program with a host thread per device. The thread launches the operators of the device's tasks one after another,
// each in the given time, in the order in which the tasks would start if launching took no time; a task starts at the
// earliest when all its operators are launched. The thread does not wait for its device. Fragments keep their numbers
// and tasks their places; launches come after them. Durations must be those of tasks alone: rooflines and timers that
// include a launch count it twice. Preconditions: no open edit, launch >= 0. Complexity: of a full simulation.
// Throws: unity::error if tasks wait for each other.
[[nodiscard]] inline tasks::program with_launches(const tasks::program& p, picoseconds launch) {
  UNITY_EXPECTS(!p.is_open() && launch >= picoseconds{}, "a program without an open edit, and a time");
  full_simulation full;
  full.run(p);
  auto all = p.without_fragments();
  std::vector<tasks::resource_id> host_of(p.resources().size());  // by stream
  const auto kind = all.add_kind("launch");
  for (std::size_t r = 0; r < p.resources().size(); ++r) {
    if (const auto& stream = p.resources()[r]; stream.kind == tasks::resource_kind::stream) {
      host_of[r] =
          all.add_resource({fmt::format("host thread of {}", stream.name), tasks::resource_kind::host, stream.device});
    }
  }
  std::vector<tasks::fragment> fragments;
  for (std::size_t f = 0; f < p.fragment_count(); ++f) {
    all.add_fragment(p.owner_of(tasks::fragment_id{f}));
    fragments.push_back(p[tasks::fragment_id{f}]);
  }
  std::vector<std::pair<std::int64_t, std::size_t>> order;  // start, and position in the order of the simulation
  for (std::size_t i = 0; i < full.order().size(); ++i) {
    order.emplace_back(full.times()[full.order()[i]].start, i);
  }
  std::sort(order.begin(), order.end());
  std::vector<tasks::task_ref> last(p.resources().size());  // launch of each host thread
  for (const auto& [start, place] : order) {
    const auto t = full.order()[place];
    const auto on = p.timed(t).resource;
    if (!on.valid() || !host_of[on.index()].valid()) {
      continue;
    }
    const auto at = p.where(tasks::task_id{t});
    auto& fragment = fragments[at.fragment.index()];
    const auto [launches, shard] = std::pair{fragment.tasks[at.index].launches, fragment.tasks[at.index].shard};
    if (launches == 0) {
      continue;
    }
    const tasks::task_ref here{
        at.fragment, fragment.add({host_of[on.index()], picoseconds{launches * launch.count()}, {}, {}, kind, shard})};
    if (last[on.index()].fragment.valid()) {
      fragment.dependencies.push_back({last[on.index()], here, false});
    }
    fragment.dependencies.push_back({here, at, false});
    last[on.index()] = here;
  }
  all.replace(tasks::replacements_of(fragments));
  all.commit();
  return all;
}

}  // namespace unity::simulate
