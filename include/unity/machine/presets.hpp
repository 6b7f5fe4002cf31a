// Machines by name: "p100:4x4" is four nodes of four P100. docs/machines.md gives the source of each number.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <unistd.h>

#include <unity/machine/machine.hpp>
#include <unity/machine/preset_topologies.hpp>

namespace unity::machine {

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

// "4x6"
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

// Whether times on it are guesses: some of its devices come from the preset `host`, or from a plan made for it.
[[nodiscard]] bool is_assumed(const machine& m);

}  // namespace unity::machine

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_MACHINE_PRESETS)

#include <algorithm>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/printable.hpp>
#include <unity/core/units.hpp>
#include <unity/machine/device.hpp>
#include <unity/machine/device_models.hpp>
#include <unity/machine/link.hpp>
#include <unity/machine/topology.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::machine::detail {

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

}  // namespace unity::machine::detail

namespace unity::machine {

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

}  // namespace unity::machine

#endif
