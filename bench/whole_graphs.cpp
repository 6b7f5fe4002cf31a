// whole_graphs [MODEL]...: does the sum of measured operator times predict the time of a graph? For each model of the
// zoo ("resnet50?batch=8"; by default all, at sizes for two cores), as the executor runs it on the cpu backend: the sum
// of the times of its launches measured one by one, and the time of a whole run.
//
// The two are measured alternately and compared round by round, so that disturbances hit both. The ratio is the median
// over rounds; low and high leave out one round on each side.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/backend/cpu.hpp>
#include <unity/backend/device_timer.hpp>
#include <unity/backend/executor.hpp>
#include <unity/tensor/source_values.hpp>
#include <unity/tensor/timing_cache.hpp>
#include <unity/tensor/zoo.hpp>

namespace {

using namespace unity;

const std::vector<std::string> defaults{"bert",
                                        "bert_large?batch=1&seq=128",
                                        "densenet121",
                                        "inception_v3?batch=1",
                                        "mlp?batch=64&hidden=2048",
                                        "nasnet_a",
                                        "nasrnn",
                                        "resnet50",
                                        "resnext50?batch=1",
                                        "resnext50?batch=8",
                                        "squeezenet1_1",
                                        "vgg16",
                                        "vgg19"};
constexpr int rounds = 7;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

// The median of consecutive runs. The first run warms up the constants and does not count.
template <class Executor>
double whole_seconds(Executor& run) {
  constexpr double enough = 1.5;
  std::vector<double> all;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 4 || (i < 50 && seconds_since(start) < enough); ++i) {
    const auto begun = std::chrono::steady_clock::now();
    run.run();
    run.wait();
    if (i > 0) {
      all.push_back(seconds_since(begun));
    }
  }
  return median(std::move(all));
}

void sum_over_whole(benchmark::State& state, const tensor::algebra& operators, backend::cpu_backend& device,
                    const std::string& model) {
  const auto g = tensor::zoo::build(operators, fmt::format("zoo:{}", model));
  backend::device_timer timer{device, {.seconds = 0.02}};  // repeated in several rounds
  backend::executor run{device, operators, g, {.data = tensor::balanced_values(operators, g)}};
  std::vector<double> whole;
  std::vector<double> sum;
  std::vector<double> ratios;
  for (int round = 0; round < rounds; ++round) {
    whole.push_back(whole_seconds(run));
    tensor::timing_cache knows_nothing{operators, timer};
    sum.push_back(to_seconds(backend::predicted_time(operators, g, timer, knows_nothing)));
    ratios.push_back(sum.back() / whole.back());
  }
  std::sort(ratios.begin(), ratios.end());
  state.SetIterationTime(median(whole));
  state.counters["launches"] = static_cast<double>(run.counts().launches);
  state.counters["sum_ms"] = median(sum) * 1e3;
  state.counters["sum_over_whole"] = median(ratios);
  state.counters["low"] = ratios[1];
  state.counters["high"] = ratios[rounds - 2];
}

}  // namespace

int main(int argc, char** argv) {
  try {
    benchmark::Initialize(&argc, argv);
    const auto operators = tensor::standard_algebra();
    backend::cpu_backend device{operators};
    benchmark::AddCustomContext("backend", backend::to_string(device.description()));
    for (const auto& model : argc > 1 ? std::vector<std::string>{argv + 1, argv + argc} : defaults) {
      benchmark::RegisterBenchmark((fmt::format("sum_over_whole/{}", model)).c_str(),
                                   [&, model](benchmark::State& state) {
                                     for (auto _ : state) {
                                       sum_over_whole(state, operators, device, model);
                                     }
                                   })
          ->Iterations(1)
          ->UseManualTime()
          ->Unit(benchmark::kMillisecond);
    }
    benchmark::RunSpecifiedBenchmarks();
  } catch (const std::exception& e) {
    fmt::print(stderr, "whole_graphs: {}\n", e.what());
    return 1;
  }
  return 0;
}
