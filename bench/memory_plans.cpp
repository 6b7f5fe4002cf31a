// Claims (ROC, chapter 4 of Jia's dissertation (2020), sections 4.5 and 4.7.7):
// - On Reddit the dynamic program loads up to 5.5 times fewer bytes than streaming and 1.5 times fewer than LRU, and no
//   more at the least capacity. Counters in MiB: `streaming`, `lru`, `largest`, `dp`; `capacity`. First argument: 0 is
//   the graph isomorphism network of figure 4.3; 1 and 2 are graph convolutions of two and three layers. Second
//   argument: capacity in hundredths of the least one; 0 is 2,000 MiB.
// - For models of the zoo, which have hundreds of operators, the bounded search is within `gap_percent` of a lower
//   bound on the loads of any plan, at twice the least capacity.

#include <benchmark/benchmark.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/core.h>

#include <unity/core/units.hpp>
#include <unity/placement/find_memory_plan.hpp>
#include <unity/placement/memory_graph.hpp>
#include <unity/placement/memory_plan.hpp>
#include <unity/placement/training_memory.hpp>
#include <unity/systems/roc/vertex_memory.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/zoo.hpp>

namespace {

using namespace unity;
using namespace unity::placement;

constexpr std::array models{"zoo:alexnet", "zoo:resnet50", "zoo:inception_v3", "zoo:bert",
                            "zoo:gpt",     "zoo:nasrnn",   "zoo:nmt"};

double mebibytes(bytes b) { return static_cast<double>(b.count()) / 0x1p20; }

void count(benchmark::State& state, const memory_graph& g, bytes capacity, const found_memory_plan& found) {
  const auto loaded = [&](const memory_plan& p) { return mebibytes(replay(g, p, capacity).loaded); };
  state.counters["capacity"] = mebibytes(capacity);
  state.counters["streaming"] = loaded(streaming_plan(g, capacity));
  state.counters["lru"] = loaded(lru_plan(g, capacity));
  state.counters["largest"] = loaded(largest_first_plan(g, capacity));
  state.counters["dp"] = mebibytes(found.traffic.loaded);
  state.counters["stored"] = mebibytes(found.traffic.stored);
  state.counters["gap_percent"] = 100 * (mebibytes(found.traffic.loaded) / mebibytes(found.bound) - 1);
}

void reddit_loads_less(benchmark::State& state) {
  const auto g = state.range(0) == 0 ? systems::gin_memory(systems::reddit, 602, 256, 41)
                 : state.range(0) == 1
                     ? systems::gcn_memory(systems::reddit, std::vector<std::int64_t>{602, 256, 41})
                     : systems::gcn_memory(systems::reddit, std::vector<std::int64_t>{602, 256, 256, 41});
  const bytes capacity{state.range(1) == 0 ? std::int64_t{2000} << 20U
                                           : least_capacity(g).size.count() * state.range(1) / 100};
  for (auto _ : state) {
    const auto found = find_memory_plan(g, capacity);
    count(state, g, capacity, found);
  }
}
BENCHMARK(reddit_loads_less)
    ->Args({0, 0})
    ->Args({1, 100})
    ->Args({1, 160})
    ->Args({2, 160})
    ->Unit(benchmark::kMillisecond);

void models_are_near_the_bound(benchmark::State& state) {
  const auto* const name = models[static_cast<std::size_t>(state.range(0))];
  const auto operators = tensor::training_algebra();
  const auto g = training_memory(operators, tensor::zoo::build(operators, name));
  const bytes capacity{2 * least_capacity(g).size.count()};
  for (auto _ : state) {
    count(state, g, capacity, find_memory_plan(g, capacity));
  }
  state.SetLabel(fmt::format("{}, {} operators", name, g.operator_count()));
}
BENCHMARK(models_are_near_the_bound)->DenseRange(0, models.size() - 1)->Iterations(1)->Unit(benchmark::kSecond);

}  // namespace

BENCHMARK_MAIN();
