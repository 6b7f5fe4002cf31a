// A graph on a machine, and the search for its pipelines.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <unity/hardware/presets.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/parallel/strategies/strategy_report.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/systems/unity/pipelines.hpp>
#include <unity/tensor/convert.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/zoo.hpp>

#include "../support/operators.hpp"

namespace unity::test {

struct pipeline_subject {
  hardware::machine machine;
  tensor::tensor_graph graph;
  hardware::route_table routes{machine.network};
  parallel::shard_clock clock{training::operators(), parallel::analytic_durations(training::operators(), machine), {0}};
  systems::pipeline_search pipelines;

  pipeline_subject(const tensor::tensor_graph& g, const char* on, const systems::pipeline_options& o = {})
      : machine{hardware::preset(on)},
        graph{tensor::with_delivered_outputs(training::operators(), g)},
        pipelines{training::operators(), machine, routes, clock, o} {}
  pipeline_subject(const std::string& model, const char* on, const systems::pipeline_options& o = {})
      : pipeline_subject{tensor::zoo::build(training::operators(), model), on, o} {}
  pipeline_subject(const pipeline_subject&) = delete;
  pipeline_subject& operator=(const pipeline_subject&) = delete;

  // Report on all devices, without the candidate's memory trades. Checks that the candidate is a valid plan.
  [[nodiscard]] parallel::strategy_report report(const systems::pipeline_candidate& c) const {
    parallel::lowering low{training::operators(), c.graph->graph, machine};
    return parallel::report_on(low, c.graph->graph, machine, systems::pipeline_search::strategy_of(c),
                               systems::pipeline_search::pipeline_of(c));
  }
};

// The number of devices of each stage.
inline std::vector<std::size_t> group_sizes(const parallel::pipeline& p) {
  std::vector<std::size_t> sizes(p.stage_count());
  for (const auto k : p.stages) {
    ++sizes[k];
  }
  return sizes;
}

inline bool is_unequal(const parallel::pipeline& p) {
  const auto sizes = group_sizes(p);
  return std::any_of(sizes.begin(), sizes.end(), [&](std::size_t n) { return n != sizes[0]; });
}

}  // namespace unity::test
