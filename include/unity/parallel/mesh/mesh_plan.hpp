// Converts options on a mesh to configurations of a plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <unity/machine/device_mesh.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/mesh/mesh_options.hpp>
#include <unity/parallel/operator_grid.hpp>

namespace unity::parallel {

namespace detail {

// The number of a grid's task at a position of the mesh: digits along the axes of one index, group or the copies are in
// the order of the axes.
[[nodiscard]] std::size_t task_at(const operator_grid& g, const machine::device_mesh& m,
                                  std::span<const axis_role> roles, std::size_t place);

}  // namespace detail

// A task on every device of the mesh; along axes on which the operator is placed, on devices with the coordinates of
// position `at`.
// Throws: unity::error if the operator's grid is not that of a configuration.
[[nodiscard]] configuration configuration_on(const operator_dimensions& o, const machine::device_mesh& m,
                                             std::span<const axis_role> roles, std::size_t at = 0);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_MESH_MESH_PLAN)

#include <map>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/machine/topology.hpp>
#include <unity/parallel/configuration_grid.hpp>

namespace unity::parallel::detail {

UNITY_INLINE std::size_t task_at(const operator_grid& g, const machine::device_mesh& m,
                                 std::span<const axis_role> roles, std::size_t place) {
  const auto digits_of = [&](axis_role::kinds kind, std::size_t number) {
    std::size_t at = 0;
    for (std::size_t a = 0; a < roles.size(); ++a) {
      if (roles[a].kind == kind && (kind == axis_role::kinds::copies || roles[a].number == number)) {
        at = at * static_cast<std::size_t>(m.sizes[a]) + m.coordinate(place, a);
      }
    }
    return at;
  };
  std::size_t task = 0;
  for (std::size_t p = 0; p < g.groups.size(); ++p) {
    task = task * static_cast<std::size_t>(g.groups[p]) + digits_of(axis_role::kinds::group, p);
  }
  task = task * static_cast<std::size_t>(g.copies) + digits_of(axis_role::kinds::copies, 0);
  for (std::size_t i = 0; i < g.indices.size(); ++i) {
    task = task * static_cast<std::size_t>(g.indices[i]) + digits_of(axis_role::kinds::index, i);
  }
  return task;
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE configuration configuration_on(const operator_dimensions& o, const machine::device_mesh& m,
                                            std::span<const axis_role> roles, std::size_t at) {
  const auto g = grid_of(o, m, roles);
  std::vector<machine::device_id> devices(static_cast<std::size_t>(task_count(g)));
  for (std::size_t place = 0; place < m.devices.size(); ++place) {
    bool is_there = true;
    for (std::size_t a = 0; a < roles.size(); ++a) {
      is_there =
          is_there && (roles[a].kind != axis_role::kinds::placed || m.coordinate(place, a) == m.coordinate(at, a));
    }
    if (is_there) {
      devices[detail::task_at(g, m, roles, place)] = m.devices[place];
    }
  }
  return configuration_of(o, g, devices);
}

}  // namespace unity::parallel

#endif
