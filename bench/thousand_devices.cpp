// Claims:
// - Simulating an iteration of a transformer with 96 layers of GPT-3's sizes on 1,024 devices, with samples divided
//   among 128 nodes and tensors within each node, takes less than 10 s and 4 GB, including graph, strategy, lowering,
//   simulation and summary (`seconds`, `peak_GB` of the process). `order` identical ranks are folded into one.
// - Folding does not change the result: with two layers on 4, 16 and 128 nodes of 8, the timeline of the folded program
//   equals that of the whole one, which takes `whole_over_folded` times as long.

#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <fmt/core.h>

#include <unity/hardware/presets.hpp>
#include <unity/parallel/lowering/folding.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/strategies/strategies_tensor.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/timeline.hpp>
#include <unity/tensor/algebra.hpp>

#include "../test/parallel/transformer.hpp"

namespace {

using namespace unity;
using clock_type = std::chrono::steady_clock;

constexpr std::size_t width = 8;

double seconds_since(clock_type::time_point start) {
  return std::chrono::duration<double>(clock_type::now() - start).count();
}

void an_iteration_on_1024_devices_takes_seconds_to_simulate(benchmark::State& state) {
  for (auto _ : state) {
    const auto start = clock_type::now();
    const auto operators = tensor::training_algebra();
    const auto graph = parallel::test::transformer{operators, {128, state.range(0), 12288, 96, 2048, 51200}}.build();
    const auto machine = hardware::preset("dgx_h100:128x8");
    parallel::lowering low{operators, graph, machine, parallel::transfers::messages};
    const auto strategy = parallel::data_tensor_parallel(graph, low.dimensions(), machine.network, width);
    const auto folded = parallel::fold(operators, low, strategy, parallel::node_shifts(machine.network));
    simulate::full_simulation run;
    const auto iteration = run.run(folded.program);
    const auto line = parallel::unfolded(folded, simulate::summarize(folded.program, run.times()));
    state.counters["seconds"] = seconds_since(start);
    state.counters["order"] = static_cast<double>(folded.order);
    state.counters["folded_tasks"] = static_cast<double>(folded.program.task_count());
    state.counters["tasks"] = static_cast<double>(line.tasks);
    state.counters["iteration_s"] = static_cast<double>(iteration.count()) * 1e-12;
    struct rusage use {};
    ::getrusage(RUSAGE_SELF, &use);
    state.counters["peak_GB"] = static_cast<double>(use.ru_maxrss) * 1024e-9;
  }
}
BENCHMARK(an_iteration_on_1024_devices_takes_seconds_to_simulate)
    ->ArgName("layers")
    ->Arg(96)
    ->Iterations(1)
    ->Unit(benchmark::kSecond);

simulate::timeline simulated(const tasks::program& p) {
  simulate::full_simulation run;
  run.run(p);
  return simulate::summarize(p, run.times());
}

void folding_changes_nothing(benchmark::State& state) {
  const auto operators = tensor::training_algebra();
  const auto nodes = state.range(0);
  const auto graph = parallel::test::transformer{operators, {nodes, 2, 1024, 16, 128, 1024}}.build();
  const auto machine = hardware::preset(fmt::format("dgx_h100:{}x8", nodes));
  parallel::lowering low{operators, graph, machine, parallel::transfers::messages};
  const auto strategy = parallel::data_tensor_parallel(graph, low.dimensions(), machine.network, width);
  const auto symmetries = parallel::node_shifts(machine.network);
  for (auto _ : state) {
    const auto start = clock_type::now();
    const auto whole = simulated(low.run(strategy));
    const auto whole_seconds = seconds_since(start);
    const auto start_of_folded = clock_type::now();
    const auto folded = parallel::fold(operators, low, strategy, symmetries);
    auto line = parallel::unfolded(folded, simulated(folded.program));
    const auto folded_seconds = seconds_since(start_of_folded);
    line.critical_path = whole.critical_path;  // the folded program has that of the representatives
    if (line != whole || folded.order == 1) {
      fmt::print(stderr, "the timelines differ, or nothing was folded\n");
      std::exit(1);
    }
    state.counters["order"] = static_cast<double>(folded.order);
    state.counters["whole_over_folded"] = whole_seconds / folded_seconds;
  }
}
BENCHMARK(folding_changes_nothing)
    ->ArgName("nodes")
    ->Arg(4)
    ->Arg(16)
    ->Arg(128)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
