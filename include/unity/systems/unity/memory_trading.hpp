// Trades of time for memory by the operators of a mapping, and how a plan states them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <unity/parallel/mesh/mesh_tables.hpp>
#include <unity/parallel/mesh/operator_graph.hpp>
#include <unity/parallel/recomputation.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/systems/unity/mesh_solver.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::systems {

// The cheapest trade of each operator of a mapping onto the solver's mesh. Some operators are not recomputed although
// that would be cheapest: they are checkpoints.
// Precondition: the objective allows trades.
// Complexity: linear in the graph.
[[nodiscard]] std::vector<parallel::memory_trade> trades_of(mesh_solver& solver, const tensor::tensor_graph& g,
                                                            const parallel::operator_graph& ops,
                                                            std::span<const std::uint32_t> options,
                                                            const parallel::mapping_objective& objective);

// The nodes that the trades recompute. Empty if there are none.
[[nodiscard]] parallel::recomputation recomputation_of(const tensor::tensor_graph& g,
                                                       const parallel::operator_graph& ops,
                                                       std::span<const parallel::memory_trade> trades);

// The weights that the trades divide, with their ZeRO stages. A weight that several operators read has the highest of
// the operators' stages. Empty if no weight is divided.
[[nodiscard]] parallel::synchronization synchronization_of(const tensor::tensor_graph& g,
                                                           const parallel::training_graph& training,
                                                           const parallel::operator_graph& ops,
                                                           std::span<const parallel::memory_trade> trades);

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_UNITY_MEMORY_TRADING)

#include <algorithm>
#include <cstddef>

#include <unity/core/config.hpp>

namespace unity::systems {

UNITY_INLINE std::vector<parallel::memory_trade> trades_of(mesh_solver& solver, const tensor::tensor_graph& g,
                                                           const parallel::operator_graph& ops,
                                                           std::span<const std::uint32_t> options,
                                                           const parallel::mapping_objective& objective) {
  std::vector<parallel::memory_trade> all;
  parallel::recomputation again(g.node_count());
  std::vector<bytes> held(g.node_count());
  for (std::uint32_t i = 0; i < ops.size(); ++i) {
    const auto& o = solver.tables().of(ops.placed(i)).options[options[i]];
    all.push_back(parallel::trade_of(o, objective));
    const auto n = ops.node(i).index();
    again[n] = all.back().is_recomputed && parallel::can_recompute(g, ops.node(i));
    held[n] = o.activations;
  }
  again = parallel::with_checkpoints(g, again, held);
  for (std::uint32_t i = 0; i < ops.size(); ++i) {
    all[i].is_recomputed = again[ops.node(i).index()];
  }
  return all;
}

UNITY_INLINE parallel::recomputation recomputation_of(const tensor::tensor_graph& g,
                                                      const parallel::operator_graph& ops,
                                                      std::span<const parallel::memory_trade> trades) {
  parallel::recomputation again;
  for (std::uint32_t i = 0; i < trades.size(); ++i) {
    if (trades[i].is_recomputed) {
      again.resize(g.node_count());
      again[ops.node(i).index()] = true;
    }
  }
  return again;
}

UNITY_INLINE parallel::synchronization synchronization_of(const tensor::tensor_graph& g,
                                                          const parallel::training_graph& training,
                                                          const parallel::operator_graph& ops,
                                                          std::span<const parallel::memory_trade> trades) {
  std::vector<std::uint32_t> stage_of(g.node_count());
  for (std::uint32_t i = 0; i < trades.size(); ++i) {
    stage_of[ops.node(i).index()] = trades[i].sharding;
  }
  parallel::synchronization s;
  for (std::size_t w = 0; w < training.weights().size(); ++w) {
    const auto& weight = training.weights()[w];
    std::uint32_t stage = 0;
    for (const auto& use : weight.uses) {
      stage = std::max(stage, stage_of[use.node.index()]);
    }
    if (weight.is_trained && stage > 0) {
      s.weights.resize(training.weights().size());
      auto& part = s.weights[w].parts.front();
      part.kind = parallel::sync_kind::sharded;
      part.stage = stage;
    }
  }
  return s;
}

}  // namespace unity::systems

#endif
