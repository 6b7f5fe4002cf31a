// GPUs by their names in drivers.
#pragma once

#include <optional>
#include <string_view>

#include <unity/cost/kernel_model.hpp>

namespace unity {

// The id in machines/devices.json for a driver's name such as "Tesla-P4" or "P4". Nothing for unknown boards.
[[nodiscard]] std::optional<std::string_view> id_of_board(std::string_view name);

// Multiprocessors, clock and cache from machines/devices.json. Nothing for unknown boards.
[[nodiscard]] std::optional<kernel_device> known_kernel_device(std::string_view name);

}  // namespace unity

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_COST_KNOWN_BOARDS)

#include <algorithm>
#include <array>

#include <unity/core/config.hpp>
#include <unity/cost/device_table.hpp>

namespace unity::detail {

struct known_board {
  std::string_view part{};  // substring of the driver's name
  std::string_view id{};
  double widest_warp_row = 1024;  // of the measured version of PyTorch, according to kernel names
  int batched_tile = any_tile;    // the only tile, according to kernel names and grids (CUDA 12.1)
};

[[nodiscard]] inline const known_board* find_board(std::string_view name) {
  static constexpr std::array<known_board, 7> boards{{{"P100", "p100", 1024, 1},
                                                      {"V100", "v100"},
                                                      {"A100", "a100_pcie", 1024, 0},
                                                      {"H100", "h100", 2048},
                                                      {"H200", "h200", 2048},
                                                      {"P4", "p4", 1024, 1},
                                                      {"T4", "t4"}}};
  const auto* const b = std::find_if(boards.begin(), boards.end(),
                                     [&](const known_board& x) { return name.find(x.part) != std::string_view::npos; });
  return b == boards.end() ? nullptr : b;
}

}  // namespace unity::detail

namespace unity {

UNITY_INLINE std::optional<std::string_view> id_of_board(std::string_view name) {
  const auto* const b = detail::find_board(name);
  return b == nullptr ? std::nullopt : std::optional{b->id};
}

UNITY_INLINE std::optional<kernel_device> known_kernel_device(std::string_view name) {
  const auto* const b = detail::find_board(name);
  if (b == nullptr) {
    return std::nullopt;
  }
  const auto d = std::find_if(known_devices.begin(), known_devices.end(), [&](const auto& x) { return x.id == b->id; });
  kernel_device found;
  found.units = d->units;
  found.clock_hz = d->clock_hz;
  found.l2 = static_cast<double>(d->l2);
  found.widest_warp_row = b->widest_warp_row;
  found.batched_tile = b->batched_tile;
  return found;
}

}  // namespace unity

#endif
