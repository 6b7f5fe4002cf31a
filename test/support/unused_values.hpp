// Outputs for random graphs: with these nothing is dead.
#pragma once

#include <cstddef>
#include <vector>

#include <unity/core/id.hpp>

namespace unity::test {

// The values that no node reads, but for those of nodes of which another result is read.
template <class Graph>
std::vector<value_id> unused_values(const Graph& g) {
  std::vector<bool> used(g.value_count());
  for (std::size_t i = 0; i < g.node_count(); ++i) {
    for (const auto v : g.operands(node_id{i})) {
      used[v.index()] = true;
    }
  }
  std::vector<value_id> outputs;
  for (std::size_t i = 0; i < g.node_count(); ++i) {
    bool needed = false;
    for (const auto v : g.results(node_id{i})) {
      needed = needed || used[v.index()];
    }
    if (!needed) {
      outputs.push_back(g.results(node_id{i})[0]);
    }
  }
  return outputs;
}

}  // namespace unity::test
