// Machines by name: "p100:4x4" is four nodes of four P100. docs/machines.md gives the source of each number.
#pragma once

#include <unistd.h>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/hardware/topology.hpp>

namespace unity::hardware {

// Properties of a kind of cable. Bandwidths are per direction.
struct cable_kind {
  std::int64_t bytes_per_second = 0;
  picoseconds latency{};
};

// 16 lanes of PCI Express 3, and Ethernet of 100 Gbit/s through the kernel's network stack.
inline constexpr cable_kind pcie3{15'754'000'000, picoseconds{400'000}};
inline constexpr cable_kind ethernet_100{12'500'000'000, picoseconds{5'000'000}};

}  // namespace unity::hardware

namespace unity::hardware::detail {

inline constexpr picoseconds nanosecond{1000};
inline constexpr cable_kind pcie4_x8{15'754'000'000, 400 * nanosecond};
inline constexpr cable_kind upi{20'800'000'000, 200 * nanosecond};
inline constexpr cable_kind x_bus{64'000'000'000, 200 * nanosecond};
inline constexpr cable_kind nvlink1{20'000'000'000, 700 * nanosecond};
inline constexpr cable_kind nvlink2_pair{50'000'000'000, 700 * nanosecond};
inline constexpr cable_kind nvswitch_a100{300'000'000'000, 350 * nanosecond};
inline constexpr cable_kind nvswitch_h100{450'000'000'000, 350 * nanosecond};
inline constexpr cable_kind infiniband_56{7'000'000'000, 700 * nanosecond};
inline constexpr cable_kind infiniband_100{12'500'000'000, 600 * nanosecond};
inline constexpr cable_kind infiniband_200{25'000'000'000, 600 * nanosecond};
inline constexpr cable_kind infiniband_400{50'000'000'000, 600 * nanosecond};
inline constexpr cable_kind rdma_ethernet_100{12'500'000'000, 1000 * nanosecond};

// The size that a preset is requested with.
struct preset_size {
  std::size_t nodes = 0;
  std::size_t devices = 0;  // per node
};

// Builds a topology. Switches are numbered after the devices.
class preset_builder {
 public:
  explicit preset_builder(preset_size size);

  [[nodiscard]] static std::string in_node(std::size_t node, const std::string& name) {
    return fmt::format("n{}/{}", node, name);
  }
  [[nodiscard]] std::size_t nodes() const noexcept { return size_.nodes; }
  [[nodiscard]] std::size_t per_node() const noexcept { return size_.devices; }
  [[nodiscard]] vertex_id gpu(std::size_t node, std::size_t i) const { return vertex_id{node * size_.devices + i}; }
  [[nodiscard]] vertex_id add_switch(std::string name) {
    switches_.push_back(std::move(name));
    return vertex_id{devices_.size() + switches_.size() - 1};
  }
  void join(vertex_id a, vertex_id b, cable_kind kind, duplex mode = duplex::full) {
    cables_.push_back({a, b, kind.bytes_per_second, kind.latency, mode});
  }
  // Marks a switch that sums what it receives.
  void reduces(vertex_id s) { reducing_.push_back(s); }
  [[nodiscard]] topology finish() && {
    topology t{std::move(devices_), std::move(switches_), std::move(cables_)};
    for (const auto s : reducing_) {
      t.set_reduces(s);
    }
    return t;
  }

 private:
  preset_size size_;
  std::vector<placed_device> devices_{};
  std::vector<std::string> switches_{};
  std::vector<cable> cables_{};
  std::vector<vertex_id> reducing_{};
};

// NVLink between every pair of GPUs; a PCIe switch connects them to the network adapter.
// Source: Jia (2020), figure 3.5a.
void connect_p100(preset_builder& b);

// Each pair of GPUs is behind a PCIe switch; the pairs of a node share a switch that leads to the processors and the
// network adapter.
// Source: Jia (2020), figure 3.5b.
void connect_k80(preset_builder& b);

// Two processors with three GPUs each, two NVLinks between all pairs of a processor and its GPUs; the X-Bus between
// processors; one network adapter that both reach.
// Source: Jia (2020), figure 3.11; OLCF's guide.
void connect_summit(preset_builder& b);

// NVSwitch inside; each GPU has its own network adapter, and adapter i of every node leads to switch i (a rail). A
// spine connects the rails with their full bandwidth (a fat tree). reduces: the NVSwitches sum (SHARP).
void connect_dgx(preset_builder& b, cable_kind inside, cable_kind adapter, bool reduces);

// Four GPUs on each processor, the network adapter on the first.
void connect_t4(preset_builder& b);
void connect_1080ti(preset_builder& b);

inline void connect_dgx_a100(preset_builder& b) { connect_dgx(b, nvswitch_a100, infiniband_200, false); }
inline void connect_dgx_h100(preset_builder& b) { connect_dgx(b, nvswitch_h100, infiniband_400, true); }

}  // namespace unity::hardware::detail

namespace unity::hardware {

// Kinds of devices by name. machines/devices.json gives the source of each number.

// The kind of device; nothing for an unknown name. `host` comes without a memory size.
[[nodiscard]] std::optional<device> find_model(std::string_view name);

// The names of all GPUs as one text.
[[nodiscard]] std::string gpu_names();

namespace detail {

struct preset_kind {
  std::string_view name{};
  std::string_view model{};
  std::size_t most_devices = 0;  // per node
  void (*connect)(preset_builder&) = nullptr;
};
inline constexpr std::array<preset_kind, 9> preset_kinds{{{"1080ti", "1080ti", 2, connect_1080ti},
                                                          {"p100", "p100", 4, connect_p100},
                                                          {"k80", "k80", 4, connect_k80},
                                                          {"summit", "v100", 6, connect_summit},
                                                          {"dgx_a100", "a100", 8, connect_dgx_a100},
                                                          {"dgx_a100_80", "a100_80", 8, connect_dgx_a100},
                                                          {"dgx_h100", "h100", 8, connect_dgx_h100},
                                                          {"t4", "t4", 8, connect_t4},
                                                          {"h200", "h200", 8, connect_dgx_h100}}};
inline constexpr std::size_t most_nodes = 4096;
inline constexpr std::size_t most_host_devices = 1024;

// Parses "4x6".
[[nodiscard]] std::optional<preset_size> parse_size(std::string_view text);

// Ranks on this host, one core each. Rates are unknown: assumes one core of a server with AVX2; `calibrate` measures.
[[nodiscard]] machine host_preset(std::size_t count);

}  // namespace detail

// The names of presets, for messages and help: "p100, k80, ..., host".
[[nodiscard]] std::string preset_names();

// The machine that the text names: one of preset_names, a colon, and nodes x devices: "dgx_a100:4x8". The devices of
// host are cores of this host; its number of nodes is 1.
// Throws: unity::error for any other name, and if such a node has fewer devices.
[[nodiscard]] machine preset(std::string_view text);

// Whether the machine's times are guesses: some of its devices come from the preset `host`, or from a plan made for it.
[[nodiscard]] bool is_assumed(const machine& m);

}  // namespace unity::hardware

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_HARDWARE_PRESETS)

#include <algorithm>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/printable.hpp>
#include <unity/hardware/device_table.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::hardware::detail {

UNITY_INLINE preset_builder::preset_builder(preset_size size) : size_{size} {
  for (std::size_t n = 0; n < size.nodes; ++n) {
    for (std::size_t i = 0; i < size.devices; ++i) {
      devices_.push_back({in_node(n, fmt::format("gpu{}", i)), 0, static_cast<std::uint32_t>(n)});
    }
  }
}

UNITY_INLINE void connect_p100(preset_builder& b) {
  const auto fabric = b.add_switch("infiniband");
  for (std::size_t n = 0; n < b.nodes(); ++n) {
    const auto pcie = b.add_switch(b.in_node(n, "pcie"));
    for (std::size_t i = 0; i < b.per_node(); ++i) {
      b.join(b.gpu(n, i), pcie, pcie3);
      for (std::size_t j = i + 1; j < b.per_node(); ++j) {
        b.join(b.gpu(n, i), b.gpu(n, j), nvlink1);
      }
    }
    b.join(pcie, fabric, infiniband_100);
  }
}

UNITY_INLINE void connect_k80(preset_builder& b) {
  const auto fabric = b.add_switch("infiniband");
  for (std::size_t n = 0; n < b.nodes(); ++n) {
    const auto root = b.add_switch(b.in_node(n, "pcie"));
    for (std::size_t i = 0; i < b.per_node(); i += 2) {
      const auto board = b.add_switch(b.in_node(n, fmt::format("pcie{}", i / 2)));
      b.join(board, root, pcie3, duplex::half);
      for (std::size_t j = i; j < std::min(i + 2, b.per_node()); ++j) {
        b.join(b.gpu(n, j), board, pcie3);
      }
    }
    b.join(root, fabric, infiniband_56);
  }
}

UNITY_INLINE void connect_summit(preset_builder& b) {
  constexpr std::size_t per_socket = 3;
  const auto fabric = b.add_switch("infiniband");
  for (std::size_t n = 0; n < b.nodes(); ++n) {
    const std::array sockets{b.add_switch(b.in_node(n, "socket0")), b.add_switch(b.in_node(n, "socket1"))};
    const auto adapter = b.add_switch(b.in_node(n, "adapter"));
    b.join(sockets[0], sockets[1], x_bus);
    b.join(sockets[0], adapter, pcie4_x8);
    b.join(sockets[1], adapter, pcie4_x8);
    b.join(adapter, fabric, infiniband_100);
    for (std::size_t i = 0; i < b.per_node(); ++i) {
      b.join(b.gpu(n, i), sockets[i / per_socket], nvlink2_pair);
      for (auto j = i + 1; j < b.per_node() && j / per_socket == i / per_socket; ++j) {
        b.join(b.gpu(n, i), b.gpu(n, j), nvlink2_pair);
      }
    }
  }
}

UNITY_INLINE void connect_dgx(preset_builder& b, cable_kind inside, cable_kind adapter, bool reduces) {
  std::vector<vertex_id> rails;
  for (std::size_t i = 0; b.nodes() > 1 && i < b.per_node(); ++i) {
    rails.push_back(b.add_switch(fmt::format("rail{}", i)));
  }
  if (rails.size() > 1) {
    const auto spine = b.add_switch("spine");
    for (const auto rail : rails) {
      b.join(rail, spine, {adapter.bytes_per_second * static_cast<std::int64_t>(b.nodes()), adapter.latency});
    }
  }
  for (std::size_t n = 0; n < b.nodes(); ++n) {
    const auto nvswitch = b.add_switch(b.in_node(n, "nvswitch"));
    if (reduces) {
      b.reduces(nvswitch);
    }
    for (std::size_t i = 0; i < b.per_node(); ++i) {
      b.join(b.gpu(n, i), nvswitch, inside);
      if (b.nodes() > 1) {
        b.join(b.gpu(n, i), rails[i], adapter);
      }
    }
  }
}

UNITY_INLINE void connect_t4(preset_builder& b) {
  constexpr std::size_t per_socket = 4;
  const auto fabric = b.add_switch("ethernet");
  for (std::size_t n = 0; n < b.nodes(); ++n) {
    const std::array sockets{b.add_switch(b.in_node(n, "socket0")), b.add_switch(b.in_node(n, "socket1"))};
    b.join(sockets[0], sockets[1], upi);
    b.join(sockets[0], fabric, ethernet_100);
    for (std::size_t i = 0; i < b.per_node(); ++i) {
      b.join(b.gpu(n, i), sockets[i / per_socket], pcie3);
    }
  }
}

UNITY_INLINE void connect_1080ti(preset_builder& b) {
  const auto fabric = b.add_switch("ethernet");
  for (std::size_t n = 0; n < b.nodes(); ++n) {
    const auto socket = b.add_switch(b.in_node(n, "socket"));
    b.join(socket, fabric, rdma_ethernet_100);
    for (std::size_t i = 0; i < b.per_node(); ++i) {
      b.join(b.gpu(n, i), socket, pcie3);
    }
  }
}

}  // namespace unity::hardware::detail

namespace unity::hardware {

UNITY_INLINE std::optional<device> find_model(std::string_view name) {
  const auto found =
      std::find_if(known_devices.begin(), known_devices.end(), [&](const known_device& d) { return d.id == name; });
  if (found == known_devices.end()) {
    return std::nullopt;
  }
  device d;
  d.name = found->name;
  d.kind = found->is_gpu ? device_kind::gpu : device_kind::cpu;
  for (const auto& [element, rate] :
       {std::pair{tensor::dtype::float32, found->float32}, std::pair{tensor::dtype::float64, found->float64},
        std::pair{tensor::dtype::float16, found->float16}, std::pair{tensor::dtype::bfloat16, found->bfloat16},
        std::pair{tensor::dtype::int8, found->int8}}) {
    if (rate > 0) {
      d.peaks.push_back({element, "matmul", rate});
    }
  }
  d.bytes_per_second = found->bytes_per_second;
  d.memory = found->memory;
  d.launch_seconds = found->launch_seconds;
  d.host_bytes_per_second = found->host_bytes_per_second;
  d.collective_start_seconds = found->collective_start_seconds;
  d.collective_round_seconds = found->collective_round_seconds;
  d.units = found->units;
  d.clock_hz = found->clock_hz;
  for (const auto& [level, size] : {std::pair{"L1", found->l1}, std::pair{"L2", found->l2}}) {
    if (size > bytes{}) {
      d.caches.emplace_back(level, size);
    }
  }
  return d;
}

UNITY_INLINE std::string gpu_names() {
  std::string all;
  for (const auto& d : known_devices) {
    if (d.is_gpu) {
      all += (all.empty() ? "" : ", ") + std::string{d.id};
    }
  }
  return all;
}

}  // namespace unity::hardware

namespace unity::hardware::detail {

UNITY_INLINE std::optional<preset_size> parse_size(std::string_view text) {
  const auto x = text.find('x');
  if (x == std::string_view::npos) {
    return std::nullopt;
  }
  const auto nodes = to_number<std::size_t>(text.substr(0, x)).value_or(0);
  const auto devices = to_number<std::size_t>(text.substr(x + 1)).value_or(0);
  return nodes > 0 && devices > 0 ? std::optional{preset_size{nodes, devices}} : std::nullopt;
}

UNITY_INLINE machine host_preset(std::size_t count) {
  machine m;
  auto& core = m.devices.emplace_back();
  core = find_model("host").value();
  const auto memory =
      static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::int64_t>(::sysconf(_SC_PAGESIZE));
  core.memory = bytes{memory / static_cast<std::int64_t>(count)};
  std::vector<placed_device> devices;
  for (std::size_t i = 0; i < count; ++i) {
    devices.push_back({fmt::format("core{}", i), 0, 0});
  }
  m.network = around_switch(std::move(devices), 10e9, 1e-6, "host");
  return m;
}

}  // namespace unity::hardware::detail

namespace unity::hardware {

UNITY_INLINE std::string preset_names() {
  std::string all;
  for (const auto& k : detail::preset_kinds) {
    all += fmt::format("{}, ", k.name);
  }
  return fmt::format("{}host", all);
}

UNITY_INLINE bool is_assumed(const machine& m) {
  const auto assumed = find_model("host").value();
  return std::ranges::any_of(m.devices, [&](const device& d) { return d.name == assumed.name; });
}

UNITY_INLINE machine preset(std::string_view text) {
  const auto where = fmt::format("machine '{}'", printable(text));
  const auto colon = std::min(text.find(':'), text.size());
  const auto name = text.substr(0, colon);
  const auto kind = std::find_if(detail::preset_kinds.begin(), detail::preset_kinds.end(),
                                 [&](const auto& k) { return k.name == name; });
  const bool host = name == "host";
  if (kind == detail::preset_kinds.end() && !host) {
    throw error{where, fmt::format("no preset '{}'", printable(name)), preset_names()};
  }
  const auto size = detail::parse_size(text.substr(std::min(colon + 1, text.size())));
  if (!size) {
    throw error{where, "no number of nodes and devices", fmt::format("{}:NODESxDEVICES", name)};
  }
  const auto nodes = host ? 1 : detail::most_nodes;
  const auto devices = host ? detail::most_host_devices : kind->most_devices;
  if (size->nodes > nodes || size->devices > devices) {
    throw error{where, fmt::format("{} nodes of {} devices", size->nodes, size->devices),
                fmt::format("at most {} of {}", nodes, devices)};
  }
  machine m;
  if (host) {
    m = detail::host_preset(size->devices);
  } else {
    detail::preset_builder b{*size};
    kind->connect(b);
    m.devices.push_back(find_model(kind->model).value());
    m.network = std::move(b).finish();
  }
  m.name = text;
  return m;
}

}  // namespace unity::hardware

#endif
