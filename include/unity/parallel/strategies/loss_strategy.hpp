// Extends a strategy to operators behind those of a plan, divided like their operands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include <unity/parallel/configuration.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel {

namespace detail {

// Splits dimension 0 of the operand like the producer and co-locates each part; runs on one device if the operator
// cannot be divided this way.
[[nodiscard]] configuration following(const operator_dimensions& o, std::size_t operand,
                                      const operator_dimensions& producer, const configuration& made,
                                      std::size_t devices);

// If all operands of a linear group are sums of the same number of partials on the same devices, computes the operator
// partial by partial there. Nothing for other operators.
[[nodiscard]] std::optional<configuration> partial_by_partial(const tensor::tensor_graph& g,
                                                              const graph_dimensions& all, node_id n,
                                                              std::size_t devices, const strategy& s);

}  // namespace detail

// How outputs that are sums over several devices are handled.
// added_up  one device adds up the partials, since readers of the graph's outputs expect whole values
// partial   a scalar stays one partial per device: its reader adds them up; the backward pass does not wait for that
enum class summed_outputs : std::uint8_t { added_up, partial };

// Appends configurations for the operators of the graph behind those of the strategy, such as a loss. Complexity:
// linear in the nodes.
void follow(const tensor::tensor_graph& g, const graph_dimensions& all, std::size_t devices, strategy& s,
            summed_outputs summed = summed_outputs::added_up);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_STRATEGIES_LOSS_STRATEGY)

#include <algorithm>

#include <unity/core/id.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/operator_grid.hpp>

namespace unity::parallel::detail {

UNITY_INLINE configuration following(const operator_dimensions& o, std::size_t operand,
                                     const operator_dimensions& producer, const configuration& made,
                                     std::size_t devices) {
  configuration alone{degree_list(o.divisible.size(), 1), {made.devices[0]}, {}, {}, 1};
  std::int64_t parts = 1;
  std::int64_t inner = 1;  // tasks per part
  for (std::size_t k = 0; k < producer.divisible.size(); ++k) {
    parts = producer.divisible[k].dimension == 0 ? made.degrees[k] : parts;
    inner *= producer.divisible[k].dimension == 0 ? 1 : made.degrees[k];
  }
  const bool is_outer = !producer.divisible.empty() && producer.divisible[0].dimension == 0;
  const auto& dims = o.structure.operands[operand];
  if (parts == 1 || !is_outer || dims.empty() || dims[0].indices.empty()) {
    return alone;
  }
  auto c = alone;
  const auto index = dims[0].indices[0];
  bool is_divided = false;
  for (std::size_t k = 0; k < o.divisible.size(); ++k) {
    if (o.divisible[k].indices[0] == index) {
      c.degrees[k] = parts;
      is_divided = true;
    }
  }
  for (std::size_t r = 0; r < o.reductions.size() && !is_divided; ++r) {
    if (o.reductions[r].indices[0] == index) {
      c.reductions = degree_list(o.reductions.size(), 1);
      c.reductions[r] = parts;
      is_divided = true;
    }
  }
  c.devices.clear();
  for (std::int64_t b = 0; b < parts; ++b) {
    c.devices.push_back(made.devices[static_cast<std::size_t>(b * inner)]);
  }
  return is_divided && why_not(o, c, devices).empty() ? c : alone;
}

UNITY_INLINE std::optional<configuration> partial_by_partial(const tensor::tensor_graph& g, const graph_dimensions& all,
                                                             node_id n, std::size_t devices, const strategy& s) {
  const auto& o = all[n];
  const auto operands = g.operands(n);
  for (std::size_t group = 0; group < o.groups.size(); ++group) {
    const configuration* first = nullptr;
    bool is_alike = true;
    for (const auto x : o.groups[group]) {
      const auto& made = s[g.producer(operands[x]).index()];
      const auto count = product(made.reductions) * product(made.partials);
      is_alike = is_alike && count > 1 && count == static_cast<std::int64_t>(made.task_count()) &&
                 (first == nullptr || made.devices == first->devices);
      first = &made;
    }
    if (!is_alike || first == nullptr) {
      continue;
    }
    configuration c{degree_list(o.divisible.size(), 1), first->devices, {}, degree_list(o.groups.size(), 1), 1};
    c.partials[group] = static_cast<std::int64_t>(first->task_count());
    if (why_not(o, c, devices).empty()) {
      return c;
    }
  }
  return std::nullopt;
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE void follow(const tensor::tensor_graph& g, const graph_dimensions& all, std::size_t devices, strategy& s,
                         summed_outputs summed) {
  for (auto n = s.size(); n < g.node_count(); ++n) {
    s.emplace_back();
    const auto operands = g.operands(node_id{n});
    const auto made = std::find_if(operands.begin(), operands.end(),
                                   [&](value_id v) { return s[g.producer(v).index()].task_count() > 0; });
    const auto& o = all[node_id{n}];
    if (operands.empty()) {
      continue;
    }
    if (made == operands.end()) {
      s[n] = {degree_list(o.divisible.size(), 1), {hardware::device_id{std::size_t{0}}}, {}, {}, 1};
      continue;
    }
    const bool is_number = o.outputs.size() == 1 && o.outputs.front().dims.empty();
    if (auto c = summed == summed_outputs::partial && is_number
                     ? detail::partial_by_partial(g, all, node_id{n}, devices, s)
                     : std::nullopt) {
      s[n] = std::move(*c);
      continue;
    }
    const auto from = g.producer(*made);
    s[n] = detail::following(o, static_cast<std::size_t>(made - operands.begin()), all[from], s[from.index()], devices);
    const bool is_output =
        std::any_of(g.outputs().begin(), g.outputs().end(), [&](value_id v) { return g.producer(v) == node_id{n}; });
    const bool may_leave = summed == summed_outputs::partial && is_number;
    if (is_output && !may_leave && product(s[n].reductions) > 1) {
      s[n] = {degree_list(o.divisible.size(), 1), {s[from.index()].devices[0]}, {}, {}, 1};
    }
  }
}

}  // namespace unity::parallel

#endif
