// Small models that are trained by data parallelism, and random fusion plans for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/fusion/fusion_plan.hpp>
#include <unity/fusion/fusion_session.hpp>
#include <unity/fusion/rank_instructions.hpp>
#include <unity/fusion/strategy.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/ranks/rank_lowering.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/parallel/ranks/spelled_out.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/zoo.hpp>

#include "random_instructions.hpp"

namespace unity::test {

inline const tensor::algebra& training_operators() {
  static const auto a = tensor::training_algebra();
  return a;
}

inline parallel::plan data_parallel_plan(const std::string& model, std::size_t devices) {
  parallel::plan p;
  p.graph = tensor::zoo::build(training_operators(), model);
  p.machine = hardware::preset("host:1x" + std::to_string(devices));
  p.configurations =
      parallel::replicated_data_parallel(parallel::graph_dimensions{training_operators(), p.graph}, p.machine.network);
  return p;
}

// The first rank's part of a plan.
struct data_parallel_job {
  parallel::rank_program program{};
  fusion::rank_instructions instructions{};
  fusion::fusion_target target{};

  explicit data_parallel_job(const parallel::plan& p)
      : program{parallel::spelled_out(training_operators(),
                                      parallel::programs_of_ranks(training_operators(), p).ranks[0])} {
    target.kernels = fusion::roofline_kernels(p.machine);
    target.all_reduce = fusion::reduction_line{1, 1e6};
    instructions = fusion::instructions_of(
        training_operators(), program,
        {parallel::analytic_durations(training_operators(), p.machine), 5e10, target.kernels, p.updates});
  }
  [[nodiscard]] fusion::fusion_plan random_plan(random_engine& random, int tries) const {
    fusion::fusion_session s{instructions.graph, target};
    const auto strategy = random_strategy(instructions.graph, target, random, tries);
    s.reset(strategy);
    return fusion::plan_of(training_operators(), program, instructions, strategy, s.order(),
                           std::vector<std::uint32_t>(program.weights.size()));
  }
};

}  // namespace unity::test
