// Operators timed on a device.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/backend/device_backend.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/core/config.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/cost/kernel_timer.hpp>
#include <unity/tensor/dtype.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend {

struct timing_options {
  int warm_up = 3;
  int least = 5;              // samples at least, unless they take most_seconds; then two
  int most = 200;             // samples at most
  double seconds = 0.02;      // no more samples than the least after this time
  double most_seconds = 0.5;  // no more samples than two after this time
  double sample_seconds = 20e-6;  // shorter kernels are timed several in a row
  std::size_t cycled_bytes = std::size_t{128} << 20U;  // constant operands are taken from as many bytes in turn
};

// One line: "cpu: AMD EPYC, 2 threads; oneDNN 2.6.3".
[[nodiscard]] inline std::string to_string(const device_description& d) {
  auto text = d.backend + ": " + d.device;
  for (const auto& [library, version] : d.versions) {
    text += "; " + library + " " + version;
  }
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

namespace detail {

// Finite values: floating-point numbers of magnitude 1/2 to 1, positive where constant (a variance has a root); integers
// in [0, 4), so that they may number rows; bools.
[[nodiscard]] inline std::vector<std::byte> arbitrary_bytes(const tensor::tensor_type& type, std::size_t elements) {
  std::vector<double> values(elements);
  for (std::size_t i = 0; i < elements; ++i) {
    const auto bits = mix64(i);
    const auto sign = !type.constant && (bits & 1U) != 0 ? -1.0 : 1.0;
    values[i] = tensor::is_floating(type.element) ? sign * (0.5 + static_cast<double>(bits >> 12U) * 0x1.0p-53)
                                                  : static_cast<double>(bits % (type.element == tensor::dtype::boolean ? 2 : 4));
  }
  const tensor::tensor_type list{type.element, tensor::layout::row_major, type.constant, {static_cast<std::int64_t>(elements)}};
  std::vector<std::byte> stored(byte_count(list));
  encode<double>(values, list, stored);
  return stored;
}

[[nodiscard]] constexpr std::size_t aligned(std::size_t size) noexcept {
  return (size + memory_alignment - 1) / memory_alignment * memory_alignment;
}

// A kernel with everything that it takes to run it: operands with values, results, workspace. Constant operands are
// there several times, and each run takes the next.
template <device_backend Backend>
class loaded_kernel {
 public:
  loaded_kernel(Backend& backend, typename Backend::kernel kernel, std::span<const tensor::tensor_type> inputs,
                std::span<const tensor::tensor_type> outputs, std::size_t cycled_bytes)
      : backend_{backend}, kernel_{std::move(kernel)} {
    const auto copies = copies_of(inputs, cycled_bytes);
    addresses_.assign(copies, std::vector<const std::byte*>(inputs.size()));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      for (std::size_t c = 0; c < (inputs[i].constant ? copies : 1); ++c) {
        addresses_[c][i] = load(inputs[i], i);
      }
      for (std::size_t c = 1; c < copies && !inputs[i].constant; ++c) {
        addresses_[c][i] = addresses_[0][i];
      }
    }
    for (const auto& t : outputs) {
      results_.push_back(reserve(byte_count(t)));
    }
    workspace_ = reserve(static_cast<std::size_t>(kernel_.workspace()));
    backend_.wait();
  }
  void run() {
    const auto& operands = addresses_[next_];
    next_ = next_ + 1 < addresses_.size() ? next_ + 1 : 0;
    backend_.run(kernel_, std::span<const std::byte* const>{operands}, std::span<std::byte* const>{results_}, workspace_);
  }

 private:
  [[nodiscard]] std::size_t packed_size(const tensor::tensor_type& type, std::size_t i) const {
    if constexpr (packing_backend<Backend>) {
      return type.constant ? static_cast<std::size_t>(kernel_.packed_size(i)) : 0;
    }
    return 0;
  }
  // Enough that none is in a cache when its turn comes again. Of small ones 64: more would only take time to make.
  [[nodiscard]] std::size_t copies_of(std::span<const tensor::tensor_type> inputs, std::size_t cycled_bytes) const {
    std::size_t of_one = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      of_one += inputs[i].constant ? std::max(packed_size(inputs[i], i), aligned(byte_count(inputs[i]))) : 0;
    }
    return of_one == 0 ? 1 : std::clamp<std::size_t>((cycled_bytes + of_one - 1) / of_one, 1, 64);
  }
  [[nodiscard]] std::byte* reserve(std::size_t bytes) {
    held_.push_back(backend_.allocate(std::max(bytes, memory_alignment)));
    return held_.back().data();
  }
  [[nodiscard]] const std::byte* load(const tensor::tensor_type& type, std::size_t i) {
    const auto packed = packed_size(type, i);
    auto plain = backend_.allocate(std::max(byte_count(type), memory_alignment));
    fill(plain.data(), type);
    if constexpr (packing_backend<Backend>) {
      if (packed > 0) {
        auto* to = reserve(packed);
        backend_.pack(kernel_, i, plain.data(), to);
        backend_.wait();
        return to;
      }
    }
    held_.push_back(std::move(plain));
    return held_.back().data();
  }
  // Values repeat after a while: making millions anew would take longer than what is measured.
  void fill(std::byte* to, const tensor::tensor_type& type) {
    constexpr std::size_t chunk = std::size_t{1} << 16U;
    const auto elements = static_cast<std::size_t>(tensor::element_count(type.dims));
    const auto size = static_cast<std::size_t>(tensor::size_of(type.element));
    const auto values = arbitrary_bytes(type, std::min(chunk, elements));
    for (std::size_t done = 0; done < elements; done += chunk) {
      backend_.write(to + done * size, std::span<const std::byte>{values}.first(std::min(chunk, elements - done) * size));
    }
    backend_.wait();
  }

  Backend& backend_;
  typename Backend::kernel kernel_;
  std::vector<typename Backend::memory> held_;
  std::vector<std::vector<const std::byte*>> addresses_;  // by copy, by operand
  std::vector<std::byte*> results_;
  std::byte* workspace_ = nullptr;
  std::size_t next_ = 0;
};

}  // namespace detail

// Times operators one by one, as they run within a graph: activations lie where they were the last time, as if just
// written by the operator before, and constants come from memory, since a whole inference went by since they were read
// last: constants that stay in cache make a recurrent network of one sample look three times as fast as it is. Kernels
// begin one after another without waiting, as an executor begins them.
//
// Models kernel_timer. The backend must outlive it.
// Complexity: `seconds` or the least number of samples, whichever is more, up to `most_seconds`, and the filling of
// operands. A kernel that is slower than all these takes three runs.
// Throws: unity::error where the backend has no kernel, or not enough memory.
template <device_backend Backend>
class device_timer {
 public:
  explicit device_timer(Backend& backend, timing_options options = {}) : backend_{&backend}, options_{options} {}

  [[nodiscard]] measurement time(const tensor::operation& op, std::span<const tensor::tensor_type> inputs,
                                 std::span<const tensor::tensor_type> outputs) {
    detail::loaded_kernel<Backend> kernel{*backend_, backend_->prepare(op, inputs, outputs), inputs, outputs, options_.cycled_bytes};
    return measure(kernel);
  }
  // Of element-wise operators as one kernel; see fusing_backend.
  [[nodiscard]] measurement time_chain(const tensor::tensor_graph& region)
    requires fusing_backend<Backend>
  {
    std::vector<tensor::tensor_type> inputs;
    std::vector<tensor::tensor_type> outputs;
    for (std::size_t n = 0; n < region.node_count(); ++n) {
      if (region.operands(node_id{n}).empty()) {
        inputs.push_back(region.type(region.results(node_id{n})[0]));
      }
    }
    for (const auto v : region.outputs()) {
      outputs.push_back(region.type(v));
    }
    detail::loaded_kernel<Backend> kernel{*backend_, backend_->prepare_chain(region), inputs, outputs, options_.cycled_bytes};
    return measure(kernel);
  }
  // The device, library versions, and what the times depend on besides.
  [[nodiscard]] std::string description() const {
    std::string unity;
    for (const auto part : {UNITY_VERSION_MAJOR, UNITY_VERSION_MINOR, UNITY_VERSION_PATCH}) {
      unity += (unity.empty() ? "; unity " : ".") + std::to_string(part);
    }
    return to_string(backend_->description()) + unity + "; constants from " + std::to_string(options_.cycled_bytes >> 20U) + " MiB";
  }

 private:
  using clock = std::chrono::steady_clock;
  [[nodiscard]] static double since(clock::time_point start) {
    return std::chrono::duration<double>(clock::now() - start).count();
  }

  // Samples until there are enough, or time is up.
  [[nodiscard]] measurement measure(detail::loaded_kernel<Backend>& kernel) {
    const auto in_a_row = runs_per_sample(kernel);
    std::vector<double> samples;
    const auto start = clock::now();
    const auto size = [&] { return static_cast<int>(samples.size()); };
    const auto wanted = [&] {
      const auto elapsed = since(start);
      return size() < std::min(2, options_.least) || (size() < options_.least && elapsed < options_.most_seconds) ||
             (size() < options_.most && elapsed < options_.seconds);
    };
    while (wanted()) {
      samples.push_back(run(kernel, in_a_row) / in_a_row);
    }
    return summarize(std::move(samples));
  }
  // Warms up on the way.
  [[nodiscard]] int runs_per_sample(detail::loaded_kernel<Backend>& kernel) {
    const auto start = clock::now();
    double last = run(kernel, 1);
    for (int i = 1; i < options_.warm_up && since(start) < options_.seconds; ++i) {
      last = run(kernel, 1);
    }
    constexpr double most = 1000;
    return static_cast<int>(std::clamp(std::ceil(options_.sample_seconds / std::max(last, 1e-9)), 1.0, most));
  }
  [[nodiscard]] double run(detail::loaded_kernel<Backend>& kernel, int times) {
    if constexpr (clocked_backend<Backend>) {
      const auto from = backend_->mark();
      for (int i = 0; i < times; ++i) {
        kernel.run();
      }
      return backend_->seconds(from, backend_->mark());
    } else {
      const auto from = clock::now();
      for (int i = 0; i < times; ++i) {
        kernel.run();
      }
      backend_->wait();
      return since(from);
    }
  }

  Backend* backend_;
  timing_options options_;
};

}  // namespace unity::backend
