// Which ways of dividing operators a strategy uses.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/parallel/configuration_grid.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/parallel/parallelism_kinds.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/tensor/algebra.hpp>

namespace support {

// "matmul.reduction k", "relu.data i", "layer_norm.copies", "add.terms": by operator and by what is divided, how many
// operators are.
inline std::map<std::string, std::size_t> divisions_used(const unity::tensor::algebra& a, const unity::parallel::graph_dimensions& all,
                                                         const unity::parallel::strategy& s) {
  using namespace unity;
  std::map<std::string, std::size_t> used;
  for (std::size_t n = 0; n < s.size(); ++n) {
    const auto& o = all[node_id{n}];
    if (o.inputs.empty()) {
      continue;
    }
    const auto g = parallel::grid_of(o, s[n]);
    const auto count = [&](const std::string& what) { ++used[a.signature(o.op.kind).name + "." + what]; };
    for (std::size_t i = 0; i < g.indices.size(); ++i) {
      if (g.indices[i] > 1) {
        const auto use = static_cast<std::size_t>(parallel::use_of(a, o, i));
        count(std::string{parallel::index_use_names[use]} + " " + o.structure.indices[i].name);
      }
    }
    if (parallel::product(g.groups) > 1) {
      count("terms");
    }
    if (g.copies > 1) {
      count("copies");
    }
  }
  return used;
}

}  // namespace support
