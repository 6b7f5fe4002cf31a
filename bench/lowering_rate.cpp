// Claim: lowering only the fragments that one operator's new configuration changes is over fifty times as fast as
// lowering the whole plan (`whole_over_around`), for nmt with 64 samples per device on 64 devices. Configurations are
// drawn on aligned blocks of devices; the rest of the strategy is data parallelism (0) or drawn as well (1).

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/strategies/placements.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/zoo.hpp>

#include "../test/parallel/fragments_around.hpp"

namespace {

using namespace unity;
using clock_type = std::chrono::steady_clock;

double seconds_since(clock_type::time_point start) {
  return std::chrono::duration<double>(clock_type::now() - start).count();
}

void fragments_around_an_operator_are_lowered_at_fifty_times_the_rate_of_plans(benchmark::State& state) {
  constexpr int proposals = 3000;
  const auto operators = tensor::training_algebra();
  const auto graph = tensor::zoo::build(operators, "zoo:nmt?batch=4096");
  const auto machine = hardware::preset("k80:16x4");
  parallel::lowering low{operators, graph, machine};
  const parallel::placements possible{low.dimensions(), machine.network.device_count()};
  random_engine random{1};
  std::vector<node_id> nodes;
  for (const auto n : node_ids(graph)) {
    if (!graph.operands(n).empty()) {
      nodes.push_back(n);
    }
  }
  auto s = parallel::data_parallel(low.dimensions(), machine.network);
  for (const auto n : nodes) {
    if (state.range(0) != 0) {
      s[n.index()] = possible.sample(n, random);
    }
  }
  for (auto _ : state) {
    auto start = clock_type::now();
    benchmark::DoNotOptimize(low.run(s).task_count());
    const auto whole = seconds_since(start);
    std::size_t tasks = 0;
    start = clock_type::now();
    for (int i = 0; i < proposals; ++i) {
      const auto n = nodes[random.below(nodes.size())];
      const auto before = s[n.index()];
      s[n.index()] = possible.sample(n, random);
      for (const auto& f : parallel::test::fragments_around(low, s, n)) {
        tasks += f.body.tasks.size();
      }
      s[n.index()] = before;
    }
    const auto seconds = seconds_since(start);
    state.counters["per_s"] = proposals / seconds;
    state.counters["ns_per_task"] = seconds * 1e9 / static_cast<double>(tasks);
    state.counters["whole_over_around"] = whole / (seconds / proposals);
  }
}
BENCHMARK(fragments_around_an_operator_are_lowered_at_fifty_times_the_rate_of_plans)
    ->ArgName("drawn")
    ->Arg(0)
    ->Arg(1)
    ->Iterations(1)
    ->Unit(benchmark::kSecond);

}  // namespace

BENCHMARK_MAIN();
