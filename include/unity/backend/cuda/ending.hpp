// Bias and activation after a product or convolution by a library, in place.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include <unity/backend/cuda/chain_code.hpp>
#include <unity/backend/cuda/elementwise.hpp>
#include <unity/backend/cuda/routine.hpp>
#include <unity/backend/elementwise/index_steps.hpp>
#include <unity/backend/elementwise/tile_program.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/operators/parts.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::cuda {

[[nodiscard]] constexpr tensor::scalar_op scalar_of(tensor::operators::activation a) noexcept {
  using tensor::scalar_op;
  using tensor::operators::activation;
  switch (a) {
    case activation::relu: return scalar_op::relu;
    case activation::sigmoid: return scalar_op::sigmoid;
    case activation::tanh: return scalar_op::tanh;
    case activation::gelu: return scalar_op::gelu;
    case activation::none: break;
  }
  return scalar_op::operand;
}

// A routine whose operands are the result and, if `biased`, a bias with one number per position of dimension `along`.
// It writes the result in place: each thread reads its elements before it writes them. Null if there is nothing to do.
template <class Queue>
[[nodiscard]] routine_ptr<Queue> ending_routine(const tensor::tensor_type& result, bool biased, std::size_t along,
                                                tensor::operators::activation then) {
  using origin = tile_leaf::origin;
  if (!biased && then == tensor::operators::activation::none) {
    return nullptr;
  }
  tile_program p;
  tile_leaf own{origin::operand, 0, result.element, 0, {}};
  tile_leaf bias{origin::operand, 1, result.element, 0, {}};
  const auto strides = tensor::strides_of(result.dims, result.order);
  for (const auto d : memory_order(result.rank(), result.order)) {
    p.sizes.push_back(result.dims[d]);
    own.steps.push_back(strides[d]);
    bias.steps.push_back(d == along ? 1 : 0);
  }
  auto value = p.add_leaf(std::move(own));
  if (biased) {
    const auto b = p.add_leaf(std::move(bias));
    p.code.push_back({tensor::scalar_op::add, 0, value, b});
    value = p.code.size() - 1;
  }
  if (then != tensor::operators::activation::none) {
    p.code.push_back({scalar_of(then), 0, value, value});
    value = p.code.size() - 1;
  }
  p.stores.push_back({value, 0, result.element});
  return std::make_unique<chain_routine<Queue>>(*compile_chain(std::move(p)), false);
}

// Runs an ending on a result; bias: the third operand of the call, if any.
template <class Queue>
void run_ending(const routine<Queue>* ending, const call<Queue>& c) {
  if (ending != nullptr) {
    const std::byte* const in[] = {c.outputs[0], c.inputs.size() > 2 ? c.inputs[2] : nullptr};
    ending->run({in, c.outputs, nullptr, c.queue});
  }
}

}  // namespace unity::backend::cuda
