// Data parallelism among groups of devices, tensor parallelism within each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel {

namespace detail {

// Divides samples among as many groups of `width` devices as possible, and within a group along `dimension`.
[[nodiscard]] std::optional<configuration> divided_twice(const operator_dimensions& o, std::size_t devices,
                                                         std::size_t width, std::optional<std::size_t> dimension);

// The dimensions that can be divided within a group, the best first: parameters; dimensions along which the producer of
// an operand is divided; other attributes from the last on. along: per node, a dimension of its result.
[[nodiscard]] std::vector<std::size_t> dimensions_by_rank(const tensor::tensor_graph& g, node_id n,
                                                          const operator_dimensions& o,
                                                          const std::vector<std::size_t>& along);

}  // namespace detail

// Divides samples among groups of `width` consecutive devices. Within a group divides by parameters if an operator has
// them, otherwise along the dimension in which its first divided operand is divided, otherwise along any other
// attribute from the last on; runs on the first device of the group if none can be divided. Operators without samples
// run in the first group only.
// Precondition: the width divides the number of devices.
// Source: Shoeybi et al., Megatron-LM, 2019, as far as operators without copies and partial sums can follow it.
[[nodiscard]] strategy data_tensor_parallel(const tensor::tensor_graph& g, const graph_dimensions& all,
                                            const hardware::topology& t, std::size_t width);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_STRATEGIES_STRATEGIES_TENSOR)

#include <algorithm>

#include <unity/core/config.hpp>
#include <unity/parallel/strategies/strategy.hpp>

namespace unity::parallel::detail {

UNITY_INLINE std::optional<configuration> divided_twice(const operator_dimensions& o, std::size_t devices,
                                                        std::size_t width, std::optional<std::size_t> dimension) {
  configuration c{degree_list(o.divisible.size(), 1), {}};
  const auto degree_of = [&](std::size_t k, std::size_t most) {
    auto degree = most;
    while (o.divisible[k].size % static_cast<std::int64_t>(degree) != 0 || most % degree != 0) {
      --degree;
    }
    return degree;
  };
  const auto sample = find_dimension(o, parallelism::sample);
  const auto groups = sample ? degree_of(*sample, devices / width) : 1;
  const auto parts = dimension ? degree_of(*dimension, width) : 1;
  if (sample) {
    c.degrees[*sample] = static_cast<std::int64_t>(groups);
  }
  if (dimension) {
    c.degrees[*dimension] = static_cast<std::int64_t>(parts);
  }
  const auto place = [&](std::size_t group, std::size_t part) { return hardware::device_id{group * width + part}; };
  const bool is_outer = !sample || !dimension || *sample < *dimension;
  for (std::size_t t = 0; t < groups * parts; ++t) {
    c.devices.push_back(is_outer ? place(t / parts, t % parts) : place(t % groups, t / groups));
  }
  return why_not(o, c, devices).empty() ? std::optional{c} : std::nullopt;
}

UNITY_INLINE std::vector<std::size_t> dimensions_by_rank(const tensor::tensor_graph& g, node_id n,
                                                         const operator_dimensions& o,
                                                         const std::vector<std::size_t>& along) {
  std::vector<std::size_t> all;
  const auto add_if = [&](const auto& fits) {
    for (auto k = o.divisible.size(); k-- > 0;) {
      if (fits(o.divisible[k]) && std::find(all.begin(), all.end(), k) == all.end()) {
        all.push_back(k);
      }
    }
  };
  add_if([](const parallel_dimension& d) { return d.kind == parallelism::parameter; });
  for (std::size_t i = 0; i < o.inputs.size(); ++i) {
    const auto divided = along[g.producer(g.operands(n)[i]).index()];
    if (divided == parallel_dimension::none) {
      continue;
    }
    for (const auto index : o.structure.operands[i][divided].indices) {
      add_if([&](const parallel_dimension& d) {
        return d.kind == parallelism::attribute &&
               std::find(d.indices.begin(), d.indices.end(), index) != d.indices.end();
      });
    }
  }
  add_if([](const parallel_dimension& d) { return d.kind == parallelism::attribute; });
  return all;
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE strategy data_tensor_parallel(const tensor::tensor_graph& g, const graph_dimensions& all,
                                           const hardware::topology& t, std::size_t width) {
  const auto devices = t.device_count();
  UNITY_EXPECTS(width > 0 && devices % width == 0, "a width that divides the number of devices");
  strategy s;
  std::vector<std::size_t> along(g.node_count(), parallel_dimension::none);  // of the result
  for (const auto n : node_ids(g)) {
    const auto& o = all[n];
    auto& c = s.emplace_back();
    if (o.inputs.empty()) {
      continue;
    }
    const auto tried = detail::dimensions_by_rank(g, n, o, along);
    std::optional<configuration> best;
    for (const auto k : tried) {
      auto made = detail::divided_twice(o, devices, width, k);
      if (made && made->degrees[k] > 1 && (!best || made->task_count() > best->task_count())) {
        best = std::move(made);
        along[n.index()] = o.divisible[k].dimension;
      }
    }
    best = best ? std::move(best) : detail::divided_twice(o, devices, width, std::nullopt);
    c = best ? std::move(*best) : on_device(o, hardware::device_id{0U});
  }
  return s;
}

}  // namespace unity::parallel

#endif
