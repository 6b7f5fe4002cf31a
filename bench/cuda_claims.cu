// Claims about the cuda backend, each a ratio measured in this process, both sides in turn, medians of 15:
//   matmul       a product through unity takes at most 1.03 times what calling cuBLASLt directly takes;
//                both recorded, as executors run them
//   fused        a chain of element-wise operators moves at least 0.85 of what a copy on the device moves
//   bert_large   the forward pass through the executor; in seconds, as its other side is another process (test/gpu.sh)
//   optimized    optimized against original models, against the ratio that the sums of measured operators predict
//                (recorded, too: what launching one by one takes is in neither)
// Arguments: names of claims; none: all. Exit code 1 where a claim does not hold.
// Without a device: one line that says so.
#include <unity/backend/cuda.cuh>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/backend/device_timer.hpp>
#include <unity/backend/elementwise_chains.hpp>
#include <unity/backend/executor.hpp>
#include <unity/backend/run_comparison.hpp>
#include <unity/hardware/device_rates.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/systems/taso.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/standard_rules.hpp>
#include <unity/tensor/timing_cache.hpp>
#include <unity/tensor/zoo.hpp>

namespace {

using namespace unity;
using backend::cuda_backend;

const tensor::algebra& operators() {
  static const auto all = tensor::standard_algebra();
  return all;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Seconds per call of two functions that begin work on the device, in turn.
template <class First, class Second>
std::pair<double, double> in_turn(cuda_backend& b, const First& first, const Second& second) {
  constexpr int samples = 15;
  constexpr int repetitions = 10;
  std::array<std::vector<double>, 2> seconds;
  const auto sample = [&](const auto& f) {
    const auto from = b.mark();
    for (int i = 0; i < repetitions; ++i) {
      f();
    }
    return b.seconds(from, b.mark()) / repetitions;
  };
  for (int i = -3; i < samples; ++i) {
    const auto one = sample(first);
    const auto two = sample(second);
    if (i >= 0) {
      seconds[0].push_back(one);
      seconds[1].push_back(two);
    }
  }
  b.wait();
  return {median(seconds[0]), median(seconds[1])};
}

bool claim(const char* name, const std::string& what, double value, bool holds, const char* bound) {
  fmt::print("{:<12} {:<44} {:9.4f}  {:<16} {}\n", name, what, value, bound, holds ? "holds" : "DOES NOT HOLD");
  std::fflush(stdout);
  return holds;
}

// cuBLASLt called as its manual does, on the memory that unity's product uses.
class direct_product {
 public:
  direct_product(std::int64_t m, std::int64_t n, std::int64_t k, cudaDataType_t type) {
    using backend::cuda::check;
    constexpr std::size_t most = std::size_t{32} << 20U;
    check(cublasLtCreate(&handle_), "cublasLtCreate");
    check(cublasLtMatmulDescCreate(&desc_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
    const auto size = [](std::int64_t x) { return static_cast<std::uint64_t>(x); };
    check(cublasLtMatrixLayoutCreate(&left_, type, size(n), size(k), n), "layout");
    check(cublasLtMatrixLayoutCreate(&right_, type, size(k), size(m), k), "layout");
    check(cublasLtMatrixLayoutCreate(&result_, type, size(n), size(m), n), "layout");
    cublasLtMatmulPreference_t preference = nullptr;
    check(cublasLtMatmulPreferenceCreate(&preference), "preference");
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t which, const auto& value) {
      check(cublasLtMatmulPreferenceSetAttribute(preference, which, &value, sizeof value), "preference");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most);
    // As unity asks: sums in float32, and memory as arenas align it.
    if (type != CUDA_R_32F) {
      prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
             static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    }
    for (const auto which : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                             CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      prefer(which, static_cast<std::uint32_t>(backend::memory_alignment));
    }
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    check(
        cublasLtMatmulAlgoGetHeuristic(handle_, desc_, left_, right_, result_, result_, preference, 1, &found, &count),
        "cublasLtMatmulAlgoGetHeuristic");
    algorithm_ = found.algo;
    workspace_ = found.workspaceSize;
    check(cublasLtMatmulPreferenceDestroy(preference), "preference");
  }
  direct_product(const direct_product&) = delete;
  direct_product& operator=(const direct_product&) = delete;
  ~direct_product() {
    static_cast<void>(cublasLtMatrixLayoutDestroy(left_));
    static_cast<void>(cublasLtMatrixLayoutDestroy(right_));
    static_cast<void>(cublasLtMatrixLayoutDestroy(result_));
    static_cast<void>(cublasLtMatmulDescDestroy(desc_));
    static_cast<void>(cublasLtDestroy(handle_));
  }

  [[nodiscard]] std::size_t workspace() const { return workspace_; }
  void run(const std::byte* a, const std::byte* b, std::byte* c, std::byte* work, cudaStream_t stream) const {
    const float one = 1;
    const float zero = 0;
    backend::cuda::check(cublasLtMatmul(handle_, desc_, &one, b, left_, a, right_, &zero, c, result_, c, result_,
                                        &algorithm_, work, workspace_, stream),
                         "cublasLtMatmul");
  }

 private:
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t desc_ = nullptr;
  cublasLtMatrixLayout_t left_ = nullptr;
  cublasLtMatrixLayout_t right_ = nullptr;
  cublasLtMatrixLayout_t result_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_{};
  std::size_t workspace_ = 0;
};

// Memory with finite values that are not zero: arithmetic on zeros takes less power, and so less time.
cuda_backend::memory filled(cuda_backend& b, const tensor::tensor_type& t) {
  auto m = b.allocate(backend::byte_count(t));
  b.write(m.data(), backend::arbitrary_bytes(t, static_cast<std::size_t>(tensor::element_count(t.dims))));
  return m;
}

bool matmul(cuda_backend& b) {
  bool holds = true;
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{512, 1024, 1024}, {2048, 4096, 1024}, {4096, 4096, 4096}}) {
    for (const auto element : {tensor::dtype::float32, tensor::dtype::bfloat16}) {
      const std::array in{tensor::tensor_type{element, {}, false, {m, k}},
                          tensor::tensor_type{element, {}, false, {k, n}}};
      const std::array out{tensor::tensor_type{element, {}, false, {m, n}}};
      const auto kernel = b.prepare(operators().make_operation("matmul", {}), in, out);
      const direct_product direct{m, n, k, backend::cuda::blas_type(element)};
      auto left = filled(b, in[0]);
      auto right = filled(b, in[1]);
      auto result = b.allocate(backend::byte_count(out[0]));
      auto work = b.allocate(std::max(kernel.workspace(), direct.workspace()));
      const std::array<const std::byte*, 2> from{left.data(), right.data()};
      const std::array<std::byte*, 1> to{result.data()};
      const auto ten = [&](const auto& f) {
        return b.record([&] {
          for (int i = 0; i < 10; ++i) {
            f();
          }
        });
      };
      const auto our_runs = ten([&] { b.run(kernel, from, to, work.data()); });
      const auto their_runs =
          ten([&] { direct.run(left.data(), right.data(), result.data(), work.data(), b.native_stream()); });
      const auto [ours, theirs] = in_turn(b, [&] { b.replay(our_runs); }, [&] { b.replay(their_runs); });
      const auto what = fmt::format("{} {} x {} x {}, over cuBLASLt", tensor::name_of(element), m, n, k);
      holds = claim("matmul", what, ours / theirs, ours / theirs <= 1.03, "at most 1.03") && holds;
    }
  }
  return holds;
}

// x: 256 MiB of float32, far more than caches hold.
bool fused(cuda_backend& b) {
  bool holds = true;
  for (const std::string_view name : {"scaled", "normalized", "gated"}) {
    tensor::builder g{operators()};
    const tensor::shape image{64, 256, 64, 64};
    const auto x = g.input("x", image);
    const auto channel = [&](const char* of) { return g.input(of, {256, 1, 1}); };
    auto y = x;
    if (name == "gated") {
      const auto gate = g.sigmoid(g.input("a", image));
      y = g.add(g.mul(gate, g.tanh(g.input("b", image))), x);
    } else {
      y = name == "scaled" ? x : g.mul(g.sub(x, channel("mean")), channel("factor"));
      y = g.relu(g.add(g.add(g.mul(y, channel("scale")), channel("shift")), g.input("residual", image)));
    }
    const auto graph = std::move(g).finish({y});
    const auto chains = backend::elementwise_chains(operators(), graph);
    const auto& region = chains.at(0).region;
    const auto kernel = b.prepare_chain(region);
    std::vector<cuda_backend::memory> held;
    std::vector<const std::byte*> in;
    std::size_t moved = 0;
    for (std::size_t n = 0; n < region.node_count(); ++n) {
      if (region.operands(node_id{n}).empty()) {
        const auto& t = region.type(region.results(node_id{n})[0]);
        held.push_back(filled(b, t));
        in.push_back(held.back().data());
        moved += backend::byte_count(t);
      }
    }
    const auto size = backend::byte_count(region.type(region.outputs()[0]));
    moved += size;
    held.push_back(b.allocate(size));
    const std::array<std::byte*, 1> out{held.back().data()};
    auto copied = b.allocate(size);
    auto work = b.allocate(kernel.workspace());
    const auto [ours, copy] = in_turn(b, [&] { b.run(kernel, in, out, work.data()); }, [&] {
      backend::cuda::check(
          cudaMemcpyAsync(copied.data(), in[0], size, cudaMemcpyDeviceToDevice, b.native_stream()), "copying");
    });
    const auto ratio = static_cast<double>(moved) / ours / (2 * static_cast<double>(size) / copy);
    holds =
        claim("fused", fmt::format("{}, of the bandwidth of a copy", name), ratio, ratio >= 0.85, "at least 0.85") &&
        holds;
  }
  return holds;
}

bool bert_large(cuda_backend& b) {
  const auto g = tensor::zoo::build(operators(), "zoo:bert_large");
  backend::executor run{b, operators(), g, {.seed = 1}};
  const auto [first, second] = in_turn(b, [&] { run.run(); }, [&] { run.run(); });
  fmt::print("{:<12} {:<44} {:9.6f}  s\n", "bert_large", "batch 4, 512 tokens, float32, forward",
             std::min(first, second));
  return true;
}

bool optimized(cuda_backend& b) {
  bool holds = true;
  const auto rules = compile_rules(operators(), parse_rules(tensor::standard_rules));
  backend::device_timer timer{b, {.sample_seconds = 1e-3}};
  tensor::timing_cache cache{operators(), timer};
  for (const char* model : {"zoo:resnext50", "zoo:nasrnn", "zoo:bert"}) {
    const auto g = tensor::zoo::build(operators(), model);
    systems::taso_options options;
    options.objective.device = *hardware::find_device("h100");
    options.limits.expansions = 200;
    const auto found = systems::taso(operators(), rules, g, options);
    const auto seconds = [&](const tensor::tensor_graph& of) {
      return static_cast<double>(backend::predicted_time(operators(), of, timer, cache).count());
    };
    const auto predicted = seconds(found.graph) / seconds(g);
    const auto times = backend::compare_runs(b, operators(), g, found.graph);
    const auto measured =
        static_cast<double>(times.second.median.count()) / static_cast<double>(times.first.median.count());
    holds = claim("optimized", fmt::format("{}, largest relative error", model), times.max_relative_error,
                  times.max_relative_error < 1e-4, "below 1e-4") &&
            holds;
    claim("optimized", fmt::format("{}, time over the original's", model), measured, true, "");
    const auto off = measured / predicted;
    holds = claim("optimized", fmt::format("{}, that over the predicted", model), off, off > 0.85 && off < 1.15,
                  "0.85 to 1.15") &&
            holds;
  }
  return holds;
}

}  // namespace

int main(int count, char** arguments) {
  if (const auto why = backend::cuda::why_no_device()) {
    fmt::print("no GPU here: {}\n", *why);
    return 0;
  }
  const std::span names{arguments + 1, static_cast<std::size_t>(count - 1)};
  const auto wanted = [&](std::string_view name) {
    return names.empty() || std::any_of(names.begin(), names.end(), [&](const char* n) { return n == name; });
  };
  bool holds = true;
  try {
    cuda_backend b{operators()};
    fmt::print("{}\n", backend::to_string(b.description()));
    using run_claim = bool (*)(cuda_backend&);
    for (const auto& [name, run] : {std::pair<const char*, run_claim>{"matmul", matmul},
                                    {"fused", fused},
                                    {"bert_large", bert_large},
                                    {"optimized", optimized}}) {
      holds = (!wanted(name) || run(b)) && holds;
    }
  } catch (const error& e) {
    fmt::print("{}\n", e.what());
    return 1;
  }
  return holds ? 0 : 1;
}
