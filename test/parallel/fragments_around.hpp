// The fragments of a lowered program that change with one operator's configuration.
#pragma once

#include <vector>

#include <unity/core/id.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/plan.hpp>

namespace unity::parallel::test {

// All fragments that depend on the node's configuration, under the whole strategy, which must be valid.
inline std::vector<lowered_fragment> fragments_around(lowering& l, const strategy& s, node_id n) {
  std::vector<lowered_fragment> all{{l.fragment_of(n), l.lowered_operator(s, n)}};
  for (const auto e : l.training().edges_of(n)) {
    all.push_back({l.edge_fragment(e), l.lowered_edge(s, e)});
  }
  for (const auto w : l.training().weights_of(n)) {
    all.push_back({l.weight_fragment(w), l.lowered_weight(s, w)});
  }
  return all;
}

}  // namespace unity::parallel::test
