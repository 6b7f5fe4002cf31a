// A lower bound on the time of an iteration: devices never wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <unity/core/units.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/strategies/placements.hpp>

namespace unity::parallel {

// No strategy on aligned blocks has a shorter iteration. Counts each operator with the division that needs least
// computing, forward and backward, on its fastest kind of device, shared equally by all devices. Does not count
// messages, gradients and updates.
// Complexity: the tasks of each distinct operator, for each of its degrees and each kind of device.
[[nodiscard]] picoseconds compute_bound(lowering& l, const hardware::machine& m, const placements& all);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_STRATEGIES_COMPUTE_BOUND)

#include <algorithm>
#include <limits>
#include <map>
#include <span>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/plan.hpp>

namespace unity::parallel {

UNITY_INLINE picoseconds compute_bound(lowering& l, const hardware::machine& m, const placements& all) {
  std::vector<hardware::device_id> one_of_each;  // one device per kind
  std::vector<bool> seen(m.devices.size());
  for (std::size_t d = 0; d < m.network.device_count(); ++d) {
    const hardware::device_id id{d};
    if (!seen[m.network[id].model]) {
      seen[m.network[id].model] = true;
      one_of_each.push_back(id);
    }
  }
  const auto& dimensions = l.dimensions();
  strategy s(dimensions.node_count());
  std::map<std::pair<std::uint32_t, std::vector<bool>>, std::int64_t> least;
  std::int64_t sum = 0;
  for (const auto n : node_ids(dimensions)) {
    if (dimensions[n].inputs.empty()) {
      continue;
    }
    const auto [at, is_new] =
        least.try_emplace({dimensions.kind(n), l.training().wanted(n)}, std::numeric_limits<std::int64_t>::max());
    for (const auto& degrees : is_new ? all.degrees(n) : std::span<const degree_list>{}) {
      for (const auto d : one_of_each) {
        s[n.index()] = configuration{degrees, {}};
        s[n.index()].devices.resize(placements::tasks_of(degrees), d);
        std::int64_t takes = 0;
        for (const auto& t : l.lowered_operator(s, n).tasks) {
          takes += t.duration.count();
        }
        at->second = std::min(at->second, takes);
      }
    }
    s[n.index()] = {};
    sum += at->second;
  }
  const auto devices = static_cast<std::int64_t>(m.network.device_count());
  return picoseconds{(sum + devices - 1) / devices};
}

}  // namespace unity::parallel

#endif
