// The speedup that delta simulation gives a search: the 30 cells of table 3.4 of Jia's dissertation (2020), six
// networks with the batch sizes of section 3.7.1 on 4 to 64 K80. Chains of single-operator proposals start from data
// parallelism (section 3.5.2). Each proposal is priced in four ways:
// - by delta simulation, including the edit of the program and its rollback (`delta_us`);
// - by delta simulation with the search's bound: the acceptance threshold is drawn first, and the simulation stops
//   above it (`edited_over_bounded`: full simulation with the edit over this one);
// - by full simulation of the edited program (`full_over_delta`: the simulation alone; `edited_over_delta`: with the
//   same edit and its rollback, as for delta);
// - by lowering the strategy anew and full simulation (`rebuild_over_delta`), the paper's full algorithm.
// `changed` is the share of tasks whose times a proposal changes; 1/changed is an upper bound on the speedup of any
// delta simulation that visits all changed tasks. `paper` is the ratio of table 3.4.

#include <benchmark/benchmark.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/random.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/simulate/delta.hpp>
#include <unity/simulate/full.hpp>
#include <unity/systems/flexflow/moves.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/zoo.hpp>

#include "../test/parallel/fragments_around.hpp"
#include "support/changed_tasks.hpp"

namespace {

using namespace unity;

struct row {
  const char* model;
  std::int64_t batch;           // per device
  std::array<double, 5> paper;  // on 4, 8, 16, 32, 64 devices
};
constexpr std::array rows{
    row{"alexnet", 256, {2.9, 3.0, 2.9, 3.0, 3.0}},     row{"resnet101", 64, {3.2, 3.2, 3.1, 3.2, 3.3}},
    row{"inception_v3", 64, {3.4, 3.9, 5.0, 5.9, 6.9}}, row{"rnntc", 64, {2.2, 2.3, 2.4, 2.6, 3.0}},
    row{"rnnlm", 64, {2.3, 2.5, 2.7, 3.2, 3.6}},        row{"nmt", 64, {2.5, 2.7, 3.0, 3.8, 4.1}}};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct sums {
  double delta = 0;
  double bounded = 0;
  double full = 0;
  double edited = 0;
  double rebuild = 0;
  double changed = 0;
  double tasks = 0;
  std::uint64_t proposals = 0;
};

// One proposal. Every other one is simulated to the end, the rest with the search's bound; every eighth is also priced
// by full simulation. Each method runs once, on a program it has not simulated before, and keeps its memory.
void price(parallel::lowering& l, simulate::delta_simulation& delta, simulate::full_simulation& full,
           parallel::strategy& s, const systems::strategy_proposal& proposal, random_engine& random, double beta,
           sums& all) {
  const auto move = proposal.sample(s, random)->move.front();
  auto next = s;
  next[move.node.index()] = move.to;
  const auto fragments = parallel::test::fragments_around(l, next, move.node);
  const auto replacements = replacements_of(fragments);
  const auto most = delta.iteration_time() + picoseconds{std::llround(-std::log(1 - random.unit()) / beta)};
  const auto sample = all.proposals % 8;  // 1: count changed tasks, rebuild; 3: full; 6: full with the edit
  const bool is_bounded = sample % 2 == 0;
  std::vector<simulate::task_times> times;
  if (sample == 1) {
    times.assign(delta.times().begin(), delta.times().end());
  }
  if (sample == 6) {
    auto edited = delta.program();
    const auto start = std::chrono::steady_clock::now();
    edited.replace(replacements);
    benchmark::DoNotOptimize(full.run(edited));
    edited.rollback();
    all.edited += 8 * seconds_since(start);
  }
  auto start = std::chrono::steady_clock::now();
  const auto time = delta.try_replace(replacements, is_bounded ? most : simulate::delta_simulation::no_bound);
  auto taken = seconds_since(start);
  if (sample == 1) {
    all.changed += static_cast<double>(support::changed_tasks(delta, times));
    all.tasks += static_cast<double>(delta.program().task_count());
    start = std::chrono::steady_clock::now();
    const auto program = l.run(next);
    benchmark::DoNotOptimize(full.run(program));
    all.rebuild += 8 * seconds_since(start);
  }
  if (sample == 3) {
    start = std::chrono::steady_clock::now();
    benchmark::DoNotOptimize(full.run(delta.program()));
    all.full += 8 * seconds_since(start);
  }
  start = std::chrono::steady_clock::now();
  if (time && *time <= most) {
    delta.commit();
    s = std::move(next);
  } else if (time) {
    delta.rollback();
  }
  taken += seconds_since(start);
  (is_bounded ? all.bounded : all.delta) += 2 * taken;
  ++all.proposals;
}

void proposals(benchmark::State& state, const row& r, std::size_t column) {
  const auto devices = std::size_t{4} << column;
  const auto a = tensor::training_algebra();
  const auto batch = r.batch * static_cast<std::int64_t>(devices);
  const auto g = tensor::zoo::build(a, fmt::format("zoo:{}?batch={}", r.model, batch));
  const auto m = hardware::preset(fmt::format("k80:{}x4", devices / 4));
  parallel::lowering l{a, g, m};
  const systems::strategy_moves moves{a, g, l.dimensions(), devices};
  const systems::strategy_proposal proposal{&moves, 0, 0, systems::device_choice::blocks};
  auto s = parallel::data_parallel(l.dimensions(), m.network);
  simulate::delta_simulation delta{l.run(s)};
  simulate::full_simulation full;
  random_engine random{1};
  const auto beta = 200.0 / static_cast<double>(delta.iteration_time().count());
  sums all;
  for (auto _ : state) {
    price(l, delta, full, s, proposal, random, beta, all);
  }
  const auto count = static_cast<double>(all.proposals);
  state.counters["delta_us"] = 1e6 * all.delta / count;
  state.counters["full_over_delta"] = all.full / all.delta;
  state.counters["edited_over_delta"] = all.edited / all.delta;
  state.counters["bounded_us"] = 1e6 * all.bounded / count;
  state.counters["edited_over_bounded"] = all.edited / all.bounded;
  state.counters["rebuild_over_delta"] = all.rebuild / all.delta;
  state.counters["changed"] = all.changed / all.tasks;
  state.counters["tasks"] = 8 * all.tasks / count;
  state.counters["paper"] = r.paper[column];
}

}  // namespace

int main(int argc, char** argv) {
  for (const auto& r : rows) {
    for (std::size_t column = 0; column < r.paper.size(); ++column) {
      const auto name = fmt::format("proposals/{}/{}", r.model, 4U << column);
      // Iterations are multiples of eight, because every eighth proposal is also priced by full simulation.
      benchmark::RegisterBenchmark(name.c_str(), [&r, column](benchmark::State& s) { proposals(s, r, column); })
          ->Iterations(column < 3 ? 800 : 160)
          ->Unit(benchmark::kMillisecond);
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
