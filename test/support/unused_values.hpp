// Outputs for random graphs, such that no node is dead.
#pragma once

#include <cstddef>
#include <vector>

#include <unity/core/id.hpp>

namespace unity::test {

// The values that no node reads, except those of nodes with another result that is read.
template <class Graph>
std::vector<value_id> unused_values(const Graph& g) {
  std::vector<bool> used(g.value_count());
  for (const auto i : node_ids(g)) {
    for (const auto v : g.operands(i)) {
      used[v.index()] = true;
    }
  }
  std::vector<value_id> outputs;
  for (const auto i : node_ids(g)) {
    bool needed = false;
    for (const auto v : g.results(i)) {
      needed = needed || used[v.index()];
    }
    if (!needed) {
      outputs.push_back(g.results(i)[0]);
    }
  }
  return outputs;
}

}  // namespace unity::test
