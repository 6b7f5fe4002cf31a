// GPUs by name, with the rates of their data sheets. Where each number is from stands in docs/machines.md.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include <unity/cost/roofline.hpp>
#include <unity/machine/device.hpp>

namespace unity::machine {

// What a GPU has beyond what a roofline needs of it (cost/roofline.hpp describes each of these names: rate of float32,
// bandwidth, launch). Rates are dense, and 0 where the type gains nothing over float32.
struct gpu_model {
  std::string_view name{};
  std::string_view title{};
  double float16 = 0;  // FLOP/s, with tensor cores where there are any
  double bfloat16 = 0;
  std::int64_t memory = 0;  // bytes
};

inline constexpr std::array<gpu_model, 7> gpu_models{{
    {"k80", "NVIDIA Tesla K80 (one GK210)", 0, 0, 12'000'000'000},
    {"p100", "NVIDIA Tesla P100 SXM2", 21.2e12, 0, 16'000'000'000},
    {"v100", "NVIDIA Tesla V100 SXM2", 125e12, 0, 16'000'000'000},
    {"t4", "NVIDIA T4", 65e12, 0, 16'000'000'000},
    {"a100", "NVIDIA A100 SXM4 40 GB", 312e12, 312e12, 40'000'000'000},
    {"h100", "NVIDIA H100 SXM 80 GB", 989.4e12, 989.4e12, 80'000'000'000},
    {"h200", "NVIDIA H200 SXM 141 GB", 989.4e12, 989.4e12, 141'000'000'000},
}};
static_assert(std::all_of(gpu_models.begin(), gpu_models.end(),
                          [](const gpu_model& g) { return unity::find_device(g.name).has_value(); }));

// The kind of device, or nothing for a name that is unknown.
[[nodiscard]] std::optional<device> find_gpu(std::string_view name);

}  // namespace unity::machine

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_MACHINE_GPU_MODELS)

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
  const auto rates = unity::find_device(name).value();
  device d;
  d.name = found->title;
  d.kind = device_kind::gpu;
  for (const auto& [element, rate] :
       {std::pair{tensor::dtype::float32, rates.flops_per_second}, std::pair{tensor::dtype::float16, found->float16},
        std::pair{tensor::dtype::bfloat16, found->bfloat16}}) {
    if (rate > 0) {
      d.peaks.push_back({element, "matmul", rate});
    }
  }
  d.bytes_per_second = rates.bytes_per_second;
  d.memory = bytes{found->memory};
  d.launch_seconds = rates.launch_seconds;
  return d;
}

}  // namespace unity::machine

#endif
