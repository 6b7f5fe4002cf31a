// Claim: an operator through the cpu backend takes at most 1.03 times as long as calling oneDNN directly.
//
// The direct version creates and executes the same primitive on the same memory through oneDNN's C++ interface, with
// constant weights in the format that oneDNN prefers. Operators take 100 us and more, on one thread. batch_norm, which
// is unity's own loop, is compared with oneDNN's primitive.
// The two versions alternate; the ratio is the median of the ratios of neighbouring runs.
//
// A second benchmark justifies the choice of image format: a convolution on plain images against one whose images are
// reordered before and after (cpu/convolution.hpp).

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <functional>
#include <initializer_list>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <dnnl.hpp>

#include <unity/backend/cpu.hpp>
#include <unity/backend/cpu/reduction.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/tensor/algebra.hpp>

namespace {

using namespace unity;
using backend::cpu_backend;
using tensor::tensor_type;
using tag = dnnl::memory::format_tag;
using dims = dnnl::memory::dims;
using desc = dnnl::memory::desc;
using arguments = std::unordered_map<int, dnnl::memory>;
constexpr auto f32 = dnnl::memory::data_type::f32;

const tensor::algebra& operators() {
  static const auto all = tensor::standard_algebra();
  return all;
}
cpu_backend& device() {
  static cpu_backend b{operators(), {.threads = 1}};
  return b;
}
struct library {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};
library& direct() {
  static library l;
  return l;
}

tensor_type of(std::initializer_list<std::int64_t> sizes, bool constant = false) {
  return {tensor::dtype::float32, tensor::layout::row_major, constant, tensor::shape(sizes)};
}

// An operator through unity, on operands filled with small numbers.
class through_unity {
 public:
  through_unity(const tensor::operation& op, const std::vector<tensor_type>& inputs)
      : kernel_{device().prepare(op, inputs, *operators().infer(op, inputs))} {
    for (const auto& t : inputs) {
      auto& m = allocate(backend::byte_count(t));
      auto* x = reinterpret_cast<float*>(m.data());
      for (std::int64_t i = 0; i < tensor::element_count(t.dims); ++i) {
        x[i] = static_cast<float>(i * 37 % 101) / 101 + 0.125F;
      }
      operands_.push_back(m.data());
    }
    const auto outputs = *operators().infer(op, inputs);
    for (const auto& t : outputs) {
      results_.push_back(allocate(backend::byte_count(t)).data());
    }
    work_ = allocate(kernel_.workspace()).data();
    given_ = operands_;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].constant && kernel_.packed_size(i) > 0) {
        auto* packed = allocate(kernel_.packed_size(i)).data();
        device().pack(kernel_, i, operands_[i], packed);
        given_[i] = packed;
      }
    }
  }

  void run() { device().run(kernel_, given_, results_, work_); }
  [[nodiscard]] void* operand(std::size_t i) { return const_cast<std::byte*>(operands_[i]); }
  [[nodiscard]] void* result() { return results_[0]; }

 private:
  cpu_backend::memory& allocate(std::size_t bytes) {
    memories_.push_back(device().allocate(bytes));
    return memories_.back();
  }

  cpu_backend::kernel kernel_;
  std::vector<cpu_backend::memory> memories_;
  std::vector<const std::byte*> operands_;  // row-major
  std::vector<const std::byte*> given_;
  std::vector<std::byte*> results_;
  std::byte* work_ = nullptr;
};

dnnl::memory at(const desc& d, void* address) { return {d, direct().engine, address}; }
dnnl::memory reordered(const desc& from, void* address, const desc& to) {
  dnnl::memory target{to, direct().engine};
  auto source = at(from, address);
  dnnl::reorder{source, target}.execute(direct().stream, source, target);
  direct().stream.wait();
  return target;
}

using work = std::function<void()>;

template <class Primitive>
work executes(const typename Primitive::primitive_desc& pd, arguments a) {
  return [p = Primitive{pd}, a = std::move(a)] {
    p.execute(direct().stream, a);
    direct().stream.wait();
  };
}

// CPU time of the calling thread, which does all the work; other processes do not disturb it.
double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}
double seconds(const auto& f) {
  const auto start = thread_seconds();
  f();
  return thread_seconds() - start;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// The first of the two to run alternates.
void compare(benchmark::State& state, const work& first, const work& second, double target) {
  std::vector<double> ratios;
  std::vector<double> times;
  first();
  second();
  for (auto _ : state) {
    const bool turned = ratios.size() % 2 == 1;
    const auto a = seconds(turned ? second : first);
    const auto b = seconds(turned ? first : second);
    ratios.push_back(turned ? b / a : a / b);
    times.push_back(turned ? a : b);
  }
  state.counters["ratio"] = median(ratios);
  state.counters["target_below"] = target;
  state.counters["direct_us"] = median(times) * 1e6;
}
constexpr double target = 1.03;

void matmul_within_1_03_of_onednn(benchmark::State& state) {
  const auto n = state.range(0);
  through_unity unity{operators().make_operation("matmul", {{"activation", "relu"}}), {of({n, n}), of({n, n}, true)}};
  backend::cpu::use_threads(1);
  const desc plain{{n, n}, f32, tag::ab};
  const desc any{{n, n}, f32, tag::any};
  dnnl::primitive_attr attributes;
  dnnl::post_ops ops;
  ops.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
  attributes.set_post_ops(ops);
  const dnnl::matmul::primitive_desc pd{{plain, any, plain}, attributes, direct().engine};
  const auto by_hand =
      executes<dnnl::matmul>(pd, {{DNNL_ARG_SRC, at(plain, unity.operand(0))},
                                  {DNNL_ARG_WEIGHTS, reordered(plain, unity.operand(1), pd.weights_desc())},
                                  {DNNL_ARG_DST, at(plain, unity.result())}});
  compare(state, [&] { unity.run(); }, by_hand, target);
}
BENCHMARK(matmul_within_1_03_of_onednn)->Arg(256)->Arg(512)->Arg(1024)->Unit(benchmark::kMicrosecond)->Iterations(400);

void batched_matmul_within_1_03_of_onednn(benchmark::State& state) {
  through_unity unity{operators().make_operation("matmul"), {of({2, 16, 128, 64}), of({2, 16, 64, 128})}};
  backend::cpu::use_threads(1);
  const desc a{{32, 128, 64}, f32, tag::abc};
  const desc b{{32, 64, 128}, f32, tag::abc};
  const desc c{{32, 128, 128}, f32, tag::abc};
  const dnnl::matmul::primitive_desc pd{{a, b, c}, direct().engine};
  const auto by_hand = executes<dnnl::matmul>(pd, {{DNNL_ARG_SRC, at(a, unity.operand(0))},
                                                   {DNNL_ARG_WEIGHTS, at(b, unity.operand(1))},
                                                   {DNNL_ARG_DST, at(c, unity.result())}});
  compare(state, [&] { unity.run(); }, by_hand, target);
}
BENCHMARK(batched_matmul_within_1_03_of_onednn)->Unit(benchmark::kMicrosecond)->Iterations(400);

struct layer {
  std::int64_t in, out, size, kernel, stride, groups;
  [[nodiscard]] std::int64_t pad() const { return kernel / 2; }
  [[nodiscard]] std::int64_t result() const { return (size + 2 * pad() - kernel) / stride + 1; }
  [[nodiscard]] dims weights() const {
    return groups == 1 ? dims{out, in, kernel, kernel} : dims{groups, out / groups, in / groups, kernel, kernel};
  }
};
constexpr layer layers[] = {{3, 64, 224, 7, 2, 1},    {256, 512, 28, 1, 1, 1},  {1024, 2048, 14, 1, 2, 1},
                            {64, 64, 56, 3, 1, 1},    {256, 256, 14, 3, 1, 1},  {128, 128, 56, 3, 1, 32},
                            {512, 512, 28, 3, 1, 32}, {1024, 1024, 14, 3, 1, 32}, {64, 128, 56, 1, 1, 1}};

// A direct convolution on images in the given format; images in other than the plain format are reordered before and
// after.
work convolution(const layer& l, tag form, void* image, void* weight, void* result) {
  const desc x{{1, l.in, l.size, l.size}, f32, tag::nchw};
  const desc y{{1, l.out, l.result(), l.result()}, f32, tag::nchw};
  const desc w{l.weights(), f32, l.groups == 1 ? tag::oihw : tag::goihw};
  const auto formed = [form](const desc& d) { return desc{d.dims(), f32, form}; };
  const dnnl::convolution_forward::primitive_desc pd{
      {dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, formed(x),
       {l.weights(), f32, tag::any}, formed(y), {l.stride, l.stride}, {l.pad(), l.pad()}, {l.pad(), l.pad()}},
      direct().engine};
  auto from = at(x, image);
  auto to = at(y, result);
  const auto in = pd.src_desc() == x ? from : dnnl::memory{pd.src_desc(), direct().engine};
  const auto out = pd.dst_desc() == y ? to : dnnl::memory{pd.dst_desc(), direct().engine};
  const dnnl::reorder before{from, in};
  const dnnl::reorder after{out, to};
  const arguments a{
      {DNNL_ARG_SRC, in}, {DNNL_ARG_WEIGHTS, reordered(w, weight, pd.weights_desc())}, {DNNL_ARG_DST, out}};
  return
      [=, p = dnnl::convolution_forward{pd}, reads = in.get() != from.get(), writes = out.get() != to.get()]() mutable {
        auto source = in;
        auto target_memory = out;
        if (reads) {
          before.execute(direct().stream, from, source);
        }
        p.execute(direct().stream, a);
        if (writes) {
          after.execute(direct().stream, target_memory, to);
        }
        direct().stream.wait();
      };
}
through_unity unity_convolution(const layer& l) {
  return {operators().make_operation("conv2d", {{"stride", {l.stride, l.stride}},
                                                {"pads", {l.pad(), l.pad(), l.pad(), l.pad()}},
                                                {"groups", l.groups}}),
          {of({1, l.in, l.size, l.size}), of({l.out, l.in / l.groups, l.kernel, l.kernel}, true)}};
}

void convolution_within_1_03_of_onednn(benchmark::State& state) {
  const auto& l = layers[state.range(0)];
  auto unity = unity_convolution(l);
  backend::cpu::use_threads(1);
  const bool product = l.kernel == 1 && l.stride == 1;
  const auto by_hand =
      convolution(l, product ? tag::nchw : tag::any, unity.operand(0), unity.operand(1), unity.result());
  compare(state, [&] { unity.run(); }, by_hand, target);
}
BENCHMARK(convolution_within_1_03_of_onednn)
    ->DenseRange(0, std::ssize(layers) - 1)
    ->Unit(benchmark::kMicrosecond)
    ->Iterations(300);

// Time of unity's choice of format over the faster of the two formats.
void convolution_form_within_1_1_of_the_better(benchmark::State& state) {
  const auto& l = layers[state.range(0)];
  auto unity = unity_convolution(l);
  backend::cpu::use_threads(1);
  const auto plain = convolution(l, tag::nchw, unity.operand(0), unity.operand(1), unity.result());
  const auto formed = convolution(l, tag::any, unity.operand(0), unity.operand(1), unity.result());
  std::vector<double> times[2];
  plain();
  formed();
  for (auto _ : state) {
    times[0].push_back(seconds(plain));
    times[1].push_back(seconds(formed));
  }
  const auto chosen = median(times[l.kernel == 1 && l.stride == 1 ? 0 : 1]);
  state.counters["plain_over_reordered"] = median(times[0]) / median(times[1]);
  state.counters["ratio"] = chosen / std::min(median(times[0]), median(times[1]));
  state.counters["target_below"] = 1.1;
}
BENCHMARK(convolution_form_within_1_1_of_the_better)
    ->DenseRange(0, std::ssize(layers) - 1)
    ->Unit(benchmark::kMicrosecond)
    ->Iterations(60);

void pool_within_1_03_of_onednn(benchmark::State& state) {
  const bool average = state.range(0) == 1;
  through_unity unity{operators().make_operation(average ? "average_pool" : "max_pool",
                                                 {{"kernel", {3, 3}}, {"stride", {2, 2}}, {"pads", {1, 1, 1, 1}}}),
                      {of({1, 64, 112, 112})}};
  backend::cpu::use_threads(1);
  const desc x{{1, 64, 112, 112}, f32, tag::nchw};
  const desc y{{1, 64, 56, 56}, f32, tag::nchw};
  const dnnl::pooling_v2_forward::primitive_desc pd{
      {dnnl::prop_kind::forward_inference,
       average ? dnnl::algorithm::pooling_avg_exclude_padding : dnnl::algorithm::pooling_max, x, y, {2, 2}, {3, 3},
       {0, 0}, {1, 1}, {0, 0}},
      direct().engine};
  const auto by_hand = executes<dnnl::pooling_v2_forward>(
      pd, {{DNNL_ARG_SRC, at(x, unity.operand(0))}, {DNNL_ARG_DST, at(y, unity.result())}});
  compare(state, [&] { unity.run(); }, by_hand, target);
}
BENCHMARK(pool_within_1_03_of_onednn)->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond)->Iterations(400);

void softmax_within_1_03_of_onednn(benchmark::State& state) {
  through_unity unity{operators().make_operation("softmax", {{"axis", 3}}), {of({4, 16, 128, 128})}};
  backend::cpu::use_threads(1);
  const desc x{{8192, 128}, f32, tag::ab};
  const dnnl::softmax_forward::primitive_desc pd{{dnnl::prop_kind::forward_inference, x, 1}, direct().engine};
  const auto by_hand = executes<dnnl::softmax_forward>(
      pd, {{DNNL_ARG_SRC, at(x, unity.operand(0))}, {DNNL_ARG_DST, at(x, unity.result())}});
  compare(state, [&] { unity.run(); }, by_hand, target);
}
BENCHMARK(softmax_within_1_03_of_onednn)->Unit(benchmark::kMicrosecond)->Iterations(400);

void layer_norm_within_1_03_of_onednn(benchmark::State& state) {
  through_unity unity{operators().make_operation("layer_norm", {{"axis", 2}}),
                      {of({16, 128, 768}), of({768}, true), of({768}, true)}};
  backend::cpu::use_threads(1);
  const desc x{{2048, 768}, f32, tag::ab};
  const desc s{{768}, f32, tag::a};
  const dnnl::layer_normalization_forward::primitive_desc pd{
      {dnnl::prop_kind::forward_inference, x, 1e-5F,
       dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift},
      direct().engine};
  const auto by_hand = executes<dnnl::layer_normalization_forward>(pd, {{DNNL_ARG_SRC, at(x, unity.operand(0))},
                                                                        {DNNL_ARG_SCALE, at(s, unity.operand(1))},
                                                                        {DNNL_ARG_SHIFT, at(s, unity.operand(2))},
                                                                        {DNNL_ARG_DST, at(x, unity.result())}});
  compare(state, [&] { unity.run(); }, by_hand, target);
}
BENCHMARK(layer_norm_within_1_03_of_onednn)->Unit(benchmark::kMicrosecond)->Iterations(400);

void batch_norm_within_1_03_of_onednn(benchmark::State& state) {
  const auto c = of({256}, true);
  through_unity unity{operators().make_operation("batch_norm"), {of({1, 256, 56, 56}), c, c, c, c}};
  backend::cpu::use_threads(1);
  const desc x{{1, 256, 56, 56}, f32, tag::nchw};
  const desc s{{256}, f32, tag::a};
  using flags = dnnl::normalization_flags;
  const dnnl::batch_normalization_forward::primitive_desc pd{
      {dnnl::prop_kind::forward_inference, x, 1e-5F, flags::use_global_stats | flags::use_scale | flags::use_shift},
      direct().engine};
  const auto by_hand = executes<dnnl::batch_normalization_forward>(pd, {{DNNL_ARG_SRC, at(x, unity.operand(0))},
                                                                        {DNNL_ARG_SCALE, at(s, unity.operand(1))},
                                                                        {DNNL_ARG_SHIFT, at(s, unity.operand(2))},
                                                                        {DNNL_ARG_MEAN, at(s, unity.operand(3))},
                                                                        {DNNL_ARG_VARIANCE, at(s, unity.operand(4))},
                                                                        {DNNL_ARG_DST, at(x, unity.result())}});
  compare(state, [&] { unity.run(); }, by_hand, target);
}
BENCHMARK(batch_norm_within_1_03_of_onednn)->Unit(benchmark::kMicrosecond)->Iterations(400);

}  // namespace

BENCHMARK_MAIN();
