// Claim: an iteration of training on ranks takes at most 3% longer than its operators, weight updates and
// communication, where operators take 1 ms and more.
//
// Ranks are threads of this process, each with the cpu backend on one thread. The executor's overhead is the time of an
// iteration that no span of its timeline covers, including the cost of recording. Every iteration reuses the inputs of
// the first, so no data is loaded. The result is the largest share over ranks, of the median over iterations. The last
// benchmark measures the overhead per step with operators as small as possible.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include <fmt/core.h>

#include <unity/backend/cpu.hpp>
#include <unity/backend/local_communicator.hpp>
#include <unity/core/units.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/expert_strategies.hpp>
#include <unity/parallel/strategies/loss_strategy.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/loss.hpp>
#include <unity/tensor/source_values.hpp>
#include <unity/tensor/zoo.hpp>
#include <unity/train/timeline.hpp>
#include <unity/train/timeline_report.hpp>
#include <unity/train/trainer.hpp>
#include <unity/train/training_plan.hpp>

namespace {

using namespace unity;

const tensor::algebra& operators() {
  static const auto a = tensor::training_algebra();
  return a;
}

parallel::plan plan_of(const std::string& model, std::size_t ranks, bool is_model_parallel) {
  parallel::plan p;
  p.graph = tensor::zoo::build(operators(), model);
  p.machine = hardware::preset(fmt::format("p100:1x{}", ranks));
  const parallel::graph_dimensions all{operators(), p.graph};
  p.configurations = is_model_parallel ? parallel::model_parallel(operators(), p.graph, all, p.machine.network)
                                       : parallel::data_parallel(all, p.machine.network);
  return train::with_loss(operators(), p, tensor::loss::cross_entropy);
}

struct outcome {
  double iteration = 0;  // seconds, median
  double share = 0;      // the executor's share of the iteration, maximum over ranks
  double typical = 0;    // seconds: half of the operators' time is spent in operators that take longer
  double per_step = 0;   // seconds of executor overhead
};

double median(std::vector<double> v) {
  const auto middle = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
  std::nth_element(v.begin(), middle, v.end());
  return *middle;
}
double weighted_median(std::vector<double> spans) {
  std::sort(spans.begin(), spans.end());
  double all = 0;
  for (const auto s : spans) {
    all += s;
  }
  double below = 0;
  for (const auto s : spans) {
    below += s;
    if (below >= all / 2) {
      return s;
    }
  }
  return 0;
}

outcome measure(const parallel::plan& p, int iterations) {
  outcome worst;
  std::mutex lock;
  backend::run_local(static_cast<int>(p.machine.network.device_count()), [&](backend::local_communicator& world) {
    backend::cpu_backend b{operators(), {.threads = 1}};
    train::trainer<backend::cpu_backend, backend::local_communicator> rank{b, operators(), p, world, {}, 1};
    rank.step(0);  // writes the inputs
    auto& executor = rank.executor();
    train::timeline record{executor.program().steps.size() + 1};
    std::vector<double> times;
    std::vector<double> others;
    std::vector<double> spans;
    for (int i = 0; i < iterations; ++i) {
      world.barrier();
      const auto start = train::timeline::clock::now();
      record.restart(start);
      executor.run(static_cast<std::uint64_t>(i) + 1, [](std::size_t) {}, &record);
      executor.commit();
      const auto passed = (train::timeline::clock::now() - start).count();
      train::merged_timeline line;
      line.ranks.push_back({});
      line.ranks[0].spans.assign(record.spans().begin(), record.spans().end());
      const auto shares = train::break_down(line, 0, passed);
      times.push_back(static_cast<double>(passed) * 1e-9);
      others.push_back(to_seconds(shares.all.other));
      for (const auto& s : record.spans()) {
        if (s.kind == train::activity::compute) {
          spans.push_back(static_cast<double>(s.end - s.start) * 1e-9);
        }
      }
    }
    const auto iteration = median(times);
    const auto other = median(others);
    const std::lock_guard hold{lock};
    if (other / iteration >= worst.share) {
      worst = {iteration, other / iteration, weighted_median(spans),
               other / static_cast<double>(executor.program().steps.size())};
    }
  });
  return worst;
}

// Reports the time of an iteration.
void executor_share(benchmark::State& state, const std::string& model, std::size_t ranks, bool is_model_parallel,
                    int iterations) {
  for (auto _ : state) {
    const auto o = measure(plan_of(model, ranks, is_model_parallel), iterations);
    state.SetIterationTime(o.iteration);
    state.counters["operator_ms"] = o.typical * 1e3;
    state.counters["executor_share"] = o.share;
    state.counters["of_a_step_ns"] = o.per_step * 1e9;
  }
  state.counters["target_share"] = 0.03;
}

void add(const std::string& model, std::size_t ranks, bool is_model_parallel, int iterations) {
  const auto name = fmt::format("executor_share/{}/ranks:{}{}", model, ranks,
                                (ranks == 1          ? ""
                                 : is_model_parallel ? "/model"
                                                     : "/data"));
  benchmark::RegisterBenchmark(
      name.c_str(), [=](benchmark::State& s) { executor_share(s, model, ranks, is_model_parallel, iterations); })
      ->Iterations(1)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

}  // namespace

int main(int argc, char** argv) {
  for (const std::string model :
       {"zoo:mlp?layers=4&hidden=1024&batch=128", "zoo:gpt?layers=2&hidden=512&heads=8&seq=128&vocab=2000&batch=8",
        "zoo:resnext50?form=ae&image=64&hidden=16&batch=16", "zoo:dlrm?form=ae&batch=512&hidden=256&vocab=5000"}) {
    add(model, 1, false, 15);
    add(model, 2, false, 15);
    add(model, 2, true, 15);
  }
  add("zoo:mlp?layers=8&hidden=8&batch=1", 1, false, 2000);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
