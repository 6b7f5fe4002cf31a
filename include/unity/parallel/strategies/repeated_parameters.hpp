// Strategies in which every device computes values that depend only on weights by itself, and follows its samples.
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
// word table, are repeated on all devices, so that parameters are where samples are.
// Complexity: linear in graph and devices.
[[nodiscard]] strategy with_repeated_parameters(const tensor::tensor_graph& g, const graph_dimensions& all,
                                                const hardware::topology& t, strategy s);

// As one process per device does it: samples of inputs are divided among all devices, and each operator is divided
// along the index by which it reads samples, whichever of its dimensions that is. Operators of which that cannot be
// said, such as sums over samples, are as in `s`. What reads nothing that was divided so, parameters or results of such
// operators, is repeated on all devices.
// Complexity: linear in graph and devices.
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

// The index of which the operands have a part on each of so many devices, as the outer part of a dimension; nothing if
// there is none, or several.
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
      if (g.operation(n).kind == a.kind("input") && !own.degrees.empty() && own.global.dims[0] == samples) {
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
