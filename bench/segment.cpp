// Claim: a kernel that sums over the in-edges of each vertex is at least twice as fast as its decomposition, a row
// lookup per edge followed by a sum.
//
// Also reports the read bandwidth of the other edge operators: rows of sources, edges times columns. All run on one
// thread, measured in its CPU time, on an R-MAT graph of 2^17 vertices and 2 million edges.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <unity/backend/cpu.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/gnn/generators.hpp>
#include <unity/tensor/algebra.hpp>

namespace {

using namespace unity;
using backend::cpu_backend;
using tensor::dtype;
using types = std::vector<tensor::tensor_type>;

const tensor::algebra& operators() {
  static const auto all = tensor::training_algebra();
  return all;
}

const gnn::csr_graph& edges() {
  static const auto g = gnn::generate(gnn::rmat{17, 2'000'000, 1}, {.distinct = false});
  return g;
}
std::int64_t vertices() { return edges().vertices(); }
std::int64_t edge_count() { return static_cast<std::int64_t>(edges().edges()); }

tensor::tensor_type matrix(tensor::shape dims) { return {dtype::float32, tensor::layout::row_major, false, dims}; }
tensor::tensor_type list(std::int64_t n, dtype element) { return {element, tensor::layout::row_major, false, {n}}; }

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}
double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// One kernel on its own operands: int64 lists are offsets, int32 lists are sources or targets.
class kernel_run {
 public:
  kernel_run(const tensor::operation& op, const types& inputs)
      : output_{(*operators().infer(op, inputs))[0]},
        kernel_{device_.prepare(op, inputs, {&output_, 1})},
        result_{filled(output_)},
        work_{device_.allocate(kernel_.workspace())} {
    for (const auto& t : inputs) {
      values_.push_back(filled(t));
      operands_.push_back(values_.back().data());
    }
  }

  double run() {
    const auto start = thread_seconds();
    auto* to = result_.data();
    device_.run(kernel_, operands_, {&to, 1}, work_.data());
    return thread_seconds() - start;
  }
  // Replaces operand i.
  void read(std::size_t i, const void* from) { operands_[i] = static_cast<const std::byte*>(from); }
  [[nodiscard]] std::span<const float> result() const {
    return {reinterpret_cast<const float*>(result_.data()), result_.size() / sizeof(float)};
  }

 private:
  cpu_backend::memory filled(const tensor::tensor_type& t) {
    auto m = device_.allocate(backend::byte_count(t));
    if (t.element == dtype::int64) {
      std::memcpy(m.data(), edges().view().offsets().data(), m.size());
    } else if (t.element == dtype::int32 && t.dims[0] == edge_count()) {
      std::memcpy(m.data(), edges().view().sources().data(), m.size());
    } else {
      for (std::size_t i = 0; i < m.size() / sizeof(float); ++i) {
        reinterpret_cast<float*>(m.data())[i] = static_cast<float>(i % 13) / 13;
      }
    }
    return m;
  }

  cpu_backend device_{operators(), {.threads = 1}};
  tensor::tensor_type output_;
  cpu_backend::kernel kernel_;
  cpu_backend::memory result_;
  cpu_backend::memory work_;
  std::vector<cpu_backend::memory> values_;
  std::vector<const std::byte*> operands_;
};

types operands_of(const std::string& name, std::int64_t heads, std::int64_t size) {
  const auto x = matrix({vertices(), heads, size});
  const auto w = matrix({edge_count(), heads});
  const auto offsets = list(vertices() + 1, dtype::int64);
  const auto sources = list(edge_count(), dtype::int32);
  if (name == "segment_sum") {
    return {x, offsets, sources, offsets, sources};
  }
  if (name == "segment_max") {
    return {x, offsets, sources};
  }
  if (name == "segment_softmax") {
    return {w, offsets};
  }
  if (name == "segment_dot") {
    return {x, x, offsets, sources};
  }
  return name == "segment_max_gradient" ? types{x, x, x, offsets, sources}
                                        : types{x, w, offsets, sources, offsets, sources, sources};
}

void sum_over_edges_twice_as_fast(benchmark::State& state) {
  constexpr std::int64_t width = 64;
  const auto inputs = operands_of("segment_sum", 1, width);
  kernel_run whole{operators().make_operation("segment_sum"), inputs};
  const types looked_up{inputs[0], inputs[2]};
  kernel_run lookup{operators().make_operation("embedding"), looked_up};
  // The target vertex of each edge.
  std::vector<std::int32_t> targets;
  for (std::int64_t v = 0; v < vertices(); ++v) {
    targets.resize(edges().view().offsets()[static_cast<std::size_t>(v) + 1], static_cast<std::int32_t>(v));
  }
  kernel_run sum{operators().make_operation("embedding_gradient", {{"rows", vertices()}}),
                 {list(edge_count(), dtype::int32), matrix({edge_count(), 1, width})}};
  sum.read(0, targets.data());
  sum.read(1, lookup.result().data());
  std::vector<double> as_one;
  std::vector<double> apart;
  for (auto _ : state) {
    as_one.push_back(whole.run());
    apart.push_back(lookup.run() + sum.run());
  }
  if (!std::equal(whole.result().begin(), whole.result().end(), sum.result().begin(), sum.result().end())) {
    throw std::logic_error{"the sum over edges and its parts disagree"};
  }
  state.counters["ratio"] = median(apart) / median(as_one);
  state.counters["target_above"] = 2;
}
BENCHMARK(sum_over_edges_twice_as_fast)->Unit(benchmark::kMillisecond)->Iterations(7);

void gathered(benchmark::State& state, const std::string& name) {
  const auto heads = state.range(0);
  const auto size = state.range(1);
  kernel_run k{operators().make_operation(name), operands_of(name, heads, size)};
  std::vector<double> seconds;
  for (auto _ : state) {
    seconds.push_back(k.run());
  }
  const auto bytes = static_cast<double>(edge_count() * heads * size * 4);
  state.counters["gigabytes_per_second"] = 1e-9 * bytes / median(seconds);
}
BENCHMARK_CAPTURE(gathered, sum, "segment_sum")
    ->Args({1, 16})
    ->Args({1, 64})
    ->Args({1, 256})
    ->Args({1, 602})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(7);
BENCHMARK_CAPTURE(gathered, max, "segment_max")->Args({1, 64})->Unit(benchmark::kMillisecond)->Iterations(7);
BENCHMARK_CAPTURE(gathered, max_gradient, "segment_max_gradient")
    ->Args({1, 64})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(7);
BENCHMARK_CAPTURE(gathered, weighted_sum, "segment_weighted_sum")
    ->Args({1, 64})
    ->Args({8, 8})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(7);
BENCHMARK_CAPTURE(gathered, dot, "segment_dot")
    ->Args({1, 64})
    ->Args({8, 8})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(7);
BENCHMARK_CAPTURE(gathered, softmax, "segment_softmax")
    ->Args({1, 1})
    ->Args({8, 1})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(7);

}  // namespace

BENCHMARK_MAIN();
