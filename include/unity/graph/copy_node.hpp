// Copies a node from one graph to another.
#pragma once

#include <cstddef>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>

namespace unity {

// Adds a node of `from` to `to`: the same operator and types, with mapped operands. Returns the new node.
// map: by value of `from`, the value of `to`; must contain the operands, receives the results.
// Complexity: linear in operands and results.
template <class Op, class Type>
node_id copy_node(const compact_graph<Op, Type>& from, node_id n, compact_graph<Op, Type>& to,
                  std::vector<value_id>& map) {
  std::vector<value_id> operands;
  for (const auto v : from.operands(n)) {
    UNITY_EXPECTS(map[v.index()].valid(), "a map that has the operands of the node");
    operands.push_back(map[v.index()]);
  }
  const auto results = from.results(n);
  std::vector<Type> types;
  for (const auto v : results) {
    types.push_back(from.type(v));
  }
  const auto own = to.add_node(from.operation(n), operands, types);
  for (std::size_t r = 0; r < results.size(); ++r) {
    map[results[r].index()] = to.results(own)[r];
  }
  return own;
}

}  // namespace unity
