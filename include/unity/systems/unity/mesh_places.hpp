// Positions of placed operators along mesh axes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <unity/machine/device_mesh.hpp>
#include <unity/parallel/mesh/mesh_costs.hpp>
#include <unity/parallel/mesh/mesh_options.hpp>
#include <unity/parallel/mesh/mesh_tables.hpp>
#include <unity/parallel/mesh/operator_graph.hpp>

namespace unity::systems {

namespace detail {

// The axes on which an option places its operator.
[[nodiscard]] parallel::axis_set placed_axes(const parallel::mesh_option& o);

// By operator: the first operator of its group. A group consists of operators that are placed on the same axes and pass
// values to each other.
[[nodiscard]] std::vector<std::uint32_t> placed_groups(const parallel::operator_graph& g,
                                                       std::span<const parallel::axis_set> axes);

// One position for each combination of coordinates along the axes.
[[nodiscard]] std::vector<std::size_t> places_along(const machine::device_mesh& mesh, parallel::axis_set axes);

}  // namespace detail

// By operator: a position in the mesh, whose coordinates along the axes on which the operator is placed are its own.
// Connected operators on the same axes share a position. The groups go, longest first, each to the least loaded
// position; ties go in order.
// Source: Graham, Bounds on multiprocessing timing anomalies, SIAM J. Appl. Math. 17(2), 1969.
[[nodiscard]] std::vector<std::size_t> mesh_places(parallel::mesh_tables& tables, const parallel::operator_graph& g,
                                                   std::span<const std::uint32_t> options);

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_UNITY_MESH_PLACES)

#include <algorithm>
#include <map>
#include <numeric>

namespace unity::systems::detail {

UNITY_INLINE parallel::axis_set placed_axes(const parallel::mesh_option& o) {
  parallel::axis_set set = 0;
  for (std::size_t a = 0; a < o.roles.size(); ++a) {
    if (o.roles[a].kind == parallel::axis_role::kinds::placed) {
      set |= parallel::axis_set{1} << a;
    }
  }
  return set;
}

UNITY_INLINE std::vector<std::uint32_t> placed_groups(const parallel::operator_graph& g,
                                                      std::span<const parallel::axis_set> axes) {
  std::vector<std::uint32_t> parent(g.size());
  std::iota(parent.begin(), parent.end(), 0U);
  const auto root = [&](std::uint32_t i) {
    while (parent[i] != i) {
      i = parent[i] = parent[parent[i]];
    }
    return i;
  };
  for (std::uint32_t i = 0; i < g.size(); ++i) {
    for (const auto& s : g.sources(i)) {
      if (axes[i] != 0 && s.from != parallel::operand_source::none && axes[s.from] == axes[i]) {
        parent[std::max(root(i), root(s.from))] = std::min(root(i), root(s.from));
      }
    }
  }
  for (std::uint32_t i = 0; i < g.size(); ++i) {
    parent[i] = root(i);
  }
  return parent;
}

UNITY_INLINE std::vector<std::size_t> places_along(const machine::device_mesh& mesh, parallel::axis_set axes) {
  std::vector<std::size_t> places;
  for (std::size_t p = 0; p < mesh.devices.size(); ++p) {
    bool is_first = true;
    for (std::size_t a = 0; a < mesh.axis_count(); ++a) {
      is_first = is_first && ((axes >> a & 1U) != 0 || mesh.coordinate(p, a) == 0);
    }
    if (is_first) {
      places.push_back(p);
    }
  }
  return places;
}

}  // namespace unity::systems::detail

namespace unity::systems {

UNITY_INLINE std::vector<std::size_t> mesh_places(parallel::mesh_tables& tables, const parallel::operator_graph& g,
                                                  std::span<const std::uint32_t> options) {
  std::vector<const parallel::mesh_option*> chosen;
  std::vector<parallel::axis_set> axes;
  for (std::uint32_t i = 0; i < g.size(); ++i) {
    chosen.push_back(&tables.of(g.placed(i)).options[options[i]]);
    axes.push_back(detail::placed_axes(*chosen[i]));
  }
  const auto group_of = detail::placed_groups(g, axes);
  std::map<parallel::axis_set, std::map<std::uint32_t, std::int64_t>> work;  // by set and group
  for (std::uint32_t i = 0; i < g.size(); ++i) {
    if (axes[i] != 0) {
      work[axes[i]][group_of[i]] += chosen[i]->computing.count();
    }
  }
  std::vector<std::size_t> place_of(g.size(), 0);
  for (const auto& [set, groups] : work) {
    const auto places = detail::places_along(tables.mesh(), set);
    std::vector<std::pair<std::int64_t, std::uint32_t>> order;
    for (const auto& [group, takes] : groups) {
      order.emplace_back(-takes, group);
    }
    std::sort(order.begin(), order.end());
    std::vector<std::int64_t> busy(places.size(), 0);
    for (const auto& [takes, group] : order) {
      const auto least = static_cast<std::size_t>(std::min_element(busy.begin(), busy.end()) - busy.begin());
      busy[least] -= takes;
      place_of[group] = places[least];
    }
  }
  for (std::uint32_t i = 0; i < g.size(); ++i) {
    place_of[i] = axes[i] == 0 ? 0 : place_of[group_of[i]];
  }
  return place_of;
}

}  // namespace unity::systems

#endif
