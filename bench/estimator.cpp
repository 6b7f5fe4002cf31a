// Claim: estimating a kernel of up to 16 parts takes at most 50 us on one thread.
//
// Kernels are random; the network has train_estimator's default shape. The time includes computing the features.
// `epoch_s` is the time of one training epoch over a thousand samples, on two threads.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/learn/attention_network.hpp>
#include <unity/learn/estimator_training.hpp>
#include <unity/learn/kernel_samples.hpp>
#include <unity/tensor/algebra.hpp>

#include "../test/learn/synthetic_kernels.hpp"

namespace {

using namespace unity;

// Random kernels of exactly `parts` parts.
std::vector<fusion::kernel_description> kernels_of(std::size_t parts, std::size_t count) {
  test::synthetic_kernels all{5};
  std::vector<fusion::kernel_description> kernels;
  while (kernels.size() < count) {
    auto k = all.next().kernel;
    if (k.parts.size() == parts) {
      kernels.push_back(std::move(k));
    }
  }
  return kernels;
}

void estimate_within_50_us(benchmark::State& state) {
  const learn::attention_estimator e{.weights = learn::initial_weights({}, 1)};
  const auto kernels = kernels_of(static_cast<std::size_t>(state.range(0)), 64);
  for (auto _ : state) {
    for (const auto& k : kernels) {
      benchmark::DoNotOptimize(e(k));
    }
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kernels.size()));
  state.counters["us"] =
      benchmark::Counter(static_cast<double>(kernels.size()) * 1e-6,
                         benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(estimate_within_50_us)->Arg(2)->Arg(8)->Arg(16)->Arg(30)->Unit(benchmark::kMicrosecond);

void epoch(benchmark::State& state) {
  const auto operators = tensor::training_algebra();
  const auto samples = test::synthetic_kernels{3}.next(1000);
  learn::estimator_training run{operators, samples, {}, 2};
  for (auto _ : state) {
    benchmark::DoNotOptimize(run.run_epoch());
  }
  state.counters["epoch_s"] =
      benchmark::Counter(1, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(epoch)->Unit(benchmark::kMillisecond)->Iterations(20)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
