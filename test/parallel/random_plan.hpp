// Random plans: a graph, a machine, and a strategy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include <unity/core/random.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/plan.hpp>

#include "divided_at_random.hpp"
#include "operators.hpp"
#include "random_model.hpp"

namespace unity::parallel::test {

// Up to 7 operators on 4 or 6 devices. Returns nothing if an enlarged kernel would be divided, because its parts are no
// kernels.
inline std::optional<plan> plan_at_random(std::uint64_t seed) {
  random_engine random{seed};
  model_maker maker{random, operators()};
  maker.add(1 + random.below(7));
  plan p;
  p.graph = std::move(maker).finish();
  p.machine = hardware::preset(seed % 2 == 0 ? "p100:1x4" : "p100:2x3");
  const graph_dimensions all{operators(), p.graph};
  p.configurations = divided_at_random(p.graph, all, p.machine.network.device_count(), random);
  for (const auto n : node_ids(p.graph)) {
    if (operators().signature(p.graph.operation(n).kind).name == "enlarge" &&
        p.configurations[n.index()].task_count() > 1) {
      return std::nullopt;
    }
  }
  return p;
}

}  // namespace unity::parallel::test
