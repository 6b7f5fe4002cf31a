// Kinds of devices by name. machines/devices.json gives the source of each number.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <unity/machine/device.hpp>

namespace unity::machine {

// The kind of device, or nothing for an unknown name. For `host` without its memory.
[[nodiscard]] std::optional<device> find_model(std::string_view name);

// The names of all GPUs as one text.
[[nodiscard]] std::string gpu_names();

}  // namespace unity::machine

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_MACHINE_GPU_MODELS)

#include <algorithm>
#include <utility>

#include <unity/core/config.hpp>
#include <unity/core/units.hpp>
#include <unity/cost/device_table.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::machine {

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
  d.memory = bytes{found->memory};
  d.launch_seconds = found->launch_seconds;
  d.collective_start_seconds = found->collective_start_seconds;
  d.collective_round_seconds = found->collective_round_seconds;
  d.units = found->units;
  d.clock_hz = found->clock_hz;
  for (const auto& [level, size] : {std::pair{"L1", found->l1}, std::pair{"L2", found->l2}}) {
    if (size > 0) {
      d.caches.emplace_back(level, bytes{size});
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

}  // namespace unity::machine

#endif
