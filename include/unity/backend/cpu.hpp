// The host's processor as a device: oneDNN for the operators that it has, own loops for the others.
#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include <unity/backend/cpu/elementwise.hpp>
#include <unity/backend/cpu/onednn.hpp>
#include <unity/backend/cpu/routine.hpp>
#include <unity/backend/device_backend.hpp>
#include <unity/backend/host_memory.hpp>
#include <unity/backend/layouts.hpp>
#include <unity/core/config.hpp>
#include <unity/fusion/kernel_region.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend {

struct cpu_options {
  int threads = 0;  // 0: all of the machine
  // bytes of a region's values that are processed at a time: the size of a core's own cache
  std::size_t slice_bytes = 1 << 20;
};

// Models: device_backend, packing_backend, fusing_backend, region_backend. The algebra must outlive the backend and its
// kernels; operators of a standard name mean the standard operators.
//
// Computes in float32; element-wise operators and reductions in double if an operand or result is float64, int64 or
// int32. Narrow floats are widened, and results rounded. run() returns when the kernel has ended. Kernels may be moved,
// but two threads must not run one kernel at once. A run itself allocates nothing; each oneDNN primitive in it
// allocates a few small objects.
// Determinism: the same bytes in every run and for any number of threads, with two exceptions: matrix products of
// column-major operands with long sums (including those of lstm_cell's weights), and convolutions of small images or of
// few channels per group. oneDNN divides these sums according to the number of its threads, so the last bits may depend
// on their number.
class cpu_backend {
 public:
  using memory = host_memory;

  class kernel {
   public:
    [[nodiscard]] std::size_t workspace() const { return routine_->workspace(); }
    [[nodiscard]] std::size_t packed_size(std::size_t i) const { return routine_->packed_size(i); }

   private:
    friend class cpu_backend;
    explicit kernel(std::unique_ptr<cpu::routine> r) : routine_{std::move(r)} {}
    std::unique_ptr<cpu::routine> routine_;
  };

  explicit cpu_backend(const tensor::algebra& operators, const cpu_options& options = {})
      : algebra_{&operators},
        threads_{options.threads > 0 ? options.threads
                                     : std::max(1, static_cast<int>(std::thread::hardware_concurrency()))},
        slice_bytes_{options.slice_bytes} {
    UNITY_EXPECTS(options.threads >= 0, "a number of threads, or 0");
  }

  [[nodiscard]] int threads() const noexcept { return threads_; }
  [[nodiscard]] device_description description() const;
  [[nodiscard]] memory allocate(std::size_t bytes) { return memory{bytes}; }

  // Throws: unity::error for an operator that has no known meaning, does not accept the inputs or has no kernel.
  [[nodiscard]] kernel prepare(const tensor::operation& op, std::span<const tensor::tensor_type> inputs,
                               std::span<const tensor::tensor_type> outputs) {
    cpu::use_threads(threads_);
    return kernel{make(op, inputs, outputs)};
  }
  // Throws: unity::error that names an operator of the region that is not element-wise.
  [[nodiscard]] kernel prepare_chain(const tensor::tensor_graph& region) {
    return kernel{cpu::chain_routine(*algebra_, region, threads_)};
  }
  // Throws: unity::error that names an operator that mixes rows, has no kernel, or reads a sum over rows.
  [[nodiscard]] kernel prepare_region(const fusion::kernel_region& region);

  void run(const kernel& k, std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
           std::byte* work) {
    cpu::use_threads(threads_);
    attempt([&] { k.routine_->run({inputs, outputs, work, threads_}); });
  }
  void pack(const kernel& k, std::size_t i, const std::byte* from, std::byte* to) {
    cpu::use_threads(threads_);
    attempt([&] { k.routine_->pack(i, from, to); });
  }
  void write(std::byte* to, std::span<const std::byte> from) { std::copy(from.begin(), from.end(), to); }
  void read(std::span<std::byte> to, const std::byte* from) { std::copy_n(from, to.size(), to.begin()); }
  // Throws: unity::error if a run failed since the last wait.
  void wait();

 private:
  using routine_ptr = std::unique_ptr<cpu::routine>;

  // The first failure, for wait().
  template <class F>
  void attempt(const F& f) {
    try {
      f();
    } catch (const std::exception& e) {
      failure_ = failure_ ? failure_ : std::optional<std::string>{e.what()};
    }
  }

  [[nodiscard]] routine_ptr make(const tensor::operation& op, cpu::types inputs, cpu::types outputs) const;
  [[nodiscard]] routine_ptr make_primitive(const tensor::operation& op, cpu::types inputs, cpu::types outputs) const;
  [[nodiscard]] routine_ptr make_composite(const tensor::operation& op, cpu::types inputs, cpu::types outputs) const;
  [[nodiscard]] routine_ptr make_body(const tensor::operation& op, cpu::types inputs, cpu::types outputs) const;
  [[nodiscard]] routine_ptr make_plain(const tensor::operation& op, cpu::types inputs, cpu::types outputs) const;
  [[nodiscard]] routine_ptr make_adjoint(const tensor::operation& op, cpu::types inputs, cpu::types outputs) const;
  struct conversions {
    bool elements = true;  // of reals, and of integers without reals beside them, to float32
    bool layouts = true;   // to row-major order
  };
  [[nodiscard]] routine_ptr convert(const tensor::operation& op, cpu::types inputs, cpu::types outputs,
                                    conversions to_plain) const;

  const tensor::algebra* algebra_;
  int threads_;
  std::size_t slice_bytes_;
  cpu::onednn library_;
  std::optional<std::string> failure_;
};

}  // namespace unity::backend

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_CPU)

#include <cstring>
#include <fstream>
#include <string_view>
#include <variant>
#include <vector>

#include <fmt/core.h>
#include <dnnl.hpp>

#include <unity/backend/cpu/composite.hpp>
#include <unity/backend/cpu/convolution.hpp>
#include <unity/backend/cpu/embedding.hpp>
#include <unity/backend/cpu/matmul.hpp>
#include <unity/backend/cpu/movement.hpp>
#include <unity/backend/cpu/normalization.hpp>
#include <unity/backend/cpu/pooling.hpp>
#include <unity/backend/cpu/reduction.hpp>
#include <unity/backend/cpu/region.hpp>
#include <unity/backend/cpu/segment_gradient.hpp>
#include <unity/core/error.hpp>

namespace unity::backend {

UNITY_INLINE void cpu_backend::wait() {
  if (failure_) {
    const auto why = std::move(*failure_);
    failure_.reset();
    throw error{"cpu backend", why, "a kernel that ends"};
  }
}

UNITY_INLINE cpu_backend::kernel cpu_backend::prepare_region(const fusion::kernel_region& region) {
  cpu::use_threads(threads_);
  const auto maker = [this](int threads) -> cpu::composite_routine::prepare_node {
    auto own = std::make_shared<cpu_backend>(*algebra_, cpu_options{threads, slice_bytes_});
    return [own](const tensor::operation& op, cpu::types in, cpu::types out) { return own->make(op, in, out); };
  };
  return kernel{cpu::make_region(*algebra_, region, {threads_, slice_bytes_}, maker)};
}

UNITY_INLINE device_description cpu_backend::description() const {
  std::string model = "unknown processor";
  std::ifstream file{"/proc/cpuinfo"};
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) {
      model = line.substr(colon + 2);
      break;
    }
  }
  const auto* v = dnnl::version();
  const auto version = fmt::format("{}.{}.{}", v->major, v->minor, v->patch);
  return {
      "cpu", fmt::format("{}, {}{}", model, threads_, threads_ == 1 ? " thread" : " threads"), {{"oneDNN", version}}};
}

UNITY_INLINE auto cpu_backend::make(const tensor::operation& op, cpu::types inputs, cpu::types outputs) const
    -> cpu_backend::routine_ptr {
  detail::check_operator("cpu", *algebra_, op, inputs, outputs);
  try {
    if (const auto map = algebra_->index_map(op, inputs)) {
      return std::make_unique<cpu::view_routine>(*map, inputs, outputs);
    }
    auto r = std::holds_alternative<tensor::primitive>(algebra_->definition_of(op.kind).body)
                 ? make_primitive(op, inputs, outputs)
                 : make_composite(op, inputs, outputs);
    if (r != nullptr) {
      return r;
    }
  } catch (const dnnl::error& e) {
    throw detail::no_kernel("cpu", *algebra_, op, inputs, fmt::format("what oneDNN has: {}", e.what()));
  }
  throw detail::no_kernel("cpu", *algebra_, op, inputs, "an operator that this backend has a kernel for");
}

UNITY_INLINE auto cpu_backend::make_primitive(const tensor::operation& op, cpu::types inputs, cpu::types outputs) const
    -> cpu_backend::routine_ptr {
  if (auto r = cpu::elementwise_routine(*algebra_, op, inputs, outputs, threads_)) {
    return r;
  }
  if (auto r = cpu::reduction_along_axes(*algebra_, op, inputs, outputs)) {
    return r;
  }
  const std::string_view name = algebra_->signature(op.kind).name;
  if (auto r = cpu::selection(name, inputs, outputs)) {
    return r;  // vectors have no layout
  }
  if (name.starts_with("embedding") || name == "scatter_sum") {
    return convert(op, inputs, outputs, {.elements = false});
  }
  // Matrix products take any layout.
  return convert(op, inputs, outputs, {.layouts = name != "matmul" && name != "linear"});
}

UNITY_INLINE auto cpu_backend::make_composite(const tensor::operation& op, cpu::types inputs, cpu::types outputs) const
    -> cpu_backend::routine_ptr {
  const std::string_view name = algebra_->signature(op.kind).name;
  if (auto r = cpu::selection(name, inputs, outputs)) {
    return r;
  }
  if (name == "softmax" || name.starts_with("layer_norm") || name.starts_with("batch_norm") ||
      cpu::pool_adjoint_of(name)) {
    return convert(op, inputs, outputs, {});
  }
  const bool narrow = std::any_of(inputs.begin(), inputs.end(), [](const auto& t) {
    return t.element == tensor::dtype::float16 || t.element == tensor::dtype::bfloat16;
  });
  if (name.starts_with("segment_")) {
    return convert(op, inputs, outputs, {.elements = narrow && name != "segment_sum" && name != "segment_mean"});
  }
  // Intermediate results are not rounded to 16 bits.
  return narrow ? convert(op, inputs, outputs, {.layouts = false}) : make_body(op, inputs, outputs);
}

UNITY_INLINE auto cpu_backend::make_body(const tensor::operation& op, cpu::types inputs, cpu::types outputs) const
    -> cpu_backend::routine_ptr {
  std::vector<tensor::tensor_type> variable{inputs.begin(), inputs.end()};
  for (auto& t : variable) {
    t.constant = false;
  }
  const auto body = algebra_->body(op, variable);
  if (!body) {
    return nullptr;
  }
  const auto prepare = [this](const tensor::operation& o, cpu::types in, cpu::types out) { return make(o, in, out); };
  const auto turned = with_turned_operands(*algebra_, with_joined_transposes(*algebra_, *body));
  return std::make_unique<cpu::composite_routine>(*algebra_, turned, inputs, outputs, threads_, prepare);
}

// The operator on float32 elements in row-major order, with conversions around it where needed. Integers beside reals
// are indices, and stay.
UNITY_INLINE auto cpu_backend::convert(const tensor::operation& op, cpu::types inputs, cpu::types outputs,
                                       conversions to_plain) const -> cpu_backend::routine_ptr {
  bool same = true;
  const bool has_reals =
      std::any_of(inputs.begin(), inputs.end(), [](const auto& t) { return tensor::is_floating(t.element); });
  const auto plain = [&](cpu::types given) {
    std::vector<tensor::tensor_type> all{given.begin(), given.end()};
    for (auto& t : all) {
      const bool changes = to_plain.elements && (tensor::is_floating(t.element) || !has_reals);
      const auto element = changes ? tensor::dtype::float32 : t.element;
      const auto order = to_plain.layouts && !is_row_major(t) ? tensor::layout::row_major : t.order;
      if (element != t.element || order != t.order) {
        t = {element, order, false, t.dims};
        same = false;
      }
    }
    return all;
  };
  const auto in = plain(inputs);
  const auto out = plain(outputs);
  auto inner_op = op;
  inner_op.order = to_plain.layouts ? tensor::layout::row_major : op.order;
  auto inner = make_plain(inner_op, in, out);
  if (same || inner == nullptr) {
    return inner;
  }
  return std::make_unique<cpu::converting_routine>(std::move(inner), inputs, in, outputs, out, threads_);
}

UNITY_INLINE auto cpu_backend::make_plain(const tensor::operation& op, cpu::types inputs, cpu::types outputs) const
    -> cpu_backend::routine_ptr {
  const std::string_view name = algebra_->signature(op.kind).name;
  const auto a = algebra_->read(op);
  if (name == "matmul" || name == "linear") {
    return cpu::matmul_routine(library_, inputs, outputs, a.choice<tensor::operators::activation>("activation"),
                               name == "linear");
  }
  if (name == "conv2d") {
    return cpu::convolution_routine(library_, a, inputs, outputs);
  }
  if (name == "max_pool" || name == "average_pool") {
    return cpu::pooling_routine(library_, a, name == "average_pool", inputs, outputs);
  }
  if (name == "softmax") {
    return cpu::softmax_routine(library_, a, inputs);
  }
  if (name == "layer_norm") {
    return cpu::layer_norm_routine(library_, a, inputs);
  }
  if (name == "batch_norm") {
    return std::make_unique<cpu::batch_norm_routine>(a, inputs);
  }
  if (name == "embedding") {
    return std::make_unique<cpu::embedding_routine>(inputs);
  }
  if (name == "embedding_bag") {
    return std::make_unique<cpu::embedding_bag_routine>(inputs);
  }
  if (auto r = cpu::segment_kernel(name, inputs)) {
    return r;
  }
  if (auto r = make_adjoint(op, inputs, outputs)) {
    return r;
  }
  return std::holds_alternative<tensor::composite>(algebra_->definition_of(op.kind).body)
             ? make_body(op, inputs, outputs)
             : cpu::reduction_along_axes(*algebra_, op, inputs, outputs);
}

// Nothing if the operator is not an adjoint with a kernel of its own.
UNITY_INLINE auto cpu_backend::make_adjoint(const tensor::operation& op, cpu::types inputs, cpu::types outputs) const
    -> cpu_backend::routine_ptr {
  const std::string_view name = algebra_->signature(op.kind).name;
  const auto a = algebra_->read(op);
  if (name == "conv2d_input_gradient" || name == "conv2d_transpose") {
    return cpu::convolution_input_gradient_routine(library_, a, inputs, outputs);
  }
  if (name == "conv2d_weight_gradient") {
    return std::make_unique<cpu::convolution_weight_gradient_routine>(library_, a, inputs, outputs, threads_);
  }
  if (name == "embedding_gradient" || name == "embedding_bag_gradient" || name == "scatter_sum") {
    return std::make_unique<cpu::embedding_gradient_routine>(inputs, outputs, name == "embedding_bag_gradient");
  }
  if (name == "layer_norm_gradient") {
    return std::make_unique<cpu::layer_norm_gradient_routine>(a, inputs);
  }
  if (name == "batch_norm_gradient") {
    return std::make_unique<cpu::batch_norm_gradient_routine>(a, inputs);
  }
  if (const auto what = cpu::pool_adjoint_of(name)) {
    return cpu::pool_gradient(*what, a, inputs, outputs, threads_);
  }
  return nullptr;
}

}  // namespace unity::backend

#endif
