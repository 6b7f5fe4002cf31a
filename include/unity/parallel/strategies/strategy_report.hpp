// The time, computation, communication and memory of an iteration under a strategy.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/offloading.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/recomputation.hpp>
#include <unity/parallel/strategies/memory_limits.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel {

// Which devices the simulated program has.
enum class simulated_devices : std::uint8_t {
  all,
  one_of_each_kind,     // devices of a kind do the same at the same times
  one_of_joined_kinds,  // devices of a kind do the same; the simulated one waits for all that any of them waits for
  one_of_each_stage     // the program was written for one device of each stage; exchanges have the times of a mesh
};
inline constexpr std::array<std::string_view, 4> simulated_devices_names{"all", "one_of_each_kind",
                                                                         "one_of_joined_kinds", "one_of_each_stage"};

struct strategy_report {
  picoseconds iteration{};
  picoseconds compute{};        // of all devices together
  picoseconds communication{};  // of all links together
  bytes communicated{};         // by messages, each counted once, however many links it crosses
  std::int64_t communicated_elements = 0;
  std::size_t tasks = 0;
  std::vector<bytes> memory_peaks{};  // per device
  std::vector<memory_excess> excess{};
  simulated_devices simulated = simulated_devices::all;

  // Whether only some devices were simulated. Then what was moved is unknown.
  [[nodiscard]] bool is_of_representatives() const noexcept { return simulated != simulated_devices::all; }
  [[nodiscard]] bytes memory_peak() const {
    return memory_peaks.empty() ? bytes{} : *std::max_element(memory_peaks.begin(), memory_peaks.end());
  }

  friend bool operator==(const strategy_report&, const strategy_report&) = default;
};

// Effects: lowers and simulates an iteration, with all micro-batches if there are stages. Complexity: as those.
// Throws: unity::error if the strategy does not fit the graph, the machine and the stages.
[[nodiscard]] strategy_report report_on(lowering& l, const tensor::tensor_graph& g, const hardware::machine& m,
                                        const strategy& s, const pipeline& stages = {},
                                        const synchronization& sync = {}, const recomputation& again = {},
                                        const offloading& offloaded = {});

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_STRATEGIES_STRATEGY_REPORT)

#include <string>

#include <unity/parallel/lowering/network.hpp>
#include <unity/parallel/lowering/weight_gathers.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/timeline.hpp>
#include <unity/tasks/program.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

UNITY_INLINE strategy_report report_on(lowering& l, const tensor::tensor_graph& g, const hardware::machine& m,
                                       const strategy& s, const pipeline& stages, const synchronization& sync,
                                       const recomputation& again, const offloading& offloaded) {
  check_gathers(g, l.training(), s, stages, sync);
  const auto p = l.run(s, sync, again, stages, offloaded);
  simulate::full_simulation simulation;
  strategy_report r;
  r.iteration = simulation.run(p);
  r.tasks = p.task_count();
  const auto in_bucket = [](const weight_sync& w, std::uint32_t bucket) {
    return std::any_of(w.parts.begin(), w.parts.end(), [&](const synchronizer& part) { return part.bucket == bucket; });
  };
  const auto size_of = [&](const tasks::owner& o) {
    auto weight = o.index;
    if (o.kind == tasks::owner_kind::bucket) {  // all of its weights have elements of one type
      for (weight = 0; !in_bucket(sync.weights[weight], o.index);) {
        ++weight;
      }
    }
    const auto v =
        o.kind == tasks::owner_kind::edge ? l.training().edges()[o.index].value : l.training().weights()[weight].value;
    return static_cast<std::int64_t>(tensor::size_of(g.type(v).element));
  };
  for (std::size_t f = 0; f < p.fragment_count(); ++f) {
    const tasks::fragment_id id{f};
    for (const auto& t : p[id].tasks) {
      if (!t.resource.valid()) {
        continue;
      }
      const auto& resource = p.resources()[t.resource.index()];
      const bool computes = resource.kind == tasks::resource_kind::stream;
      r.compute += computes ? t.duration : picoseconds{};
      r.communication += !computes && t.volume > bytes{} ? t.duration : picoseconds{};
    }
    const auto moved = message_bytes(p[id]);
    if (moved > bytes{}) {
      r.communicated += moved;
      r.communicated_elements += moved.count() / size_of(p.owner_of(id));
    }
  }
  for (const auto& profile : simulate::memory_profiles(p, simulation.times())) {
    r.memory_peaks.push_back(profile.peak);
  }
  r.excess = excess_over(memory_limits(m), r.memory_peaks);
  return r;
}

}  // namespace unity::parallel

#endif
