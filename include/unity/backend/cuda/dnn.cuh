// Convolutions, pooling and normalization by cuDNN.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <cudnn.h>
#include <fmt/core.h>

#include <unity/backend/cuda/blas.cuh>
#include <unity/backend/cuda/elementwise.hpp>
#include <unity/backend/cuda/library_plans.hpp>
#include <unity/backend/cuda/routine.hpp>
#include <unity/backend/cuda/stream.cuh>
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

// The adjoints of convolutions by cuDNN.

namespace detail {

// The descriptions of the tensors of a convolution and its adjoints.
struct dnn_convolution_forms {
  dnn_tensor image;
  dnn_filter weight;
  dnn_tensor result;
  dnn_convolution convolution;
};

}  // namespace detail

// The library's calls for the adjoint with respect to the image; operands (cotangent, weights).
struct dnn_input_gradient {
  using performance = cudnnConvolutionBwdDataAlgoPerf_t;
  using forms = detail::dnn_convolution_forms;
  static constexpr std::size_t algorithms = CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT;

  // Transforms that lose more precision than a float sum.
  [[nodiscard]] static bool loses(cudnnConvolutionBwdDataAlgo_t a) {
    return a == CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT || a == CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING ||
           a == CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED;
  }
  [[nodiscard]] static forms describe(const convolution_plan& p, types inputs, const tensor::tensor_type& image,
                                      bool exact) {
    return {detail::images_of(image.element, detail::four(image.dims)),
            detail::filters_of(image.element, inputs[1].dims),
            detail::images_of(image.element, detail::four(inputs[0].dims)), detail::convolution_of(p, exact)};
  }
  static cudnnStatus_t find(cudnnHandle_t h, const forms& f, int most, int* count, performance* found) {
    return cudnnGetConvolutionBackwardDataAlgorithm_v7(h, f.weight.get(), f.result.get(), f.convolution.get(),
                                                       f.image.get(), most, count, found);
  }
  static cudnnStatus_t size(cudnnHandle_t h, const forms& f, cudnnConvolutionBwdDataAlgo_t a, std::size_t* bytes) {
    return cudnnGetConvolutionBackwardDataWorkspaceSize(h, f.weight.get(), f.result.get(), f.convolution.get(),
                                                        f.image.get(), a, bytes);
  }
  static cudnnStatus_t run(cudnnHandle_t h, const forms& f, cudnnConvolutionBwdDataAlgo_t a, std::size_t bytes,
                           const call<stream>& c) {
    const float one = 1;
    const float zero = 0;
    return cudnnConvolutionBackwardData(h, &one, f.weight.get(), c.inputs[1], f.result.get(), c.inputs[0],
                                        f.convolution.get(), a, c.work, bytes, &zero, f.image.get(), c.outputs[0]);
  }
};

// The library's calls for the adjoint with respect to the weights; operands (image, cotangent).
struct dnn_weight_gradient {
  using performance = cudnnConvolutionBwdFilterAlgoPerf_t;
  using forms = detail::dnn_convolution_forms;
  static constexpr std::size_t algorithms = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT;

  [[nodiscard]] static bool loses(cudnnConvolutionBwdFilterAlgo_t a) {
    return a == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT || a == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING ||
           a == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED;
  }
  [[nodiscard]] static forms describe(const convolution_plan& p, types inputs, const tensor::tensor_type& weight,
                                      bool exact) {
    return {detail::images_of(weight.element, detail::four(inputs[0].dims)),
            detail::filters_of(weight.element, weight.dims),
            detail::images_of(weight.element, detail::four(inputs[1].dims)), detail::convolution_of(p, exact)};
  }
  static cudnnStatus_t find(cudnnHandle_t h, const forms& f, int most, int* count, performance* found) {
    return cudnnGetConvolutionBackwardFilterAlgorithm_v7(h, f.image.get(), f.result.get(), f.convolution.get(),
                                                         f.weight.get(), most, count, found);
  }
  static cudnnStatus_t size(cudnnHandle_t h, const forms& f, cudnnConvolutionBwdFilterAlgo_t a, std::size_t* bytes) {
    return cudnnGetConvolutionBackwardFilterWorkspaceSize(h, f.image.get(), f.result.get(), f.convolution.get(),
                                                          f.weight.get(), a, bytes);
  }
  static cudnnStatus_t run(cudnnHandle_t h, const forms& f, cudnnConvolutionBwdFilterAlgo_t a, std::size_t bytes,
                           const call<stream>& c) {
    const float one = 1;
    const float zero = 0;
    return cudnnConvolutionBackwardFilter(h, &one, f.image.get(), c.inputs[0], f.result.get(), c.inputs[1],
                                          f.convolution.get(), a, c.work, bytes, &zero, f.weight.get(), c.outputs[0]);
  }
};

// Direction: one of the two above.
template <class Direction>
class dnn_convolution_gradient_routine final : public routine<stream> {
 public:
  // Throws: unity::error if the library rejects a description.
  dnn_convolution_gradient_routine(cudnnHandle_t handle, const convolution_plan& p, types inputs,
                                   const tensor::tensor_type& result, bool tf32)
      : handle_{handle},
        exact_{result.element == tensor::dtype::float32 && !tf32},
        forms_{Direction::describe(p, inputs, result, exact_)} {}

  // False if the library has no acceptable algorithm.
  [[nodiscard]] bool choose() {
    std::array<typename Direction::performance, Direction::algorithms> all{};
    int count = 0;
    const auto s = Direction::find(handle_, forms_, static_cast<int>(all.size()), &count, all.data());
    const auto end = all.begin() + (s == CUDNN_STATUS_SUCCESS ? count : 0);
    return std::find_if(all.begin(), end, [this](const auto& a) { return may_be_taken(a) && take(a); }) != end;
  }

  [[nodiscard]] std::size_t workspace() const override { return workspace_; }

  void run(const call<stream>& c) const override {
    const auto s = Direction::run(handle_, forms_, algorithm_, workspace_, c);
    if (s != CUDNN_STATUS_SUCCESS) {
      c.queue.note(std::string{"cuDNN: "} + cudnnGetErrorString(s));
    }
  }

 private:
  using performance = typename Direction::performance;

  // Whether it is deterministic and has a bounded workspace.
  [[nodiscard]] static bool may_be_taken(const performance& a) {
    constexpr std::size_t most = std::size_t{1} << 30U;
    return a.status == CUDNN_STATUS_SUCCESS && a.determinism == CUDNN_DETERMINISTIC && a.memory <= most &&
           !Direction::loses(a.algo);
  }
  // Takes the heuristic's choice, with its workspace and math type.
  [[nodiscard]] bool take(const performance& a) {
    algorithm_ = a.algo;
    const bool chosen =
        exact_ || cudnnSetConvolutionMathType(forms_.convolution.get(), a.mathType) == CUDNN_STATUS_SUCCESS;
    return chosen && Direction::size(handle_, forms_, algorithm_, &workspace_) == CUDNN_STATUS_SUCCESS;
  }

  cudnnHandle_t handle_;
  bool exact_;  // whether operands are not rounded
  detail::dnn_convolution_forms forms_;
  decltype(performance::algo) algorithm_{};
  std::size_t workspace_ = 0;
};

// One convolution, with bias and relu in the same call if the library supports it, otherwise followed by them.
class dnn_convolution_routine final : public routine<stream> {
 public:
  // Throws: unity::error if the library rejects a description.
  dnn_convolution_routine(cudnnHandle_t handle, const convolution_plan& p, types inputs,
                          const tensor::tensor_type& result, bool tf32)
      : handle_{handle},
        exact_{result.element == tensor::dtype::float32 && !tf32},
        joint_{p.biased && p.then == tensor::operators::activation::relu},
        image_{detail::images_of(result.element, detail::four(inputs[0].dims))},
        result_{detail::images_of(result.element, detail::four(result.dims))},
        bias_{detail::images_of(result.element, {1, result.dims[1], 1, 1})},
        weight_{detail::filters_of(result.element, inputs[1].dims)},
        convolution_{detail::convolution_of(p, exact_)},
        relu_{detail::make_dnn<detail::dnn_activation>(cudnnCreateActivationDescriptor)} {
    // The joint call only accepts a relu that turns NaN into 0.
    detail::check_dnn(cudnnSetActivationDescriptor(relu_.get(), CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0),
                      "describing relu");
    ending_ = ending_routine<stream>(result, p.biased, 1, p.then);
  }

  // False if the library has no acceptable algorithm.
  [[nodiscard]] bool choose() {
    std::array<cudnnConvolutionFwdAlgoPerf_t, CUDNN_CONVOLUTION_FWD_ALGO_COUNT> all{};
    int count = 0;
    const auto s =
        cudnnGetConvolutionForwardAlgorithm_v7(handle_, image_.get(), weight_.get(), convolution_.get(), result_.get(),
                                               static_cast<int>(all.size()), &count, all.data());
    const auto end = all.begin() + (s == CUDNN_STATUS_SUCCESS ? count : 0);
    const auto found = std::find_if(all.begin(), end, [this](const auto& a) { return may_be_taken(a) && take(a); });
    return found != end;
  }

  [[nodiscard]] std::size_t workspace() const override { return workspace_; }

  void run(const call<stream>& c) const override {
    const float one = 1;
    const float zero = 0;
    if (joint_) {
      const auto s = cudnnConvolutionBiasActivationForward(handle_, &one, image_.get(), c.inputs[0], weight_.get(),
                                                           c.inputs[1], convolution_.get(), algorithm_, c.work,
                                                           workspace_, &zero, result_.get(), c.outputs[0], bias_.get(),
                                                           c.inputs[2], relu_.get(), result_.get(), c.outputs[0]);
      if (s == CUDNN_STATUS_SUCCESS) {
        return;
      }
      joint_ = false;  // the joint call supports fewer cases, which it reports before it launches anything
      static_cast<void>(cudaGetLastError());  // clears the library's error, or the next launch would report it
    }
    const auto s = cudnnConvolutionForward(handle_, &one, image_.get(), c.inputs[0], weight_.get(), c.inputs[1],
                                           convolution_.get(), algorithm_, c.work, workspace_, &zero, result_.get(),
                                           c.outputs[0]);
    if (s != CUDNN_STATUS_SUCCESS) {
      c.queue.note(std::string{"cuDNN: "} + cudnnGetErrorString(s));
    }
    run_ending(ending_.get(), c);
  }

 private:
  // Whether it is deterministic, has a bounded workspace, and uses no transform that loses more precision than a float
  // sum.
  [[nodiscard]] static bool may_be_taken(const cudnnConvolutionFwdAlgoPerf_t& a) {
    constexpr std::size_t most = std::size_t{1} << 30U;
    const bool loses = a.algo == CUDNN_CONVOLUTION_FWD_ALGO_FFT || a.algo == CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING ||
                       a.algo == CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED;
    return a.status == CUDNN_STATUS_SUCCESS && a.determinism == CUDNN_DETERMINISTIC && a.memory <= most && !loses;
  }

  // Takes the heuristic's choice, with its workspace and math type.
  [[nodiscard]] bool take(const cudnnConvolutionFwdAlgoPerf_t& a) {
    algorithm_ = a.algo;
    const bool chosen = exact_ || cudnnSetConvolutionMathType(convolution_.get(), a.mathType) == CUDNN_STATUS_SUCCESS;
    return chosen &&
           cudnnGetConvolutionForwardWorkspaceSize(handle_, image_.get(), weight_.get(), convolution_.get(),
                                                   result_.get(), algorithm_, &workspace_) == CUDNN_STATUS_SUCCESS;
  }

  cudnnHandle_t handle_;
  bool exact_;          // whether operands are not rounded
  mutable bool joint_;  // with bias and relu in one call
  detail::dnn_tensor image_;
  detail::dnn_tensor result_;
  detail::dnn_tensor bias_;
  detail::dnn_filter weight_;
  detail::dnn_convolution convolution_;
  detail::dnn_activation relu_;
  cudnnConvolutionFwdAlgo_t algorithm_{};
  std::size_t workspace_ = 0;
  routine_ptr<stream> ending_;
};

// A library call that may turn out to be unsupported, which it reports before launching anything; from then on runs
// `own`. Device errors are also left to `own` to report.
// library(call): its status.
template <class Call>
class dnn_routine final : public routine<stream> {
 public:
  dnn_routine(Call library, routine_ptr<stream> own) : library_{std::move(library)}, own_{std::move(own)} {}

  [[nodiscard]] std::size_t workspace() const override { return own_->workspace(); }
  void run(const call<stream>& c) const override {
    if (supported_ && library_(c) != CUDNN_STATUS_SUCCESS) {
      supported_ = false;
      static_cast<void>(cudaGetLastError());  // clears the library's error, or the next launch would report it
    }
    if (!supported_) {
      own_->run(c);
    }
  }

 private:
  Call library_;
  routine_ptr<stream> own_;
  mutable bool supported_ = true;
};

// Owns a handle, bound to a stream.
class dnn {
 public:
  dnn(const stream& s, bool tf32) : tf32_{tf32} {
    handle_ = detail::make_dnn<detail::dnn_handle>(cudnnCreate);
    detail::check_dnn(cudnnSetStream(handle_.get(), s.get()), "binding cuDNN to a stream");
  }

  [[nodiscard]] static std::string version() {
    const auto v = cudnnGetVersion();
    return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
  }

  // Null if the library has none. No routine may outlive the handle.
  [[nodiscard]] routine_ptr<stream> convolution(const convolution_plan& p, types inputs,
                                                const tensor::tensor_type& result) const {
    if (!dnn_counts(inputs[0], result) || !dnn_counts(inputs[1], result)) {
      return nullptr;
    }
    auto r = std::make_unique<dnn_convolution_routine>(handle_.get(), p, inputs, result, tf32_);
    return r->choose() ? std::move(r) : nullptr;
  }

  // Null if the library has none. No routine may outlive the handle.
  [[nodiscard]] routine_ptr<stream> convolution_gradient(const convolution_plan& p, convolution_operand of,
                                                         types inputs, const tensor::tensor_type& result) const {
    if (!dnn_counts(inputs[0], result) || !dnn_counts(inputs[1], result)) {
      return nullptr;
    }
    if (of == convolution_operand::image) {
      return choose<dnn_input_gradient>(p, inputs, result);
    }
    return choose<dnn_weight_gradient>(p, inputs, result);
  }

  // No routine may outlive the handle.
  [[nodiscard]] routine_ptr<stream> pooling(const pooling_plan& p, const tensor::tensor_type& image,
                                            const tensor::tensor_type& result, routine_ptr<stream> own) const {
    if (!dnn_counts(image, result)) {
      return own;
    }
    using kind = pooling_plan::kind;
    const auto mode = p.pooling == kind::largest               ? CUDNN_POOLING_MAX_DETERMINISTIC
                      : p.pooling == kind::average_of_elements ? CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING
                                                               : CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING;
    auto window = detail::make_dnn<detail::dnn_pooling>(cudnnCreatePoolingDescriptor);
    const auto number = [](std::int64_t n) { return static_cast<int>(n); };
    detail::check_dnn(cudnnSetPooling2dDescriptor(window.get(), mode, CUDNN_NOT_PROPAGATE_NAN, number(p.y.kernel),
                                                  number(p.x.kernel), number(p.y.before), number(p.x.before),
                                                  number(p.y.stride), number(p.x.stride)),
                      "describing a pooling");
    return on_own([handle = handle_.get(), window = std::move(window),
                   from = detail::images_of(image.element, detail::four(image.dims)),
                   to = detail::images_of(result.element, detail::four(result.dims))](const call<stream>& c) {
      const float one = 1;
      const float zero = 0;
      return cudnnPoolingForward(handle, window.get(), &one, from.get(), c.inputs[0], &zero, to.get(), c.outputs[0]);
    }, std::move(own));
  }

  // No routine may outlive the handle.
  [[nodiscard]] routine_ptr<stream> normalization(double epsilon, const tensor::tensor_type& image,
                                                  routine_ptr<stream> own) const {
    if (epsilon < CUDNN_BN_MIN_EPSILON || !dnn_counts(image, image)) {
      return own;
    }
    const auto channels = image.dims[1];
    const auto each = tensor::element_count(image.dims) / (image.dims[0] * channels);
    return on_own([handle = handle_.get(), epsilon,
                   images = detail::images_of(image.element, {image.dims[0], channels, each, 1}),
                   channel = detail::images_of(image.element, {1, channels, 1, 1})](const call<stream>& c) {
      const float one = 1;
      const float zero = 0;
      return cudnnBatchNormalizationForwardInference(handle, CUDNN_BATCHNORM_SPATIAL, &one, &zero, images.get(),
                                                     c.inputs[0], images.get(), c.outputs[0], channel.get(),
                                                     c.inputs[1], c.inputs[2], c.inputs[3], c.inputs[4], epsilon);
    }, std::move(own));
  }

 private:
  template <class Direction>
  [[nodiscard]] routine_ptr<stream> choose(const convolution_plan& p, types inputs,
                                           const tensor::tensor_type& result) const {
    auto r = std::make_unique<dnn_convolution_gradient_routine<Direction>>(handle_.get(), p, inputs, result, tf32_);
    return r->choose() ? std::move(r) : nullptr;
  }

  template <class Call>
  [[nodiscard]] static routine_ptr<stream> on_own(Call library, routine_ptr<stream> own) {
    return std::make_unique<dnn_routine<Call>>(std::move(library), std::move(own));
  }

  detail::dnn_handle handle_;
  bool tf32_;
};

}  // namespace unity::backend::cuda
