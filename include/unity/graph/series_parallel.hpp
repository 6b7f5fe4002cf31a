// The nested series-parallel structure of a graph, and its irreducible cores.
#pragma once

#include <unity/graph/concepts.hpp>
#include <unity/graph/digraph.hpp>
#include <unity/graph/series_parallel_reduction.hpp>
#include <unity/graph/series_parallel_tree.hpp>

namespace unity {

// Decomposes the part of a graph that is on paths from a source to a sink. All sources are connected to one virtual
// start and all sinks to one virtual finish; several uses between the same two nodes count as one wire.
// Without terminals: those of find_terminals. Expects an acyclic graph.
// Complexity: O((N + E) log N) if the graph is series-parallel. Otherwise each stretch of m edges between nodes that
// every path passes adds O(d * m), for d points there at which branches of a core diverge.
// Source: the reductions of Valdes, Tarjan and Lawler, STOC'79; cores are the rigid components of Hopcroft and Tarjan's
// decomposition, Dividing a graph into triconnected components, SIAM J. Computing 2 (1973).
[[nodiscard]] inline series_parallel_tree decompose_series_parallel(const digraph& g, const terminals& ends) {
  return detail::series_parallel_builder{g, ends}.build();
}
template <dataflow_graph G>
[[nodiscard]] series_parallel_tree decompose_series_parallel(const G& g, const terminals& ends) {
  return decompose_series_parallel(digraph{g}, ends);
}
template <dataflow_graph G>
[[nodiscard]] series_parallel_tree decompose_series_parallel(const G& g) {
  return decompose_series_parallel(g, find_terminals(g));
}

// Whether the graph between its terminals consists of single nodes under series and parallel composition only.
template <dataflow_graph G>
[[nodiscard]] bool is_series_parallel(const G& g) {
  return decompose_series_parallel(g).is_series_parallel();
}

}  // namespace unity
