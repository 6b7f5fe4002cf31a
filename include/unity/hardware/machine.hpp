// What a machine consists of: kinds of devices as cost models see them, the network between them, and the cost of
// moving data over it, in closed form or measured.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/printable.hpp>
#include <unity/core/units.hpp>
#include <unity/cost/roofline.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::hardware {

// A device as cost models see it.

enum class device_kind : std::uint8_t { cpu, gpu };
inline constexpr std::array<std::string_view, 2> device_kind_names{"cpu", "gpu"};

// The highest rate that one operator reached on one element type.
struct peak_rate {
  tensor::dtype element = tensor::dtype::float32;
  std::string operation{};  // "matmul", "conv2d"
  double flops_per_second = 0;

  friend bool operator==(const peak_rate&, const peak_rate&) = default;
};

// Regular. Rates are measured, not nominal.
struct device {
  std::string name{};  // model, and the part of it that is used: "AMD EPYC 9B14, 2 threads"
  device_kind kind = device_kind::cpu;
  std::vector<peak_rate> peaks{};
  double bytes_per_second = 0;  // of memory, reads and writes together
  bytes memory{};
  double launch_seconds = 0;                                    // of the smallest operator
  double collective_start_seconds = 0;                          // before a collective or message moves anything
  double collective_round_seconds = 0;                          // of each round of a collective, besides its transfers
  double host_bytes_per_second = 0;                             // copies to or from its host's memory; 0: unknown
  int units = 0;                                                // multiprocessors or cores; 0: unknown
  double clock_hz = 0;                                          // maximum; 0: unknown
  std::vector<std::pair<std::string, bytes>> caches{};          // by name, the nearest first; L1 is per unit
  std::vector<std::pair<std::string, std::string>> versions{};  // by name: libraries used for the measurement
  std::vector<std::pair<std::string, std::string>> sources{};   // by member: sources of numbers

  friend bool operator==(const device&, const device&) = default;
};

// The rate of the fastest operator on the element type, or nothing if none was measured.
[[nodiscard]] std::optional<double> peak_flops_per_second(const device& d, tensor::dtype element);

// The rates for a roofline on these elements, or nothing if they were not measured. Refers to the device's name.
[[nodiscard]] std::optional<device_rates> roofline_of(const device& d, tensor::dtype element = tensor::dtype::float32);

// Kinds of communication between ranks; a message goes from one rank to another.
enum class exchange : std::uint8_t { message, all_reduce, reduce_scatter, all_gather, broadcast, all_to_all };
inline constexpr std::array<std::string_view, 6> exchange_names{"message",    "all_reduce", "reduce_scatter",
                                                                "all_gather", "broadcast",  "all_to_all"};

// From the end of the previous range up to `up_to` bytes: alpha + beta * bytes.
// Source: Hockney, The communication challenge for MPP, Parallel Computing 20(3), 1994.
struct cost_range {
  static constexpr bytes no_end{std::numeric_limits<std::int64_t>::max()};

  bytes up_to = no_end;  // included
  double alpha = 0;      // seconds
  double beta = 0;       // seconds per byte

  friend bool operator==(const cost_range&, const cost_range&) = default;
};

inline constexpr double widest_interval = 1000;

// Four of five measured exchanges take between `low` and `high` times what the cost ranges give (the 10th and 90th
// percentiles). Law: 1 / widest_interval <= low <= 1 <= high <= widest_interval.
struct cost_interval {
  double low = 1;
  double high = 1;

  friend bool operator==(const cost_interval&, const cost_interval&) = default;
};

// Regular. Ranges ascend, and the last has no end. Bytes are those of one rank: the message; the vector that is reduced
// or broadcast; for other kinds the larger of what a rank sends and receives.
struct link {
  std::string name{};  // "local", "mpi"
  int ranks = 0;       // number of participants
  std::map<exchange, std::vector<cost_range>> costs{};
  std::map<exchange, cost_interval> intervals{};  // of some kinds that have costs; the others' are not known

  friend bool operator==(const link&, const link&) = default;
};

// The time of one exchange, in seconds. size: as link counts it.
// Complexity: linear in the ranges.
[[nodiscard]] double exchange_seconds(std::span<const cost_range> ranges, bytes size);

// Regular. `devices` are kinds: a topology contains any number of each. A machine that was only measured has no
// topology; every rank of a link reaches every other one over it.
struct machine {
  std::string name{};
  std::vector<device> devices{};
  std::vector<link> links{};            // measured exchanges
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
inline constexpr double longest_collective_start = 1;  // seconds; also of a round

namespace detail {

// The first link with measured messages between two or more ranks.
[[nodiscard]] const link* measured_messages(const machine& m);

// Effects: divides the device's rates and memory by `count`, the number of ranks that share it.
void divide(device& d, int count);

// The exchanges from which the rate of a cable is measured: all-reduce, or messages if no all-reduce was measured.
[[nodiscard]] exchange rate_measured_by(const link& l);

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

// The machine with the times of exchanges at one end of their intervals: &cost_interval::low or &cost_interval::high.
// Scales the costs of measured exchanges, and the cables whose rate with_topology took from them: the transfer times of
// these cables by the interval of the exchange that gave the rate, their latencies by that of messages. Other cables
// stay as they are.
// Complexity: linear in links and cables.
[[nodiscard]] machine machine_at(machine m, double cost_interval::*end);

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

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>

namespace unity::hardware {

UNITY_INLINE std::optional<double> peak_flops_per_second(const device& d, tensor::dtype element) {
  std::optional<double> best;
  for (const auto& p : d.peaks) {
    if (p.element == element) {
      best = std::max(best.value_or(0), p.flops_per_second);
    }
  }
  return best;
}

UNITY_INLINE std::optional<device_rates> roofline_of(const device& d, tensor::dtype element) {
  const auto peak = peak_flops_per_second(d, element);
  if (!peak) {
    return std::nullopt;
  }
  device_rates rates;
  rates.name = d.name;
  rates.flops_per_second = *peak;
  rates.bytes_per_second = d.bytes_per_second;
  rates.launch_seconds = d.launch_seconds;
  rates.source = "measured";
  return rates;
}

UNITY_INLINE double exchange_seconds(std::span<const cost_range> ranges, bytes size) {
  UNITY_EXPECTS(!ranges.empty() && ranges.back().up_to == cost_range::no_end, "ranges for all sizes");
  const auto range = std::find_if(ranges.begin(), ranges.end(), [&](const cost_range& r) { return size <= r.up_to; });
  return range->alpha + range->beta * static_cast<double>(size.count());
}

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
  d.host_bytes_per_second /= count;
  d.memory /= count;
}

UNITY_INLINE exchange rate_measured_by(const link& l) {
  return l.costs.contains(exchange::all_reduce) ? exchange::all_reduce : exchange::message;
}

UNITY_INLINE double measured_rate(const link& l) {
  constexpr double fastest = most_cable_rate;  // if the measured time per byte is zero
  const auto kind = rate_measured_by(l);
  const auto share = kind == exchange::all_reduce ? 2.0 * (l.ranks - 1) / l.ranks : 1;
  const auto beta = l.costs.at(kind).back().beta;
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
  const auto longest = std::max(d.collective_start_seconds, d.collective_round_seconds);
  if (!(longest <= longest_collective_start)) {
    throw error{where, fmt::format("a collective start or round of {} s{}", longest, of), "1 s at most"};
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

UNITY_INLINE machine machine_at(machine m, double cost_interval::*end) {
  if (const auto* l = detail::measured_messages(m)) {
    const auto factor = [&](exchange kind) {
      const auto found = l->intervals.find(kind);
      return found == l->intervals.end() ? 1.0 : found->second.*end;
    };
    m.network.slow_down(std::llround(detail::measured_rate(*l)), factor(detail::rate_measured_by(*l)),
                        factor(exchange::message));
  }
  for (auto& l : m.links) {
    for (const auto& [kind, interval] : l.intervals) {
      for (auto& range : l.costs.at(kind)) {
        range.alpha *= interval.*end;
        range.beta *= interval.*end;
      }
    }
  }
  return m;
}

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
    throw error{where, fmt::format("{} {}", count, shared ? "ranks that share a device" : "devices without a topology"),
                fmt::format("{} at most", most_ranks)};
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
