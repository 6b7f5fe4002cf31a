// The adjoints of convolutions by cuDNN.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

#include <cudnn.h>

#include <unity/backend/cuda/convolution_plan.hpp>
#include <unity/backend/cuda/dnn_descriptions.cuh>
#include <unity/backend/cuda/routine.hpp>
#include <unity/backend/cuda/stream.cuh>
#include <unity/tensor/shape.hpp>

namespace unity::backend::cuda {

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

// The same with respect to the weights; operands (image, cotangent).
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

}  // namespace unity::backend::cuda
