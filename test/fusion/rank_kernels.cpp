// Ranks whose operators are fused into random kernels compute the outputs and gradients of one device.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/fusion/fusion_plan.hpp>
#include <unity/fusion/fusion_session.hpp>
#include <unity/fusion/instruction_graph.hpp>
#include <unity/fusion/rank_kernels.hpp>
#include <unity/fusion/strategy.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/parallel/ranks/spelled_out.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/shape.hpp>

#include "../parallel/rank_runs.hpp"
#include "../support/cases.hpp"
#include "data_parallel_job.hpp"

namespace rank_kernels_test {

using namespace unity;

const char* const models[] = {
    "zoo:mlp?layers=3&hidden=8&batch=6", "zoo:bert?layers=1&hidden=8&heads=2&seq=4&vocab=9&batch=6",
    "zoo:transformer?layers=1&hidden=8&heads=2&seq=3&vocab=7&batch=6",
    "zoo:rnnlm?layers=2&hidden=4&seq=3&vocab=5&batch=6", "zoo:dlrm?form=ae&batch=6&hidden=8&vocab=10"};

// The ranks' programs with the plan's kernels.
parallel::rank_programs with_kernels(parallel::rank_programs ranks, const fusion::fusion_plan& plan) {
  const auto& a = test::training_operators();
  for (auto& rank : ranks.ranks) {
    rank = fusion::with_kernels(a, parallel::spelled_out(a, rank), plan);
  }
  return ranks;
}

TEST_CASE("spelling out composite operators keeps the results of ranks") {
  for (const auto* model : models) {
    INFO(model);
    const auto p = test::data_parallel_plan(model, 2);
    CHECK(parallel::test::error_on_ranks(test::training_operators(), p, 3, [](parallel::rank_programs all) {
            for (auto& rank : all.ranks) {
              rank = parallel::spelled_out(test::training_operators(), rank);
              for (const auto& s : rank.steps) {
                const bool is_composite =
                    s.kind == parallel::step_kind::run &&
                    std::holds_alternative<tensor::composite>(
                        test::training_operators().definition_of(rank.graph.operation(s.node).kind).body);
                REQUIRE_FALSE(is_composite);
              }
            }
            return all;
          }) < 1e-9);
  }
}

TEST_CASE("kernels found on two ranks run on three with the gradients of one device") {
  for (const auto* model : models) {
    const test::data_parallel_job job{test::data_parallel_plan(model, 2)};
    for (std::uint64_t seed = 1; seed <= test::cases(4); ++seed) {
      INFO(model << ", seed " << seed);
      random_engine random{seed};
      const auto plan = job.random_plan(random, 2000);
      std::size_t kernels = 0;
      const auto error = parallel::test::error_on_ranks(test::training_operators(), test::data_parallel_plan(model, 3),
                                                        seed, [&](parallel::rank_programs ranks) {
                                                          ranks = with_kernels(std::move(ranks), plan);
                                                          for (const auto& rank : ranks.ranks) {
                                                            kernels += rank.kernels.size();
                                                          }
                                                          return ranks;
                                                        });
      CHECK(kernels > 3);
      CHECK(error < 1e-9);
    }
  }
}

TEST_CASE("gradients of different element types are not reduced together") {
  tensor::builder b{test::training_operators()};
  const auto h = b.matmul(b.input("x", {6, 4}), b.weight("w1", {4, 4}));
  const auto wide = b.apply("cast", {h}, {{"element", "float64"}})[0];
  const auto y = b.matmul(wide, b.weight("w2", {4, 4}, tensor::dtype::float64));
  parallel::plan p;
  p.graph = std::move(b).finish({y});
  p.machine = hardware::preset("host:1x2");
  p.configurations = parallel::replicated_data_parallel(parallel::graph_dimensions{test::training_operators(), p.graph},
                                                        p.machine.network);
  const test::data_parallel_job job{p};
  fusion::fusion_session s{job.instructions.graph, job.target};
  s.reset(fusion::unfused(job.instructions.graph));
  REQUIRE(s.buckets().size() == 2);
  CHECK_FALSE(s.join(s.groups().group_of(s.buckets()[0]), s.groups().group_of(s.buckets()[1])));
}

TEST_CASE("operators compute no longer in a kernel than alone") {
  auto p = test::data_parallel_plan(models[0], 2);
  p.machine = hardware::preset("p100:1x2");  // faster than the job's best rate, as for some element types
  const test::data_parallel_job job{p};
  std::size_t products = 0;
  for (fusion::instruction_id i = 0; i < job.instructions.graph.size(); ++i) {
    const auto& x = job.instructions.graph[i];
    if (x.role == fusion::instruction_role::fusible) {
      products += x.is_head() ? 1 : 0;
      CHECK(x.arithmetic <= 1.01 * static_cast<double>((x.duration - job.target.kernels.launch).count()));
    }
  }
  CHECK(products > 3);
}

// Whether an operator moves anything can depend on a rank's shapes.
TEST_CASE("steps of a plan that only alias memory on a rank run nowhere") {
  const std::string model = "zoo:bert?layers=1&hidden=8&heads=2&seq=4&vocab=9&batch=6";
  const auto& operators = test::training_operators();
  const test::data_parallel_job job{test::data_parallel_plan(model, 2)};
  random_engine random{1};
  auto plan = job.random_plan(random, 2000);
  const auto names = fusion::step_names(operators, job.program);
  std::vector<fusion::planned_step> views;
  for (std::size_t s = 0; s < names.size(); ++s) {
    if (!names[s].operation.empty() && fusion::shares_memory(operators, job.program.graph, job.program.steps[s].node)) {
      views.push_back({names[s], false});
    }
  }
  REQUIRE(views.size() > 4);
  plan.kernels.push_back({views[0], views[1]});
  for (std::size_t v = 2; v < views.size(); ++v) {
    plan.kernels[v % plan.kernels.size()].push_back(views[v]);
  }
  CHECK(parallel::test::error_on_ranks(
            operators, test::data_parallel_plan(model, 3), 1,
            [&](parallel::rank_programs ranks) { return with_kernels(std::move(ranks), plan); }) < 1e-9);
}

TEST_CASE("kernels whose results nobody reads do not run") {
  const auto p = test::data_parallel_plan("zoo:mlp?layers=3&hidden=8&batch=4", 2);
  random_engine random{1};
  auto plan = test::data_parallel_job{p}.random_plan(random, 2000);
  auto& fused = *std::find_if(plan.kernels.begin(), plan.kernels.end(), [](const auto& k) { return k.size() > 1; });
  for (auto& x : fused) {
    x.is_copy = true;
  }
  CHECK(parallel::test::error_on_ranks(test::training_operators(), p, 1, [&](parallel::rank_programs ranks) {
          ranks = with_kernels(std::move(ranks), plan);
          for (const auto& rank : ranks.ranks) {
            for (const auto& k : rank.kernels) {
              CHECK_FALSE(k.outputs.empty());
            }
          }
          return ranks;
        }) < 1e-9);
}

}  // namespace rank_kernels_test
