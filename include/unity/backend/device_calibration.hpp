// What a device reaches, measured: peak rates, memory bandwidth, launch overhead.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/backend/device_backend.hpp>
#include <unity/backend/device_timer.hpp>
#include <unity/core/units.hpp>
#include <unity/machine/device.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend {

struct calibration_options {
  std::int64_t stream_bytes = std::int64_t{128} << 20U;  // of each tensor that memory bandwidth is measured on: beyond any cache
  double slow_seconds = 0.3;                             // no larger sizes after a kernel that takes so long
};

namespace detail {

template <device_backend Backend>
class device_calibration {
 public:
  device_calibration(Backend& backend, const tensor::algebra& a, const calibration_options& options)
      : algebra_{a}, options_{options}, timer_{backend, in_cache()} {}

  // Matrix products of growing squares; convolutions of growing channels, as in the middle of an image network.
  void peaks(machine::device& d) {
    const auto of = [](tensor::shape dims, bool constant) {
      return tensor::tensor_type{tensor::dtype::float32, tensor::layout::row_major, constant, std::move(dims)};
    };
    d.peaks.push_back({tensor::dtype::float32, "matmul", fastest({128, 256, 512, 1024, 2048, 4096}, [&](std::int64_t n) {
                         return question{algebra_.make_operation("matmul"), {of({n, n}, false), of({n, n}, true)}};
                       })});
    d.peaks.push_back({tensor::dtype::float32, "conv2d", fastest({32, 64, 128, 256, 512}, [&](std::int64_t n) {
                         return question{algebra_.make_operation("conv2d", {{"padding", "same"}}),
                                         {of({4, n, 28, 28}, false), of({n, n, 3, 3}, true)}};
                       })});
  }
  // Operators that do next to nothing but read and write.
  [[nodiscard]] double bytes_per_second() {
    const tensor::tensor_type t{tensor::dtype::float32, tensor::layout::row_major, false, {options_.stream_bytes / 4}};
    double best = 0;
    for (const question& q : {question{algebra_.make_operation("relu"), {t}}, question{algebra_.make_operation("add"), {t, t}}}) {
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

  // A peak is reached on operands that are at hand.
  [[nodiscard]] static timing_options in_cache() {
    timing_options o;
    o.cycled_bytes = 0;
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

// Of float32. What a backend does not say (kind and size of the memory) is left to the caller.
// Throws: unity::error where the backend lacks one of matmul, conv2d, relu and add, or memory.
template <device_backend Backend>
[[nodiscard]] machine::device calibrate_device(Backend& backend, const tensor::algebra& a, const calibration_options& options = {}) {
  const auto description = backend.description();
  machine::device d;
  d.name = description.device;
  d.versions = description.versions;
  std::sort(d.versions.begin(), d.versions.end());
  detail::device_calibration<Backend> measure{backend, a, options};
  measure.peaks(d);
  d.bytes_per_second = measure.bytes_per_second();
  d.launch_seconds = measure.launch_seconds();
  return d;
}

}  // namespace unity::backend
