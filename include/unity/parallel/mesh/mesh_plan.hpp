// Converts options on a mesh to configurations of a plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <unity/core/units.hpp>
#include <unity/hardware/device_mesh.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/mesh/mesh_layout.hpp>
#include <unity/parallel/mesh/mesh_options.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

// The time to hand a tensor over between devices that hold it in different layouts.

// Whether every position of the mesh holds values of the tensor: the layout has no partials and is not placed at single
// positions.
[[nodiscard]] bool is_everywhere(const hardware::device_mesh& m, mesh_layout l) noexcept;

// The box that a position of a mesh holds. Precondition: is_everywhere(m, l).
[[nodiscard]] box box_at(const tensor::shape& dims, const hardware::device_mesh& m, mesh_layout l, std::size_t place);

// The time to convert a layout on one mesh to a layout on another, with any devices of the machine. Each device reads
// each block from its own copy if it has one, otherwise from a copy on its node, otherwise from any; among equally near
// copies, from the one read least so far, like lowering's programs (lowering/edge_reads.hpp). All messages move at
// once: the busiest link determines the time, the longest route the delay.
// Precondition: is_everywhere of both layouts.
// Complexity: devices of one mesh times those of the other, and the routes of what moves.
[[nodiscard]] picoseconds handover(const hardware::machine& on, const hardware::route_table& routes,
                                   const tensor::tensor_type& t, const hardware::device_mesh& from, mesh_layout held,
                                   const hardware::device_mesh& to, mesh_layout read);

namespace detail {

// The number of a grid's task at a position of the mesh. If several axes divide one index or group, or hold copies,
// their digits are in the order of the axes.
[[nodiscard]] std::size_t task_at(const operator_grid& g, const hardware::device_mesh& m,
                                  std::span<const axis_role> roles, std::size_t place);

}  // namespace detail

// A task on every device of the mesh; along axes on which the operator is placed, on devices with the coordinates of
// position `at`.
// Throws: unity::error if the operator's grid is not that of a configuration.
[[nodiscard]] configuration configuration_on(const operator_dimensions& o, const hardware::device_mesh& m,
                                             std::span<const axis_role> roles, std::size_t at = 0);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_MESH_MESH_PLAN)

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/hash.hpp>
#include <unity/parallel/configuration_grid.hpp>

namespace unity::parallel {

UNITY_INLINE bool is_everywhere(const hardware::device_mesh& m, mesh_layout l) noexcept {
  for (std::size_t a = 0; a < m.axis_count(); ++a) {
    if (l[a] == mesh_layout::partial || l[a] == mesh_layout::placed) {
      return false;
    }
  }
  return true;
}

UNITY_INLINE box box_at(const tensor::shape& dims, const hardware::device_mesh& m, mesh_layout l, std::size_t place) {
  auto b = whole(dims);
  for (std::size_t a = 0; a < m.axis_count(); ++a) {
    if (l[a] == mesh_layout::copies) {
      continue;
    }
    const auto part = (b.end[l[a]] - b.begin[l[a]]) / m.sizes[a];
    b.begin[l[a]] += part * static_cast<std::int64_t>(m.coordinate(place, a));
    b.end[l[a]] = b.begin[l[a]] + part;
  }
  return b;
}

namespace detail {

// A block of a tensor, and the devices that hold a copy of it.
struct held_block {
  box block{};
  std::vector<hardware::device_id> holders{};
  std::vector<std::uint32_t> taken{};  // per holder: how often it was read

  // The holder from which a device reads. Effects: counts the read.
  [[nodiscard]] hardware::device_id read_by(hardware::device_id reader, const hardware::topology& t);
};

[[nodiscard]] std::vector<held_block> blocks_of(const tensor::shape& dims, const hardware::device_mesh& m,
                                                mesh_layout l);

UNITY_INLINE hardware::device_id held_block::read_by(hardware::device_id reader, const hardware::topology& t) {
  std::size_t best = 0;
  const auto rank = [&](std::size_t h) {
    const bool is_here = holders[h] == reader;
    return std::tuple{!is_here, t[holders[h]].node != t[reader].node, is_here ? 0U : taken[h]};
  };
  for (std::size_t h = 1; h < holders.size(); ++h) {
    best = rank(h) < rank(best) ? h : best;
  }
  ++taken[best];
  return holders[best];
}

UNITY_INLINE std::vector<held_block> blocks_of(const tensor::shape& dims, const hardware::device_mesh& m,
                                               mesh_layout l) {
  std::vector<held_block> all;
  for (std::size_t place = 0; place < m.devices.size(); ++place) {
    const auto b = box_at(dims, m, l, place);
    auto at = std::find_if(all.begin(), all.end(), [&](const held_block& h) { return h.block == b; });
    if (at == all.end()) {
      all.push_back({b, {}, {}});
      at = all.end() - 1;
    }
    at->holders.push_back(m.devices[place]);
    at->taken.push_back(0);
  }
  return all;
}

}  // namespace detail

UNITY_INLINE picoseconds handover(const hardware::machine& on, const hardware::route_table& routes,
                                  const tensor::tensor_type& t, const hardware::device_mesh& from, mesh_layout held,
                                  const hardware::device_mesh& to, mesh_layout read) {
  auto blocks = detail::blocks_of(t.dims, from, held);
  std::vector<double> loads(on.network.resource_count(), 0);
  std::int64_t longest = 0;
  for (std::size_t place = 0; place < to.devices.size(); ++place) {
    const auto reader = to.devices[place];
    const auto wanted = box_at(t.dims, to, read, place);
    for (auto& b : blocks) {
      const auto common = intersection(b.block, wanted);
      const auto holder = common.empty() ? reader : b.read_by(reader, on.network);
      if (holder == reader) {
        continue;
      }
      const auto volume = static_cast<double>(common.volume() * static_cast<std::int64_t>(tensor::size_of(t.element)));
      auto delay = hardware::start_of(on, holder).start.count();
      for (const auto l : routes.between(on.network, holder, reader)) {
        loads[on.network.resource(l).index()] += volume * 1e12 / static_cast<double>(on.network.bytes_per_second(l));
        delay += on.network.latency(l).count();
      }
      longest = std::max(longest, delay);
    }
  }
  const auto busiest = loads.empty() ? 0.0 : *std::max_element(loads.begin(), loads.end());
  return picoseconds{std::llround(busiest) + longest};
}

}  // namespace unity::parallel

namespace unity::parallel::detail {

UNITY_INLINE std::size_t task_at(const operator_grid& g, const hardware::device_mesh& m,
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
  for (std::size_t p = 0; p < g.partials.size(); ++p) {
    task = task * static_cast<std::size_t>(g.partials[p]) + digits_of(axis_role::kinds::partial, p);
  }
  task = task * static_cast<std::size_t>(g.copies) + digits_of(axis_role::kinds::copies, 0);
  for (std::size_t i = 0; i < g.indices.size(); ++i) {
    task = task * static_cast<std::size_t>(g.indices[i]) + digits_of(axis_role::kinds::index, i);
  }
  return task;
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE configuration configuration_on(const operator_dimensions& o, const hardware::device_mesh& m,
                                            std::span<const axis_role> roles, std::size_t at) {
  const auto g = grid_of(o, m, roles);
  std::vector<hardware::device_id> devices(static_cast<std::size_t>(task_count(g)));
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
