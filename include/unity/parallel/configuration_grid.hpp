// Conversion between configurations and grids of tasks over the indices of an operator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <range/v3/view/zip.hpp>

#include <unity/hardware/topology.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/operator_grid.hpp>

namespace unity::parallel {

// The grid of a valid configuration: the same number of tasks, on the same parts.
[[nodiscard]] operator_grid grid_of(const operator_dimensions& o, const task_grid& g);
[[nodiscard]] inline operator_grid grid_of(const operator_dimensions& o, const configuration& c) {
  return grid_of(o, c.grid());
}

namespace detail {

// For each task of the configuration, its number in the grid `to`.
[[nodiscard]] std::vector<std::size_t> numbers_in_grid(const operator_dimensions& o, const operator_grid& to,
                                                       const task_grid& g);

// The only task grid that could equal that grid; leaves out indices that no degree divides.
[[nodiscard]] task_grid degrees_on(const operator_dimensions& o, const operator_grid& g);

}  // namespace detail

// Why no configuration has the tasks of this grid, in one line; empty if one has. A configuration does not divide
// indices whose parts need statistics of the whole, and has no steps.
[[nodiscard]] std::string why_no_configuration(const operator_dimensions& o, const operator_grid& g);

// The configuration that has the tasks of a grid. devices: per task, in the grid's order.
// Throws: unity::error if there is none.
[[nodiscard]] configuration configuration_of(const operator_dimensions& o, const operator_grid& g,
                                             std::span<const hardware::device_id> devices);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_CONFIGURATION_GRID)

#include <optional>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>

namespace unity::parallel {

UNITY_INLINE operator_grid grid_of(const operator_dimensions& o, const task_grid& g) {
  const auto parts = detail::index_degrees(o, g);
  UNITY_EXPECTS(parts.has_value(), "a valid configuration");
  auto all = undivided_grid(o);
  all.indices = degree_list{std::span<const std::int64_t>{*parts}};
  if (!g.partials.empty()) {
    all.partials = g.partials;
  }
  all.copies = g.copies;
  return all;
}

}  // namespace unity::parallel

namespace unity::parallel::detail {

UNITY_INLINE std::vector<std::size_t> numbers_in_grid(const operator_dimensions& o, const operator_grid& to,
                                                      const task_grid& g) {
  std::vector<std::size_t> all(static_cast<std::size_t>(g.tasks()));
  const std::vector<std::int64_t> parts(to.indices.begin(), to.indices.end());
  for (std::size_t t = 0; t < all.size(); ++t) {
    const auto place = place_of(g, t);
    auto number = place.partial * to.copies + place.copy;
    const auto at = part_numbers(o, g, parts, place);
    for (const auto& [count, digit] : ranges::views::zip(parts, at)) {
      number = number * count + digit;
    }
    all[t] = static_cast<std::size_t>(number);
  }
  return all;
}

UNITY_INLINE task_grid degrees_on(const operator_dimensions& o, const operator_grid& g) {
  degree_list degrees;
  for (const auto& p : o.divisible) {
    std::int64_t degree = 1;
    for (const auto i : p.indices) {
      degree *= g.indices[i];
    }
    degrees.push_back(degree);
  }
  degree_list reductions;
  for (const auto& r : o.reductions) {
    reductions.push_back(g.indices[r.indices[0]]);
  }
  return {std::move(degrees), std::move(reductions), g.partials, g.copies};
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE std::string why_no_configuration(const operator_dimensions& o, const operator_grid& g) {
  if (auto reason = why_not(o, g); !reason.empty()) {
    return reason;
  }
  for (std::size_t i = 0; i < g.indices.size(); ++i) {
    const auto& index = o.structure.indices[i];
    if (g.steps[i] > 1) {
      return fmt::format("{} steps of index {}: a plan has none", g.steps[i], index.name);
    }
    if (g.indices[i] > 1 && index.kind == tensor::index_kind::statistic) {
      return fmt::format("parts of index {}, of which every part needs statistics of the whole", index.name);
    }
  }
  const auto tasks = detail::degrees_on(o, g);
  const auto parts = detail::index_degrees(o, tasks);
  for (std::size_t i = 0; i < g.indices.size(); ++i) {
    if (!parts || (*parts)[i] != g.indices[i]) {
      return fmt::format("{} parts of index {}, which no degree of a configuration gives", g.indices[i],
                         o.structure.indices[i].name);
    }
  }
  return {};
}

UNITY_INLINE configuration configuration_of(const operator_dimensions& o, const operator_grid& g,
                                            std::span<const hardware::device_id> devices) {
  if (auto reason = why_no_configuration(o, g); !reason.empty()) {
    throw error{"grid of an operator", std::move(reason), "one whose tasks are those of a configuration"};
  }
  if (static_cast<std::int64_t>(devices.size()) != task_count(g)) {
    throw error{"grid of an operator", fmt::format("{} devices", devices.size()),
                fmt::format("one for each of the {} tasks", task_count(g))};
  }
  auto tasks = detail::degrees_on(o, g);
  configuration c;
  for (const auto number : detail::numbers_in_grid(o, g, tasks)) {
    c.devices.push_back(devices[number]);
  }
  c.degrees = std::move(tasks.degrees);
  c.reductions = std::move(tasks.reductions);
  c.partials = std::move(tasks.partials);
  c.copies = tasks.copies;
  return c;
}

}  // namespace unity::parallel

#endif
