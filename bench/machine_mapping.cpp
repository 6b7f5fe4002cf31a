// Claims:
// - For 64 linear layers on 4 devices, the best options of all operators over all device meshes are found in less than
//   50 ms, starting from empty tables; FlexFlow Train takes 104 s.
// - Identical layers are solved once: twice as many layers take less than twice as long (`layers`).
// - For GPT-3's 96 layers on 1,024 devices, `seconds` is the time for one mesh of three axes.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <fmt/core.h>

#include <unity/hardware/device_mesh.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/mesh/mesh_plan.hpp>
#include <unity/parallel/mesh/operator_graph.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/systems/unity/mesh_solver.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/convert.hpp>
#include <unity/tensor/zoo.hpp>

namespace {

using namespace unity;

const tensor::algebra& operators() {
  static const auto a = tensor::training_algebra();
  return a;
}

tensor::tensor_graph chain(std::int64_t layers) {
  tensor::builder b{operators()};
  auto x = b.input("x", {64, 1024});
  for (std::int64_t i = 0; i < layers; ++i) {
    x = b.linear(x, b.weight(fmt::format("w{}", i), {1024, 1024}), "relu");
  }
  return tensor::with_delivered_outputs(operators(), std::move(b).finish({x}));
}

// Returns the sum of the cheapest costs over meshes, so that the compiler removes no work.
std::int64_t mapped(const tensor::tensor_graph& g, const hardware::machine& m, std::size_t axes,
                    std::size_t most_meshes) {
  const hardware::route_table routes{m.network};
  parallel::shard_clock clock{operators(), parallel::analytic_durations(operators(), m), {0}};
  const parallel::graph_dimensions dimensions{operators(), g};
  const parallel::training_graph training{operators(), g};
  const parallel::operator_graph ops{operators(), g, dimensions, training};
  std::int64_t sum = 0;
  for (auto& mesh : hardware::meshes_of(m.network, axes)) {
    if (most_meshes-- == 0) {
      break;
    }
    systems::mesh_solver solver{
        operators(), m, routes, std::move(mesh), clock, parallel::all_index_uses, parallel::optimizer::sgd};
    sum += solver.solve(ops, {}).cost;
  }
  return sum;
}

void a_chain_is_mapped_onto_four_devices(benchmark::State& state) {
  const auto g = chain(state.range(0));
  const auto m = hardware::preset("p100:1x4");
  for (auto _ : state) {
    benchmark::DoNotOptimize(mapped(g, m, 3, 100));
  }
}
BENCHMARK(a_chain_is_mapped_onto_four_devices)->ArgName("layers")->Arg(64)->Arg(128)->Unit(benchmark::kMillisecond);

void a_large_transformer_is_mapped_onto_1024_devices(benchmark::State& state) {
  const auto g = tensor::with_delivered_outputs(
      operators(),
      tensor::zoo::build(operators(), "zoo:gpt?layers=96&hidden=12288&heads=96&seq=2048&vocab=51200&batch=1024"));
  const auto m = hardware::preset("dgx_a100:128x8");
  for (auto _ : state) {
    benchmark::DoNotOptimize(mapped(g, m, 3, 2));
  }
}
BENCHMARK(a_large_transformer_is_mapped_onto_1024_devices)->Iterations(1)->Unit(benchmark::kSecond);

}  // namespace

BENCHMARK_MAIN();
