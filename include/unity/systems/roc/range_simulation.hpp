// Simulates an epoch of a graph neural network on a machine whose devices have a range of the vertices each.
#pragma once

#include <cstddef>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/gnn/vertex_partition.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/systems/roc/range_balancer.hpp>
#include <unity/systems/roc/range_model.hpp>
#include <unity/systems/roc/range_program.hpp>
#include <unity/systems/roc/vertex_training.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/cost.hpp>
#include <unity/train/outside_arena.hpp>

namespace unity::systems {

// Regular.
struct simulated_epoch {
  picoseconds takes{};
  std::vector<layer_seconds> parts{};   // per part, the seconds of each layer's operators
  std::vector<std::uint32_t> widths{};  // by layer, as range_model::widths
  bytes exchanged{};                    // rows and their cotangents, over all parts
  std::vector<bytes> held{};            // by part, in device memory, without kernel workspaces
  train::moved_bytes moved{};           // between host and device, for the part that moves most

  friend bool operator==(const simulated_epoch&, const simulated_epoch&) = default;
};

// Part k is on device k. times: for the machine's kinds of devices, such as parallel::analytic_durations. host_rate:
// bytes per second between a device and its host, for the moves that a bound t.memory causes, as in train_graph; 0: no
// bound. Complexity: range_graph_of for each part, with one part in memory at a time.
// Throws: unity::error if the machine has fewer devices than there are parts; as range_graph_of and range_model_of.
[[nodiscard]] simulated_epoch simulate_epoch(const tensor::algebra& a, const hardware::machine& m,
                                             const tensor::durations& times, const vertex_training& t,
                                             const vertex_scales& scales, const gnn::vertex_partition& p,
                                             double host_rate = 0);

// A partition from costs learned on simulated epochs: starts with equal edges, and repeats at most `rounds` times while
// a faster one is predicted. Returns the fastest as simulated.
[[nodiscard]] gnn::vertex_partition learn_simulated_partition(const tensor::algebra& a, const hardware::machine& m,
                                                              const tensor::durations& times, const vertex_training& t,
                                                              const vertex_scales& scales, std::size_t parts,
                                                              double host_rate = 0, std::size_t rounds = 5);

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_ROC_RANGE_SIMULATION)

#include <algorithm>
#include <utility>

#include <unity/gnn/range_graph.hpp>
#include <unity/parallel/ranks/simulated_ranks.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/timeline.hpp>
#include <unity/tensor/work.hpp>
#include <unity/train/memory_moves.hpp>
#include <unity/train/value_places.hpp>

namespace unity::systems {

UNITY_INLINE simulated_epoch simulate_epoch(const tensor::algebra& a, const hardware::machine& m,
                                            const tensor::durations& times, const vertex_training& t,
                                            const vertex_scales& scales, const gnn::vertex_partition& p,
                                            double host_rate) {
  parallel::simulated_ranks ranks{a, m, times, t.rule.updates, host_rate};
  const bool is_bounded = host_rate > 0 && t.memory > bytes{};
  auto options = t.program;
  options.loads_all = options.loads_all || is_bounded;
  simulated_epoch result;
  std::vector<std::vector<std::uint32_t>> groups;
  for (std::size_t k = 0; k < p.parts(); ++k) {
    const auto split = joins_edges(t.model.layer) ? gnn::edge_split::joint : gnn::edge_split::apart;
    const auto range = gnn::range_graph_of(t.graph, p, k, split);
    const auto model = range_model_of(a, t.model, range, t.rows, scales, t.graph.offsets()[range.range.begin]);
    const auto programs = range_program(a, model, range, k, p.parts(), options);
    auto program = programs.ranks[k];
    if (is_bounded) {
      auto moves = train::with_moves(a, program, std::vector<std::size_t>(program.steps.size()), t.memory);
      program = std::move(moves.program);
      result.moved = std::max(result.moved, moves.moved,
                              [](const auto& x, const auto& y) { return x.loaded + x.stored < y.loaded + y.stored; });
    }
    const std::vector<std::size_t> workspaces(program.steps.size());
    result.held.push_back(train::memory_of_rank(a, program, t.rule.updates, workspaces).sum());
    const auto takes = ranks.add(program);
    auto& layers = result.parts.emplace_back(model.widths.size());
    for (std::size_t s = 0; s < takes.size(); ++s) {
      if (program.steps[s].kind == parallel::step_kind::run) {
        layers[program.steps[s].origin.index()] += to_seconds(takes[s]);
      } else if (program.steps[s].kind == parallel::step_kind::send) {
        result.exchanged += tensor::total_bytes({&program.graph.type(program.steps[s].value), 1});
      }
    }
    groups = programs.groups;
    result.widths = model.widths;
  }
  const auto program = std::move(ranks).finish(groups);
  simulate::full_simulation s;
  s.run(program);
  result.takes = simulate::summarize(program, s.times()).iteration;
  return result;
}

UNITY_INLINE gnn::vertex_partition learn_simulated_partition(const tensor::algebra& a, const hardware::machine& m,
                                                             const tensor::durations& times, const vertex_training& t,
                                                             const vertex_scales& scales, std::size_t parts,
                                                             double host_rate, std::size_t rounds) {
  auto now = gnn::equal_edges(t.graph, parts);
  auto epoch = simulate_epoch(a, m, times, t, scales, now, host_rate);
  std::vector<std::size_t> kinds;
  for (std::size_t k = 0; k < parts; ++k) {
    kinds.push_back(m.network[hardware::device_id{k}].model);
  }
  range_balancer balancer{t.graph, epoch.widths, std::move(kinds)};
  auto best = now;
  auto least = epoch.takes;
  const gnn::repartition_rule rule{.least_gain = 0, .iterations = 1, .moving = {}};
  for (std::size_t r = 0; r < rounds; ++r) {
    balancer.observe(now, epoch.parts);
    auto next = balancer.better(now, rule);
    if (!next) {
      break;
    }
    now = *std::move(next);
    epoch = simulate_epoch(a, m, times, t, scales, now, host_rate);
    if (epoch.takes < least) {
      least = epoch.takes;
      best = now;
    }
  }
  return best;
}

}  // namespace unity::systems

#endif
