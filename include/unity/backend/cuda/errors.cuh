// Errors of the CUDA runtime and of libraries, as one line.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <fmt/core.h>
#include <cublasLt.h>
#include <cuda_runtime.h>

#include <unity/core/error.hpp>

namespace unity::backend::cuda {

[[nodiscard]] inline std::string message_of(cudaError_t e) {
  return fmt::format("{}, {}", cudaGetErrorName(e), cudaGetErrorString(e));
}

// Throws: unity::error if the call failed; `what`: a readable description of the call.
inline void check(cudaError_t e, std::string_view what) {
  if (e != cudaSuccess) {
    static_cast<void>(cudaGetLastError());  // clears the error, or the next launch would report it
    throw error{"cuda backend", fmt::format("{}: {}", what, message_of(e)), "success"};
  }
}
inline void check(cublasStatus_t s, std::string_view what) {
  if (s != CUBLAS_STATUS_SUCCESS) {
    throw error{"cuda backend", fmt::format("{}: {}", what, cublasLtGetStatusName(s)), "success"};
  }
}

[[nodiscard]] inline std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

// The reason why no device can be used, in one line; nothing if one can. device: its number.
[[nodiscard]] inline std::optional<std::string> why_no_device(int device = 0) {
  int count = 0;  // unchanged if there is no driver
  const auto e = cudaGetDeviceCount(&count);
  static_cast<void>(cudaGetLastError());
  if (e == cudaErrorInsufficientDriver) {
    int runtime = 0;
    int driver = 0;
    static_cast<void>(cudaRuntimeGetVersion(&runtime));
    static_cast<void>(cudaDriverGetVersion(&driver));
    return fmt::format(
        "{}, expected one for CUDA {} or later",
        driver == 0 ? std::string{"no driver"} : fmt::format("a driver for CUDA {}", version_text(driver)),
        version_text(runtime));
  }
  if (e == cudaErrorNoDevice || (e == cudaSuccess && count == 0)) {
    return "no GPU";
  }
  if (e != cudaSuccess) {
    return message_of(e);
  }
  return device < count ? std::nullopt
                        : std::optional{fmt::format("no GPU of number {}, expected one below {}", device, count)};
}

}  // namespace unity::backend::cuda
