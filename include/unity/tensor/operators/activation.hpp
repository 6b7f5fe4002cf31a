// The element-wise functions with which matmul, linear and conv2d may end.
#pragma once

#include <cstdint>
#include <utility>

#include <unity/tensor/attributes.hpp>
#include <unity/tensor/kernel.hpp>

namespace unity::tensor::operators {

enum class activation : std::uint8_t { none, relu, sigmoid, tanh, gelu };

[[nodiscard]] inline attribute_field activation_field() {
  return choice_field("activation", {"none", "relu", "sigmoid", "tanh", "gelu"});
}

[[nodiscard]] scalar_kernel activate(const attribute_reader& a, scalar_kernel k);

}  // namespace unity::tensor::operators

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_OPERATORS_ACTIVATION)

namespace unity::tensor::operators {

UNITY_INLINE scalar_kernel activate(const attribute_reader& a, scalar_kernel k) {
  switch (a.choice<activation>("activation")) {
    case activation::none: return k;
    case activation::relu: return kernels::apply(scalar_op::relu, std::move(k));
    case activation::sigmoid: return kernels::apply(scalar_op::sigmoid, std::move(k));
    case activation::tanh: return kernels::apply(scalar_op::tanh, std::move(k));
    case activation::gelu: return kernels::apply(scalar_op::gelu, std::move(k));
  }
  return k;
}

}  // namespace unity::tensor::operators

#endif
