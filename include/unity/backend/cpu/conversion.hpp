// Converts operands and results whose types or layouts a routine does not support, before and after it.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include <unity/backend/cpu/movement.hpp>
#include <unity/backend/cpu/routine.hpp>
#include <unity/backend/detail/view_copies.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::cpu {

class relayout_routine final : public routine {
 public:
  relayout_routine(const tensor::tensor_type& from, tensor::layout to)
      : copy_{backend::detail::relayout_box(from.dims, to, from.order)}, element_{tensor::size_of(from.element)} {}
  void run(const call& c) const override { copy_.run(c.outputs[0], c.inputs[0], element_, c.threads); }

 private:
  strided_copy copy_;
  std::int64_t element_;
};

// Converts to the nearest numbers of the target type.
[[nodiscard]] std::unique_ptr<routine> conversion(const tensor::tensor_type& from, const tensor::tensor_type& to,
                                                  int threads);

// A routine between conversions. Operands that it reads without conversion keep its packed forms.
class converting_routine final : public routine {
 public:
  // inner: a routine for the plain types.
  converting_routine(std::unique_ptr<routine> inner, types inputs, types plain_inputs, types outputs,
                     types plain_outputs, int threads);

  [[nodiscard]] std::size_t workspace() const override { return size_ + most_; }

  void run(const call& c) const override;

  [[nodiscard]] std::size_t packed_size(std::size_t i) const override {
    return ends_in_[i].change ? 0 : inner_->packed_size(i);
  }
  void pack(std::size_t i, const std::byte* from, std::byte* to) const override { inner_->pack(i, from, to); }

 private:
  struct end {
    std::unique_ptr<routine> change{};  // null: no conversion
    std::size_t offset = 0;             // within the workspace
  };

  void prepare(std::vector<end>& ends, const tensor::tensor_type& outside, const tensor::tensor_type& inside,
               const tensor::tensor_type& from, const tensor::tensor_type& to, int threads);

  std::unique_ptr<routine> inner_;
  std::vector<end> ends_in_;
  std::vector<end> ends_out_;
  std::size_t size_ = 0;
  std::size_t most_ = 0;
  std::size_t inner_at_ = 0;
  mutable std::vector<const std::byte*> in_;
  mutable std::vector<std::byte*> out_;
};

}  // namespace unity::backend::cpu

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_CPU_CONVERSION)

#include <unity/backend/cpu/elementwise.hpp>
#include <unity/backend/detail/aligned_size.hpp>
#include <unity/backend/elementwise/conversion_program.hpp>
#include <unity/tensor/element.hpp>

namespace unity::backend::cpu {

UNITY_INLINE std::unique_ptr<routine> conversion(const tensor::tensor_type& from, const tensor::tensor_type& to,
                                                 int threads) {
  if (from.element == to.element) {
    return std::make_unique<relayout_routine>(from, to.order);
  }
  return make_tiles(conversion_program(from, to),
                    tensor::exceeds_float32(from.element) || tensor::exceeds_float32(to.element), threads);
}

UNITY_INLINE converting_routine::converting_routine(std::unique_ptr<routine> inner, types inputs, types plain_inputs,
                                                    types outputs, types plain_outputs, int threads)
    : inner_{std::move(inner)}, in_(inputs.size()), out_(outputs.size()) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    prepare(ends_in_, inputs[i], plain_inputs[i], inputs[i], plain_inputs[i], threads);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    prepare(ends_out_, outputs[i], plain_outputs[i], plain_outputs[i], outputs[i], threads);
  }
  inner_at_ = size_;
  most_ = std::max(most_, inner_->workspace());
}

UNITY_INLINE void converting_routine::run(const call& c) const {
  auto* work = c.work + inner_at_;
  for (std::size_t i = 0; i < in_.size(); ++i) {
    in_[i] = c.inputs[i];
    if (ends_in_[i].change) {
      auto* to = c.work + ends_in_[i].offset;
      ends_in_[i].change->run({{&in_[i], 1}, {&to, 1}, work, c.threads});
      in_[i] = to;
    }
  }
  for (std::size_t i = 0; i < out_.size(); ++i) {
    out_[i] = ends_out_[i].change ? c.work + ends_out_[i].offset : c.outputs[i];
  }
  inner_->run({in_, out_, work, c.threads});
  for (std::size_t i = 0; i < out_.size(); ++i) {
    if (ends_out_[i].change) {
      const std::byte* from = out_[i];
      auto* to = c.outputs[i];
      ends_out_[i].change->run({{&from, 1}, {&to, 1}, work, c.threads});
    }
  }
}

UNITY_INLINE void converting_routine::prepare(std::vector<end>& ends, const tensor::tensor_type& outside,
                                              const tensor::tensor_type& inside, const tensor::tensor_type& from,
                                              const tensor::tensor_type& to, int threads) {
  end e;
  if (outside.element != inside.element || outside.order != inside.order) {
    e.change = conversion(from, to, threads);
    e.offset = size_;
    size_ += backend::detail::aligned_size(byte_count(inside));
    most_ = std::max(most_, e.change->workspace());
  }
  ends.push_back(std::move(e));
}

}  // namespace unity::backend::cpu

#endif
