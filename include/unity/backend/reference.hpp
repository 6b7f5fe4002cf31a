// The slow and exact backend: every kernel is the evaluator of tensor/evaluate.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include <unity/backend/device_backend.hpp>
#include <unity/backend/host_memory.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend {

// Computes in float, or in double if an operand or result is float64, int64 or int32, and rounds results to their
// types. Violates one law of device_backend: run allocates, because the evaluator keeps every value on the heap. Models
// device_backend, fusing_backend. The algebra must outlive the backend and its kernels.
class reference_backend {
 public:
  using memory = host_memory;

  class kernel {
   public:
    [[nodiscard]] std::size_t workspace() const noexcept { return 0; }

   private:
    friend class reference_backend;
    // An operator, or a region: a graph with the kernel's operands as inputs.
    std::variant<tensor::operation, tensor::tensor_graph> what_{};
    std::vector<tensor::tensor_type> inputs_{};
    std::vector<tensor::tensor_type> outputs_{};
    bool wide_ = false;
  };

  explicit reference_backend(const tensor::algebra& operators) noexcept : algebra_{&operators} {}

  [[nodiscard]] device_description description() const { return {"reference", "host, 1 thread", {}}; }
  [[nodiscard]] memory allocate(std::size_t bytes) { return memory{bytes}; }

  // Throws: unity::error for an operator that has no known meaning or does not accept the inputs.
  [[nodiscard]] kernel prepare(const tensor::operation& op, std::span<const tensor::tensor_type> inputs,
                               std::span<const tensor::tensor_type> outputs);

  [[nodiscard]] kernel prepare_chain(const tensor::tensor_graph& region);

  void run(const kernel& k, std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs, std::byte*);
  void write(std::byte* to, std::span<const std::byte> from) { std::copy(from.begin(), from.end(), to); }
  void read(std::span<std::byte> to, const std::byte* from) { std::copy_n(from, to.size(), to.begin()); }
  void wait() noexcept {}

 private:
  template <class Real>
  void run_in(const kernel& k, std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs) const {
    std::vector<tensor::dense<Real>> operands;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      operands.push_back(decode<Real>(inputs[i], k.inputs_[i]));
    }
    const auto results = evaluate<Real>(k, operands);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      encode<Real>(results[i].data, k.outputs_[i], {outputs[i], byte_count(k.outputs_[i])});
    }
  }

  template <class Real>
  [[nodiscard]] std::vector<tensor::dense<Real>> evaluate(const kernel& k,
                                                          std::span<const tensor::dense<Real>> operands) const {
    if (const auto* op = std::get_if<tensor::operation>(&k.what_)) {
      return tensor::evaluate<Real>(*algebra_, *op, operands, k.inputs_);
    }
    std::size_t next = 0;
    const auto given = [&](const tensor::operation&, const tensor::tensor_type&) {
      return std::optional{operands[next++]};
    };
    return tensor::evaluate<Real>(*algebra_, std::get<tensor::tensor_graph>(k.what_), given);
  }

  const tensor::algebra* algebra_;
};

}  // namespace unity::backend

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_REFERENCE)

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/tensor/element.hpp>

namespace unity::backend {

UNITY_INLINE auto reference_backend::prepare(const tensor::operation& op, std::span<const tensor::tensor_type> inputs,
                                             std::span<const tensor::tensor_type> outputs) -> kernel {
  detail::check_operator("reference", *algebra_, op, inputs, outputs);
  kernel k;
  k.what_ = op;
  k.inputs_.assign(inputs.begin(), inputs.end());
  k.outputs_.assign(outputs.begin(), outputs.end());
  k.wide_ = tensor::exceeds_float32(inputs) || tensor::exceeds_float32(outputs);
  return k;
}

UNITY_INLINE auto reference_backend::prepare_chain(const tensor::tensor_graph& region) -> kernel {
  kernel k;
  for (const auto v : value_ids(region)) {
    const auto& t = region.type(v);
    k.wide_ = k.wide_ || tensor::exceeds_float32(t.element);
    if (region.operands(region.producer(v)).empty()) {
      k.inputs_.push_back(t);
    }
  }
  for (const auto v : region.outputs()) {
    k.outputs_.push_back(region.type(v));
  }
  k.what_ = region;
  return k;
}

UNITY_INLINE void reference_backend::run(const kernel& k, std::span<const std::byte* const> inputs,
                                         std::span<std::byte* const> outputs, std::byte*) {
  UNITY_EXPECTS(inputs.size() == k.inputs_.size() && outputs.size() == k.outputs_.size(),
                "an address per operand and result of the kernel");
  k.wide_ ? run_in<double>(k, inputs, outputs) : run_in<float>(k, inputs, outputs);
}

}  // namespace unity::backend

#endif
