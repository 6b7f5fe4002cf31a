// Times a region as one kernel beside its operators one by one: the gain of fusion.
#pragma once

#include <cstddef>
#include <vector>

#include <unity/backend/detail/run_list.hpp>
#include <unity/backend/device_backend.hpp>
#include <unity/backend/device_timer.hpp>
#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/cost/duration.hpp>
#include <unity/fusion/kernel_region.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend {

struct region_times {
  measurement fused{};
  std::vector<measurement> parts{};  // per node of the region; zero if it does not run: an input or an alias

  [[nodiscard]] picoseconds parts_sum() const {
    picoseconds sum{};
    for (const auto& p : parts) {
      sum += p.median;
    }
    return sum;
  }
};

// Types of the region's operands.
[[nodiscard]] inline std::vector<tensor::tensor_type> input_types(const tensor::algebra& a,
                                                                  const fusion::kernel_region& region) {
  std::vector<tensor::tensor_type> types;
  for (const auto n : node_ids(region.graph)) {
    if (region.graph.operation(n).kind == a.kind("input")) {
      types.push_back(region.graph.type(region.graph.results(n)[0]));
    }
  }
  return types;
}

// The region as one kernel, measured as by device_timer.
// Throws: unity::error as the backend does.
template <region_backend Backend>
[[nodiscard]] measurement time_region(Backend& backend, const tensor::algebra& a, const fusion::kernel_region& region,
                                      const timing_options& options = {}) {
  const auto outputs = detail::types_of(region.graph, region.graph.outputs());
  return device_timer{backend, options}.time_kernel(backend.prepare_region(region), input_types(a, region), outputs);
}

// And each of its operators alone, without constants of the region.
template <region_backend Backend>
[[nodiscard]] region_times time_region_and_parts(Backend& backend, const tensor::algebra& a,
                                                 const fusion::kernel_region& region,
                                                 const timing_options& options = {}) {
  region_times times{time_region(backend, a, region, options), {}};
  device_timer timer{backend, options};
  const auto& g = region.graph;
  for (const auto n : node_ids(g)) {
    const auto inputs = detail::types_of(g, g.operands(n));
    const auto outputs = detail::types_of(g, g.results(n));
    const bool runs = !inputs.empty() && !detail::shared_results(a, g.operation(n), inputs, outputs);
    times.parts.push_back(runs ? timer.time(g.operation(n), inputs, outputs) : measurement{});
  }
  return times;
}

}  // namespace unity::backend
