// The devices of a machine and their connections, as a graph.
// Source: Jia's dissertation (2020), section 3.3 (device topology); figure 3.5 (nodes with switches).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/core/units.hpp>

namespace unity::hardware {

using device_id = id<struct device_tag>;      // a device of a topology, dense from 0
using vertex_id = id<struct vertex_tag>;      // a device or a switch: devices come first, with the numbers of their ids
using link_id = id<struct link_tag>;          // one direction of a cable
using resource_id = id<struct resource_tag>;  // what transfers wait for: a link, or both directions of a shared cable

// A device at its position in the machine.
struct placed_device {
  std::string name{};       // unique: "n0/gpu1"
  std::uint32_t model = 0;  // index of its kind in machine::devices
  std::uint32_t node = 0;   // number of its host: any number, equal for devices of one host

  friend bool operator==(const placed_device&, const placed_device&) = default;
};

// full: each direction is a separate resource (dedicated); half: both directions share one resource (a shared bus);
// simplex: only one direction exists.
enum class duplex : std::uint8_t { full, half, simplex };
inline constexpr std::array<std::string_view, 3> duplex_names{"full", "half", "simplex"};

// A physical connection between two vertices.
struct cable {
  vertex_id from{};
  vertex_id to{};
  std::int64_t bytes_per_second = 0;  // per direction
  picoseconds latency{};
  duplex mode = duplex::full;

  friend bool operator==(const cable&, const cable&) = default;
};

// The time of the bytes at the rate, rounded up, so that a byte is never free. Saturates at the longest time.
// Precondition: size >= 0, rate > 0.
[[nodiscard]] constexpr picoseconds transfer_time(bytes size, std::int64_t bytes_per_second) noexcept {
  UNITY_EXPECTS(size.count() >= 0 && bytes_per_second > 0, "bytes, and a positive rate");
  __extension__ using wide = unsigned __int128;
  const auto rate = static_cast<wide>(bytes_per_second);
  const auto time = (static_cast<wide>(size.count()) * 1'000'000'000'000U + rate - 1) / rate;
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  return picoseconds{time > static_cast<wide>(most) ? most : static_cast<std::int64_t>(time)};
}

// Regular. Devices, switches and cables, in flat arrays; links by their source in compressed rows.
class topology {
 public:
  topology() = default;

  // `where`: for messages, the file. Complexity: linear, plus sorting the names.
  // Throws: unity::error for a cable with an end that does not exist, with both ends equal, with a rate of 0 or less or
  // a negative latency, and for names that are empty or not unique. Whether devices reach each other is checked
  // by route_table.
  topology(std::vector<placed_device> devices, std::vector<std::string> switches, std::vector<cable> cables,
           std::string_view where = "topology");

  [[nodiscard]] std::size_t device_count() const noexcept { return devices_.size(); }
  [[nodiscard]] std::size_t vertex_count() const noexcept { return devices_.size() + switches_.size(); }
  [[nodiscard]] std::size_t link_count() const noexcept { return links_.size(); }
  [[nodiscard]] std::size_t resource_count() const noexcept { return resources_; }
  [[nodiscard]] bool empty() const noexcept { return devices_.empty(); }

  [[nodiscard]] std::span<const placed_device> devices() const noexcept { return devices_; }
  [[nodiscard]] std::span<const std::string> switches() const noexcept { return switches_; }
  [[nodiscard]] std::span<const cable> cables() const noexcept { return cables_; }

  [[nodiscard]] const placed_device& operator[](device_id d) const {
    return devices_[checked(d.index(), devices_.size())];
  }
  [[nodiscard]] static vertex_id vertex_of(device_id d) noexcept { return vertex_id{d.index()}; }
  [[nodiscard]] bool is_device(vertex_id v) const noexcept { return v.index() < devices_.size(); }
  [[nodiscard]] const std::string& name(vertex_id v) const {
    return is_device(v) ? devices_[v.index()].name : switches_[checked(v.index() - devices_.size(), switches_.size())];
  }

  [[nodiscard]] vertex_id source(link_id l) const { return at(l).source; }
  [[nodiscard]] vertex_id target(link_id l) const { return at(l).target; }
  [[nodiscard]] resource_id resource(link_id l) const { return at(l).resource; }
  [[nodiscard]] std::int64_t bytes_per_second(link_id l) const { return cables_[at(l).cable].bytes_per_second; }
  [[nodiscard]] picoseconds latency(link_id l) const { return cables_[at(l).cable].latency; }
  // Effects: over cables of this rate transfers take `transfers` times as long, and latencies are `latencies` times as
  // long. Preconditions: both are above 0.
  void slow_down(std::int64_t bytes_per_second, double transfers, double latencies);
  // Effects: marks a switch that can sum what it receives, for collectives that use it. Precondition: a switch.
  void set_reduces(vertex_id s) {
    UNITY_EXPECTS(!is_device(s), "a switch");
    reduces_.resize(switches_.size());
    reduces_[checked(s.index() - devices_.size(), switches_.size())] = true;
  }
  [[nodiscard]] bool reduces(vertex_id v) const {
    return !is_device(v) && !reduces_.empty() && reduces_[checked(v.index() - devices_.size(), switches_.size())];
  }
  // The fastest direct link; the one with the least id in case of ties. Complexity: linear in the links that leave
  // `from`.
  [[nodiscard]] std::optional<link_id> link_between(vertex_id from, vertex_id to) const {
    std::optional<link_id> best;
    for (const auto l : links_from(from)) {
      if (target(l) == to && (!best || bytes_per_second(l) > bytes_per_second(*best))) {
        best = l;
      }
    }
    return best;
  }
  // "n0/gpu0 -> n0/nvswitch"
  [[nodiscard]] std::string name(link_id l) const { return fmt::format("{} -> {}", name(source(l)), name(target(l))); }

  // The links that leave or enter a vertex, by ascending id.
  [[nodiscard]] std::span<const link_id> links_from(vertex_id v) const { return row(out_, first_out_, v); }
  [[nodiscard]] std::span<const link_id> links_to(vertex_id v) const { return row(in_, first_in_, v); }

  friend bool operator==(const topology& a, const topology& b) {
    return a.devices_ == b.devices_ && a.switches_ == b.switches_ && a.cables_ == b.cables_ &&
           a.reduces_ == b.reduces_;
  }

 private:
  struct link_ends {
    vertex_id source;
    vertex_id target;
    resource_id resource;
    std::uint32_t cable;
  };

  static std::size_t checked(std::size_t index, std::size_t size) {
    UNITY_EXPECTS(index < size, "an id of this topology");
    return index;
  }
  [[nodiscard]] const link_ends& at(link_id l) const { return links_[checked(l.index(), links_.size())]; }
  [[nodiscard]] std::span<const link_id> row(const std::vector<link_id>& links, const std::vector<std::uint32_t>& first,
                                             vertex_id v) const {
    const auto i = checked(v.index(), vertex_count());
    return {links.data() + first[i], first[i + 1] - first[i]};
  }
  void check_names(std::string_view where) const;
  void check_cable(std::size_t i, std::string_view where) const;
  void index_links();

  std::vector<placed_device> devices_{};
  std::vector<std::string> switches_{};
  std::vector<bool> reduces_{};  // by switch; empty: no switch does
  std::vector<cable> cables_{};
  std::vector<link_ends> links_{};  // for each cable in turn: from -> to, then to -> from
  std::vector<std::uint32_t> first_out_{};
  std::vector<std::uint32_t> first_in_{};
  std::vector<link_id> out_{};
  std::vector<link_id> in_{};
  std::size_t resources_ = 0;
};

// Routes between the devices of a topology.

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
  // Calls f with each link of the route, in order. Visits of many devices to one use memory best.
  template <class F>
  void for_each_link(const topology& t, device_id from, device_id to, const F& f) const {
    UNITY_EXPECTS(vertices_ == t.vertex_count() && from.index() < t.device_count() && to.index() < t.device_count(),
                  "the topology of these routes, and its devices");
    const auto* next = next_.data() + vertices_ * to.index();
    for (auto v = topology::vertex_of(from); v.index() != to.index();) {
      const auto l = next[v.index()];
      f(l);
      v = t.target(l);
    }
  }

  friend bool operator==(const route_table&, const route_table&) = default;

 private:
  void find(const topology& t, device_id goal);

  struct reached {
    std::uint32_t links = 0;  // to the destination
    std::int64_t width = 0;   // bytes per second of the slowest
  };
  std::size_t vertices_ = 0;
  std::vector<link_id> next_{};  // [destination][vertex]
};

// The time of an uncontended transfer over the route; links forward before all data has arrived (cut-through). Units:
// picoseconds. Saturates at the longest time.
[[nodiscard]] inline picoseconds transfer_time(const route_cost& c, bytes size) {
  if (c.bytes_per_second == 0) {
    return {};
  }
  const auto time = transfer_time(size, c.bytes_per_second);
  return time + std::min(c.latency, picoseconds{std::numeric_limits<std::int64_t>::max()} - time);
}

}  // namespace unity::hardware

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_HARDWARE_TOPOLOGY)

#include <cmath>

#include <unity/core/error.hpp>
#include <unity/core/printable.hpp>

namespace unity::hardware {

UNITY_INLINE topology::topology(std::vector<placed_device> devices, std::vector<std::string> switches,
                                std::vector<cable> cables, std::string_view where)
    : devices_{std::move(devices)}, switches_{std::move(switches)}, cables_{std::move(cables)} {
  check_names(where);
  for (std::size_t i = 0; i < cables_.size(); ++i) {
    check_cable(i, where);
  }
  index_links();
}

UNITY_INLINE void topology::slow_down(std::int64_t bytes_per_second, double transfers, double latencies) {
  UNITY_EXPECTS(transfers > 0 && latencies > 0, "positive factors");
  constexpr double most = 9e18;
  const auto rate = std::min(static_cast<double>(bytes_per_second) / transfers, most);
  for (auto& c : cables_) {
    if (c.bytes_per_second == bytes_per_second) {
      c.bytes_per_second = std::max<std::int64_t>(std::llround(rate), 1);
      c.latency = picoseconds{std::llround(std::min(static_cast<double>(c.latency.count()) * latencies, most))};
    }
  }
}

UNITY_INLINE void topology::check_names(std::string_view where) const {
  std::vector<std::string_view> names;
  names.reserve(vertex_count());
  for (const auto& d : devices_) {
    names.push_back(d.name);
  }
  names.insert(names.end(), switches_.begin(), switches_.end());
  std::sort(names.begin(), names.end());
  if (!names.empty() && names.front().empty()) {
    throw error{where, "a device or switch without a name", "names"};
  }
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end()) {
    throw error{where, fmt::format("two devices or switches named \"{}\"", printable(*twice)), "names of their own"};
  }
}

UNITY_INLINE void topology::check_cable(std::size_t i, std::string_view where) const {
  const auto& c = cables_[i];
  const auto place = fmt::format("{}, links[{}]", where, i);
  if (c.from.index() >= vertex_count() || c.to.index() >= vertex_count()) {
    throw error{place, "an end that is neither a device nor a switch", fmt::format("one of the {}", vertex_count())};
  }
  const auto ends = fmt::format("{} - {}", name(c.from), name(c.to));
  if (c.from == c.to) {
    throw error{fmt::format("{} ({})", place, ends), "both ends are the same", "two ends"};
  }
  if (c.bytes_per_second <= 0) {
    throw error{fmt::format("{} ({})", place, ends), fmt::format("a bandwidth of {}", c.bytes_per_second),
                "bytes per second above 0"};
  }
  if (c.latency < picoseconds{0}) {
    throw error{fmt::format("{} ({})", place, ends), fmt::format("a latency of {} ps", c.latency.count()),
                "at least 0"};
  }
}

UNITY_INLINE void topology::index_links() {
  for (std::size_t i = 0; i < cables_.size(); ++i) {
    const auto& c = cables_[i];
    const auto number = static_cast<std::uint32_t>(i);
    links_.push_back({c.from, c.to, resource_id{resources_}, number});
    if (c.mode != duplex::simplex) {
      resources_ += c.mode == duplex::full ? 1 : 0;
      links_.push_back({c.to, c.from, resource_id{resources_}, number});
    }
    ++resources_;
  }
  const auto fill = [this](std::vector<std::uint32_t>& first, std::vector<link_id>& rows, auto end) {
    first.assign(vertex_count() + 1, 0);
    for (const auto& l : links_) {
      ++first[(l.*end).index() + std::size_t{1}];
    }
    for (std::size_t v = 0; v < vertex_count(); ++v) {
      first[v + 1] += first[v];
    }
    auto next = first;
    rows.resize(links_.size());
    for (std::size_t l = 0; l < links_.size(); ++l) {
      rows[next[(links_[l].*end).index()]++] = link_id{l};
    }
  };
  fill(first_out_, out_, &link_ends::source);
  fill(first_in_, in_, &link_ends::target);
}

UNITY_INLINE route route_table::between(const topology& t, device_id from, device_id to) const {
  route links;
  for_each_link(t, from, to, [&](link_id l) { links.push_back(l); });
  return links;
}

UNITY_INLINE route_cost route_table::cost(const topology& t, device_id from, device_id to) const {
  route_cost c{picoseconds{0}, std::numeric_limits<std::int64_t>::max()};
  for_each_link(t, from, to, [&](link_id l) {
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

}  // namespace unity::hardware

#endif
