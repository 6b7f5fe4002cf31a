// The backend that is slow and right: every kernel is the one evaluator of tensor/evaluate.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <unity/backend/device_backend.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/dense.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend {

// Bytes on the host, at a multiple of memory_alignment.
class host_memory {
 public:
  host_memory() = default;
  // Throws: unity::error where there is not as much memory.
  explicit host_memory(std::size_t size) : size_{size} {
    void* p = size == 0 ? nullptr : ::operator new(size, std::align_val_t{memory_alignment}, std::nothrow);
    if (p == nullptr && size > 0) {
      throw error{"memory of the host", "no " + std::to_string(size) + " bytes", "as much free memory"};
    }
    data_.reset(static_cast<std::byte*>(p));
  }

  [[nodiscard]] std::byte* data() const noexcept { return data_.get(); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  struct release {
    void operator()(std::byte* p) const noexcept { ::operator delete(p, std::align_val_t{memory_alignment}); }
  };
  std::unique_ptr<std::byte, release> data_;
  std::size_t size_ = 0;
};

// Computes in float, in double where an operand or result is float64, int64 or int32, and rounds results to their
// types. Unlike other backends it takes memory of the host while a kernel runs, as the evaluator does.
// Models: device_backend, fusing_backend. The algebra must outlive the backend and its kernels.
class reference_backend {
 public:
  using memory = host_memory;

  class kernel {
   public:
    [[nodiscard]] std::size_t workspace() const noexcept { return 0; }

   private:
    friend class reference_backend;
    // An operator on the inputs, or a region: a graph that they feed.
    std::variant<tensor::operation, tensor::tensor_graph> what_{};
    std::vector<tensor::tensor_type> inputs_{};
    std::vector<tensor::tensor_type> outputs_{};
    bool wide_ = false;
  };

  explicit reference_backend(const tensor::algebra& operators) noexcept : algebra_{&operators} {}

  [[nodiscard]] device_description description() const { return {"reference", "host, 1 thread", {}}; }
  [[nodiscard]] memory allocate(std::size_t bytes) { return memory{bytes}; }

  // Throws: unity::error for an operator that has no known meaning or does not take the inputs.
  [[nodiscard]] kernel prepare(const tensor::operation& op, std::span<const tensor::tensor_type> inputs,
                               std::span<const tensor::tensor_type> outputs) {
    const auto inferred = algebra_->infer(op, inputs);
    bool agree = inferred && inferred->size() == outputs.size();
    for (std::size_t i = 0; agree && i < outputs.size(); ++i) {
      agree = (*inferred)[i].dims == outputs[i].dims && (*inferred)[i].element == outputs[i].element &&
              (*inferred)[i].order == outputs[i].order;
    }
    if (!agree || !has_meaning(op)) {
      throw no_kernel(op, inputs, agree);
    }
    kernel k;
    k.what_ = op;
    k.inputs_.assign(inputs.begin(), inputs.end());
    k.outputs_.assign(outputs.begin(), outputs.end());
    k.wide_ = needs_double(inputs) || needs_double(outputs);
    return k;
  }

  [[nodiscard]] kernel prepare_chain(const tensor::tensor_graph& region) {
    kernel k;
    for (std::size_t v = 0; v < region.value_count(); ++v) {
      const auto& t = region.type(value_id{v});
      k.wide_ = k.wide_ || needs_double({&t, 1});
      if (region.operands(region.producer(value_id{v})).empty()) {
        k.inputs_.push_back(t);
      }
    }
    for (const auto v : region.outputs()) {
      k.outputs_.push_back(region.type(v));
    }
    k.what_ = region;
    return k;
  }

  void run(const kernel& k, std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs, std::byte*) {
    UNITY_EXPECTS(inputs.size() == k.inputs_.size() && outputs.size() == k.outputs_.size(),
                  "an address per operand and result of the kernel");
    k.wide_ ? run_in<double>(k, inputs, outputs) : run_in<float>(k, inputs, outputs);
  }
  void write(std::byte* to, std::span<const std::byte> from) { std::copy(from.begin(), from.end(), to); }
  void read(std::span<std::byte> to, const std::byte* from) { std::copy_n(from, to.size(), to.begin()); }
  void wait() noexcept {}

 private:
  [[nodiscard]] static bool needs_double(std::span<const tensor::tensor_type> types) {
    return std::any_of(types.begin(), types.end(), [](const auto& t) {
      return t.element == tensor::dtype::float64 || t.element == tensor::dtype::int64 || t.element == tensor::dtype::int32;
    });
  }
  [[nodiscard]] bool has_meaning(const tensor::operation& op) const {
    const auto& d = algebra_->definition_of(op.kind);
    return d.source == tensor::source_kind::none && !std::holds_alternative<tensor::opaque>(d.body);
  }
  [[nodiscard]] error no_kernel(const tensor::operation& op, std::span<const tensor::tensor_type> inputs,
                                bool types_agree) const {
    const bool known = op.kind.index() < algebra_->kind_count();
    std::string found = "operands";
    for (const auto& t : inputs) {
      found += " " + tensor::to_string(t);
    }
    const auto refusal = algebra_->why_not(op, inputs);
    return {"reference kernel of " + (known ? algebra_->signature(op.kind).name : "an operator of no kind"),
            inputs.empty() ? "no operands" : found,
            types_agree            ? "an operator with a known meaning"
            : refusal.empty() ? "results of the types that its operands give"
                              : refusal.substr(std::string{"expected "}.size())};
  }

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
