// The types of a graph's outputs.
#pragma once

#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>

namespace unity {

// In the order of the outputs; an output that is listed twice counts twice. Complexity: linear in their number.
template <dataflow_graph G>
[[nodiscard]] std::vector<type_t<G>> output_types(const G& g) {
  std::vector<type_t<G>> all;
  for (const value_id v : graph_traits<G>::outputs(g)) {
    all.push_back(graph_traits<G>::type(g, v));
  }
  return all;
}

}  // namespace unity
