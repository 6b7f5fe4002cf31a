// Ranks with fused kernels train as those without do.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/backend/cpu.hpp>
#include <unity/backend/local_communicator.hpp>
#include <unity/core/random.hpp>
#include <unity/fusion/fusion_plan.hpp>
#include <unity/fusion/fusion_session.hpp>
#include <unity/fusion/rank_instructions.hpp>
#include <unity/io/fusion_json.hpp>
#include <unity/machine/presets.hpp>
#include <unity/parallel/ranks/rank_lowering.hpp>
#include <unity/parallel/ranks/spelled_out.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/tensor/loss.hpp>
#include <unity/tensor/zoo.hpp>
#include <unity/train/trainer.hpp>
#include <unity/train/training_plan.hpp>

#include "../fusion/random_instructions.hpp"
#include "../support/cases.hpp"

namespace tests_of_fused_training {

namespace {

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
  return train::with_loss(operators(), p, tensor::loss::cross_entropy);
}

struct fused_job {
  parallel::rank_program program{};
  fusion::rank_instructions instructions{};
  fusion::fusion_target target{};

  explicit fused_job(const parallel::plan& p)
      : program{parallel::spelled_out(operators(), parallel::programs_of_ranks(operators(), p).ranks[0])},
        instructions{fusion::instructions_of(operators(), program,
                                             {parallel::analytic_durations(operators(), p.machine), 5e10, p.updates})} {
    target.kernels = fusion::roofline_kernels(p.machine);
    target.all_reduce = fusion::reduction_line{1, 1e6};
  }
  // Kernels that are grown at random.
  [[nodiscard]] fusion::fusion_plan random_plan(random_engine& random, int changes) const {
    fusion::fusion_session s{instructions.graph, target};
    s.reset(fusion::unfused(instructions.graph));
    for (int k = 0; k < changes; ++k) {
      test::change_at_random(s, instructions.graph, random);
    }
    const auto strategy = s.groups().strategy();
    s.reset(strategy);
    return fusion::plan_of(operators(), program, instructions, strategy, s.schedule(),
                           std::vector<std::uint32_t>(program.weights.size()));
  }
};

std::vector<double> losses_of(const parallel::plan& p, const fusion::fusion_plan* kernels) {
  std::vector<double> losses;
  backend::run_local(static_cast<int>(p.machine.network.device_count()),
                     [&](backend::local_communicator& world) {
                       backend::cpu_options one;
                       one.threads = 1;
                       backend::cpu_backend b{operators(), one};
                       train::trainer rank{b,
                                           operators(),
                                           p,
                                           world,
                                           train::update_rule{parallel::optimizer::sgd, 0.1},
                                           7,
                                           train::batches{operators(), p.graph, 7},
                                           kernels};
                       for (std::uint64_t s = 0; s < 4; ++s) {
                         const auto loss = rank.step(s);
                         if (world.rank() == 0) {
                           losses.push_back(loss);
                         }
                       }
                     },
                     {std::chrono::seconds{20}});
  return losses;
}

}  // namespace

TEST_CASE("random kernels give the losses of operators that run alone") {
  const std::string model = GENERATE("zoo:lenet?batch=4", "zoo:mlp?layers=3&hidden=8&batch=4",
                                     "zoo:bert?layers=1&hidden=8&heads=2&seq=4&vocab=9&batch=4",
                                     "zoo:transformer?layers=1&hidden=8&heads=2&seq=3&vocab=7&batch=4",
                                     "zoo:rnnlm?layers=2&hidden=4&seq=3&vocab=5&batch=4",
                                     "zoo:reformer?layers=1&hidden=4&heads=2&seq=128&vocab=5&batch=2",
                                     "zoo:resnet50?hidden=4&image=32&batch=2");
  const auto p = plan_of(model, 2);
  const auto expected = losses_of(p, nullptr);
  REQUIRE(expected.front() != expected.back());
  const fused_job job{p};
  for (std::uint64_t seed = 1; seed <= test::cases(3); ++seed) {
    INFO(model << ", seed " << seed);
    random_engine random{seed};
    const auto plan = job.random_plan(random, 3000);
    const auto fused =
        std::count_if(plan.kernels.begin(), plan.kernels.end(), [](const auto& k) { return k.size() > 1; });
    REQUIRE(fused > 2);
    REQUIRE(io::parse_fusion(io::to_fusion_text(plan), "fusion") == plan);
    const auto losses = losses_of(p, &plan);
    REQUIRE(losses.size() == expected.size());
    for (std::size_t s = 0; s < losses.size(); ++s) {
      CHECK(losses[s] == Approx(expected[s]).epsilon(1e-4));
    }
  }
}

TEST_CASE("a fusion plan of another model is refused by name") {
  const auto p = plan_of("zoo:lenet?batch=4", 2);
  random_engine random{3};
  auto plan = fused_job{plan_of("zoo:mlp?layers=3&hidden=8&batch=4", 2)}.random_plan(random, 50);
  CHECK_THROWS_WITH(losses_of(p, &plan), Catch::Contains("of a fusion plan"));
}

}  // namespace tests_of_fused_training
