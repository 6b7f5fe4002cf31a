// Softmax and the normalizations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <unity/backend/cpu/onednn.hpp>
#include <unity/backend/cpu/routine.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::cpu {

// All inputs: float32, row-major.

[[nodiscard]] std::unique_ptr<routine> softmax_routine(const onednn& library, const tensor::attribute_reader& a,
                                                       types inputs);

[[nodiscard]] std::unique_ptr<routine> layer_norm_routine(const onednn& library, const tensor::attribute_reader& a,
                                                          types inputs);

// Any rank, which oneDNN does not support: multiplies and adds one number per channel.
class batch_norm_routine final : public routine {
 public:
  batch_norm_routine(const tensor::attribute_reader& a, types inputs)
      : epsilon_{a.real("epsilon")}, batch_{inputs[0].dims[0]}, channels_{inputs[0].dims[1]} {
    points_ = tensor::element_count(std::span<const std::int64_t>{inputs[0].dims}.subspan(2));
  }

  void run(const call& c) const override;

 private:
  double epsilon_;
  std::int64_t batch_;
  std::int64_t channels_;
  std::int64_t points_ = 1;
};

}  // namespace unity::backend::cpu

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_CPU_NORMALIZATION)

#include <cmath>

#include <dnnl.hpp>

#include <unity/backend/cpu/instruction_set.hpp>
#include <unity/backend/cpu/threads.hpp>

namespace unity::backend::cpu {

UNITY_INLINE std::unique_ptr<routine> softmax_routine(const onednn& library, const tensor::attribute_reader& a,
                                                      types inputs) {
  const auto axis = static_cast<std::size_t>(a.integer("axis"));
  const std::span<const std::int64_t> dims{inputs[0].dims};
  const auto outer = tensor::element_count(dims.first(axis));
  const auto inner = tensor::element_count(dims.subspan(axis + 1));
  const auto shape = inner == 1 ? plain_desc({outer, dims[axis]}) : plain_desc({outer, dims[axis], inner});
  const dnnl::softmax_forward::desc d{dnnl::prop_kind::forward_inference, shape, 1};
  const dnnl::softmax_forward::primitive_desc pd{d, onednn_routine::user_scratch(), library.engine};
  auto r = std::make_unique<onednn_routine>(library);
  r->add(dnnl::softmax_forward{pd}, pd.scratchpad_desc(),
         {{DNNL_ARG_SRC, shape, place::input(0)}, {DNNL_ARG_DST, shape, place::output(0)}});
  return r;
}

UNITY_INLINE std::unique_ptr<routine> layer_norm_routine(const onednn& library, const tensor::attribute_reader& a,
                                                         types inputs) {
  const auto axis = static_cast<std::size_t>(a.integer("axis"));
  const std::span<const std::int64_t> dims{inputs[0].dims};
  const auto normalized = tensor::element_count(dims.subspan(axis));
  const auto shape = plain_desc({tensor::element_count(dims.first(axis)), normalized});
  const auto scale = plain_desc({normalized});
  const dnnl::layer_normalization_forward::desc d{
      dnnl::prop_kind::forward_inference, shape, static_cast<float>(a.real("epsilon")),
      dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift};
  const dnnl::layer_normalization_forward::primitive_desc pd{d, onednn_routine::user_scratch(), library.engine};
  auto r = std::make_unique<onednn_routine>(library);
  r->add(dnnl::layer_normalization_forward{pd}, pd.scratchpad_desc(),
         {{DNNL_ARG_SRC, shape, place::input(0)},
          {DNNL_ARG_SCALE, scale, place::input(1)},
          {DNNL_ARG_SHIFT, scale, place::input(2)},
          {DNNL_ARG_DST, shape, place::output(0)}});
  return r;
}

UNITY_INLINE void batch_norm_routine::run(const call& c) const {
  const auto operand = [&](std::size_t i) { return reinterpret_cast<const float*>(c.inputs[i]); };
  const auto* x = operand(0);
  auto* to = reinterpret_cast<float*>(c.outputs[0]);
  constexpr std::int64_t least_elements = 16384;
  parallel_for(
      c.threads, batch_ * channels_, least_elements / points_ + 1, [&](int, std::int64_t begin, std::int64_t end) {
        with_widest_vectors([&] {
          for (auto i = begin; i < end; ++i) {
            const auto channel = i % channels_;
            const auto factor = static_cast<float>(operand(1)[channel] / std::sqrt(operand(4)[channel] + epsilon_));
            const auto mean = operand(3)[channel];
            const auto shift = operand(2)[channel];
            const float* from = x + i * points_;
            float* __restrict out = to + i * points_;
            for (std::int64_t j = 0; j < points_; ++j) {
              out[j] = (from[j] - mean) * factor + shift;
            }
          }
        });
      });
}

}  // namespace unity::backend::cpu

#endif
