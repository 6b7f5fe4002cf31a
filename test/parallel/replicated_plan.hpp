// A zoo model under data parallelism on a machine.
#pragma once

#include <string>

#include <unity/hardware/presets.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/zoo.hpp>

namespace unity::parallel::test {

inline plan replicated_plan(const tensor::algebra& operators, const std::string& model, const std::string& machine) {
  plan p;
  p.graph = tensor::zoo::build(operators, model);
  p.machine = hardware::preset(machine);
  p.configurations = replicated_data_parallel(graph_dimensions{operators, p.graph}, p.machine.network);
  return p;
}

}  // namespace unity::parallel::test
