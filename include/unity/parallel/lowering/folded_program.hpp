// A program in which some devices represent all, and its unfolded summary.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <unity/machine/topology.hpp>
#include <unity/program/fragment.hpp>
#include <unity/program/program.hpp>
#include <unity/simulate/timeline.hpp>

namespace unity::parallel {

// Regular. Resources have the numbers of the whole program; those that represent no others hold no tasks.
struct folded_program {
  program::program code{};
  std::size_t order = 1;                         // of the symmetry
  std::vector<machine::device_id> device{};      // by device: its representative
  std::vector<program::resource_id> resource{};  // by resource: its representative
  std::string why_not_more{};                    // why the last higher-order symmetry that was tried failed
};

// The summary of the whole program from that of the folded one. The critical path is that of the folded program.
[[nodiscard]] simulate::timeline unfolded(const folded_program& f, simulate::timeline t);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_LOWERING_FOLDED_PROGRAM)

#include <unity/core/config.hpp>
#include <unity/core/units.hpp>

namespace unity::parallel {

UNITY_INLINE simulate::timeline unfolded(const folded_program& f, simulate::timeline t) {
  const auto folded = t;
  t.tasks = 0;
  for (std::size_t i = 0; i < f.code.fragment_count(); ++i) {
    for (const auto& task : f.code.code(program::fragment_id{i}).tasks) {
      if (!task.resource.valid()) {  // reductions: shared by all devices of a collective; others: of one device
        t.tasks += task.kind == program::task_kind::reduce ? 1 : f.order;
      }
    }
  }
  t.communicated = {};
  for (std::size_t r = 0; r < t.resources.size(); ++r) {
    t.resources[r] = folded.resources[f.resource[r].index()];
    t.tasks += t.resources[r].tasks;
    t.communicated += t.resources[r].moved;
  }
  t.memory.resize(f.device.size());
  for (std::size_t d = 0; d < f.device.size(); ++d) {
    t.memory[d] = folded.memory[f.device[d].index()];
  }
  return t;
}

}  // namespace unity::parallel

#endif
