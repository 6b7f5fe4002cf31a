// The strategies that experts would try for a graph, by its kinds of operators.
#pragma once

#include <cstddef>
#include <vector>

#include <unity/graph/concepts.hpp>
#include <unity/machine/topology.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel {

// One strategy, or several of which the fastest is to be taken: Megatron's for graphs with attention, whole tables for
// graphs with embedding tables, and `expert` for recurrent and all other networks. Outputs as for `megatron`.
// Complexity: as those.
[[nodiscard]] std::vector<strategy> expert_strategies(const tensor::algebra& a, const tensor::tensor_graph& g,
                                                      const graph_dimensions& all, const machine::topology& t);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_STRATEGIES_EXPERT_STRATEGIES)

#include <unity/core/id.hpp>
#include <unity/parallel/strategies/megatron.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/parallel/strategies/whole_tables.hpp>

namespace unity::parallel {

UNITY_INLINE std::vector<strategy> expert_strategies(const tensor::algebra& a, const tensor::tensor_graph& g,
                                                     const graph_dimensions& all, const machine::topology& t) {
  const auto cell = a.kind("lstm_cell");
  for (const auto n : node_ids(g)) {
    if (g.operation(n).kind == cell) {
      return {expert_recurrent(a, g, all, t)};
    }
  }
  if (is_transformer(a, all)) {
    return megatron(a, g, all, t);
  }
  return {has_tables(a, g) ? whole_tables(a, g, all, t) : expert(a, g, all, t)};
}

}  // namespace unity::parallel

#endif
