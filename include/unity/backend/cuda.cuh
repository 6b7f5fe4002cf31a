// An NVIDIA GPU as a device: cuBLASLt and cuDNN for operators that they support, own kernels for the rest.
//
// For .cu files. Uses cuDNN if UNITY_HAS_CUDNN is defined, which the CMake target unity::cuda does if cuDNN is found.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fmt/core.h>
#include <cuda_runtime.h>

#include <unity/backend/cuda/blas.cuh>
#include <unity/backend/cuda/kernel_factory.hpp>
#include <unity/backend/cuda/stream.cuh>
#include <unity/backend/device_backend.hpp>
#include <unity/core/error.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#if defined(UNITY_HAS_CUDNN)
#include <unity/backend/cuda/dnn.cuh>
#endif

namespace unity::backend {

struct cuda_options {
  int device = 0;
  bool tf32 = false;  // whether products and convolutions of float32 may round their operands to 10 bits
};

namespace cuda {

// Owns uninitialized memory of a device.
class memory {
 public:
  // Throws: unity::error with the requested and the free size.
  explicit memory(std::size_t bytes) : size_{bytes} {
    void* p = nullptr;
    const auto e = cudaMalloc(&p, bytes == 0 ? 1 : bytes);
    if (e == cudaErrorMemoryAllocation) {
      std::size_t free = 0;
      std::size_t total = 0;
      static_cast<void>(cudaMemGetInfo(&free, &total));
      static_cast<void>(cudaGetLastError());  // clears the error, or the next launch would report it
      throw error{"cuda backend", fmt::format("no room for {} bytes ({})", bytes, cudaGetErrorName(e)),
                  fmt::format("at most the {} bytes that are free", free)};
    }
    check(e, "taking memory of the device");
    data_.reset(static_cast<std::byte*>(p));
  }

  [[nodiscard]] std::byte* data() noexcept { return data_.get(); }
  [[nodiscard]] const std::byte* data() const noexcept { return data_.get(); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  struct release {
    void operator()(std::byte* p) const noexcept { static_cast<void>(cudaFree(p)); }
  };
  std::unique_ptr<std::byte, release> data_;
  std::size_t size_ = 0;
};

// The libraries on one stream.
// Throws: unity::error if one does not start.
class libraries {
 public:
#if defined(UNITY_HAS_CUDNN)
  libraries(const stream& s, bool tf32) : blas_{tf32}, dnn_{s, tf32} {}
  [[nodiscard]] bool convolves(tensor::dtype) const { return true; }
  [[nodiscard]] routine_ptr<stream> convolution(const convolution_plan& p, types inputs,
                                                const tensor::tensor_type& result) const {
    return dnn_.convolution(p, inputs, result);
  }
  [[nodiscard]] routine_ptr<stream> convolution_gradient(const convolution_plan& p, convolution_operand of,
                                                         types inputs, const tensor::tensor_type& result) const {
    return dnn_.convolution_gradient(p, of, inputs, result);
  }
  [[nodiscard]] routine_ptr<stream> pooling(const pooling_plan& p, const tensor::tensor_type& image,
                                            const tensor::tensor_type& result, routine_ptr<stream> own) const {
    return dnn_.pooling(p, image, result, std::move(own));
  }
  [[nodiscard]] routine_ptr<stream> normalization(double epsilon, const tensor::tensor_type& image,
                                                  routine_ptr<stream> own) const {
    return dnn_.normalization(epsilon, image, std::move(own));
  }
#else
  libraries(const stream&, bool tf32) : blas_{tf32} {}
  [[nodiscard]] bool convolves(tensor::dtype) const { return false; }
  [[nodiscard]] routine_ptr<stream> convolution(const convolution_plan&, types, const tensor::tensor_type&) const {
    return nullptr;
  }
  [[nodiscard]] routine_ptr<stream> convolution_gradient(const convolution_plan&, convolution_operand, types,
                                                         const tensor::tensor_type&) const {
    return nullptr;
  }
  [[nodiscard]] routine_ptr<stream> pooling(const pooling_plan&, const tensor::tensor_type&, const tensor::tensor_type&,
                                            routine_ptr<stream> own) const {
    return own;
  }
  [[nodiscard]] routine_ptr<stream> normalization(double, const tensor::tensor_type&, routine_ptr<stream> own) const {
    return own;
  }
#endif
  [[nodiscard]] routine_ptr<stream> product(const product_plan& p, const tensor::tensor_type& result) const {
    return blas_.product(p, result);
  }

 private:
  blas blas_;
#if defined(UNITY_HAS_CUDNN)
  dnn dnn_;
#endif
};

}  // namespace cuda

// Models: device_backend, fusing_backend, recording_backend, clocked_backend, and from calibration.hpp
// accelerator_backend and narrow_float_backend. The algebra must outlive the backend; the backend must outlive its
// kernels, recordings and moments. Operators with a standard name mean the standard operators.
//
// Everything runs on one stream. Products and convolutions of float32, float16 and bfloat16 accumulate in float32. Own
// kernels compute in float32, or in double if an operand or result is float64, int64 or int32; reductions accumulate in
// double. All other types use own kernels, which are slow for products.
// Determinism: bit-identical results on one model of GPU.
class cuda_backend {
  using factory = cuda::kernel_factory<cuda::stream, cuda::libraries>;

 public:
  using memory = cuda::memory;

  class kernel {
   public:
    [[nodiscard]] std::size_t workspace() const { return routine_->workspace(); }

   private:
    friend class cuda_backend;
    kernel(cuda::routine_ptr<cuda::stream> r, std::string name)
        : routine_{std::move(r)}, name_{std::make_shared<const std::string>(std::move(name))} {}
    cuda::routine_ptr<cuda::stream> routine_;
    std::shared_ptr<const std::string> name_;
  };

  class recording {
   private:
    friend class cuda_backend;
    struct release {
      void operator()(cudaGraphExec_t g) const noexcept { static_cast<void>(cudaGraphExecDestroy(g)); }
    };
    std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, release> graph_;
  };

  class moment {
   private:
    friend class cuda_backend;
    struct release {
      void operator()(cudaEvent_t e) const noexcept { static_cast<void>(cudaEventDestroy(e)); }
    };
    std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, release> event_;
  };

  // Throws: unity::error with the reason if the device cannot be used.
  explicit cuda_backend(const tensor::algebra& operators, const cuda_options& options = {})
      : algebra_{&operators}, options_{options} {
    if (const auto why = cuda::why_no_device(options.device)) {
      throw error{"cuda backend", *why, "a GPU that can be used"};
    }
    use();
    if (const auto why = cuda::why_no_code(options.device)) {
      throw error{"cuda backend", *why, "a program with code for this GPU"};
    }
    stream_ = std::make_unique<cuda::stream>();
    libraries_ = std::make_unique<cuda::libraries>(*stream_, options.tf32);
  }

  [[nodiscard]] device_description description() const;
  [[nodiscard]] memory allocate(std::size_t bytes) {
    use();
    return memory{bytes};
  }

  // Throws: unity::error for an operator that is unknown, does not accept the inputs, or has no kernel.
  [[nodiscard]] kernel prepare(const tensor::operation& op, std::span<const tensor::tensor_type> inputs,
                               std::span<const tensor::tensor_type> outputs) {
    use();
    auto routine = factory{*algebra_, *libraries_}.make(op, inputs, outputs);
    return {std::move(routine), algebra_->signature(op.kind).name};
  }
  // Throws: unity::error that names an operator of the region that is not element-wise.
  [[nodiscard]] kernel prepare_chain(const tensor::tensor_graph& region) {
    use();
    std::string names;
    for (const auto n : node_ids(region)) {
      if (!region.operands(n).empty()) {
        names += fmt::format("{}{}", names.empty() ? "" : ", ", algebra_->signature(region.operation(n).kind).name);
      }
    }
    return {factory{*algebra_, *libraries_}.make_chain(region), std::move(names)};
  }

  void run(const kernel& k, std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
           std::byte* work) {
    stream_->note(select());  // reported for the last launched kernel, because every later call reports a device fault
    stream_->begin(k.name_);
    k.routine_->run({inputs, outputs, work, *stream_});
  }
  // The host's memory may be reused when these return.
  void write(std::byte* to, std::span<const std::byte> from) {
    copy(to, from.data(), from.size(), cudaMemcpyHostToDevice, "copying to the device");
  }
  void read(std::span<std::byte> to, const std::byte* from) {
    copy(to.data(), from, to.size(), cudaMemcpyDeviceToHost, "copying from the device");
  }
  // Throws: unity::error that names the operator if a launch failed since the last wait. Failures during execution are
  // noticed here; then the last launched operator is named: the fault is its own or that of an earlier one.
  void wait() {
    static_cast<void>(select());  // the next call reports the same error
    const auto e = cudaStreamSynchronize(stream_->get());
    static_cast<void>(cudaGetLastError());
    if (const auto failure = stream_->take_failure()) {
      throw error{"cuda backend", *failure, "a kernel that ends"};
    }
    if (e != cudaSuccess) {
      throw error{"cuda backend",
                  fmt::format("{}, noticed after a kernel of {}", cuda::message_of(e), stream_->last_begun()),
                  "kernels that end"};
    }
  }

  [[nodiscard]] std::size_t memory_size() const {
    use();
    std::size_t free = 0;
    std::size_t total = 0;
    cuda::check(cudaMemGetInfo(&free, &total), "asking for the size of memory");
    return total;
  }
  [[nodiscard]] bool multiplies(tensor::dtype t) const noexcept {
    return t == tensor::dtype::float32 || t == tensor::dtype::float16 || t == tensor::dtype::bfloat16;
  }

  // The stream of all runs, for the caller's own work in their order.
  [[nodiscard]] cudaStream_t native_stream() const noexcept { return stream_->get(); }

  // Throws: unity::error if something in f cannot be recorded.
  template <class F>
  [[nodiscard]] recording record(const F& f);
  void replay(const recording& r) {
    stream_->note(select());
    stream_->begin(recording_name_);
    stream_->note(cudaGraphLaunch(r.graph_.get(), stream_->get()));
  }

  [[nodiscard]] moment mark() {
    use();
    cudaEvent_t e = nullptr;
    cuda::check(cudaEventCreate(&e), "making an event");
    moment m;
    m.event_.reset(e);
    cuda::check(cudaEventRecord(e, stream_->get()), "recording an event");
    return m;
  }
  [[nodiscard]] double seconds(const moment& from, const moment& to) {
    use();
    float milliseconds = 0;
    cuda::check(cudaEventSynchronize(to.event_.get()), "waiting for an event");
    cuda::check(cudaEventElapsedTime(&milliseconds, from.event_.get(), to.event_.get()), "reading the clock");
    return static_cast<double>(milliseconds) / 1000;
  }

 private:
  void use() const { cuda::check(select(), "choosing the device"); }
  // Makes the device current for this thread. Querying is much cheaper than setting it.
  [[nodiscard]] cudaError_t select() const {
    int present = -1;
    const auto e = cudaGetDevice(&present);
    return e == cudaSuccess && present != options_.device ? cudaSetDevice(options_.device) : e;
  }
  void copy(std::byte* to, const std::byte* from, std::size_t bytes, cudaMemcpyKind kind, std::string_view what) {
    use();
    if (bytes > 0) {
      cuda::check(cudaMemcpyAsync(to, from, bytes, kind, stream_->get()), what);
      cuda::check(cudaStreamSynchronize(stream_->get()), what);
    }
  }

  const tensor::algebra* algebra_;
  cuda_options options_;
  std::shared_ptr<const std::string> recording_name_ = std::make_shared<const std::string>("a recording");
  std::unique_ptr<cuda::stream> stream_;
  std::unique_ptr<cuda::libraries> libraries_;
};

inline device_description cuda_backend::description() const {
  cudaDeviceProp p{};
  cuda::check(cudaGetDeviceProperties(&p, options_.device), "asking for the device");
  int runtime = 0;
  int driver = 0;
  cuda::check(cudaRuntimeGetVersion(&runtime), "asking for the runtime");
  cuda::check(cudaDriverGetVersion(&driver), "asking for the driver");
  device_description d{
      "cuda",
      fmt::format("{}, {} multiprocessors{}", p.name, p.multiProcessorCount, options_.tf32 ? ", tf32" : ""),
      {{"CUDA", cuda::version_text(runtime)},
       {"driver", cuda::version_text(driver)},
       {"cuBLASLt", cuda::blas::version()}}};
#if defined(UNITY_HAS_CUDNN)
  d.versions.emplace_back("cuDNN", cuda::dnn::version());
#endif
  return d;
}

template <class F>
cuda_backend::recording cuda_backend::record(const F& f) {
  use();
  wait();  // earlier failures are not caused by f
  // Relaxed: libraries may load their kernels during capture.
  cuda::check(cudaStreamBeginCapture(stream_->get(), cudaStreamCaptureModeRelaxed), "beginning to record");
  struct graph_owner {
    cudaGraph_t graph = nullptr;
    ~graph_owner() {
      if (graph != nullptr) {
        static_cast<void>(cudaGraphDestroy(graph));
      }
    }
  } owner;
  try {
    f();
  } catch (...) {
    static_cast<void>(cudaStreamEndCapture(stream_->get(), &owner.graph));
    static_cast<void>(
        stream_->take_failure());  // f's own exception is reported instead; the next wait must not report this failure
    static_cast<void>(cudaGetLastError());
    throw;
  }
  const auto ended = cudaStreamEndCapture(stream_->get(), &owner.graph);
  if (const auto failure = stream_->take_failure()) {
    static_cast<void>(cudaGetLastError());
    throw error{"cuda backend", fmt::format("recording: {}", *failure), "kernels that can be recorded"};
  }
  cuda::check(ended, "recording");
  cudaGraphExec_t made = nullptr;
  cuda::check(cudaGraphInstantiate(&made, owner.graph, 0), "preparing a recording");
  recording r;
  r.graph_.reset(made);
  // Otherwise the first replay would do this.
  cuda::check(cudaGraphUpload(made, stream_->get()), "sending a recording to the device");
  return r;
}

}  // namespace unity::backend
