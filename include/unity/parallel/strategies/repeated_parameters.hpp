// Strategies in which every device computes values that depend only on weights by itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <unity/graph/concepts.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel {

// The strategy, except that operators whose results depend only on weights and constants, such as the transpose of a
// word table, are repeated on all devices, so that parameters are where samples are.
// Complexity: linear in graph and devices.
[[nodiscard]] strategy with_repeated_parameters(const tensor::tensor_graph& g, const graph_dimensions& all,
                                                const hardware::topology& t, strategy s);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_STRATEGIES_REPEATED_PARAMETERS)

#include <span>

#include <unity/core/id.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/strategies/strategy.hpp>

namespace unity::parallel {

UNITY_INLINE strategy with_repeated_parameters(const tensor::tensor_graph& g, const graph_dimensions& all,
                                               const hardware::topology& t, strategy s) {
  const auto devices = detail::all_devices(t);
  for (const auto n : node_ids(all)) {
    const auto& o = all[n];
    if (!o.inputs.empty() && g.type(g.results(n)[0]).constant) {
      configuration c{degree_list(o.divisible.size(), 1), {}};
      c.devices = decltype(c.devices){std::span<const hardware::device_id>{devices}};
      c.copies = static_cast<std::int64_t>(devices.size());
      s[n.index()] = std::move(c);
    }
  }
  return s;
}

}  // namespace unity::parallel

#endif
