// What the exchanges of a divided operator take along the axes of a device mesh.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/machine/device_mesh.hpp>
#include <unity/machine/routes.hpp>
#include <unity/machine/topology.hpp>

namespace unity::parallel {

// A set of axes of a mesh, a bit each. Devices that differ in those alone are a group; all groups exchange at once.
using axis_set = std::uint32_t;

// The busiest link sets the time, the longest route the delay. Two patterns: a ring, in which each device sends to the
// next of its group, and all to all, in which each sends to every other.
// Refers to nothing. One for each mesh.
class mesh_costs {
 public:
  // axes: of the mesh, from the first on, along which anything is exchanged.
  // Complexity: linear in the routes between the devices of a group, for each set of axes.
  mesh_costs(const machine::topology& t, const machine::route_table& routes, const machine::device_mesh& m,
             std::size_t axes = 16);

  [[nodiscard]] std::int64_t size(axis_set s) const { return sets_[s].size; }
  // Each device of a group has `all`, and ends with the sum of theirs.
  [[nodiscard]] picoseconds all_reduce(axis_set s, bytes all) const;
  // Each has `all`, and ends with a part of their sum.
  [[nodiscard]] picoseconds reduce_scatter(axis_set s, bytes all) const;
  // Each has `part`, and ends with those of all.
  [[nodiscard]] picoseconds all_gather(axis_set s, bytes part) const {
    const auto& c = sets_[s];
    return c.size < 2 ? picoseconds{} : time(of(part), c.direct_rate, c.delay);
  }
  // Each has `all`, and sends an equal part of it to every other.
  [[nodiscard]] picoseconds all_to_all(axis_set s, bytes all) const {
    const auto& c = sets_[s];
    return c.size < 2 ? picoseconds{} : time(of(all) / static_cast<double>(c.size), c.direct_rate, c.delay);
  }
  // Each sends `held` to the next of its group.
  [[nodiscard]] picoseconds shift(axis_set s, bytes held) const {
    const auto& c = sets_[s];
    return c.size < 2 ? picoseconds{} : time(of(held), c.ring_rate, c.delay);
  }

 private:
  struct costs {
    std::int64_t size = 1;
    double ring_rate = 0;    // picoseconds per byte that each sends to the next
    double direct_rate = 0;  // picoseconds per byte that each sends to every other
    std::int64_t delay = 0;  // picoseconds
  };

  [[nodiscard]] static double of(bytes b) noexcept { return static_cast<double>(b.count()); }
  [[nodiscard]] static picoseconds time(double volume, double rate, std::int64_t delay) {
    return picoseconds{std::llround(std::min(volume * rate, 1e18)) + delay};
  }

  void measure(const machine::topology& t, const machine::route_table& routes, const machine::device_mesh& m,
               axis_set s);
  // Offsets of a group's places from its first.
  [[nodiscard]] static std::vector<std::size_t> members_of(const machine::device_mesh& m, axis_set s);
  [[nodiscard]] static bool is_first(const machine::device_mesh& m, std::size_t place, axis_set s);

  std::vector<costs> sets_;
};

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_MESH_MESH_COSTS)

#include <unity/core/config.hpp>
#include <unity/machine/machine.hpp>

namespace unity::parallel {

UNITY_INLINE mesh_costs::mesh_costs(const machine::topology& t, const machine::route_table& routes,
                                    const machine::device_mesh& m, std::size_t axes)
    : sets_(std::size_t{1} << std::min(axes, m.axis_count())) {
  UNITY_EXPECTS(m.axis_count() < 16, "a mesh of a few axes");
  for (axis_set s = 1; s < sets_.size(); ++s) {
    measure(t, routes, m, s);
  }
}

UNITY_INLINE picoseconds mesh_costs::all_reduce(axis_set s, bytes all) const {
  const auto& c = sets_[s];
  const auto steps = 2 * (c.size - 1);
  return c.size < 2
             ? picoseconds{}
             : time(static_cast<double>(steps) / static_cast<double>(c.size) * of(all), c.ring_rate, steps * c.delay);
}

UNITY_INLINE picoseconds mesh_costs::reduce_scatter(axis_set s, bytes all) const {
  const auto& c = sets_[s];
  return c.size < 2 ? picoseconds{}
                    : time(static_cast<double>(c.size - 1) / static_cast<double>(c.size) * of(all), c.ring_rate,
                           (c.size - 1) * c.delay);
}

UNITY_INLINE void mesh_costs::measure(const machine::topology& t, const machine::route_table& routes,
                                      const machine::device_mesh& m, axis_set s) {
  const auto members = members_of(m, s);
  auto& c = sets_[s];
  c.size = static_cast<std::int64_t>(members.size());
  std::vector<double> ring(t.resource_count(), 0);
  std::vector<double> direct(t.resource_count(), 0);
  for (std::size_t first = 0; first < m.devices.size(); ++first) {
    if (!is_first(m, first, s)) {
      continue;
    }
    for (std::size_t i = 0; i < members.size(); ++i) {
      for (std::size_t j = 0; j < members.size(); ++j) {
        const auto from = m.devices[first + members[i]];
        const auto to = m.devices[first + members[j]];
        std::int64_t delay = 0;
        for (const auto l : from == to ? machine::route{} : routes.between(t, from, to)) {
          const auto per_byte = 1e12 / static_cast<double>(t.bytes_per_second(l));
          direct[t.resource(l).index()] += per_byte;
          ring[t.resource(l).index()] += j == (i + 1) % members.size() ? per_byte : 0;
          delay += t.latency(l).count();
        }
        c.delay = std::max(c.delay, delay);
      }
    }
  }
  c.ring_rate = ring.empty() ? 0 : *std::max_element(ring.begin(), ring.end());
  c.direct_rate = direct.empty() ? 0 : *std::max_element(direct.begin(), direct.end());
}

UNITY_INLINE std::vector<std::size_t> mesh_costs::members_of(const machine::device_mesh& m, axis_set s) {
  std::vector<std::size_t> members{0};
  for (std::size_t a = 0; a < m.axis_count(); ++a) {
    if ((s >> a & 1U) == 0) {
      continue;
    }
    std::vector<std::size_t> next;
    for (const auto o : members) {
      for (std::size_t x = 0; x < static_cast<std::size_t>(m.sizes[a]); ++x) {
        next.push_back(o + x * m.stride(a));
      }
    }
    members.swap(next);
  }
  return members;
}

UNITY_INLINE bool mesh_costs::is_first(const machine::device_mesh& m, std::size_t place, axis_set s) {
  for (std::size_t a = 0; a < m.axis_count(); ++a) {
    if ((s >> a & 1U) != 0 && m.coordinate(place, a) != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace unity::parallel

#endif
