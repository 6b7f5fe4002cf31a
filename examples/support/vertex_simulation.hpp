// Simulates an epoch of `train_graph` on another machine.
#pragma once

#include <algorithm>
#include <array>
#include <numeric>
#include <string>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/units.hpp>
#include <unity/gnn/vertex_partition.hpp>
#include <unity/parallel/strategies/memory_limits.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/systems/roc/range_simulation.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/train/outside_arena.hpp>

#include "machines.hpp"
#include "quantity.hpp"
#include "vertex_flags.hpp"
#include "vertex_job.hpp"

namespace support {

struct simulated_division {
  const char* name = "";
  double epoch = 0;    // seconds
  double slowest = 0;  // operators of the slowest part, seconds
  std::int64_t exchanged = 0;
  std::int64_t held = 0;  // bytes, of the device that holds most
  unity::train::moved_bytes moved{};
  std::string excess{};  // what does not fit; empty: all fits
};

struct vertex_simulation {
  std::string machine{};
  std::size_t devices = 0;
  std::array<simulated_division, 3> divisions{};
};

// Bytes per second between device and host; 0: without --memory.
// Throws: unity::error if the flags do not fit each other.
inline double host_rate_of(const vertex_flags& a) {
  if (!a.offload.empty() && (a.machine.empty() || a.memory.empty())) {
    throw unity::error{"--offload", "nothing that is simulated to move", "--machine and --memory with it"};
  }
  if (a.machine.empty() || a.memory.empty()) {
    return 0;
  }
  if (a.offload.empty()) {
    throw unity::error{"--memory", "no rate at which values move on --machine", "--offload RATE with it"};
  }
  return parse_host_rate(a.offload);
}

// With times by the roofline of the machine's devices.
inline vertex_simulation simulated(const vertex_flags& a, const unity::tensor::algebra& operators,
                                   const vertex_job& j) {
  namespace gnn = unity::gnn;
  const auto m = load_machine(a.machine);
  const auto parts = m.network.device_count();
  const auto t = training_of(a, j, j.data);
  const auto scales = unity::systems::scales_of(t.model, t.graph);
  const unity::tensor::durations times = unity::parallel::analytic_durations(operators, m);
  const auto rate = host_rate_of(a);
  const auto limits = unity::parallel::memory_limits(m);
  const auto on = [&](const char* name, const gnn::vertex_partition& p) {
    const auto e = unity::systems::simulate_epoch(operators, m, times, t, scales, p, rate);
    double slowest = 0;
    for (const auto& layers : e.parts) {
      slowest = std::max(slowest, std::accumulate(layers.begin(), layers.end(), 0.0));
    }
    const auto over = unity::parallel::excess_over(limits, e.held);
    return simulated_division{name,
                              unity::to_seconds(e.takes),
                              slowest,
                              e.exchanged.count(),
                              std::max_element(e.held.begin(), e.held.end())->count(),
                              e.moved,
                              over.empty() ? std::string{} : unity::parallel::describe(m, over)};
  };
  print_assumed(m);
  return {m.name,
          parts,
          {on("equal_vertices", gnn::equal_vertices(t.graph.vertices(), parts)),
           on("equal_edges", without_empty_parts(gnn::equal_edges(t.graph, parts))),
           on("learned", unity::systems::learn_simulated_partition(operators, m, times, t, scales, parts, rate))}};
}

inline void print(const vertex_simulation& s) {
  fmt::print("simulated on {}, {} devices:\n{:<16}{:>12}{:>20}{:>16}{:>12}{:>12}\n", s.machine, s.devices, "division",
             "epoch, ms", "slowest part, ms", "exchanged, MB", "held, MB", "moved, MB");
  for (const auto& d : s.divisions) {
    fmt::print("{:<16}{:>12.3f}{:>20.3f}{:>16.3f}{:>12.3f}{:>12.3f}\n", d.name, d.epoch * 1e3, d.slowest * 1e3,
               static_cast<double>(d.exchanged) * 1e-6, static_cast<double>(d.held) * 1e-6,
               static_cast<double>((d.moved.loaded + d.moved.stored).count()) * 1e-6);
  }
  for (const auto& d : s.divisions) {
    if (!d.excess.empty()) {
      fmt::print("{} does not fit: {}\n", d.name, d.excess);
    }
  }
}

}  // namespace support
