// A stream of the CUDA runtime as a queue of launches, and errors of CUDA and its libraries as one line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <fmt/core.h>

#include <unity/backend/cuda/elements.hpp>
#include <unity/backend/cuda/routine.hpp>
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

// A single thread.
struct thread_group {
  UNITY_HOST_DEVICE int rank() const { return 0; }
  UNITY_HOST_DEVICE int size() const { return 1; }
  UNITY_HOST_DEVICE double sum(double x) const { return x; }
  UNITY_HOST_DEVICE double largest(double x) const { return x; }
};

namespace detail {

struct nothing {
  UNITY_HOST_DEVICE void operator()(std::int64_t) const {}
};

struct plus {
  UNITY_HOST_DEVICE double operator()(double a, double b) const { return a + b; }
};
struct greater {
  UNITY_HOST_DEVICE double operator()(double a, double b) const { return a < b ? b : a; }
};

// All lanes get the same bits: in each step two lanes add the same two numbers.
template <class F>
UNITY_HOST_DEVICE double fold_warp(double x, F f) {
#if defined(__CUDA_ARCH__)
  for (int distance = warp_threads / 2; distance > 0; distance /= 2) {
    x = f(x, __shfl_xor_sync(0xffffffffU, x, distance));
  }
#else
  static_cast<void>(f);
#endif
  return x;
}

}  // namespace detail

// The threads of a warp. Never used on the host, but it must compile there.
struct warp_group {
  int lane = 0;

  UNITY_HOST_DEVICE int rank() const { return lane; }
  UNITY_HOST_DEVICE int size() const { return warp_threads; }
  UNITY_HOST_DEVICE double sum(double x) const { return detail::fold_warp(x, detail::plus{}); }
  UNITY_HOST_DEVICE double largest(double x) const { return detail::fold_warp(x, detail::greater{}); }
};

// The threads of a block; shared: one number per warp.
struct block_group {
  int thread = 0;
  double* shared = nullptr;

  UNITY_HOST_DEVICE int rank() const { return thread; }
  UNITY_HOST_DEVICE int size() const { return block_threads; }
  UNITY_HOST_DEVICE double sum(double x) const { return fold(x, detail::plus{}); }
  UNITY_HOST_DEVICE double largest(double x) const { return fold(x, detail::greater{}); }

 private:
  template <class F>
  UNITY_HOST_DEVICE double fold(double x, F f) const {
    x = detail::fold_warp(x, f);
#if defined(__CUDA_ARCH__)
    if (thread % warp_threads == 0) {
      shared[thread / warp_threads] = x;
    }
    __syncthreads();
    x = shared[0];
    for (int w = 1; w < block_threads / warp_threads; ++w) {
      x = f(x, shared[w]);
    }
    __syncthreads();  // all have read before the next fold writes
#endif
    return x;
  }
};

// The number of blocks for which a multiprocessor must have registers; 2 if F does not specify it.
template <class F>
constexpr int blocks_at_once = [] {
  if constexpr (requires { F::blocks_at_once; }) {
    return F::blocks_at_once;
  } else {
    return 2;
  }
}();

template <class F>
__global__ void __launch_bounds__(block_threads, blocks_at_once<F>)
    each_kernel(const __grid_constant__ F f, std::int64_t n) {
  const auto i = static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x;
  if (i < n) {
    f(i);
  }
}

template <class F>
__global__ void __launch_bounds__(block_threads) thread_rows_kernel(const __grid_constant__ F f, std::int64_t n) {
  const auto i = static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x;
  if (i < n) {
    f(thread_group{}, i);
  }
}

template <class F>
__global__ void __launch_bounds__(block_threads) warp_rows_kernel(const __grid_constant__ F f, std::int64_t n) {
  const auto i = (static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x) / warp_threads;
  if (i < n) {  // equal for all threads of a warp
    f(warp_group{static_cast<int>(threadIdx.x) % warp_threads}, i);
  }
}

template <class F>
__global__ void __launch_bounds__(block_threads) block_rows_kernel(const __grid_constant__ F f) {
  __shared__ double shared[block_threads / warp_threads];
  f(block_group{static_cast<int>(threadIdx.x), shared}, static_cast<std::int64_t>(blockIdx.x));
}

template <class F>
__global__ void __launch_bounds__(block_threads) tiles_kernel(const __grid_constant__ F f) {
  __shared__ typename F::element tile[F::tile_size];
  const auto thread = static_cast<int>(threadIdx.x);
  f.read(tile, thread, static_cast<std::int64_t>(blockIdx.x));
  __syncthreads();
  f.write(tile, thread, static_cast<std::int64_t>(blockIdx.x));
}

// The reason why this program cannot run on the current device: it was compiled for other architectures. Nothing if it
// can.
[[nodiscard]] inline std::optional<std::string> why_no_code(int device) {
  cudaFuncAttributes attributes{};
  const auto e = cudaFuncGetAttributes(&attributes, each_kernel<detail::nothing>);
  static_cast<void>(cudaGetLastError());
  if (e == cudaSuccess) {
    return std::nullopt;
  }
  if (e != cudaErrorNoKernelImageForDevice && e != cudaErrorInvalidDeviceFunction) {
    return message_of(e);
  }
  std::string built;
  for (const int architecture : {__CUDA_ARCH_LIST__}) {
    built += fmt::format("{}sm_{}", built.empty() ? "" : ", ", architecture / 10);
  }
  int major = 0;
  int minor = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "asking for the architecture");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "asking for the architecture");
  return fmt::format("built for {}, found sm_{}{}", built, major, minor);
}

// Owns a stream. Records the first failed call with the name of its kernel, and ignores later ones.
class stream {
 public:
  stream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream"); }
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;
  ~stream() { static_cast<void>(cudaStreamDestroy(stream_)); }

  [[nodiscard]] cudaStream_t get() const noexcept { return stream_; }

  template <class F>
  void each(std::int64_t n, const F& f) {
    if (const auto blocks = blocks_for(n, 1); blocks > 0) {
      each_kernel<<<blocks, block_threads, 0, stream_>>>(f, n);
      note(cudaGetLastError());
    }
  }
  // width: threads per group; 1, 32 or 256.
  template <class F>
  void rows(std::int64_t n, int width, const F& f) {
    const auto blocks = blocks_for(n, width);
    if (blocks == 0) {
      return;
    }
    if (width == 1) {
      thread_rows_kernel<<<blocks, block_threads, 0, stream_>>>(f, n);
    } else if (width == warp_threads) {
      warp_rows_kernel<<<blocks, block_threads, 0, stream_>>>(f, n);
    } else {
      block_rows_kernel<<<blocks, block_threads, 0, stream_>>>(f);
    }
    note(cudaGetLastError());
  }
  template <class F>
  void tiles(std::int64_t n, const F& f) {
    if (const auto blocks = blocks_for(n, block_threads); blocks > 0) {
      tiles_kernel<<<blocks, block_threads, 0, stream_>>>(f);
      note(cudaGetLastError());
    }
  }

  // Sets the name for the launches that follow.
  void begin(std::shared_ptr<const std::string> name) noexcept { name_ = std::move(name); }
  void note(cudaError_t e) {
    if (e != cudaSuccess) {
      note(message_of(e));
    }
  }
  void note(std::string message) {
    if (!failure_) {
      failure_ = fmt::format("kernel of {}: {}", last_begun(), message);
    }
  }
  // Returns the recorded failure and clears it.
  [[nodiscard]] std::optional<std::string> take_failure() { return std::exchange(failure_, std::nullopt); }
  [[nodiscard]] std::string last_begun() const { return name_ ? *name_ : "nothing"; }

 private:
  // The number of blocks; 0, and records a failure, if it exceeds the maximum grid size.
  [[nodiscard]] unsigned blocks_for(std::int64_t n, int threads_each) {
    constexpr std::int64_t most = (std::int64_t{1} << 31) - 1;
    const auto per_block = block_threads / threads_each;
    const auto blocks = (n + per_block - 1) / per_block;
    if (blocks > most) {
      note(fmt::format("{} blocks, expected fewer than a grid has", blocks));
      return 0;
    }
    return static_cast<unsigned>(blocks);
  }

  cudaStream_t stream_ = nullptr;
  std::shared_ptr<const std::string> name_;  // shared, because the kernel may be destroyed before it is reported
  std::optional<std::string> failure_;
};

}  // namespace unity::backend::cuda
