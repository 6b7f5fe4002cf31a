// Random graphs for the tests of this folder, in every form that the library reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <boost/graph/adjacency_list.hpp>

#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/graph/boost_graph.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>

namespace unity::test {

// Operators and types are numbers.
using number_graph = compact_graph<int, int>;

// A graph without invariants: ids in any order, dangling ids, cycles.
struct loose_graph {
  struct node {
    int operation = 0;
    std::vector<value_id> operands;
    std::vector<value_id> results;
  };

  std::vector<node> nodes;
  std::vector<node_id> producers;
  std::vector<int> types;
  std::vector<value_id> output_values;

  std::size_t node_count() const { return nodes.size(); }
  std::size_t value_count() const { return producers.size(); }
  int operation(node_id n) const { return nodes[n.index()].operation; }
  const std::vector<value_id>& operands(node_id n) const { return nodes[n.index()].operands; }
  const std::vector<value_id>& results(node_id n) const { return nodes[n.index()].results; }
  int type(value_id v) const { return types[v.index()]; }
  node_id producer(value_id v) const { return producers[v.index()]; }
  const std::vector<value_id>& outputs() const { return output_values; }
};
static_assert(dataflow_graph<loose_graph>);

// Boost lists as users write them: without in-edges, and with operator, type and outputs in bundled properties.
using boost_list = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, int, operand_place>;
using boost_form = boost_dataflow<boost_list, int>;
struct plain_vertex {
  int kind = 0;
  int type = 0;
};
struct plain_edge {
  int position = 0;
};
struct plain_bundle {
  std::vector<value_id> outputs;
};
using plain_boost_graph =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS, plain_vertex, plain_edge, plain_bundle>;

struct graph_shape {
  std::size_t nodes = 10;
  std::size_t labels = 4;
  std::size_t most_operands = 3;
  std::size_t most_results = 2;
  std::size_t window = 8;  // operands are among the last `window` values: a small window makes deep graphs
  std::size_t outputs = 2;
};

inline number_graph random_graph(random_engine& rng, const graph_shape& shape) {
  number_graph g;
  for (std::size_t n = 0; n < shape.nodes; ++n) {
    std::vector<value_id> operands;
    const std::size_t values = g.value_count();
    const std::size_t from = values > shape.window ? values - shape.window : 0;
    if (values > 0) {
      for (std::size_t i = rng.below(shape.most_operands + 1); i > 0; --i) {
        operands.emplace_back(from + rng.below(values - from));
      }
    }
    // One draw per statement: the order of draws must not depend on the compiler.
    const std::size_t results = 1 + rng.below(shape.most_results);
    const auto type = static_cast<int>(rng.below(3));
    g.add_node(static_cast<int>(rng.below(shape.labels)), operands, std::vector<int>(results, type));
  }
  std::vector<value_id> outputs;
  for (std::size_t i = 0; g.value_count() > 0 && i < shape.outputs; ++i) {
    outputs.emplace_back(rng.below(g.value_count()));
  }
  g.set_outputs(outputs);
  return g;
}

// A permutation of 0 .. count-1.
inline std::vector<std::size_t> random_permutation(random_engine& rng, std::size_t count) {
  std::vector<std::size_t> p(count);
  for (std::size_t i = 0; i < count; ++i) {
    p[i] = i;
    std::swap(p[i], p[rng.below(i + 1)]);
  }
  return p;
}

// The same graph with permuted ids of nodes and values.
template <dataflow_graph G>
loose_graph relabelled(const G& g, random_engine& rng) {
  using traits = graph_traits<G>;
  const auto nodes = random_permutation(rng, traits::node_count(g));
  const auto values = random_permutation(rng, traits::value_count(g));
  loose_graph r;
  r.nodes.resize(nodes.size());
  r.producers.resize(values.size());
  r.types.resize(values.size());
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    auto& node = r.nodes[nodes[n]];
    node.operation = traits::operation(g, node_id{n});
    for (const value_id v : traits::operands(g, node_id{n})) {
      node.operands.emplace_back(values[v.index()]);
    }
    for (const value_id v : traits::results(g, node_id{n})) {
      node.results.emplace_back(values[v.index()]);
      r.producers[values[v.index()]] = node_id{nodes[n]};
      r.types[values[v.index()]] = traits::type(g, v);
    }
  }
  for (const value_id v : traits::outputs(g)) {
    r.output_values.emplace_back(values[v.index()]);
  }
  return r;
}

// A copy of g as another mutable graph type, node by node.
template <mutable_dataflow_graph To>
To copy_as(const number_graph& g) {
  To copy;
  for (const auto n : node_ids(g)) {
    std::vector<int> types;
    for (const value_id v : g.results(n)) {
      types.push_back(g.type(v));
    }
    copy.add_node(g.operation(n), g.operands(n), types);
  }
  copy.set_outputs(g.outputs());
  return copy;
}

// Expects one result per node. Edges are added in a random order, so that only positions tell operands apart.
inline plain_boost_graph as_plain_boost(const number_graph& g, random_engine& rng) {
  plain_boost_graph plain(g.node_count());
  std::vector<std::pair<std::size_t, std::size_t>> operands;
  for (const auto n : node_ids(g)) {
    plain[n.index()] = {g.operation(n), g.type(value_id{n.index()})};
    for (std::size_t i = 0; i < g.operands(n).size(); ++i) {
      operands.emplace_back(n.index(), i);
    }
  }
  for (const std::size_t i : random_permutation(rng, operands.size())) {
    const auto [n, position] = operands[i];
    const value_id v = g.operands(node_id{n})[position];
    add_edge(v.index(), n, plain_edge{static_cast<int>(position)}, plain);
  }
  plain[boost::graph_bundle].outputs.assign(g.outputs().begin(), g.outputs().end());
  return plain;
}

// Calls check(graph) with g as a compact graph, as a Boost graph behind its index, as a plain Boost graph if every node
// has one result, and with ids in random order.
template <class Check>
void in_every_form(const number_graph& g, random_engine& rng, const Check& check) {
  check(g);
  check(copy_as<boost_form>(g));
  if (g.value_count() == g.node_count()) {
    check(as_plain_boost(g, rng));
  }
  check(relabelled(g, rng));
}

// A shape drawn at random: deep and wide, with one result per node and with several.
inline graph_shape random_shape(random_engine& rng, std::size_t most_nodes) {
  return {.nodes = rng.below(most_nodes + 1),
          .labels = 1 + rng.below(4),
          .most_operands = 1 + rng.below(3),
          .most_results = 1 + rng.below(2),
          .window = 1 + rng.below(most_nodes),
          .outputs = rng.below(4)};
}

// The transitive closure (Warshall's algorithm): whether a path of at least one edge leads from each node (first index)
// to each other.
template <dataflow_graph G>
std::vector<std::vector<char>> path_matrix(const G& g) {
  using traits = graph_traits<G>;
  const std::size_t nodes = traits::node_count(g);
  std::vector<std::vector<char>> path(nodes, std::vector<char>(nodes, 0));
  for (std::size_t n = 0; n < nodes; ++n) {
    for (const value_id v : traits::operands(g, node_id{n})) {
      path[traits::producer(g, v).index()][n] = 1;
    }
  }
  for (std::size_t k = 0; k < nodes; ++k) {
    for (std::size_t i = 0; i < nodes; ++i) {
      for (std::size_t j = 0; j < nodes; ++j) {
        path[i][j] = static_cast<char>(path[i][j] | (path[i][k] & path[k][j]));
      }
    }
  }
  return path;
}

}  // namespace unity::test
