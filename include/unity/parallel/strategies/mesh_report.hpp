// Reports on mappings onto meshes, for which one device of each stage is simulated, because all devices of a stage do
// the same.
#pragma once

#include <cstddef>
#include <cstdint>

#include <unity/hardware/machine.hpp>
#include <unity/parallel/mesh/mesh_program.hpp>
#include <unity/parallel/mesh/mesh_tables.hpp>
#include <unity/parallel/mesh/operator_graph.hpp>
#include <unity/parallel/strategies/strategy_report.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/differentiate.hpp>

namespace unity::parallel {

// For an iteration of that many micro-batches. Backward passes are not split, whatever the schedule. Effects: simulates
// the program of mesh_program.hpp. Complexity: as that, times the micro-batches.
[[nodiscard]] strategy_report mesh_report(const tensor::algebra& a, const hardware::machine& m, mesh_tables& tables,
                                          const stage_mesh& stages, const operator_graph& g, const staged_mapping& s,
                                          std::int64_t microbatches = 1);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_STRATEGIES_MESH_REPORT)

#include <numeric>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/parallel/lowering/pipelined_program.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/memory_limits.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/timeline.hpp>
#include <unity/tasks/program.hpp>

namespace unity::parallel {

UNITY_INLINE strategy_report mesh_report(const tensor::algebra& a, const hardware::machine& m, mesh_tables& tables,
                                         const stage_mesh& stages, const operator_graph& g, const staged_mapping& s,
                                         std::int64_t microbatches) {
  pipeline turns{microbatches, {}, false, s.schedule, s.chunks};
  turns.stages.resize(s.stage_count);
  std::iota(turns.stages.begin(), turns.stages.end(), 0U);
  std::vector<std::uint32_t> chunks;
  for (const auto k : s.stages) {
    chunks.push_back(k / s.stage_count);
  }
  const auto p = pipelined(mesh_program(a, m.network, tables, stages, g, s), turns, chunks);
  simulate::full_simulation simulation;
  strategy_report r;
  r.simulated = simulated_devices::one_of_each_stage;
  r.iteration = simulation.run(p);
  r.tasks = p.task_count();
  const auto group = static_cast<std::int64_t>(stages.mesh.devices.size() / s.stage_count);
  for (std::size_t f = 0; f < p.fragment_count(); ++f) {
    for (const auto& t : p[tasks::fragment_id{f}].tasks) {
      const bool computes = p.resources()[t.resource.index()].kind == tasks::resource_kind::stream;
      const picoseconds all{is_of_starts(t.resource) ? 0 : t.duration.count() * group};
      (computes ? r.compute : r.communication) += all;
    }
  }
  const auto profiles = simulate::memory_profiles(p, simulation.times());
  r.memory_peaks.resize(stages.mesh.devices.size());
  for (std::size_t i = 0; i < stages.mesh.devices.size(); ++i) {
    r.memory_peaks[stages.mesh.devices[i].index()] = profiles[i / static_cast<std::size_t>(group)].peak;
  }
  r.excess = excess_over(memory_limits(m), r.memory_peaks);
  return r;
}

}  // namespace unity::parallel

#endif
