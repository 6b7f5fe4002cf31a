// Kinds of devices, the network between them, and their measured exchanges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/printable.hpp>
#include <unity/core/units.hpp>
#include <unity/hardware/link.hpp>
#include <unity/hardware/topology.hpp>

namespace unity::hardware {

// Regular. `devices` are kinds: a topology contains any number of each. A machine that was only measured has no
// topology; every rank of a link reaches every other one over it.
struct machine {
  std::string name{};
  std::vector<device> devices{};
  std::vector<link> links{};           // measured exchanges
  unity::hardware::topology network{};  // empty if unknown

  friend bool operator==(const machine&, const machine&) = default;
};

// The kind of a device of the machine's topology.
[[nodiscard]] const device& model_of(const machine& m, device_id d);

// Limits that catch wrong units: files use bytes and seconds. For cables, and for devices of a topology.
inline constexpr double least_cable_rate = 1e6;  // bytes per second
inline constexpr double most_cable_rate = 1e15;
inline constexpr double longest_cable_latency = 0.1;  // seconds
inline constexpr double least_device_rate = 1e5;      // operations or bytes per second
inline constexpr bytes least_device_memory{1'000'000};

namespace detail {

// The first link with measured messages between two or more ranks.
[[nodiscard]] const link* measured_messages(const machine& m);

// Gives a device the share that each of `count` ranks has of it.
void divide(device& d, int count);

// The rate of a cable in each direction while the other direction is busy too, as in training: from all-reduce, where 2
// (n - 1) / n of the vector cross each cable in each direction; from messages, which use one direction, if no
// all-reduce was measured. Unit: bytes per second.
// Source: Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations, 2009.
[[nodiscard]] double measured_rate(const link& l);

// One switch between all devices; half of the latency on either side of it. Units: bytes per second, seconds.
[[nodiscard]] topology around_switch(std::vector<placed_device> devices, double rate, double latency,
                                     std::string_view where);

}  // namespace detail

namespace detail {

void expect_one_name_each(const std::vector<device>& kinds, std::string_view where);
void expect_units(const device& d, std::string_view where);
void expect_units(double rate, double latency, std::string_view where);

}  // namespace detail

// Throws: unity::error for a machine with a topology that would be refused when read from a file again; `where`: for
// messages, the file or the machine.
void check(const machine& m, std::string_view where);

// Effects: gives a machine without a topology that of one host. Its devices are connected by a switch with the measured
// costs of large exchanges. If there is one device and messages between ranks were measured, the ranks share it: each
// becomes a device with an equal part of its rates and memory.
// Throws: unity::error without devices, or for several without measured messages; also like check. `where`: for
// messages, the file.
[[nodiscard]] machine with_topology(machine m, std::string_view where);

}  // namespace unity::hardware

// Its name and the devices of its topology: "pair (2 devices: p100)"; without a topology, the kinds of devices.
template <>
struct fmt::formatter<unity::hardware::machine> : unity::plain_formatter {
  template <class Context>
  auto format(const unity::hardware::machine& m, Context& context) const -> decltype(context.out()) {
    std::string kinds;
    for (const auto& d : m.devices) {
      kinds += fmt::format("{}{}", kinds.empty() ? "" : ", ", d.name);
    }
    const auto placed = m.network.device_count();
    const auto count = placed > 0 ? placed : m.devices.size();
    return put(context, fmt::format("{} ({} {}: {})", m.name, count, count == 1 ? "device" : "devices", kinds));
  }
};

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_HARDWARE_MACHINE)

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>

namespace unity::hardware {

UNITY_INLINE const device& model_of(const machine& m, device_id d) {
  const auto model = m.network[d].model;
  UNITY_EXPECTS(model < m.devices.size(), "a model for every device of the topology");
  return m.devices[model];
}

}  // namespace unity::hardware

namespace unity::hardware::detail {

UNITY_INLINE const link* measured_messages(const machine& m) {
  for (const auto& l : m.links) {
    if (l.ranks > 1 && l.costs.contains(exchange::message)) {
      return &l;
    }
  }
  return nullptr;
}

UNITY_INLINE void divide(device& d, int count) {
  for (auto& p : d.peaks) {
    p.flops_per_second /= count;
  }
  d.bytes_per_second /= count;
  d.memory = bytes{d.memory.count() / count};
}

UNITY_INLINE double measured_rate(const link& l) {
  constexpr double fastest = most_cable_rate;  // if the measured time per byte is zero
  const auto sums = l.costs.find(exchange::all_reduce);
  const auto share = sums != l.costs.end() ? 2.0 * (l.ranks - 1) / l.ranks : 1;
  const auto beta = (sums != l.costs.end() ? sums->second : l.costs.at(exchange::message)).back().beta;
  return beta > 0 ? std::clamp(share / beta, 1.0, fastest) : fastest;
}

UNITY_INLINE topology around_switch(std::vector<placed_device> devices, double rate, double latency,
                                    std::string_view where) {
  const auto count = devices.size();
  std::vector<cable> cables;
  for (std::size_t i = 0; i < count; ++i) {
    cables.push_back({vertex_id{i}, vertex_id{count}, std::llround(rate), from_seconds(latency / 2), duplex::full});
  }
  return {std::move(devices), {"host"}, std::move(cables), where};
}

UNITY_INLINE void expect_one_name_each(const std::vector<device>& kinds, std::string_view where) {
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      if (kinds[k].name == kinds[i].name) {
        throw error{where, fmt::format("two kinds of device named '{}'", printable(kinds[i].name)),
                    "names of their own"};
      }
    }
  }
}

UNITY_INLINE void expect_units(const device& d, std::string_view where) {
  const auto of = fmt::format(" of device '{}'", printable(d.name));
  auto least = d.bytes_per_second;
  for (const auto& p : d.peaks) {
    least = std::min(least, p.flops_per_second);
  }
  if (!(least >= least_device_rate)) {
    throw error{where, fmt::format("a rate of {:f} per second{}", least, of), "1e5 or more"};
  }
  if (d.memory < least_device_memory) {
    throw error{where, fmt::format("{} bytes of memory{}", d.memory.count(), of), "1e6 or more"};
  }
}

UNITY_INLINE void expect_units(double rate, double latency, std::string_view where) {
  if (!(rate >= least_cable_rate && rate <= most_cable_rate)) {
    throw error{where, fmt::format("a link of {:f} bytes per second", rate), "1e6 to 1e15"};
  }
  if (!(latency <= longest_cable_latency)) {
    throw error{where, fmt::format("a link's latency of {:f} s", latency), "0.1 s at most"};
  }
}

}  // namespace unity::hardware::detail

namespace unity::hardware {

UNITY_INLINE void check(const machine& m, std::string_view where) {
  detail::expect_one_name_each(m.devices, where);
  for (const auto& d : m.devices) {
    detail::expect_units(d, where);
  }
  for (const auto& c : m.network.cables()) {
    detail::expect_units(static_cast<double>(c.bytes_per_second), to_seconds(c.latency), where);
  }
}

UNITY_INLINE machine with_topology(machine m, std::string_view where) {
  if (!m.network.empty()) {
    return m;
  }
  if (m.devices.empty()) {
    throw error{where, "no devices", "one or more"};
  }
  constexpr std::size_t most_ranks = 4096;  // creates one device per rank
  const auto* messages = detail::measured_messages(m);
  const bool shared = m.devices.size() == 1 && messages != nullptr;
  const auto count = shared ? static_cast<std::size_t>(messages->ranks) : m.devices.size();
  if (count > most_ranks) {
    throw error{where, fmt::format("{} ranks that share a device", count), fmt::format("{} at most", most_ranks)};
  }
  std::vector<placed_device> devices;
  for (std::size_t i = 0; i < count; ++i) {
    devices.push_back({fmt::format("device{}", i), static_cast<std::uint32_t>(shared ? 0 : i), 0});
  }
  if (count == 1) {
    m.network = topology{std::move(devices), {}, {}, where};
  } else if (messages == nullptr) {
    throw error{where, fmt::format("{} devices and nothing between them", count), "a topology, or measured messages"};
  } else {
    m.network = detail::around_switch(std::move(devices), detail::measured_rate(*messages),
                                      messages->costs.at(exchange::message).back().alpha, where);
  }
  if (shared) {
    detail::divide(m.devices.front(), messages->ranks);
  }
  check(m, where);
  return m;
}

}  // namespace unity::hardware

#endif
