// Claim: searching substitutions and layouts jointly ends at a lower cost than searching either alone or one after the
// other (Jia's dissertation (2020), sections 2.7 and 2.9.5, figure 2.12), for BERT on a device where the time of matrix
// products depends on layout.

#include <benchmark/benchmark.h>

#include "support/models.hpp"

namespace {

double optimized(const unity::rule_set& rules, unity::variants allowed, unity::tensor::tensor_graph& g) {
  auto o = bench::options("v100", 1000);
  o.layouts = allowed;
  auto r = unity::systems::taso(bench::operators(), rules, g, o);
  g = std::move(r.graph);
  return r.cost_after_s;
}

void joint_search_beats_the_three_others(benchmark::State& state) {
  using unity::variants;
  const auto start = bench::model("zoo:bert?form=taso");
  const unity::rule_set none;
  for (auto _ : state) {
    auto g = start;
    const auto substitution = optimized(bench::rules(), variants::kept, g);
    const auto sequential = optimized(none, variants::searched, g);
    g = start;
    const auto layout = optimized(none, variants::searched, g);
    g = start;
    const auto joint = optimized(bench::rules(), variants::searched, g);
    state.counters["substitution_us"] = substitution * 1e6;
    state.counters["layout_us"] = layout * 1e6;
    state.counters["sequential_us"] = sequential * 1e6;
    state.counters["joint_us"] = joint * 1e6;
    state.counters["sequential_over_joint"] = sequential / joint;
  }
}
BENCHMARK(joint_search_beats_the_three_others)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
