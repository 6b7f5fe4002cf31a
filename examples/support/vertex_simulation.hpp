// An epoch of `train_graph` on a machine that is not there.
#pragma once

#include <algorithm>
#include <array>
#include <numeric>
#include <string>

#include <fmt/core.h>

#include <unity/core/units.hpp>
#include <unity/gnn/minmax_partition.hpp>
#include <unity/gnn/vertex_partition.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/systems/roc/range_simulation.hpp>
#include <unity/tensor/algebra.hpp>

#include "machines.hpp"
#include "vertex_flags.hpp"
#include "vertex_job.hpp"

namespace support {

struct simulated_division {
  const char* name = "";
  double epoch = 0;    // seconds
  double slowest = 0;  // operators of the part that takes longest, seconds
  std::int64_t exchanged = 0;
};

struct vertex_simulation {
  std::string machine{};
  std::size_t devices = 0;
  std::array<simulated_division, 3> divisions{};
};

// With times by the roofline of the machine's devices.
inline vertex_simulation simulated(const vertex_flags& a, const unity::tensor::algebra& operators,
                                   const vertex_job& j) {
  namespace gnn = unity::gnn;
  const auto m = load_machine(a.machine);
  const auto parts = m.network.device_count();
  const auto t = training_of(a, j, j.data);
  const auto scales = unity::systems::scales_of(t.model, t.graph);
  const unity::tensor::durations times = unity::parallel::analytic_durations(operators, m);
  expect_vertices(parts, a.machine, j.data);
  const auto on = [&](const char* name, const gnn::vertex_partition& p) {
    const auto e = unity::systems::simulate_epoch(operators, m, times, t, scales, p);
    double slowest = 0;
    for (const auto& layers : e.parts) {
      slowest = std::max(slowest, std::accumulate(layers.begin(), layers.end(), 0.0));
    }
    return simulated_division{name, unity::to_seconds(e.takes), slowest, e.exchanged.count()};
  };
  print_assumed(m);
  return {m.name,
          parts,
          {on("equal_vertices", gnn::equal_vertices(t.graph.vertices(), parts)),
           on("equal_edges", without_empty_parts(gnn::equal_edges(t.graph, parts))),
           on("learned", unity::systems::learn_simulated_partition(operators, m, times, t, scales, parts))}};
}

inline void print(const vertex_simulation& s) {
  fmt::print("simulated on {}, {} devices:\n{:<16}{:>12}{:>20}{:>16}\n", s.machine, s.devices, "division", "epoch, ms",
             "slowest part, ms", "exchanged, MB");
  for (const auto& d : s.divisions) {
    fmt::print("{:<16}{:>12.3f}{:>20.3f}{:>16.3f}\n", d.name, d.epoch * 1e3, d.slowest * 1e3,
               static_cast<double>(d.exchanged) * 1e-6);
  }
}

}  // namespace support
