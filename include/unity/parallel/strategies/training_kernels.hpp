// What mixed-precision training moves through memory beside the operators of a graph and their adjoints, by the kernels
// of Megatron-LM without fused accumulation of gradients.
// Source: Micikevicius et al., Mixed precision training, ICLR 2018; Korthikanti et al., Reducing activation
// recomputation in large transformer models, MLSys 2023 (masks of one byte); Megatron-LM's megatron/optimizer.
#pragma once

#include <algorithm>
#include <cstdint>

#include <unity/core/units.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/cost.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

// The bytes of an element of a gradient that is summed over micro-batches and devices: as in float32, at least.
[[nodiscard]] constexpr std::int64_t gradient_bytes(tensor::dtype element) noexcept {
  return std::max<std::int64_t>(4, static_cast<std::int64_t>(tensor::size_of(element)));
}

// The bytes of an element of a dropout's mask.
inline constexpr std::int64_t mask_bytes = 1;

// The bytes that attention as one operator keeps for each row of scores: the logarithm of the sum of exponentials.
// Source: Dao et al., FlashAttention, NeurIPS 2022, section 3.1.
inline constexpr std::int64_t log_sum_bytes = 4;

// A dropout, forward: reads the operand, writes the result and the mask; backward: reads cotangent and mask, writes a
// cotangent.
[[nodiscard]] constexpr std::int64_t dropout_bytes(std::int64_t elements, tensor::dtype element) noexcept {
  return elements * (2 * static_cast<std::int64_t>(tensor::size_of(element)) + mask_bytes);
}

// A dropout and the residual sum that reads its result, in one kernel.
[[nodiscard]] constexpr std::int64_t dropout_add_bytes(std::int64_t elements, tensor::dtype element) noexcept {
  return elements * (3 * static_cast<std::int64_t>(tensor::size_of(element)) + mask_bytes);
}

// Adds two cotangents of one value.
[[nodiscard]] constexpr std::int64_t cotangent_sum_bytes(std::int64_t elements, tensor::dtype element) noexcept {
  return elements * 3 * static_cast<std::int64_t>(tensor::size_of(element));
}

// Adds a micro-batch's gradient to those before: reads both, writes one.
[[nodiscard]] constexpr std::int64_t accumulation_bytes(std::int64_t elements, tensor::dtype element) noexcept {
  return elements * (static_cast<std::int64_t>(tensor::size_of(element)) + 2 * gradient_bytes(element));
}

// Widens a micro-batch's gradient that is scattered before it is added up: reads it, writes it in the type of sums.
[[nodiscard]] constexpr std::int64_t widening_bytes(std::int64_t elements, tensor::dtype element) noexcept {
  const auto size = static_cast<std::int64_t>(tensor::size_of(element));
  return size < gradient_bytes(element) ? elements * (size + gradient_bytes(element)) : 0;
}

// Adds a share of a micro-batch's gradient to that of those before: reads both, writes one.
[[nodiscard]] constexpr std::int64_t share_sum_bytes(std::int64_t elements, tensor::dtype element) noexcept {
  return elements * 3 * gradient_bytes(element);
}

// A step of the optimizer: the norm of the gradient reads it, clipping reads and writes it; the step reads it, reads
// and writes the weight and what is kept for it; a shorter weight is a copy of the wide one; the gradient is set to
// zero.
[[nodiscard]] constexpr std::int64_t step_bytes(std::int64_t elements, tensor::dtype element,
                                                optimizer updates) noexcept {
  const auto size = static_cast<std::int64_t>(tensor::size_of(element));
  const auto wide = gradient_bytes(element);
  const auto clipping = 3 * wide;
  const auto step = 3 * wide + 2 * static_cast<std::int64_t>(updates) * wide;
  const auto copy = size < wide ? wide + size : 0;
  return elements * (clipping + step + copy + wide);
}

// The bytes that task_times::update counts for a float32 weight: reads weight and gradient, writes the weight, and
// reads and writes the optimizer's state.
[[nodiscard]] constexpr std::int64_t step_bytes_of_float32(optimizer updates) noexcept {
  constexpr std::int64_t size = 4;
  return 3 * size + 2 * state_bytes(updates, tensor::dtype::float32);
}

// The time of a kernel that moves so many bytes: that of a difference of vectors with as many. 0 for 0 bytes.
[[nodiscard]] picoseconds moving_time(const tensor::algebra& a, const tensor::durations& durations, std::uint32_t model,
                                      std::int64_t moved);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_STRATEGIES_TRAINING_KERNELS)

#include <array>

namespace unity::parallel {

UNITY_INLINE picoseconds moving_time(const tensor::algebra& a, const tensor::durations& durations, std::uint32_t model,
                                     std::int64_t moved) {
  if (moved == 0) {
    return {};
  }
  constexpr std::int64_t each = 3 * 4;  // two float32 operands and a result
  tensor::tensor_type t;
  t.element = tensor::dtype::float32;
  t.dims = {(moved + each - 1) / each};
  const std::array inputs{t, t};
  return durations.duration_of(model, a.make_operation("sub"), inputs, {&t, 1}).expected;
}

}  // namespace unity::parallel

#endif
