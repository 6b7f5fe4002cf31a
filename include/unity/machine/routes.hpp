// Routes between the devices of a topology.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/core/units.hpp>
#include <unity/machine/topology.hpp>

namespace unity::machine {

// The cost of an uncontended transfer over a route: latency + size / bytes_per_second.
struct route_cost {
  picoseconds latency{};              // sum over all links
  std::int64_t bytes_per_second = 0;  // of the slowest link; 0: same device, nothing moves

  friend bool operator==(const route_cost&, const route_cost&) = default;
};

using route = small_vector<link_id, 8>;  // in the order of travel

// The routes between all devices of a topology. Switches forward, devices do not. A route has the fewest links; among
// those the fastest slowest link; among those the first link with the least id, and so on from there. This holds for
// every suffix of a route too, so one link per vertex and destination represents all routes.
// Regular; does not refer to the topology, which must be passed to queries.
// Complexity: time O(D * (V + L)), memory 4 * D * V bytes, for D devices, V vertices and L links: for 1,024 devices
// about 6 MB and a few hundredths of a second.
class route_table {
 public:
  route_table() = default;
  // Throws: unity::error if a device cannot reach another; `where`: for messages, the file.
  explicit route_table(const topology& t, std::string_view where = "topology");

  // No links from a device to itself. Complexity: linear in the route.
  [[nodiscard]] route between(const topology& t, device_id from, device_id to) const;
  [[nodiscard]] route_cost cost(const topology& t, device_id from, device_id to) const;

  friend bool operator==(const route_table&, const route_table&) = default;

 private:
  template <class F>
  void walk(const topology& t, device_id from, device_id to, const F& f) const {
    UNITY_EXPECTS(vertices_ == t.vertex_count() && from.index() < t.device_count() && to.index() < t.device_count(),
                  "the topology of these routes, and its devices");
    const auto* next = next_.data() + vertices_ * to.index();
    for (auto v = topology::vertex_of(from); v.index() != to.index();) {
      const auto l = next[v.index()];
      f(l);
      v = t.target(l);
    }
  }
  void find(const topology& t, device_id goal);

  struct reached {
    std::uint32_t links = 0;  // to the destination
    std::int64_t width = 0;   // bytes per second of the slowest
  };
  std::size_t vertices_ = 0;
  std::vector<link_id> next_{};  // [destination][vertex]
};

// The time of an uncontended transfer over the route; links forward before all data has arrived (cut-through). Units:
// picoseconds.
[[nodiscard]] inline picoseconds transfer_time(const route_cost& c, bytes size) {
  return c.bytes_per_second == 0 ? picoseconds{0} : c.latency + transfer_time(size, c.bytes_per_second);
}

}  // namespace unity::machine

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_MACHINE_ROUTES)

#include <algorithm>
#include <limits>
#include <string>

#include <fmt/core.h>

#include <unity/core/error.hpp>

namespace unity::machine {

UNITY_INLINE route route_table::between(const topology& t, device_id from, device_id to) const {
  route links;
  walk(t, from, to, [&](link_id l) { links.push_back(l); });
  return links;
}

UNITY_INLINE route_cost route_table::cost(const topology& t, device_id from, device_id to) const {
  route_cost c{picoseconds{0}, std::numeric_limits<std::int64_t>::max()};
  walk(t, from, to, [&](link_id l) {
    c.latency += t.latency(l);
    c.bytes_per_second = std::min(c.bytes_per_second, t.bytes_per_second(l));
  });
  return from == to ? route_cost{} : c;
}

UNITY_INLINE route_table::route_table(const topology& t, std::string_view where) : vertices_{t.vertex_count()} {
  next_.resize(t.device_count() * vertices_);
  for (std::size_t goal = 0; goal < t.device_count(); ++goal) {
    find(t, device_id{goal});
    for (std::size_t d = 0; d < t.device_count(); ++d) {
      if (d != goal && !next_[goal * vertices_ + d].valid()) {
        throw error{where, fmt::format("no route from {} to {}", t[device_id{d}].name, t[device_id{goal}].name),
                    "links or switches between them; devices do not forward"};
      }
    }
  }
}

// Breadth-first search from the destination, against the links: a vertex is processed after all nearer ones, so the
// width of the remaining routes is known.
UNITY_INLINE void route_table::find(const topology& t, device_id goal) {
  constexpr auto never = std::numeric_limits<std::uint32_t>::max();
  auto* next = next_.data() + vertices_ * goal.index();
  std::vector<reached> known(vertices_, {never, 0});
  std::vector<vertex_id> queue{topology::vertex_of(goal)};
  known[goal.index()] = {0, std::numeric_limits<std::int64_t>::max()};
  for (std::size_t head = 0; head < queue.size(); ++head) {
    const auto v = queue[head];
    if (t.is_device(v) && v.index() != goal.index()) {
      continue;
    }
    for (const auto l : t.links_to(v)) {
      auto& before = known[t.source(l).index()];
      const auto links = known[v.index()].links + 1;
      const auto width = std::min(known[v.index()].width, t.bytes_per_second(l));
      if (before.links == never) {
        queue.push_back(t.source(l));
      }
      auto& first = next[t.source(l).index()];
      if (links < before.links ||
          (links == before.links && (width > before.width || (width == before.width && l < first)))) {
        before = {links, width};
        first = l;
      }
    }
  }
}

}  // namespace unity::machine

#endif
