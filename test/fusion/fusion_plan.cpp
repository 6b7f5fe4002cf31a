// Ranks whose operators run as random kernels have the outputs and gradients of one device.
#include <unity/fusion/fusion_plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/fusion/fusion_session.hpp>
#include <unity/fusion/rank_instructions.hpp>
#include <unity/machine/presets.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/ranks/rank_lowering.hpp>
#include <unity/parallel/ranks/spelled_out.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/zoo.hpp>

#include "../parallel/rank_runs.hpp"
#include "../support/cases.hpp"
#include "random_instructions.hpp"

namespace fusion_plan_test {

using namespace unity;

const tensor::algebra& operators() {
  static const auto a = tensor::training_algebra();
  return a;
}

parallel::plan plan_of(const std::string& model, std::size_t devices) {
  parallel::plan p;
  p.graph = tensor::zoo::build(operators(), model);
  p.machine = machine::preset("host:1x" + std::to_string(devices));
  p.configurations =
      parallel::replicated_data_parallel(parallel::graph_dimensions{operators(), p.graph}, p.machine.network);
  return p;
}

const char* const models[] = {
    "zoo:mlp?layers=3&hidden=8&batch=6", "zoo:bert?layers=1&hidden=8&heads=2&seq=4&vocab=9&batch=6",
    "zoo:transformer?layers=1&hidden=8&heads=2&seq=3&vocab=7&batch=6",
    "zoo:rnnlm?layers=2&hidden=4&seq=3&vocab=5&batch=6", "zoo:dlrm?form=ae&batch=6&hidden=8&vocab=10"};

TEST_CASE("spelled out, ranks compute the same") {
  for (const auto* model : models) {
    INFO(model);
    const auto p = plan_of(model, 2);
    CHECK(parallel::test::error_on_ranks(operators(), p, 3, [](parallel::rank_programs all) {
            for (auto& rank : all.ranks) {
              rank = parallel::spelled_out(operators(), rank);
              for (const auto& s : rank.steps) {
                const bool is_composite = s.kind == parallel::step_kind::run &&
                                          std::holds_alternative<tensor::composite>(
                                              operators().definition_of(rank.graph.operation(s.node).kind).body);
                REQUIRE_FALSE(is_composite);
              }
            }
            return all;
          }) < 1e-9);
  }
}

TEST_CASE("kernels that are found on two ranks run on three, with the gradients of one device") {
  for (const auto* model : models) {
    const auto two = plan_of(model, 2);
    const auto program = parallel::spelled_out(operators(), parallel::programs_of_ranks(operators(), two).ranks[0]);
    const auto all = fusion::instructions_of(
        operators(), program, {parallel::analytic_durations(operators(), two.machine), 5e10, two.updates});
    fusion::fusion_target target;
    target.kernels = fusion::roofline_kernels(two.machine);
    target.all_reduce = fusion::reduction_line{1, 1e6};
    for (std::uint64_t seed = 1; seed <= test::cases(4); ++seed) {
      INFO(model << ", seed " << seed);
      random_engine random{seed};
      fusion::fusion_session s{all.graph, target};
      s.reset(fusion::unfused(all.graph));
      for (int k = 0; k < 2000; ++k) {
        test::change_at_random(s, all.graph, random);
      }
      const auto strategy = s.groups().strategy();
      s.reset(strategy);
      const auto plan = fusion::plan_of(operators(), program, all, strategy, s.schedule(),
                                        std::vector<std::uint32_t>(program.weights.size()));
      std::size_t kernels = 0;
      const auto error =
          parallel::test::error_on_ranks(operators(), plan_of(model, 3), seed, [&](parallel::rank_programs ranks) {
            for (auto& rank : ranks.ranks) {
              rank = fusion::with_kernels(operators(), parallel::spelled_out(operators(), rank), plan);
              kernels += rank.kernels.size();
            }
            return ranks;
          });
      CHECK(kernels > 3);
      CHECK(error < 1e-9);
    }
  }
}

}  // namespace fusion_plan_test
