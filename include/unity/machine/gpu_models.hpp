// GPUs by name, with the rates of their data sheets. Where each number is from stands in docs/machines.md.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include <unity/machine/device.hpp>

namespace unity::machine {

// A GPU by its data sheet; rates are dense, and 0 where the type gains nothing over float32.
struct gpu_model {
  std::string_view name{};
  std::string_view title{};
  double float32 = 0;  // FLOP/s, without tensor cores
  double float16 = 0;  // with them where there are any
  double bfloat16 = 0;
  double bytes_per_second = 0;
  std::int64_t memory = 0;    // bytes
  double launch_seconds = 0;  // typical of back-to-back kernels on one stream
};

inline constexpr std::array<gpu_model, 7> gpu_models{{
    {"k80", "NVIDIA Tesla K80 (one GK210)", 4.37e12, 0, 0, 240e9, 12'000'000'000, 8e-6},
    {"p100", "NVIDIA Tesla P100 SXM2", 10.6e12, 21.2e12, 0, 732e9, 16'000'000'000, 5e-6},
    {"v100", "NVIDIA Tesla V100 SXM2", 15.7e12, 125e12, 0, 900e9, 16'000'000'000, 5e-6},
    {"t4", "NVIDIA T4", 8.1e12, 65e12, 0, 320e9, 16'000'000'000, 5e-6},
    {"a100", "NVIDIA A100 SXM4 40 GB", 19.5e12, 312e12, 312e12, 1555e9, 40'000'000'000, 4e-6},
    {"h100", "NVIDIA H100 SXM 80 GB", 67e12, 989.4e12, 989.4e12, 3350e9, 80'000'000'000, 3e-6},
    {"h200", "NVIDIA H200 SXM 141 GB", 67e12, 989.4e12, 989.4e12, 4800e9, 141'000'000'000, 3e-6},
}};

// The kind of device, or nothing for a name that is unknown.
[[nodiscard]] std::optional<device> find_gpu(std::string_view name);

}  // namespace unity::machine

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_MACHINE_GPU_MODELS)

#include <algorithm>
#include <string>

#include <unity/core/units.hpp>
#include <unity/tensor/dtype.hpp>

namespace unity::machine {

UNITY_INLINE std::optional<device> find_gpu(std::string_view name) {
  const auto found =
      std::find_if(gpu_models.begin(), gpu_models.end(), [&](const gpu_model& g) { return g.name == name; });
  if (found == gpu_models.end()) {
    return std::nullopt;
  }
  device d;
  d.name = found->title;
  d.kind = device_kind::gpu;
  for (const auto& [element, rate] :
       {std::pair{tensor::dtype::float32, found->float32}, std::pair{tensor::dtype::float16, found->float16},
        std::pair{tensor::dtype::bfloat16, found->bfloat16}}) {
    if (rate > 0) {
      d.peaks.push_back({element, "matmul", rate});
    }
  }
  d.bytes_per_second = found->bytes_per_second;
  d.memory = bytes{found->memory};
  d.launch_seconds = found->launch_seconds;
  return d;
}

}  // namespace unity::machine

#endif
