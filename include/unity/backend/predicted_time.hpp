// Predicts the time of a graph from measured times of what an executor launches.
#pragma once

#include <cstddef>
#include <string>

#include <unity/backend/detail/run_list.hpp>
#include <unity/backend/device_backend.hpp>
#include <unity/backend/device_timer.hpp>
#include <unity/backend/elementwise_chains.hpp>
#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/timing_cache.hpp>

namespace unity::backend {

// One line that says what a chain computes: values are numbered in the order of nodes, inputs first.
[[nodiscard]] std::string chain_signature(const tensor::algebra& a, const tensor::tensor_graph& region);

// The sum over all launches of an executor with the same `fuse`, each measured alone or taken from the cache.
// Interactions between launches (caches, clocks) are not included. The cache must belong to the timer, or to a timer
// that queries it.
// Throws: unity::error if an operator cannot run.
template <device_backend Backend, class Timer>
[[nodiscard]] picoseconds predicted_time(const tensor::algebra& a, const tensor::tensor_graph& g,
                                         device_timer<Backend>& timer, tensor::timing_cache<Timer>& cache,
                                         bool fuse = true) {
  const detail::run_list list{a, g, fusing_backend<Backend> && fuse, true};
  picoseconds sum;
  for (const auto& item : list.running()) {
    if constexpr (fusing_backend<Backend>) {
      if (item.chain != nullptr) {
        const auto& region = item.chain->region;
        sum += cache.time(chain_signature(a, region), [&] { return timer.time_chain(region); }).median;
        continue;
      }
    }
    sum += cache.time(g.operation(item.node), detail::types_of(g, item.operands), detail::types_of(g, item.results))
               .median;
  }
  return sum;
}

}  // namespace unity::backend

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_PREDICTED_TIME)

#include <vector>

#include <fmt/core.h>

#include <unity/cost/duration.hpp>

namespace unity::backend {

UNITY_INLINE std::string chain_signature(const tensor::algebra& a, const tensor::tensor_graph& region) {
  std::string text = "chain";
  for (const auto n : node_ids(region)) {
    std::vector<tensor::tensor_type> inputs;
    std::string operands;
    for (const auto v : region.operands(n)) {
      inputs.push_back(region.type(v));
      operands += fmt::format(" %{}", v.index());
    }
    const auto results = region.results(n);
    const std::vector<tensor::tensor_type> outputs{region.type(results[0])};
    const auto signature =
        inputs.empty() ? tensor::detail::signature_types(outputs)
                       : fmt::format("{}{}", tensor::signature_text(a, region.operation(n), inputs, outputs), operands);
    text += fmt::format("{}{} = {}", n.index() == 0 ? " %" : "; %", results[0].index(), signature);
  }
  return text;
}

}  // namespace unity::backend

#endif
