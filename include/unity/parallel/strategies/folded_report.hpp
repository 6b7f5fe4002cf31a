// Reports on strategies for which only one of all devices that do the same is simulated.
#pragma once

#include <cstddef>
#include <limits>

#include <unity/hardware/machine.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/recomputation.hpp>
#include <unity/parallel/strategies/strategy_report.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel {

// As report_on, for stages of any sizes and meshes, but from a smaller program and without the bytes communicated.
// Effects: lowers one micro-batch for all devices, and simulates all micro-batches for one device and link of each kind
// (tasks/representatives.hpp). Exact, apart from the ties named there, unless more than `most` tasks of a micro-batch
// would remain. Then kinds are joined: each device waits for all that any device of its kind waits for, and times are
// mostly late.
// Complexity: that of lowering one micro-batch, and that of simulating what remains, times the micro-batches.
// Throws: as report_on.
[[nodiscard]] strategy_report folded_report(lowering& l, const tensor::tensor_graph& g, const hardware::machine& m,
                                            const strategy& s, const pipeline& stages, const synchronization& sync = {},
                                            const recomputation& again = {},
                                            std::size_t most = std::numeric_limits<std::size_t>::max());

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_STRATEGIES_FOLDED_REPORT)

#include <cstdint>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/units.hpp>
#include <unity/parallel/lowering/pipelined_program.hpp>
#include <unity/parallel/lowering/weight_gathers.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/parallel/strategies/memory_limits.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/timeline.hpp>
#include <unity/tasks/fragment.hpp>
#include <unity/tasks/program.hpp>
#include <unity/tasks/representatives.hpp>

namespace unity::parallel {

UNITY_INLINE strategy_report folded_report(lowering& l, const tensor::tensor_graph& g, const hardware::machine& m,
                                           const strategy& s, const pipeline& stages, const synchronization& sync,
                                           const recomputation& again, std::size_t most) {
  check_gathers(g, l.training(), s, stages, sync);
  const auto folded = tasks::representatives(l.run_microbatch(s, sync, again, stages), most);
  const auto p = pipelined(folded.program, stages, chunks_of(g, s, stages));
  simulate::full_simulation simulation;
  strategy_report r;
  r.simulated = folded.is_exact ? simulated_devices::one_of_each_kind : simulated_devices::one_of_joined_kinds;
  r.iteration = simulation.run(p);
  r.tasks = p.task_count();
  std::vector<std::int64_t> stands_for(p.resources().size(), 0);
  for (const auto of : folded.resource) {
    ++stands_for[of.index()];
  }
  for (std::size_t f = 0; f < p.fragment_count(); ++f) {
    for (const auto& t : p[tasks::fragment_id{f}].tasks) {
      if (!t.resource.valid()) {
        continue;
      }
      const bool computes = p.resources()[t.resource.index()].kind == tasks::resource_kind::stream;
      const picoseconds all{t.duration.count() * stands_for[t.resource.index()]};
      r.compute += computes ? all : picoseconds{};
      r.communication += !computes && t.volume > bytes{} ? all : picoseconds{};
    }
  }
  const auto profiles = simulate::memory_profiles(p, simulation.times());
  for (const auto of : folded.device) {
    r.memory_peaks.push_back(profiles[of].peak);
  }
  r.excess = excess_over(memory_limits(m), r.memory_peaks);
  return r;
}

}  // namespace unity::parallel

#endif
