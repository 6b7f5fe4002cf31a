// Memory of offloaded results on each device in a simulation.
#pragma once

#include <cstddef>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/parallel/offloading.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/timeline.hpp>
#include <unity/tasks/fragment.hpp>
#include <unity/tasks/program.hpp>

namespace unity::parallel::test {

// By device: peak bytes of the results of offloaded operators and of their fetched copies.
inline std::vector<bytes> held_results(tasks::program p, const offloading& away) {
  // Removes all other buffers.
  std::vector<tasks::fragment> fragments;
  for (std::size_t f = 0; f < p.fragment_count(); ++f) {
    const tasks::fragment_id id{f};
    fragments.push_back(p[id]);
    const auto& owner = p.owner_of(id);
    const bool is_away = owner.kind == tasks::owner_kind::node && is_offloaded(away, node_id{owner.index});
    for (auto& b : fragments.back().buffers) {
      const auto is_result = [&] {
        const auto kind = fragments.back().tasks[b.producer.index].kind;
        return kind == tasks::task_kind::forward || kind == tasks::task_kind::other;
      };
      b.size = is_away && !b.permanent && is_result() ? b.size : bytes{};
    }
  }
  p.replace(tasks::replacements_of(fragments));
  p.commit();
  simulate::full_simulation simulation;
  simulation.run(p);
  std::vector<bytes> most;
  for (const auto& m : simulate::memory_profiles(p, simulation.times())) {
    most.push_back(m.peak);
  }
  return most;
}

}  // namespace unity::parallel::test
