// Measures a device: peak rates, memory bandwidth, launch overhead.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/backend/device_backend.hpp>
#include <unity/backend/device_timer.hpp>
#include <unity/core/units.hpp>
#include <unity/machine/link.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/detail/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend {

// A device with memory of its own beside the host's processor.
//   b.memory_size()   its bytes in all
template <class B>
concept accelerator_backend = device_backend<B> && requires(const B& b) {
  { b.memory_size() } -> std::convertible_to<std::size_t>;
};

// A backend that multiplies 16-bit floats directly, instead of widening them to float32.
//   b.multiplies(type)   whether it does so with bfloat16 or float16
template <class B>
concept narrow_float_backend = device_backend<B> && requires(const B& b, tensor::dtype type) {
  { b.multiplies(type) } -> std::convertible_to<bool>;
};

struct calibration_options {
  // Bytes of each tensor for measuring bandwidth. Two or three are read and written in turn; if caches hold a large
  // part of them, as on processors with hundreds of MiB, the result is the bandwidth of the caches.
  std::int64_t stream_bytes = std::int64_t{128} << 20U;
  double slow_seconds = 0.3;  // no larger sizes after a kernel that takes this long
};

namespace detail {

[[nodiscard]] inline bytes memory_of_host() {
  return bytes{static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) *
               static_cast<std::int64_t>(::sysconf(_SC_PAGESIZE))};
}

template <device_backend Backend>
class device_calibration {
 public:
  device_calibration(Backend& backend, const tensor::algebra& a, const calibration_options& options)
      : algebra_{a}, options_{options}, timer_{backend, in_cache()} {}

  // Matrix products of growing squares; convolutions with growing channels, as in the middle of an image network.
  void peaks(machine::device& d, tensor::dtype element) {
    const auto of = [element](tensor::shape dims, bool constant) {
      return tensor::tensor_type{element, tensor::layout::row_major, constant, std::move(dims)};
    };
    d.peaks.push_back({element, "matmul", fastest({128, 256, 512, 1024, 2048, 4096}, [&](std::int64_t n) {
                         return question{algebra_.make_operation("matmul"), {of({n, n}, false), of({n, n}, true)}};
                       })});
    d.peaks.push_back({element, "conv2d", fastest({32, 64, 128, 256, 512}, [&](std::int64_t n) {
                         return question{algebra_.make_operation("conv2d", {{"padding", "same"}}),
                                         {of({4, n, 28, 28}, false), of({n, n, 3, 3}, true)}};
                       })});
  }
  // Operators that do little but read and write.
  [[nodiscard]] double bytes_per_second() {
    const tensor::tensor_type t{tensor::dtype::float32, tensor::layout::row_major, false, {options_.stream_bytes / 4}};
    double best = 0;
    for (const question& q :
         {question{algebra_.make_operation("relu"), {t}}, question{algebra_.make_operation("add"), {t, t}}}) {
      const auto [work, seconds] = time(q);
      best = std::max(best, static_cast<double>(work.moved.count()) / seconds);
    }
    return best;
  }
  [[nodiscard]] double launch_seconds() {
    const tensor::tensor_type t{tensor::dtype::float32, tensor::layout::row_major, false, {1}};
    return time({algebra_.make_operation("relu"), {t}}).second;
  }

 private:
  struct question {
    tensor::operation op{};
    std::vector<tensor::tensor_type> inputs{};
  };

  // A peak is reached on operands that are in cache.
  [[nodiscard]] static timing_options in_cache() {
    timing_options o;
    o.constant_bytes = 0;
    o.activation_bytes = 0;
    return o;
  }
  [[nodiscard]] std::pair<work, double> time(const question& q) {
    const auto outputs = algebra_.infer(q.op, q.inputs).value();
    const auto measured = timer_.time(q.op, q.inputs, outputs);
    return {algebra_.work(q.op, q.inputs, outputs), to_seconds(measured.median)};
  }
  template <class MakeQuestion>
  [[nodiscard]] double fastest(const std::vector<std::int64_t>& sizes, const MakeQuestion& make) {
    double best = 0;
    for (const auto size : sizes) {
      const auto [work, seconds] = time(make(size));
      best = std::max(best, static_cast<double>(work.operations.count()) / seconds);
      if (seconds > options_.slow_seconds) {
        break;
      }
    }
    return best;
  }

  const tensor::algebra& algebra_;
  calibration_options options_;
  device_timer<Backend> timer_;
};

}  // namespace detail

// Peaks are those of float32, and of the 16-bit floats that the backend multiplies directly; bandwidth and launch
// overhead are those of float32. For a backend that runs on the host, the memory is the host's.
// Throws: unity::error if the backend lacks matmul, conv2d, relu or add, or memory.
template <device_backend Backend>
[[nodiscard]] machine::device calibrate_device(Backend& backend, const tensor::algebra& a,
                                               const calibration_options& options = {}) {
  const auto description = backend.description();
  machine::device d;
  d.name = description.device;
  d.versions = description.versions;
  std::sort(d.versions.begin(), d.versions.end());
  if constexpr (accelerator_backend<Backend>) {
    d.kind = machine::device_kind::gpu;
    d.memory = bytes{static_cast<std::int64_t>(std::as_const(backend).memory_size())};
  } else {
    d.kind = machine::device_kind::cpu;
    d.memory = detail::memory_of_host();
  }
  detail::device_calibration<Backend> measure{backend, a, options};
  measure.peaks(d, tensor::dtype::float32);
  if constexpr (narrow_float_backend<Backend>) {
    for (const auto element : {tensor::dtype::bfloat16, tensor::dtype::float16}) {
      if (std::as_const(backend).multiplies(element)) {
        measure.peaks(d, element);
      }
    }
  }
  d.bytes_per_second = measure.bytes_per_second();
  d.launch_seconds = measure.launch_seconds();
  for (const auto& p : d.peaks) {
    d.sources.emplace_back(fmt::format("peaks.{}", tensor::name_of(p.element)), "measured: products and convolutions");
  }
  d.sources.emplace_back("bytes_per_second", "measured: sums of two tensors");
  d.sources.emplace_back("launch_s", "measured: an operator on one element");
  d.sources.emplace_back("memory_bytes", "what the system says");
  std::sort(d.sources.begin(), d.sources.end());
  d.sources.erase(std::unique(d.sources.begin(), d.sources.end()), d.sources.end());
  return d;
}

}  // namespace unity::backend
