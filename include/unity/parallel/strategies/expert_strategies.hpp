// The strategies that experts would try for a graph, by its kinds of operators.
#pragma once

#include <cstddef>
#include <vector>

#include <unity/graph/concepts.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel {

// One strategy, or several of which the fastest is to be taken: expert_recurrent for graphs with LSTM cells, otherwise
// Megatron's for graphs with attention, otherwise whole tables for graphs with embedding tables, and `expert` for all
// others. Outputs as for `megatron`.
// Complexity: as those.
[[nodiscard]] std::vector<strategy> expert_strategies(const tensor::algebra& a, const tensor::tensor_graph& g,
                                                      const graph_dimensions& all, const hardware::topology& t);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_STRATEGIES_EXPERT_STRATEGIES)

#include <algorithm>

#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/parallel/strategies/megatron.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

// Embedding tables whole on one device each; everything else data-parallel.

namespace detail {

struct embedding_table {
  value_id weight{};
  bytes size{};
  std::vector<node_id> readers{};
};

// In the order of their first readers.
[[nodiscard]] std::vector<embedding_table> tables_of(const tensor::algebra& a, const tensor::tensor_graph& g);

}  // namespace detail

// Whether the graph looks up rows of tables.
[[nodiscard]] inline bool has_tables(const tensor::algebra& a, const tensor::tensor_graph& g) {
  return !detail::tables_of(a, g).empty();
}

// Each table is whole on one device: the largest first, each on the device with the fewest bytes so far. All other
// operators are divided by samples.
// Complexity: linear in the graph; tables times devices.
// Source: Naumov et al., Deep learning recommendation model, 2019, section 4.
[[nodiscard]] strategy whole_tables(const tensor::algebra& a, const tensor::tensor_graph& g,
                                    const graph_dimensions& all, const hardware::topology& t);

}  // namespace unity::parallel

namespace unity::parallel::detail {

UNITY_INLINE std::vector<embedding_table> tables_of(const tensor::algebra& a, const tensor::tensor_graph& g) {
  std::vector<embedding_table> all;
  for (const auto n : node_ids(g)) {
    const auto kind = g.operation(n).kind;
    if (kind != a.kind("embedding") && kind != a.kind("embedding_bag")) {
      continue;
    }
    const auto v = g.operands(n)[0];
    auto at = std::find_if(all.begin(), all.end(), [&](const embedding_table& t) { return t.weight == v; });
    if (at == all.end()) {
      const auto& t = g.type(v);
      at = all.insert(all.end(), {v, bytes{tensor::element_count(t.dims) * tensor::size_of(t.element)}, {}});
    }
    at->readers.emplace_back(n.index());
  }
  return all;
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE strategy whole_tables(const tensor::algebra& a, const tensor::tensor_graph& g, const graph_dimensions& all,
                                   const hardware::topology& t) {
  auto s = data_parallel(all, t);
  auto tables = detail::tables_of(a, g);
  std::sort(tables.begin(), tables.end(), [](const auto& x, const auto& y) {
    return x.size != y.size ? x.size > y.size : x.readers.front() < y.readers.front();
  });
  std::vector<bytes> held(t.device_count());
  for (const auto& table : tables) {
    const auto least = static_cast<std::size_t>(std::min_element(held.begin(), held.end()) - held.begin());
    held[least] += table.size;
    for (const auto n : table.readers) {
      s[n.index()] = on_device(all[n], hardware::device_id{least});
    }
  }
  return s;
}

UNITY_INLINE std::vector<strategy> expert_strategies(const tensor::algebra& a, const tensor::tensor_graph& g,
                                                     const graph_dimensions& all, const hardware::topology& t) {
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
