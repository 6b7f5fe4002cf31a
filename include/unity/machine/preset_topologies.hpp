// The wiring of the nodes of each preset. docs/machines.md gives the source of each number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/machine/topology.hpp>

namespace unity::machine::detail {

// Properties of a cable. Bandwidths are per direction.
struct cable_kind {
  std::int64_t bytes_per_second = 0;
  picoseconds latency{};
};
inline constexpr std::int64_t nanosecond = 1000;  // in picoseconds
inline constexpr cable_kind pcie3{15'754'000'000, picoseconds{400 * nanosecond}};
inline constexpr cable_kind pcie4_x8{15'754'000'000, picoseconds{400 * nanosecond}};
inline constexpr cable_kind upi{20'800'000'000, picoseconds{200 * nanosecond}};
inline constexpr cable_kind x_bus{64'000'000'000, picoseconds{200 * nanosecond}};
inline constexpr cable_kind nvlink1{20'000'000'000, picoseconds{700 * nanosecond}};
inline constexpr cable_kind nvlink2_pair{50'000'000'000, picoseconds{700 * nanosecond}};
inline constexpr cable_kind nvswitch_a100{300'000'000'000, picoseconds{350 * nanosecond}};
inline constexpr cable_kind nvswitch_h100{450'000'000'000, picoseconds{350 * nanosecond}};
inline constexpr cable_kind infiniband_56{7'000'000'000, picoseconds{700 * nanosecond}};
inline constexpr cable_kind infiniband_100{12'500'000'000, picoseconds{600 * nanosecond}};
inline constexpr cable_kind infiniband_200{25'000'000'000, picoseconds{600 * nanosecond}};
inline constexpr cable_kind infiniband_400{50'000'000'000, picoseconds{600 * nanosecond}};
inline constexpr cable_kind rdma_ethernet_100{12'500'000'000, picoseconds{1000 * nanosecond}};
inline constexpr cable_kind ethernet_100{12'500'000'000, picoseconds{5000 * nanosecond}};

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

// NVLink between every pair; a PCIe switch with the network adapter beside it.
// Source: Jia (2020), figure 3.5a.
void connect_p100(preset_builder& b);

// Pairs of GPUs behind a PCIe switch each; pairs of those share the switch that leads to the processors and the network
// adapter.
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

}  // namespace unity::machine::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_MACHINE_PRESET_TOPOLOGIES)

#include <algorithm>
#include <array>

#include <fmt/core.h>

namespace unity::machine::detail {

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

}  // namespace unity::machine::detail

#endif
