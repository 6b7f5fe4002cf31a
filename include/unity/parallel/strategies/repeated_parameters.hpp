// Strategies in which every device computes all values that depend only on weights, and works on its own samples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <unity/graph/concepts.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel {

// The strategy, except that operators whose results depend only on weights and constants, such as the transpose of a
// word table, are repeated on all devices: each device that has samples then has the parameters, too.
// Complexity: linear in graph and devices.
[[nodiscard]] strategy with_repeated_parameters(const tensor::tensor_graph& g, const graph_dimensions& all,
                                                const hardware::topology& t, strategy s);

// Data parallelism with one process per device: the samples of inputs are divided among all devices, and each operator
// along the index by which it reads samples, whichever of its dimensions that is. Operators without such an index, for
// example sums over samples, stay as in `s`. Operators that read nothing divided in this way, but only parameters or
// results of such operators, are repeated on all devices.
// Complexity: as sample_inputs, and linear in devices.
[[nodiscard]] strategy with_samples_followed(const tensor::algebra& a, const tensor::tensor_graph& g,
                                             const graph_dimensions& all, const hardware::topology& t, strategy s);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_STRATEGIES_REPEATED_PARAMETERS)

#include <algorithm>
#include <optional>
#include <span>

#include <unity/core/id.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/configuration_grid.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/parallel/pipeline.hpp>
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

namespace detail {

// The only index along which operands are divided among all devices, as the outermost part of a dimension; nothing if
// there is none or more than one.
UNITY_INLINE std::optional<std::size_t> divided_index(const operator_dimensions& o,
                                                      std::span<const parallel_type> operands) {
  std::optional<std::size_t> found;
  for (std::size_t x = 0; x < operands.size(); ++x) {
    for (std::size_t d = 0; d < operands[x].degrees.size(); ++d) {
      if (operands[x].degrees[d] == 1) {
        continue;
      }
      const auto& indices = o.structure.operands[x][d].indices;
      if (indices.empty() || (found && *found != indices.front())) {
        return std::nullopt;
      }
      found = indices.front();
    }
  }
  return found;
}

}  // namespace detail

UNITY_INLINE strategy with_samples_followed(const tensor::algebra& a, const tensor::tensor_graph& g,
                                            const graph_dimensions& all, const hardware::topology& t, strategy s) {
  const auto devices = detail::all_devices(t);
  const auto count = static_cast<std::int64_t>(devices.size());
  const auto samples = sample_count(a, g);
  if (samples == 0 || samples % count != 0) {
    return s;
  }
  const auto has_samples = sample_inputs(a, g, all);
  std::vector<parallel_type> types(g.value_count());
  for (const auto n : node_ids(g)) {
    std::vector<parallel_type> operands;
    bool is_divided = false;
    for (const auto v : g.operands(n)) {
      operands.push_back(types[v.index()]);
      is_divided = is_divided || product(operands.back().degrees) > 1;
    }
    for (const auto v : g.results(n)) {
      auto& own = types[v.index()];
      own = undivided(g.type(v));
      if (has_samples[v.index()]) {
        own.degrees[0] = count;
      }
    }
    const auto& o = all[n];
    if (!o.inputs.empty() && !is_divided) {
      s[n.index()] = detail::of_all_samples(o, std::nullopt, devices);
    }
    const auto along = is_divided ? detail::divided_index(o, operands) : std::nullopt;
    if (!along) {
      continue;
    }
    auto grid = undivided_grid(o);
    grid.indices[*along] = count;
    const auto parts =
        why_not(o, grid).empty() && why_no_configuration(o, grid).empty() ? types_on(o, grid) : std::nullopt;
    if (!parts || std::any_of(parts->results.begin(), parts->results.end(),
                              [&](const parallel_type& r) { return product(r.degrees) != count; })) {
      continue;
    }
    s[n.index()] = configuration_of(o, grid, devices);
    for (std::size_t r = 0; r < parts->results.size(); ++r) {
      types[g.results(n)[r].index()] = parts->results[r];
    }
  }
  return s;
}

}  // namespace unity::parallel

#endif
