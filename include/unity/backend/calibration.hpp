// Measures devices and the exchanges between ranks.
#pragma once

#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/backend/communicator.hpp>
#include <unity/backend/device_backend.hpp>
#include <unity/backend/device_timer.hpp>
#include <unity/core/config.hpp>
#include <unity/core/units.hpp>
#include <unity/cost/duration.hpp>
#include <unity/hardware/collective_fit.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/algebra_inference.hpp>
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

[[nodiscard]] inline bytes memory_of_host() {
  return bytes{static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) *
               static_cast<std::int64_t>(::sysconf(_SC_PAGESIZE))};
}

namespace detail {

template <device_backend Backend>
class device_calibration {
 public:
  device_calibration(Backend& backend, const tensor::algebra& a, const calibration_options& options)
      : algebra_{a}, backend_{backend}, options_{options}, timer_{backend, in_cache()} {}

  // Matrix products of growing squares; convolutions with growing channels, as in the middle of an image network.
  void peaks(hardware::device& d, tensor::dtype element) {
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
  // The rate of copies from and to pageable memory, which ranks use, in the slower direction. Timed by the clock of the
  // host, because a copy returns only when it has ended.
  [[nodiscard]] double host_bytes_per_second() {
    const auto size = static_cast<std::size_t>(options_.stream_bytes);
    auto memory = backend_.allocate(size);
    std::vector<std::byte> host(size);
    double slower = 0;  // the least seconds of each direction, the larger of both
    for (const bool is_write : {true, false}) {
      auto least = std::numeric_limits<double>::infinity();
      constexpr int runs = 5;
      for (int i = 0; i < runs; ++i) {
        const auto start = std::chrono::steady_clock::now();
        if (is_write) {
          backend_.write(memory.data(), host);
        } else {
          backend_.read(host, memory.data());
        }
        backend_.wait();
        least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      }
      slower = std::max(slower, least);
    }
    return static_cast<double>(size) / std::max(slower, 1e-9);
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
  [[nodiscard]] std::pair<operator_work, double> time(const question& q) {
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
  Backend& backend_;
  calibration_options options_;
  device_timer<Backend> timer_;
};

}  // namespace detail

// Peaks are those of float32, and of the 16-bit floats that the backend multiplies directly; bandwidth and launch
// overhead are those of float32; copies are between the device and the host. For a backend that runs on the host, the
// memory is the host's.
// Throws: unity::error if the backend lacks matmul, conv2d, relu or add, or memory.
template <device_backend Backend>
[[nodiscard]] hardware::device calibrate_device(Backend& backend, const tensor::algebra& a,
                                                const calibration_options& options = {}) {
  const auto description = backend.description();
  hardware::device d;
  d.name = description.device;
  d.versions = description.versions;
  std::sort(d.versions.begin(), d.versions.end());
  if constexpr (accelerator_backend<Backend>) {
    d.kind = hardware::device_kind::gpu;
    d.memory = bytes{static_cast<std::int64_t>(std::as_const(backend).memory_size())};
  } else {
    d.kind = hardware::device_kind::cpu;
    d.memory = memory_of_host();
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
  d.host_bytes_per_second = measure.host_bytes_per_second();
  for (const auto& p : d.peaks) {
    d.sources.emplace_back(fmt::format("peaks.{}", tensor::name_of(p.element)), "measured: products and convolutions");
  }
  d.sources.emplace_back("bytes_per_second", "measured: relu or a sum of two tensors, the faster one");
  d.sources.emplace_back("launch_s", "measured: an operator on one element");
  d.sources.emplace_back("host_bytes_per_second", "measured: copies in both directions, the slower one");
  d.sources.emplace_back("memory_bytes", "reported by the system");
  std::sort(d.sources.begin(), d.sources.end());
  d.sources.erase(std::unique(d.sources.begin(), d.sources.end()), d.sources.end());
  return d;
}

struct exchange_options {
  bytes smallest{256};                     // sizes double from this on
  bytes largest{std::int64_t{16} << 20U};  // no size is above this
  bytes volume{std::int64_t{8} << 20U};    // to exchange at each size, within the two bounds below
  std::int64_t least = 5;                  // least repetitions
  std::int64_t most = 100;                 // most repetitions
};

namespace detail {

template <host_communicator Communicator>
class exchange_timer {
 public:
  exchange_timer(Communicator& c, const exchange_options& options)
      : communicator_{c},
        options_{options},
        from_(static_cast<std::size_t>(options.largest.count() / 4 + c.size())),
        to_(from_.size()) {}

  // The slowest rank's time in each repetition, ascending, in seconds. All ranks get the same.
  [[nodiscard]] std::vector<double> times(hardware::exchange kind, bytes size) {
    const auto repetitions = std::clamp(options_.volume.count() / size.count(), options_.least, options_.most);
    std::vector<double> seconds;
    constexpr int warm_up = 2;
    for (std::int64_t i = -warm_up; i < repetitions; ++i) {
      communicator_.barrier();
      const auto start = std::chrono::steady_clock::now();
      run(kind, size);
      if (i >= 0) {
        seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      }
    }
    auto* data = reinterpret_cast<std::byte*>(seconds.data());
    communicator_.all_reduce(data, data, seconds.size(), tensor::dtype::float64, reduction::maximum).wait();
    for (auto& s : seconds) {  // a message goes there and back, and no time is zero
      s = std::max(kind == hardware::exchange::message ? s / 2 : s, 1e-12);
    }
    std::sort(seconds.begin(), seconds.end());
    return seconds;
  }

 private:
  void run(hardware::exchange kind, bytes size) {
    constexpr auto type = tensor::dtype::float32;
    const auto all = static_cast<std::size_t>(size.count() / 4);
    const auto part = std::max<std::size_t>(all / static_cast<std::size_t>(communicator_.size()), 1);
    const auto* in = reinterpret_cast<const std::byte*>(from_.data());
    auto* out = reinterpret_cast<std::byte*>(to_.data());
    switch (kind) {
      case hardware::exchange::message: return there_and_back(all * 4);
      case hardware::exchange::all_reduce: return communicator_.all_reduce(in, out, all, type, reduction::sum).wait();
      case hardware::exchange::reduce_scatter:
        return communicator_.reduce_scatter(in, out, part, type, reduction::sum).wait();
      case hardware::exchange::all_gather: return communicator_.all_gather(in, out, part, type).wait();
      case hardware::exchange::broadcast: return communicator_.broadcast(out, all, type, 0).wait();
      case hardware::exchange::all_to_all: return communicator_.all_to_all(in, out, part, type).wait();
    }
  }
  // Between ranks 0 and 1; the others are idle.
  void there_and_back(std::size_t size) {
    const std::span<const std::byte> mine{reinterpret_cast<const std::byte*>(from_.data()), size};
    const std::span<std::byte> theirs{reinterpret_cast<std::byte*>(to_.data()), size};
    if (communicator_.rank() == 0) {
      communicator_.send(1, mine, 0).wait();
      communicator_.receive(1, theirs, 1).wait();
    } else if (communicator_.rank() == 1) {
      communicator_.receive(0, theirs, 0).wait();
      communicator_.send(0, mine, 1).wait();
    }
  }

  Communicator& communicator_;
  exchange_options options_;
  std::vector<float> from_;
  std::vector<float> to_;
};

}  // namespace detail

// Times every kind of exchange at sizes that double, and fits latency and bandwidth to the medians and intervals to all
// times. Sizes count equally, however often they were timed. All ranks must call it with the same options, and all get
// the same result. A single rank has nothing to exchange: its link is free.
// Throws: unity::error if a rank is missing.
template <host_communicator Communicator>
[[nodiscard]] hardware::link calibrate_link(Communicator& c, std::string name, const exchange_options& options = {}) {
  UNITY_EXPECTS(options.smallest >= bytes{4} * c.size() && options.smallest <= options.largest,
                "an element for every rank");
  hardware::link l{std::move(name), c.size(), {}, {}};
  detail::exchange_timer<Communicator> timer{c, options};
  for (std::size_t k = 0; c.size() > 1 && k < hardware::exchange_names.size(); ++k) {
    const auto kind = static_cast<hardware::exchange>(k);
    std::vector<hardware::exchange_sample> medians;
    std::vector<hardware::exchange_sample> all;
    for (auto size = options.smallest; size <= options.largest; size *= 2) {
      const auto seconds = timer.times(kind, size);
      medians.push_back({size, unity::quantile(seconds, 0.5)});
      for (const auto part : {0.1, 0.3, 0.5, 0.7, 0.9}) {
        all.push_back({size, unity::quantile(seconds, part)});
      }
    }
    const auto& ranges = l.costs.emplace(kind, hardware::fit_ranges(medians)).first->second;
    l.intervals.emplace(kind, hardware::fit_interval(ranges, all));
  }
  return l;
}

}  // namespace unity::backend
