// The time of a divided operator's exchanges along the axes of a device mesh.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/core/units.hpp>
#include <unity/hardware/collective.hpp>
#include <unity/hardware/collective_cost.hpp>
#include <unity/hardware/collective_fit.hpp>
#include <unity/hardware/collective_flows.hpp>
#include <unity/hardware/device_mesh.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/hardware/topology.hpp>

namespace unity::parallel {

// A bit set of axes of a mesh. Devices whose coordinates differ only along these axes are a group; all groups exchange
// at once.
using axis_set = std::uint32_t;

// The costs of exchanges in groups of devices that exchange at once.
struct group_costs {
  std::int64_t size = 1;                                 // devices of a group
  std::vector<hardware::collective_line> all_reduces{};  // per algorithm, the ring first
  hardware::collective_line reduce_scatter{};
  double sharing = 1;      // of links among groups: the time of all rings at once over that of one alone
  double ring_rate = 0;    // picoseconds per byte that each sends to the next
  double direct_rate = 0;  // picoseconds per byte that each sends to every other
  picoseconds delay{};     // including the time before a message moves
};

// Keeps the costs of groups, because meshes of the same devices share them: {0, 1} of a mesh of 2 x 4 x 8 has the
// groups of {0} of a mesh of 8 x 8. For one machine.
using known_group_costs = std::map<fingerprint, std::shared_ptr<const group_costs>>;

// The times of exchanges on a mesh: the busiest link determines the time, the longest route the delay. All-reduces use
// lowering's algorithm for their size, reduce-scatters a ring; the others are messages to the next device of the group,
// or from each to every other. Where lowering takes a measured time (hardware/collective_cost.hpp), this does. Holds no
// references. One per mesh.
class mesh_costs {
 public:
  // axes: the number of leading axes of the mesh along which anything is exchanged. known: costs of other meshes of the
  // machine, and afterwards of this one.
  // Complexity: linear in the routes between the devices of each group, for each set of axes that is not known.
  mesh_costs(const hardware::machine& on, const hardware::route_table& routes, const hardware::device_mesh& m,
             std::size_t axes = 16, known_group_costs* known = nullptr);

  [[nodiscard]] std::int64_t size(axis_set s) const { return sets_[s]->size; }
  // Each device of a group has `all`, and ends with the sum over the group.
  [[nodiscard]] picoseconds all_reduce(axis_set s, bytes all) const;
  // The part of that time in which no link is busy: starts and latencies. Zero if the all-reduce was measured as a
  // whole.
  [[nodiscard]] picoseconds all_reduce_start(axis_set s, bytes all) const;
  // Each device of a group has `all`, and ends with its part of the sum.
  [[nodiscard]] picoseconds reduce_scatter(axis_set s, bytes all) const;
  // The way back of reduce_scatter: each device has its part of the cotangent, and ends with all of it. The time of
  // all_gather if it was not measured.
  [[nodiscard]] picoseconds gather_back(axis_set s, bytes all) const;
  // Each device of a group has `part`, and ends with all parts.
  [[nodiscard]] picoseconds all_gather(axis_set s, bytes part) const {
    const auto& c = *sets_[s];
    return c.size < 2 ? picoseconds{} : time(of(part), c.direct_rate, c.delay);
  }
  // Each device of a group has `all`, and sends an equal part of it to every other.
  [[nodiscard]] picoseconds all_to_all(axis_set s, bytes all) const {
    const auto& c = *sets_[s];
    return c.size < 2 ? picoseconds{} : time(of(all) / static_cast<double>(c.size), c.direct_rate, c.delay);
  }
  // Each device of a group sends `held` to the next one: the time for which links are busy. Messages arrive a delay()
  // later.
  [[nodiscard]] picoseconds shift(axis_set s, bytes held) const { return time(of(held), sets_[s]->ring_rate, {}); }
  // The time from when a message could be sent on the longest route until its first byte arrives: the start of the
  // device and the latencies of links. Zero for the empty set.
  [[nodiscard]] picoseconds delay(axis_set s) const { return sets_[s]->delay; }

 private:
  [[nodiscard]] static double of(bytes b) noexcept { return static_cast<double>(b.count()); }
  [[nodiscard]] static picoseconds time(double volume, double rate, picoseconds delay) {
    return picoseconds{std::llround(std::min(volume * rate, 1e18))} + delay;
  }

  // The measured time of a collective, with all groups at once, if there is one.
  [[nodiscard]] std::optional<picoseconds> measured_time(hardware::exchange kind, axis_set s, bytes all) const;
  // The costs of the algorithm that lowering uses. Precondition: the group has several devices.
  [[nodiscard]] static const hardware::collective_line& line_of(const group_costs& c, bytes all) {
    return hardware::chosen_way(c.all_reduces, all, [](const hardware::collective_line& l) { return l; });
  }
  [[nodiscard]] static group_costs measured(const hardware::machine& on, const hardware::route_table& routes,
                                            const hardware::device_mesh& m, axis_set s,
                                            const std::vector<std::size_t>& members);
  // groups: the devices of each.
  static void price_collectives(group_costs& c, const hardware::machine& on, const hardware::route_table& routes,
                                std::span<const std::vector<hardware::device_id>> groups);
  // Offsets of a group's positions from its first.
  [[nodiscard]] static std::vector<std::size_t> members_of(const hardware::device_mesh& m, axis_set s);
  [[nodiscard]] static bool is_first(const hardware::device_mesh& m, std::size_t place, axis_set s);

  std::vector<std::shared_ptr<const group_costs>> sets_;
  std::vector<hardware::link> links_;  // of the machine
};

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_MESH_MESH_COSTS)

#include <unity/core/config.hpp>

namespace unity::parallel {

UNITY_INLINE mesh_costs::mesh_costs(const hardware::machine& on, const hardware::route_table& routes,
                                    const hardware::device_mesh& m, std::size_t axes, known_group_costs* known)
    : sets_(std::size_t{1} << std::min(axes, m.axis_count())), links_{on.links} {
  UNITY_EXPECTS(m.axis_count() < 16, "a mesh of a few axes");
  known_group_costs own;
  auto& all = known == nullptr ? own : *known;
  sets_[0] = std::make_shared<const group_costs>();
  for (axis_set s = 1; s < sets_.size(); ++s) {
    const auto members = members_of(m, s);
    hasher h;  // the groups follow from the offsets of the first one's members
    for (const auto d : m.devices) {
      h.add(d.index());
    }
    h.add(members.size());
    for (const auto offset : members) {
      h.add(offset);
    }
    auto& costs = all[h.result()];
    if (costs == nullptr) {
      costs = std::make_shared<const group_costs>(measured(on, routes, m, s, members));
    }
    sets_[s] = costs;
  }
}

UNITY_INLINE picoseconds mesh_costs::all_reduce(axis_set s, bytes all) const {
  const auto& c = *sets_[s];
  if (c.size < 2) {
    return {};
  }
  const auto measured = measured_time(hardware::exchange::all_reduce, s, all);
  return measured ? *measured : line_of(c, all)(all);
}

UNITY_INLINE picoseconds mesh_costs::all_reduce_start(axis_set s, bytes all) const {
  const auto& c = *sets_[s];
  return c.size < 2 || measured_time(hardware::exchange::all_reduce, s, all) ? picoseconds{} : line_of(c, all).fixed;
}

UNITY_INLINE picoseconds mesh_costs::reduce_scatter(axis_set s, bytes all) const {
  const auto& c = *sets_[s];
  if (c.size < 2) {
    return {};
  }
  const auto measured = measured_time(hardware::exchange::reduce_scatter, s, all);
  return measured ? *measured : c.reduce_scatter(all);
}

UNITY_INLINE picoseconds mesh_costs::gather_back(axis_set s, bytes all) const {
  const auto& c = *sets_[s];
  if (c.size < 2) {
    return {};
  }
  const auto measured = measured_time(hardware::exchange::all_gather, s, all);
  return measured ? *measured : all_gather(s, bytes{all.count() / c.size});
}

UNITY_INLINE std::optional<picoseconds> mesh_costs::measured_time(hardware::exchange kind, axis_set s,
                                                                  bytes all) const {
  const auto& c = *sets_[s];
  const auto alone = hardware::measured_time(links_, kind, static_cast<std::size_t>(c.size), all);
  return alone ? std::optional{picoseconds{std::llround(static_cast<double>(alone->count()) * c.sharing)}}
               : std::nullopt;
}

UNITY_INLINE group_costs mesh_costs::measured(const hardware::machine& on, const hardware::route_table& routes,
                                              const hardware::device_mesh& m, axis_set s,
                                              const std::vector<std::size_t>& members) {
  const auto& t = on.network;
  group_costs c;
  c.size = static_cast<std::int64_t>(members.size());
  std::vector<std::int64_t> ring(t.link_count(), 0);  // messages
  std::vector<std::int64_t> direct(t.link_count(), 0);
  std::vector<std::vector<hardware::device_id>> groups;
  for (std::size_t first = 0; first < m.devices.size(); ++first) {
    if (!is_first(m, first, s)) {
      continue;
    }
    auto& group = groups.emplace_back();
    for (const auto offset : members) {
      group.push_back(m.devices[first + offset]);
    }
    for (std::size_t j = 0; j < group.size(); ++j) {
      for (std::size_t i = 0; i < group.size(); ++i) {
        auto delay = hardware::start_of(on, group[i]).start;
        const auto to_next = j == (i + 1) % group.size() ? 1 : 0;
        routes.for_each_link(t, group[i], group[j], [&](hardware::link_id l) {
          ++direct[l.index()];
          ring[l.index()] += to_next;
          delay += t.latency(l);
        });
        c.delay = std::max(c.delay, delay);
      }
    }
  }
  const auto busiest = [&t](const std::vector<std::int64_t>& messages) {
    std::vector<double> loads(t.resource_count(), 0);
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const hardware::link_id l{i};
      loads[t.resource(l).index()] +=
          static_cast<double>(messages[i]) * 1e12 / static_cast<double>(t.bytes_per_second(l));
    }
    return loads.empty() ? 0 : *std::max_element(loads.begin(), loads.end());
  };
  c.ring_rate = busiest(ring);
  c.direct_rate = busiest(direct);
  if (c.size > 1) {
    price_collectives(c, on, routes, groups);
  }
  return c;
}

UNITY_INLINE void mesh_costs::price_collectives(group_costs& c, const hardware::machine& on,
                                                const hardware::route_table& routes,
                                                std::span<const std::vector<hardware::device_id>> groups) {
  using hardware::exchange;
  for (const auto& way : hardware::common_ways(on, routes, exchange::all_reduce, groups)) {
    c.all_reduces.push_back(way.line);
  }
  c.reduce_scatter = hardware::common_ways(on, routes, exchange::reduce_scatter, groups).front().line;
  const auto alone = hardware::common_ways(on, routes, exchange::all_reduce, groups.first(1)).front().line.per_byte;
  c.sharing = alone > 0 ? std::max(1.0, c.all_reduces.front().per_byte / alone) : 1;
}

UNITY_INLINE std::vector<std::size_t> mesh_costs::members_of(const hardware::device_mesh& m, axis_set s) {
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

UNITY_INLINE bool mesh_costs::is_first(const hardware::device_mesh& m, std::size_t place, axis_set s) {
  for (std::size_t a = 0; a < m.axis_count(); ++a) {
    if ((s >> a & 1U) != 0 && m.coordinate(place, a) != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace unity::parallel

#endif
