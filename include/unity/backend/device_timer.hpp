// Times operators and regions on a device, and predicts the time of a graph from these times.
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

#include <fmt/core.h>

#include <unity/backend/device_backend.hpp>
#include <unity/backend/elementwise_chains.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/backend/memory_pool.hpp>
#include <unity/backend/run_list.hpp>
#include <unity/core/config.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/cost/duration.hpp>
#include <unity/fusion/kernel_region.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/timing_cache.hpp>

namespace unity::backend {

struct timing_options {
  int warm_up = 3;
  int least = 5;                                         // least samples, unless they take most_seconds; then two
  int most = 200;                                        // most samples
  double seconds = 0.06;                                 // after this time, stop at the least number of samples
  double most_seconds = 0.5;                             // after this time, stop at two samples
  double sample_seconds = 20e-6;                         // shorter kernels are timed several in a row
  std::size_t constant_bytes = std::size_t{128} << 20U;  // total bytes of the constant operands that runs use in turn
  std::size_t activation_bytes = std::size_t{8} << 20U;  // the same for other operands and results
};

// One line: "cpu: AMD EPYC, 2 threads; oneDNN 2.6.3".
[[nodiscard]] inline std::string to_string(const device_description& d) {
  auto text = fmt::format("{}: {}", d.backend, d.device);
  for (const auto& [library, version] : d.versions) {
    text += fmt::format("; {} {}", library, version);
  }
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// Values on which operators can be timed: as many elements of the type, as it stores them, without its shape. Finite:
// floating-point numbers of magnitude 1/2 to 1, positive if constant (a variance has a root); integers
// in [0, 4), so that they are valid row indices; bools.
[[nodiscard]] inline std::vector<std::byte> arbitrary_bytes(const tensor::tensor_type& type, std::size_t elements) {
  std::vector<double> values(elements);
  for (std::size_t i = 0; i < elements; ++i) {
    const auto bits = mix64(i);
    const auto sign = !type.constant && (bits & 1U) != 0 ? -1.0 : 1.0;
    values[i] = tensor::is_floating(type.element)
                    ? sign * (0.5 + static_cast<double>(bits >> 12U) * 0x1.0p-53)
                    : static_cast<double>(bits % (type.element == tensor::dtype::boolean ? 2 : 4));
  }
  const tensor::tensor_type list{
      type.element, tensor::layout::row_major, type.constant, {static_cast<std::int64_t>(elements)}};
  std::vector<std::byte> stored(byte_count(list));
  encode<double>(values, list, stored);
  return stored;
}

namespace detail {

// Buffers that are used in turn.
struct rotation {
  std::vector<std::size_t> places{};  // in the pool
  std::vector<std::byte*> addresses{};
  std::size_t next = 0;

  [[nodiscard]] std::byte* take() noexcept {
    auto* taken = addresses[next];
    next = next + 1 < addresses.size() ? next + 1 : 0;
    return taken;
  }
};

// A kernel with everything that a run needs: operands with values, results, workspace. There are several copies of
// operands and results, and each run takes the next ones. All are in one block of memory, as an executor's are: many
// small blocks would need more page-table entries.
template <device_backend Backend>
class loaded_kernel {
 public:
  loaded_kernel(Backend& backend, typename Backend::kernel kernel, std::span<const tensor::tensor_type> inputs,
                std::span<const tensor::tensor_type> outputs, const timing_options& options)
      : backend_{backend}, kernel_{std::move(kernel)} {
    std::size_t constants = 0;
    std::size_t activations = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      (inputs[i].constant ? constants : activations) += aligned_size(stored_size(inputs[i], i));
    }
    for (const auto& t : outputs) {
      activations += aligned_size(byte_count(t));
    }
    const auto constant_copies = copies_of(constants, options.constant_bytes);
    const auto activation_copies = copies_of(activations, options.activation_bytes);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      add(operands_, stored_size(inputs[i], i), inputs[i].constant ? constant_copies : activation_copies);
    }
    for (const auto& t : outputs) {
      add(results_, byte_count(t), activation_copies);
    }
    const auto workspace = memory_.add(static_cast<std::size_t>(kernel_.workspace()), 0);
    memory_.allocate(backend, "memory to time an operator");
    for (auto* all : {&operands_, &results_}) {
      for (auto& r : *all) {
        for (const auto place : r.places) {
          r.addresses.push_back(memory_.at(place));
        }
      }
    }
    workspace_ = memory_.at(workspace);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      for (auto* to : operands_[i].addresses) {
        load(inputs[i], i, to);
      }
    }
    in_.resize(inputs.size());
    out_.resize(outputs.size());
    backend_.wait();
  }
  void run() {
    for (std::size_t i = 0; i < in_.size(); ++i) {
      in_[i] = operands_[i].take();
    }
    for (std::size_t i = 0; i < out_.size(); ++i) {
      out_[i] = results_[i].take();
    }
    backend_.run(kernel_, std::span<const std::byte* const>{in_}, std::span<std::byte* const>{out_}, workspace_);
  }

 private:
  [[nodiscard]] std::size_t packed_size(const tensor::tensor_type& type, std::size_t i) const {
    if constexpr (packing_backend<Backend>) {
      return type.constant ? static_cast<std::size_t>(kernel_.packed_size(i)) : 0;
    }
    return 0;
  }
  [[nodiscard]] std::size_t stored_size(const tensor::tensor_type& type, std::size_t i) const {
    const auto packed = packed_size(type, i);
    return packed > 0 ? packed : byte_count(type);
  }
  // Enough copies for this many bytes in total, at most 64: more would only take time to make.
  [[nodiscard]] static std::size_t copies_of(std::size_t of_one, std::size_t in_all) {
    return of_one == 0 ? 1 : std::clamp<std::size_t>((in_all + of_one - 1) / of_one, 1, 64);
  }
  void add(std::vector<rotation>& to, std::size_t size, std::size_t copies) {
    auto& r = to.emplace_back();
    for (std::size_t c = 0; c < copies; ++c) {
      r.places.push_back(memory_.add(size, 0));
    }
  }
  void load(const tensor::tensor_type& type, std::size_t i, std::byte* to) {
    if constexpr (packing_backend<Backend>) {
      if (packed_size(type, i) > 0) {
        auto plain = backend_.allocate(std::max(byte_count(type), memory_alignment));
        fill(plain.data(), type);
        backend_.pack(kernel_, i, plain.data(), to);
        backend_.wait();
        return;
      }
    }
    fill(to, type);
  }
  // Values repeat after a while: millions of fresh ones would take longer than the measurement.
  void fill(std::byte* to, const tensor::tensor_type& type) {
    constexpr std::size_t chunk = std::size_t{1} << 16U;
    const auto elements = static_cast<std::size_t>(tensor::element_count(type.dims));
    const auto size = static_cast<std::size_t>(tensor::size_of(type.element));
    const auto values = arbitrary_bytes(type, std::min(chunk, elements));
    for (std::size_t done = 0; done < elements; done += chunk) {
      backend_.write(to + done * size,
                     std::span<const std::byte>{values}.first(std::min(chunk, elements - done) * size));
    }
    backend_.wait();
  }

  Backend& backend_;
  typename Backend::kernel kernel_;
  memory_pool<Backend> memory_;
  std::vector<rotation> operands_;
  std::vector<rotation> results_;
  std::vector<const std::byte*> in_;  // index of the run that begins
  std::vector<std::byte*> out_;
  std::byte* workspace_ = nullptr;
};

}  // namespace detail

// Times operators one by one, as they run within a graph:
// - Constants are read from memory, because a whole inference has run since they were last read. If they stayed in
//   cache, a recurrent network of one sample would look three times as fast as it is.
// - Activations are read from the cache that the cores share, because the operator that wrote them divided its work
//   among the cores in another way. If they stayed in a core's own cache, an addition of two of BERT's activations
//   would look three times as fast as it is.
// - Kernels are started one after another without waiting, as by an executor.
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
    return time_kernel(backend_->prepare(op, inputs, outputs), inputs, outputs);
  }
  // Element-wise operators as one kernel; see fusing_backend.
  [[nodiscard]] measurement time_chain(const tensor::tensor_graph& region)
    requires fusing_backend<Backend>
  {
    std::vector<tensor::tensor_type> inputs;
    std::vector<tensor::tensor_type> outputs;
    for (const auto n : node_ids(region)) {
      if (region.operands(n).empty()) {
        inputs.push_back(region.type(region.results(n)[0]));
      }
    }
    for (const auto v : region.outputs()) {
      outputs.push_back(region.type(v));
    }
    return time_kernel(backend_->prepare_chain(region), inputs, outputs);
  }
  // An existing kernel.
  [[nodiscard]] measurement time_kernel(typename Backend::kernel prepared, std::span<const tensor::tensor_type> inputs,
                                        std::span<const tensor::tensor_type> outputs) {
    detail::loaded_kernel<Backend> kernel{*backend_, std::move(prepared), inputs, outputs, options_};
    return measure(kernel);
  }
  // The device, library versions, and what else the times depend on.
  [[nodiscard]] std::string description() const {
    const auto mib = [](std::size_t n) { return fmt::format("{} MiB", n >> 20U); };
#ifdef __OPTIMIZE__
    const char* build = ", optimized";
#else
    const char* build = ", not optimized";
#endif
    return fmt::format("{}; unity {}.{}.{} by {}{}; constants from {}, activations from {}; {} to {} runs",
                       to_string(backend_->description()), UNITY_VERSION_MAJOR, UNITY_VERSION_MINOR,
                       UNITY_VERSION_PATCH, UNITY_COMPILER, build, mib(options_.constant_bytes),
                       mib(options_.activation_bytes), options_.least, options_.most);
  }

 private:
  using clock = std::chrono::steady_clock;
  [[nodiscard]] static double since(clock::time_point start) {
    return std::chrono::duration<double>(clock::now() - start).count();
  }

  // Samples until there are enough, or time is up.
  [[nodiscard]] measurement measure(detail::loaded_kernel<Backend>& kernel) {
    const auto in_a_row = runs_per_sample(kernel);
    const auto sample = sampler(kernel, in_a_row);
    std::vector<double> samples;
    const auto start = clock::now();
    const auto size = [&] { return static_cast<int>(samples.size()); };
    const auto wanted = [&] {
      const auto elapsed = since(start);
      return size() < std::min(2, options_.least) || (size() < options_.least && elapsed < options_.most_seconds) ||
             (size() < options_.most && elapsed < options_.seconds);
    };
    while (wanted()) {
      samples.push_back(sample() / in_a_row);
    }
    return summarize(std::move(samples));
  }
  // Seconds of one sample with this many runs. If the device has recordings, small kernels are replayed: launched one
  // by one they would take as long as their launches, which a recorded graph does not.
  [[nodiscard]] auto sampler(detail::loaded_kernel<Backend>& kernel, int in_a_row) {
    if constexpr (recording_backend<Backend> && clocked_backend<Backend>) {
      auto recording = backend_->record([&] {
        for (int i = 0; i < in_a_row; ++i) {
          kernel.run();
        }
      });
      return [this, recorded = std::move(recording)] {
        backend_->replay(recorded);  // keeps the device busy until the whole second recording has reached it
        const auto from = backend_->mark();
        backend_->replay(recorded);
        return backend_->seconds(from, backend_->mark());
      };
    } else {
      return [this, &kernel, in_a_row] { return run(kernel, in_a_row); };
    }
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

// Times a region as one kernel beside its operators one by one: the gain of fusion.

struct region_times {
  measurement fused{};
  std::vector<measurement> parts{};  // per node of the region; zero if it does not run: an input or an alias

  [[nodiscard]] picoseconds parts_sum() const {
    picoseconds sum{};
    for (const auto& p : parts) {
      sum += p.median;
    }
    return sum;
  }
};

// Types of the region's operands.
[[nodiscard]] inline std::vector<tensor::tensor_type> input_types(const tensor::algebra& a,
                                                                  const fusion::kernel_region& region) {
  std::vector<tensor::tensor_type> types;
  for (const auto n : node_ids(region.graph)) {
    if (region.graph.operation(n).kind == a.kind("input")) {
      types.push_back(region.graph.type(region.graph.results(n)[0]));
    }
  }
  return types;
}

// The region as one kernel, measured as by device_timer.
// Throws: unity::error as the backend does.
template <region_backend Backend>
[[nodiscard]] measurement time_region(Backend& backend, const tensor::algebra& a, const fusion::kernel_region& region,
                                      const timing_options& options = {}) {
  const auto outputs = types_of(region.graph, region.graph.outputs());
  return device_timer{backend, options}.time_kernel(backend.prepare_region(region), input_types(a, region), outputs);
}

// And each of its operators alone, without constants of the region.
template <region_backend Backend>
[[nodiscard]] region_times time_region_and_parts(Backend& backend, const tensor::algebra& a,
                                                 const fusion::kernel_region& region,
                                                 const timing_options& options = {}) {
  region_times times{time_region(backend, a, region, options), {}};
  device_timer timer{backend, options};
  const auto& g = region.graph;
  for (const auto n : node_ids(g)) {
    const auto inputs = types_of(g, g.operands(n));
    const auto outputs = types_of(g, g.results(n));
    const bool runs = !inputs.empty() && !shared_results(a, g.operation(n), inputs, outputs);
    times.parts.push_back(runs ? timer.time(g.operation(n), inputs, outputs) : measurement{});
  }
  return times;
}

// One line that says what a chain computes: values are numbered in the order of nodes, inputs first.
[[nodiscard]] std::string chain_signature(const tensor::algebra& a, const tensor::tensor_graph& region);

// The sum over all launches of an executor with the same `fuse`, each measured alone or taken from the cache.
// Interactions between launches (caches, clocks) are not included. The cache must belong to the timer, or to a timer
// that queries it.
// Throws: unity::error if an operator cannot run.
template <device_backend Backend, class Timer>
[[nodiscard]] picoseconds predicted_time(const tensor::algebra& a, const tensor::tensor_graph& g,
                                         device_timer<Backend>& timer, tensor::timing_cache<Timer>& cache,
                                         bool fuse = true) {
  const detail::run_list list{a, g, fusing_backend<Backend> && fuse, true};
  picoseconds sum;
  for (const auto& item : list.running()) {
    if constexpr (fusing_backend<Backend>) {
      if (item.chain != nullptr) {
        const auto& region = item.chain->region;
        sum += cache.time(chain_signature(a, region), [&] { return timer.time_chain(region); }).median;
        continue;
      }
    }
    sum += cache.time(g.operation(item.node), types_of(g, item.operands), types_of(g, item.results)).median;
  }
  return sum;
}

}  // namespace unity::backend

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_DEVICE_TIMER)

namespace unity::backend {

UNITY_INLINE std::string chain_signature(const tensor::algebra& a, const tensor::tensor_graph& region) {
  std::string text = "chain";
  for (const auto n : node_ids(region)) {
    std::vector<tensor::tensor_type> inputs;
    std::string operands;
    for (const auto v : region.operands(n)) {
      inputs.push_back(region.type(v));
      operands += fmt::format(" %{}", v.index());
    }
    const auto results = region.results(n);
    const std::vector<tensor::tensor_type> outputs{region.type(results[0])};
    const auto signature =
        inputs.empty() ? tensor::signature_types(outputs)
                       : fmt::format("{}{}", tensor::signature_text(a, region.operation(n), inputs, outputs), operands);
    text += fmt::format("{}{} = {}", n.index() == 0 ? " %" : "; %", results[0].index(), signature);
  }
  return text;
}

}  // namespace unity::backend

#endif
