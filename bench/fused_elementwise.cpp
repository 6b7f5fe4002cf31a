// Claim: a chain of element-wise operators fused into one kernel is at least twice as fast as running its operators one
// after another, on tensors of 64 MiB, larger than the caches.
//
// normalized: relu((x - mean) * factor * scale + shift + residual), the operators after a convolution of a residual
// network.
// scaled: relu(x * scale + shift + residual), the same with the normalization folded.
// gated: sigmoid(a) * tanh(b) + x, the end of a recurrent cell. It is bound by arithmetic as much as by memory, so the
// claim is 1.2 times.
// Both versions run alternately on one thread; the ratio is that of the medians. Also reported per chain: the memory
// bandwidth of the fused kernel relative to that of a copy of as many bytes.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/backend/cpu.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>

namespace {

using namespace unity;
using backend::cpu_backend;

const tensor::algebra& operators() {
  static const auto all = tensor::standard_algebra();
  return all;
}

tensor::tensor_graph chain(std::string_view name) {
  tensor::builder b{operators()};
  const tensor::shape image{16, 256, 64, 64};
  const auto x = b.input("x", image);
  if (name != "gated") {
    const auto channel = [&](const char* of) { return b.input(of, {256, 1, 1}); };
    const auto base = name == "scaled" ? x : b.mul(b.sub(x, channel("mean")), channel("factor"));
    const auto shifted = b.add(b.mul(base, channel("scale")), channel("shift"));
    return std::move(b).finish({b.relu(b.add(shifted, b.input("residual", image)))});
  }
  const auto first = b.input("a", image);
  const auto second = b.input("b", image);
  return std::move(b).finish({b.add(b.mul(b.sigmoid(first), b.tanh(second)), x)});
}

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}
double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// Runs a chain fused and unfused, on the same operands.
class both_ways {
 public:
  explicit both_ways(const tensor::tensor_graph& g) : fused_{device_.prepare_chain(g)} {
    auto most = fused_.workspace();
    for (const auto n : node_ids(g)) {
      const auto result = g.results(n)[0];
      values_.push_back(filled(backend::byte_count(g.type(result))));
      if (g.operands(n).empty()) {
        inputs_.push_back(values_.back().data());
        bytes_ += values_.back().size();
        continue;
      }
      std::vector<tensor::tensor_type> types;
      std::vector<const std::byte*> in;
      for (const auto v : g.operands(n)) {
        types.push_back(g.type(v));
        in.push_back(values_[v.index()].data());
      }
      launches_.push_back({device_.prepare(g.operation(n), types, {&g.type(result), 1}), in, values_.back().data()});
      most = std::max(most, launches_.back().kernel.workspace());
    }
    bytes_ += values_.back().size();
    values_.push_back(filled(values_.back().size()));  // result of the fused kernel
    work_.push_back(device_.allocate(most));
  }

  double fused() {
    const auto start = thread_seconds();
    auto* result = values_.back().data();
    device_.run(fused_, inputs_, {&result, 1}, work_[0].data());
    return thread_seconds() - start;
  }
  double unfused() {
    const auto start = thread_seconds();
    for (auto& l : launches_) {
      device_.run(l.kernel, l.in, {&l.out, 1}, work_[0].data());
    }
    return thread_seconds() - start;
  }
  // Seconds to copy as many bytes as the fused kernel reads and writes.
  double copied() {
    const auto start = thread_seconds();
    auto left = bytes_ / 2;
    for (auto size = values_[0].size(); left > 0; left -= size) {
      size = std::min(size, left);
      std::memcpy(values_[values_.size() - 2].data(), values_[0].data(), size);
    }
    return thread_seconds() - start;
  }
  // Whether both versions compute the same bytes.
  [[nodiscard]] bool agree() {
    static_cast<void>(fused());
    static_cast<void>(unfused());
    const auto& one = values_[values_.size() - 2];
    return std::memcmp(one.data(), values_.back().data(), one.size()) == 0;
  }

 private:
  struct launch {
    cpu_backend::kernel kernel;
    std::vector<const std::byte*> in;
    std::byte* out;
  };

  cpu_backend::memory filled(std::size_t bytes) {
    auto m = device_.allocate(bytes);
    auto* x = reinterpret_cast<float*>(m.data());
    for (std::size_t i = 0; i < bytes / sizeof(float); ++i) {
      x[i] = static_cast<float>(i % 1009) / 1009 - 0.5F;
    }
    return m;
  }

  cpu_backend device_{operators(), {.threads = 1}};
  cpu_backend::kernel fused_;
  std::vector<cpu_backend::memory> values_;  // one per value of the graph, then the result of the fused kernel
  std::vector<cpu_backend::memory> work_;
  std::vector<const std::byte*> inputs_;
  std::vector<launch> launches_;
  std::size_t bytes_ = 0;  // least memory traffic of the fused kernel
};

void compare(benchmark::State& state, std::string_view name, double target) {
  both_ways ways{chain(name)};
  if (!ways.agree()) {
    throw std::logic_error{"the fused kernel and its parts disagree"};
  }
  std::vector<double> fused;
  std::vector<double> unfused;
  std::vector<double> copied;
  for (auto _ : state) {
    fused.push_back(ways.fused());
    unfused.push_back(ways.unfused());
    copied.push_back(ways.copied());
  }
  state.counters["ratio"] = median(unfused) / median(fused);
  state.counters["target_above"] = target;
  state.counters["of_copy_bandwidth"] = median(copied) / median(fused);
}
void normalized_fused_twice_as_fast(benchmark::State& state) { compare(state, "normalized", 2); }
BENCHMARK(normalized_fused_twice_as_fast)->Unit(benchmark::kMillisecond)->Iterations(15);
void scaled_fused_twice_as_fast(benchmark::State& state) { compare(state, "scaled", 2); }
BENCHMARK(scaled_fused_twice_as_fast)->Unit(benchmark::kMillisecond)->Iterations(15);
void gated_fused_1_2_times_as_fast(benchmark::State& state) { compare(state, "gated", 1.2); }
BENCHMARK(gated_fused_1_2_times_as_fast)->Unit(benchmark::kMillisecond)->Iterations(15);

}  // namespace

BENCHMARK_MAIN();
