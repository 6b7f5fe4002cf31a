// Matrix products by cuBLASLt.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <cublasLt.h>
#include <fmt/core.h>

#include <unity/backend/cuda/elementwise.hpp>
#include <unity/backend/cuda/library_plans.hpp>
#include <unity/backend/cuda/routine.hpp>
#include <unity/backend/cuda/stream.cuh>
#include <unity/tensor/shape.hpp>

namespace unity::backend::cuda {

namespace detail {

template <auto Destroy>
struct destroyer {
  template <class T>
  void operator()(T* p) const noexcept {
    static_cast<void>(Destroy(p));
  }
};
template <class Handle, auto Destroy>
using owned = std::unique_ptr<std::remove_pointer_t<Handle>, destroyer<Destroy>>;

using blas_handle = owned<cublasLtHandle_t, cublasLtDestroy>;
using blas_product_desc = owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using blas_layout = owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using blas_preference = owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

}  // namespace detail

// The element type in the libraries' words. Precondition: float16, bfloat16 or float32.
[[nodiscard]] inline cudaDataType_t blas_type(tensor::dtype t) {
  return t == tensor::dtype::float16 ? CUDA_R_16F : t == tensor::dtype::bfloat16 ? CUDA_R_16BF : CUDA_R_32F;
}

namespace detail {

[[nodiscard]] inline blas_layout layout_of(const product_matrix& m, tensor::dtype element, std::int64_t batch) {
  cublasLtMatrixLayout_t made = nullptr;
  check(cublasLtMatrixLayoutCreate(&made, blas_type(element), static_cast<std::uint64_t>(m.rows),
                                   static_cast<std::uint64_t>(m.columns), m.leading),
        "describing a matrix");
  blas_layout l{made};
  const auto count = static_cast<std::int32_t>(batch);
  check(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count), "a batch");
  check(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &m.batch_step,
                                         sizeof m.batch_step),
        "the step of a batch");
  return l;
}

// The part of an operator's bias and activation that the library applies to the product.
struct blas_epilogue {
  cublasLtEpilogue_t kind = CUBLASLT_EPILOGUE_DEFAULT;
  bool bias = false;
  bool activation = false;
};

// cuBLASLt's gelu is the tanh approximation, with errors up to 5e-4: less than the rounding of bfloat16, but too much
// for wider types.
[[nodiscard]] inline blas_epilogue epilogue_of(const product_plan& p) {
  using tensor::operators::activation;
  const bool bias = p.biased && p.bias_by_row;
  if (p.biased && !bias) {
    return {};
  }
  if (p.then == activation::relu) {
    return {bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU, bias, true};
  }
  if (p.then == activation::gelu && p.element == tensor::dtype::bfloat16) {
    return {bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU, bias, true};
  }
  return {bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT, bias, false};
}

}  // namespace detail

// One product, or one per offset; then the parts of bias and activation that the library does not apply.
class blas_routine final : public routine<stream> {
 public:
  // Nothing if the library has no such product.
  [[nodiscard]] static std::unique_ptr<blas_routine> make(cublasLtHandle_t handle, const product_plan& p,
                                                          const detail::blas_epilogue& epilogue,
                                                          cublasComputeType_t compute,
                                                          const tensor::tensor_type& result) {
    std::unique_ptr<blas_routine> r{new blas_routine{handle, p, epilogue, compute, result}};
    return r->choose() ? std::move(r) : nullptr;
  }

  [[nodiscard]] std::size_t workspace() const override { return workspace_; }

  void run(const call<stream>& c) const override {
    const float one = 1;
    const float zero = 0;
    if (epilogue_.bias) {
      const void* bias = c.inputs[2];
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    }
    const auto size = tensor::size_of(plan_.element);
    for (const auto& [left, right, result] : plan_.offsets) {
      auto* to = c.outputs[0] + result * size;
      const auto s = cublasLtMatmul(handle_, desc_.get(), &one, c.inputs[plan_.left.operand] + left * size, left_.get(),
                                    c.inputs[plan_.right.operand] + right * size, right_.get(), &zero, to,
                                    result_.get(), to, result_.get(), &algorithm_, c.work, workspace_, c.queue.get());
      if (s != CUBLAS_STATUS_SUCCESS) {
        c.queue.note(fmt::format("cuBLASLt: {}; {}, workspace {} bytes", cublasLtGetStatusName(s), to_string(plan_),
                                 workspace_));
      }
    }
    run_ending(ending_.get(), c);
  }

 private:
  blas_routine(cublasLtHandle_t handle, const product_plan& p, const detail::blas_epilogue& epilogue,
               cublasComputeType_t compute, const tensor::tensor_type& result)
      : handle_{handle},
        plan_{p},
        epilogue_{epilogue},
        left_{detail::layout_of(p.left, p.element, p.batch)},
        right_{detail::layout_of(p.right, p.element, p.batch)},
        result_{detail::layout_of(p.result, p.element, p.batch)},
        ending_{ending_routine<stream>(result, p.biased && !epilogue.bias, result.rank() - 1,
                                       epilogue.activation ? tensor::operators::activation::none : p.then)} {
    cublasLtMatmulDesc_t made = nullptr;
    check(cublasLtMatmulDescCreate(&made, compute, CUDA_R_32F), "describing a product");
    desc_.reset(made);
    const auto operation = [](bool transposed) -> std::int32_t { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
    set(CUBLASLT_MATMUL_DESC_TRANSA, operation(p.left.transposed));
    set(CUBLASLT_MATMUL_DESC_TRANSB, operation(p.right.transposed));
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue.kind);
    if (epilogue.bias) {
      // The heuristic requires an address, but any will do.
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, reinterpret_cast<const void*>(memory_alignment));
    }
  }

  template <class T>
  void set(cublasLtMatmulDescAttributes_t which, const T& value) const {
    check(cublasLtMatmulDescSetAttribute(desc_.get(), which, &value, sizeof value), "an attribute of a product");
  }

  // Takes the library's first choice.
  [[nodiscard]] bool choose() {
    constexpr std::size_t most = std::size_t{32} << 20U;
    cublasLtMatmulPreference_t made = nullptr;
    check(cublasLtMatmulPreferenceCreate(&made), "stating preferences");
    const detail::blas_preference preference{made};
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t which, const auto& value) {
      check(cublasLtMatmulPreferenceSetAttribute(made, which, &value, sizeof value), "a preference");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most);
    if (tensor::size_of(plan_.element) == 2) {
      // Partial sums are combined in float32, not in the 16 bits of the result.
      prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
             static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    }
    const auto alignment = [this](std::size_t which) { return static_cast<std::uint32_t>(alignment_of(plan_, which)); };
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(0));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(1));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(2));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(2));
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    const auto s = cublasLtMatmulAlgoGetHeuristic(handle_, desc_.get(), left_.get(), right_.get(), result_.get(),
                                                  result_.get(), made, 1, &found, &count);
    if (s != CUBLAS_STATUS_SUCCESS || count == 0 || found.state != CUBLAS_STATUS_SUCCESS) {
      return false;
    }
    algorithm_ = found.algo;
    workspace_ = found.workspaceSize;
    return true;
  }

  cublasLtHandle_t handle_;
  product_plan plan_;
  detail::blas_epilogue epilogue_;
  detail::blas_product_desc desc_;
  detail::blas_layout left_;
  detail::blas_layout right_;
  detail::blas_layout result_;
  cublasLtMatmulAlgo_t algorithm_{};
  std::size_t workspace_ = 0;
  routine_ptr<stream> ending_;
};

// Owns a handle.
class blas {
 public:
  // tf32: whether products of float32 may round their operands to 10 bits.
  explicit blas(bool tf32) : compute_{tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F} {
    cublasLtHandle_t made = nullptr;
    check(cublasLtCreate(&made), "starting cuBLASLt");
    handle_.reset(made);
  }

  [[nodiscard]] static std::string version() {
    const auto v = cublasLtGetVersion();
    return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
  }

  // Null if the library has none. No routine may outlive the handle.
  [[nodiscard]] routine_ptr<stream> product(const product_plan& p, const tensor::tensor_type& result) const {
    if (p.batch > std::numeric_limits<std::int32_t>::max()) {
      return nullptr;  // the library counts a batch in 32 bits
    }
    const auto compute = p.element == tensor::dtype::float32 ? compute_ : CUBLAS_COMPUTE_32F;
    const auto wanted = detail::epilogue_of(p);
    auto r = blas_routine::make(handle_.get(), p, wanted, compute, result);
    if (r == nullptr && wanted.kind != CUBLASLT_EPILOGUE_DEFAULT) {
      r = blas_routine::make(handle_.get(), p, {}, compute, result);
    }
    return r;
  }

 private:
  detail::blas_handle handle_;
  cublasComputeType_t compute_;
};

}  // namespace unity::backend::cuda
