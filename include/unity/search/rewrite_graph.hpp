// Conversion of graphs to nodes of a store and back.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/graph/topological_order.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/rewrite/node_store.hpp>

namespace unity {

namespace detail {

// Keeps the nodes on which the last one, the sink, depends. `nodes` are in topological order.
template <class Store>
void drop_unused(const Store& store, std::vector<node_id>& nodes) {
  std::vector<bool> used(store.value_count());
  std::vector<node_id> kept;
  for (auto i = nodes.size(); i-- > 0;) {
    bool needed = i + 1 == nodes.size();
    for (const auto v : store.results(nodes[i])) {
      needed = needed || used[v.index()];
    }
    if (needed) {
      kept.push_back(nodes[i]);
      for (const auto v : store.operands(nodes[i])) {
        used[v.index()] = true;
      }
    }
  }
  nodes.assign(kept.rbegin(), kept.rend());
}

}  // namespace detail

namespace detail {

// Whether make() reproduces the operator; properties that are not attributes, such as a layout, may differ.
template <class Algebra>
[[nodiscard]] bool is_made_again(const Algebra& a, const typename Algebra::op_type& op) {
  const auto attributes = a.attributes_of(op);
  const auto made = a.make(a.kind_of(op), attributes);
  if constexpr (variant_algebra<Algebra>) {
    return made && a.kind_of(*made) == a.kind_of(op) && a.attributes_of(*made) == attributes;
  }
  return made == std::optional{op};
}

// Interns a node of a graph with fresh values; sources with equal operators become one (law of `algebra`).
template <class Store>
node_id intern_node(Store& store, const typename Store::op_type& operation, std::size_t place,
                    std::span<const value_id> operands, const std::vector<typename Store::value_type>& types) {
  const auto op = store.intern(operation);
  const auto where = [&] { return fmt::format("node {} ({})", place, store.algebra().signature(store.kind(op)).name); };
  // Rules take operators apart and make new ones: whatever make() drops would make different operators equal.
  if (!detail::is_made_again(store.algebra(), operation)) {
    throw error{where(), "an operator that make() does not give back from its kind and attributes",
                "make(kind_of(op), attributes_of(op)) == op"};
  }
  if (store.infer(op, operands) != std::optional{types}) {
    throw error{where(), "operands or results of other types", "what the operator infers"};
  }
  if (std::max(operands.size(), types.size()) > Store::most_operands) {
    throw error{where(), fmt::format("{} operands or results", std::max(operands.size(), types.size())),
                fmt::format("at most {}", Store::most_operands)};
  }
  if (operands.empty()) {
    return *store.cons(op, operands);
  }
  small_vector<value_id, 8> results;
  for (const auto& t : types) {
    results.push_back(store.new_value(t));
  }
  const auto n = store.define(op, operands, results);
  store.adopt(n);
  return n;
}

}  // namespace detail

// Interns the nodes on which the outputs of `graph` depend, with fresh values and in topological order. The last node
// is a sink without operator that reads the outputs. `origins` receives, for each node of the store, the first graph
// node that it represents, otherwise null.
// Throws: unity::error if the graph is cyclic or operands or results of a node do not fit its operator.
// Complexity: linear in the graph.
template <class Store, dataflow_graph Graph>
[[nodiscard]] std::vector<node_id> intern_graph(Store& store, const Graph& graph,
                                                std::vector<node_id>* origins = nullptr) {
  using traits = graph_traits<Graph>;
  const auto order = topological_order(graph);
  if (!order) {
    throw error{"graph", "a cycle", "an acyclic graph"};
  }
  std::vector<node_id> nodes;
  std::vector<value_id> mine(traits::value_count(graph));
  const auto translated = [&](const auto& values) {
    std::vector<value_id> all;
    for (const auto v : values) {
      all.push_back(mine[v.index()]);
    }
    return all;
  };
  std::vector<node_id> first;
  for (const auto n : *order) {
    std::vector<typename Store::value_type> types;
    for (const auto v : traits::results(graph, n)) {
      types.push_back(traits::type(graph, v));
    }
    const auto made = detail::intern_node(store, traits::operation(graph, n), n.index(),
                                          translated(traits::operands(graph, n)), types);
    std::size_t r = 0;
    for (const auto v : traits::results(graph, n)) {
      mine[v.index()] = store.results(made)[r++];
    }
    first.resize(std::max<std::size_t>(first.size(), made.index() + 1));
    if (!first[made.index()].valid()) {
      first[made.index()] = n;
      nodes.push_back(made);
    }
  }
  const auto outputs = translated(traits::outputs(graph));
  if (outputs.size() > Store::most_operands) {
    throw error{"graph", fmt::format("{} outputs", outputs.size()), fmt::format("at most {}", Store::most_operands)};
  }
  nodes.push_back(store.define(operator_id{}, outputs, {}));
  detail::drop_unused(store, nodes);
  if (origins != nullptr) {
    *origins = std::move(first);
  }
  return nodes;
}

// Extracts nodes of a store as a separate graph. They must be in topological order, the sink last. operands_of(node):
// what it reads. Complexity: linear.
template <class Store, class Operands>
[[nodiscard]] auto extract_graph(const Store& store, std::span<const node_id> nodes, const Operands& operands_of) {
  compact_graph<typename Store::op_type, typename Store::value_type> g;
  std::vector<value_id> there(store.value_count());
  const auto translated = [&](const auto& values) {
    std::vector<value_id> all;
    for (const auto v : values) {
      all.push_back(there[v.index()]);
    }
    return all;
  };
  for (const auto n : nodes.first(nodes.size() - 1)) {
    const auto made =
        g.add_node(store.operation(store.op(n)), translated(operands_of(n)), store.types(store.results(n)));
    for (std::size_t r = 0; r < store.results(n).size(); ++r) {
      there[store.results(n)[r].index()] = g.results(made)[r];
    }
  }
  g.set_outputs(translated(operands_of(nodes.back())));
  return g;
}
template <class Store>
[[nodiscard]] auto extract_graph(const Store& store, std::span<const node_id> nodes) {
  return extract_graph(store, nodes, [&](node_id n) { return store.operands(n); });
}

}  // namespace unity
