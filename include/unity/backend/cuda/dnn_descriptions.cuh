// Descriptions of tensors for cuDNN.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/core.h>
#include <cudnn.h>

#include <unity/backend/cuda/blas.cuh>
#include <unity/backend/cuda/convolution_plan.hpp>
#include <unity/core/error.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::cuda {

namespace detail {

inline void check_dnn(cudnnStatus_t s, std::string_view what) {
  if (s != CUDNN_STATUS_SUCCESS) {
    throw error{"cuda backend", fmt::format("{}: {}", what, cudnnGetErrorString(s)), "success"};
  }
}

using dnn_handle = owned<cudnnHandle_t, cudnnDestroy>;
using dnn_tensor = owned<cudnnTensorDescriptor_t, cudnnDestroyTensorDescriptor>;
using dnn_filter = owned<cudnnFilterDescriptor_t, cudnnDestroyFilterDescriptor>;
using dnn_convolution = owned<cudnnConvolutionDescriptor_t, cudnnDestroyConvolutionDescriptor>;
using dnn_activation = owned<cudnnActivationDescriptor_t, cudnnDestroyActivationDescriptor>;
using dnn_pooling = owned<cudnnPoolingDescriptor_t, cudnnDestroyPoolingDescriptor>;

template <class Owned, class Handle>
[[nodiscard]] Owned make_dnn(cudnnStatus_t (*create)(Handle*)) {
  Handle made = nullptr;
  check_dnn(create(&made), "making a description for cuDNN");
  return Owned{made};
}

[[nodiscard]] inline cudnnDataType_t dnn_type(tensor::dtype t) {
  return t == tensor::dtype::float16    ? CUDNN_DATA_HALF
         : t == tensor::dtype::bfloat16 ? CUDNN_DATA_BFLOAT16
                                        : CUDNN_DATA_FLOAT;
}

[[nodiscard]] inline std::array<std::int64_t, 4> four(const tensor::shape& dims) {
  return {dims[0], dims[1], dims[2], dims[3]};
}
[[nodiscard]] inline dnn_tensor images_of(tensor::dtype element, const std::array<std::int64_t, 4>& dims) {
  auto d = make_dnn<dnn_tensor>(cudnnCreateTensorDescriptor);
  const auto size = [&](std::size_t i) { return static_cast<int>(dims[i]); };
  check_dnn(
      cudnnSetTensor4dDescriptor(d.get(), CUDNN_TENSOR_NCHW, dnn_type(element), size(0), size(1), size(2), size(3)),
      "describing images");
  return d;
}

}  // namespace detail

// Whether the library can count the elements of both: it uses 32 bits.
[[nodiscard]] inline bool dnn_counts(const tensor::tensor_type& a, const tensor::tensor_type& b) {
  constexpr std::int64_t most = (std::int64_t{1} << 31) - 1;
  return tensor::element_count(a.dims) <= most && tensor::element_count(b.dims) <= most;
}

namespace detail {

[[nodiscard]] inline dnn_filter filters_of(tensor::dtype element, const tensor::shape& dims) {
  auto d = make_dnn<dnn_filter>(cudnnCreateFilterDescriptor);
  const auto size = [&](std::size_t i) { return static_cast<int>(dims[i]); };
  check_dnn(
      cudnnSetFilter4dDescriptor(d.get(), dnn_type(element), CUDNN_TENSOR_NCHW, size(0), size(1), size(2), size(3)),
      "describing weights");
  return d;
}

// exact: whether operands are not rounded.
[[nodiscard]] inline dnn_convolution convolution_of(const convolution_plan& p, bool exact) {
  auto d = make_dnn<dnn_convolution>(cudnnCreateConvolutionDescriptor);
  const auto number = [](std::int64_t n) { return static_cast<int>(n); };
  check_dnn(cudnnSetConvolution2dDescriptor(d.get(), number(p.y.before), number(p.x.before), number(p.y.stride),
                                            number(p.x.stride), number(p.y.dilation), number(p.x.dilation),
                                            CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
            "describing a convolution");
  check_dnn(cudnnSetConvolutionGroupCount(d.get(), number(p.groups)), "describing groups");
  check_dnn(cudnnSetConvolutionMathType(d.get(), exact ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH), "choosing arithmetic");
  return d;
}

}  // namespace detail

}  // namespace unity::backend::cuda
