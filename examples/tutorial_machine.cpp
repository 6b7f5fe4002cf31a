// Tutorial 8: a new machine, and the time of a training iteration on it.
//
// run:
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <range/v3/view/indices.hpp>

#include <unity/core/units.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/simulate/full.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/zoo.hpp>

namespace hardware = unity::hardware;
namespace parallel = unity::parallel;
namespace tensor = unity::tensor;

// Two workstations with two GPUs each: 10 TFLOP/s and 500 GB/s of memory, a PCIe switch in each, Ethernet between them.
hardware::machine workstations(std::int64_t ethernet) {
  constexpr std::int64_t microsecond = 1'000'000;  // in picoseconds
  hardware::machine m;
  m.name = "workstations";
  auto& gpu = m.devices.emplace_back();
  gpu.name = "gpu";
  gpu.kind = hardware::device_kind::gpu;
  gpu.peaks = {{tensor::dtype::float32, "matmul", 10e12}};
  gpu.bytes_per_second = 500e9;
  gpu.memory = unity::bytes{std::int64_t{8} << 30};
  gpu.launch_seconds = 5e-6;

  // Devices are the first vertices; switches follow.
  std::vector<hardware::placed_device> devices;
  std::vector<hardware::cable> cables;
  const std::vector<std::string> switches{"pcie0", "pcie1", "ethernet"};
  const auto vertex = [](std::size_t n) { return hardware::vertex_id{n}; };
  for (const auto d : ranges::views::indices(std::size_t{4})) {
    devices.push_back({fmt::format("gpu{}", d), 0, static_cast<std::uint32_t>(d / 2)});
    cables.push_back({vertex(d), vertex(4 + d / 2), 12'000'000'000, unity::picoseconds{microsecond}});
  }
  for (const auto node : ranges::views::indices(std::size_t{2})) {
    cables.push_back({vertex(4 + node), vertex(6), ethernet, unity::picoseconds{10 * microsecond}});
  }
  m.network = hardware::topology{devices, switches, cables};
  return m;
}

int failures = 0;
void check(bool holds, const std::string& what) {
  fmt::print("{:8}{}\n", holds ? "ok" : "FAILED", what);
  failures += holds ? 0 : 1;
}

int main() {
  const auto operators = tensor::training_algebra();
  const auto graph = tensor::zoo::build(operators, "zoo:mlp?layers=4&hidden=2048&batch=256");

  // One training iteration under data parallelism. Unit: picoseconds.
  const auto iteration = [&](const hardware::machine& on) {
    const parallel::graph_dimensions dimensions{operators, graph};
    parallel::plan plan;
    plan.graph = graph;
    plan.machine = on;
    plan.configurations = parallel::data_parallel(dimensions, on.network);
    return unity::simulate::full_simulation{}.run(parallel::lower(operators, plan)).count();
  };
  const auto slow = iteration(workstations(1'250'000'000));
  const auto fast = iteration(workstations(12'500'000'000));
  fmt::print("10 Gbit/s: {} us, 100 Gbit/s: {} us\n", slow / 1'000'000, fast / 1'000'000);
  check(fast < slow, "a faster network helps where gradients cross it");

  // Four layers of 2048 x 2048 weights and biases: each workstation sends and receives gradients of that size.
  const auto gradients = 4 * (std::int64_t{2048} * 2048) * 4;
  const auto least = static_cast<double>(gradients) / 1.25e9 * 1e12;
  check(static_cast<double>(slow) > least, "no less than what the network takes for the gradients");
  check(static_cast<double>(slow) < 1.5 * least + 20e9, "and the network is what takes the time");
  return failures == 0 ? 0 : 1;
}
