// Checks that plans compute what their graphs do.
#pragma once

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/parallel/configuration_grid.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/parallel/pcg/plan_values.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/systems/unity.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/equivalence.hpp>
#include <unity/tensor/operation.hpp>

#include "../support/operators.hpp"
#include "shipped_rules.hpp"

namespace unity::test {

// Compares the divided graph with the graph, including the gradients of trained weights.
inline parallel::value_comparison compared_values(const tensor::tensor_graph& g, const parallel::strategy& s,
                                                  std::uint64_t seed) {
  static const parallel::pcg_algebra algebra{training::operators()};
  const parallel::graph_dimensions all{training::operators(), g};
  std::vector<parallel::operator_grid> grids;
  for (const auto n : node_ids(g)) {
    const auto& o = all[n];
    grids.push_back(o.inputs.empty() ? parallel::operator_grid{} : parallel::grid_of(o, s[n.index()]));
  }
  return parallel::compare_values(algebra, g, grids, 20'000'000, seed);
}

// Checks that the values are equal, and that there are gradients.
inline void check_values(const tensor::tensor_graph& g, const parallel::strategy& s, std::uint64_t seed) {
  const auto r = compared_values(g, s, seed);
  CAPTURE(r.sizes, r.nodes, r.elements);
  CHECK(r.verdict == parallel::value_comparison::verdicts::equal);
  CHECK(r.gradients > 0);
}

// Checks that the found graph computes what the given one does.
inline void check_graph(const tensor::tensor_graph& g, const systems::unity_result& r) {
  if (r.pipeline.microbatches == 1) {  // otherwise its graph has fewer samples
    const auto same = tensor::check_equivalence(training::operators(), g, r.graph);
    CAPTURE(same.problem);
    CHECK(same.passed);
  }
}

// Checks that the plan found for the graph computes what the graph does.
inline void check_found(const tensor::tensor_graph& g, const hardware::machine& m, systems::unity_options o) {
  CAPTURE(o.seed);
  const auto r = systems::unity(training::operators(), standard_rules(), g, m,
                                parallel::analytic_durations(training::operators(), m), o);
  CAPTURE(r.rules.size(), r.mesh.sizes.size(), r.pipeline.microbatches);
  check_graph(g, r);
  check_values(r.graph, r.strategy, o.seed);
}

}  // namespace unity::test
