// The operators of a graph, without its inputs, weights and constants.
#pragma once

#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::io::test {

inline std::vector<node_id> operators_of(const tensor::tensor_graph& g) {
  std::vector<node_id> all;
  for (const auto n : node_ids(g)) {
    if (!g.operands(n).empty()) {
      all.push_back(n);
    }
  }
  return all;
}

}  // namespace unity::io::test
