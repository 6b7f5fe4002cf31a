// Ranks with fused kernels train as ranks without.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/backend/cpu.hpp>
#include <unity/backend/local_communicator.hpp>
#include <unity/core/random.hpp>
#include <unity/core/units.hpp>
#include <unity/fusion/fusion_plan.hpp>
#include <unity/fusion/rank_kernels.hpp>
#include <unity/io/fusion_json.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/ranks/rank_lowering.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/parallel/ranks/spelled_out.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/tensor/loss.hpp>
#include <unity/train/trainer.hpp>
#include <unity/train/training_plan.hpp>
#include <unity/train/value_places.hpp>

#include "../fusion/data_parallel_job.hpp"
#include "../support/cases.hpp"

namespace tests_of_fused_training {

namespace {

using namespace unity;

const auto& operators = test::training_operators;

parallel::plan plan_of(const std::string& model, std::size_t devices) {
  return train::with_loss(operators(), test::data_parallel_plan(model, devices), tensor::loss::cross_entropy);
}

// kernels: null for none.
std::vector<double> losses_of(const parallel::plan& p, const fusion::fusion_plan* kernels) {
  train::program_change change;
  if (kernels != nullptr) {
    change = [&](const parallel::rank_program& own) {
      return fusion::with_kernels(operators(), parallel::spelled_out(operators(), own), *kernels);
    };
  }
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
                                           change};
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

TEST_CASE("random fusion plans give the losses of unfused training") {
  const std::string model = GENERATE("zoo:lenet?batch=4", "zoo:mlp?layers=3&hidden=8&batch=4",
                                     "zoo:bert?layers=1&hidden=8&heads=2&seq=4&vocab=9&batch=4",
                                     "zoo:transformer?layers=1&hidden=8&heads=2&seq=3&vocab=7&batch=4",
                                     "zoo:rnnlm?layers=2&hidden=4&seq=3&vocab=5&batch=4",
                                     "zoo:reformer?layers=1&hidden=4&heads=2&seq=128&vocab=5&batch=2",
                                     "zoo:resnet50?hidden=4&image=32&batch=2");
  const auto p = plan_of(model, 2);
  const auto expected = losses_of(p, nullptr);
  REQUIRE(expected.front() != expected.back());
  const test::data_parallel_job job{p};
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

TEST_CASE("ranks that exchange values in both passes do not wait for each other in a circle") {
  // A view that the plan does not name is between the cotangent that the second rank receives and the first kernel that
  // reads it.
  const auto p = plan_of("zoo:nasrnn?hidden=16&seq=2&batch=4", 2);
  random_engine random{1};
  const auto plan = test::data_parallel_job{p}.random_plan(random, 100);
  const auto expected = losses_of(p, nullptr);
  const auto losses = losses_of(p, &plan);
  REQUIRE(losses.size() == expected.size());
  for (std::size_t s = 0; s < losses.size(); ++s) {
    CHECK(losses[s] == Approx(expected[s]).epsilon(1e-4));
  }
}

TEST_CASE("fused kernels give the losses of unfused training with compressed gradients") {
  auto p = plan_of("zoo:mlp?layers=3&hidden=8&batch=4", 2);
  const test::data_parallel_job job{p};
  random_engine random{4};
  const auto plan = job.random_plan(random, 3000);
  const auto exact = losses_of(p, nullptr);
  const parallel::training_graph training{operators(), p.graph};
  p.synchronization.weights.resize(training.weights().size());
  for (const auto& method : {parallel::compressor{parallel::compression::top_k, true, 100},
                             parallel::compressor{parallel::compression::power_sgd, true, 2},
                             parallel::compressor{parallel::compression::bfloat16, true, 0}}) {
    for (auto& w : p.synchronization.weights) {
      w.parts.front().compressor = method;
    }
    CAPTURE(method.kind);
    const auto expected = losses_of(p, nullptr);
    const auto losses = losses_of(p, &plan);
    CHECK(expected != exact);
    REQUIRE(losses.size() == expected.size());
    for (std::size_t s = 0; s < losses.size(); ++s) {
      CHECK(losses[s] == Approx(expected[s]).epsilon(1e-4));
    }
  }
}

namespace {

void synchronize_all(parallel::plan& p, const parallel::synchronizer& sync) {
  const parallel::training_graph training{operators(), p.graph};
  p.synchronization.weights.assign(training.weights().size(), parallel::weight_sync{0, {sync}});
}

parallel::synchronizer sharded(std::uint32_t stage) {
  parallel::synchronizer sync;
  sync.kind = parallel::sync_kind::sharded;
  sync.stage = stage;
  sync.prefetch = stage == 3 ? 0 : sync.prefetch;
  return sync;
}

// Bytes of the first rank's values, besides weights. kernels: null for none.
bytes arena_of(const parallel::plan& p, const fusion::fusion_plan* kernels) {
  const auto own = parallel::programs_of_ranks(operators(), p).ranks.front();
  const auto spelled_out = parallel::spelled_out(operators(), own);
  const auto run = kernels == nullptr ? spelled_out : fusion::with_kernels(operators(), spelled_out, *kernels);
  return train::memory_of_rank(operators(), run, p.updates, {}).arena;
}

}  // namespace

TEST_CASE("fused kernels give the losses of unfused training with divided weights") {
  auto p = plan_of("zoo:lenet?batch=4", 4);  // weights of 6 rows: a rank has none to update
  const test::data_parallel_job job{p};
  for (std::uint32_t stage = 1; stage <= 3; ++stage) {
    synchronize_all(p, sharded(stage));
    const auto expected = losses_of(p, nullptr);
    for (std::uint64_t seed = 1; seed <= test::cases(3); ++seed) {
      CAPTURE(stage, seed);
      random_engine random{seed};
      const auto plan = job.random_plan(random, 1000);
      const auto losses = losses_of(p, &plan);
      REQUIRE(losses.size() == expected.size());
      for (std::size_t s = 0; s < losses.size(); ++s) {
        CHECK(losses[s] == Approx(expected[s]).epsilon(1e-4));
      }
    }
  }
}

TEST_CASE("fused kernels give the losses of unfused training with a stale server") {
  auto p = plan_of("zoo:lenet?batch=4", 2);
  random_engine random{5};
  const auto plan = test::data_parallel_job{p}.random_plan(random, 1000);
  synchronize_all(p, {});
  auto& first = p.synchronization.weights.front().parts.front();
  first.kind = parallel::sync_kind::parameter_server;
  first.destination = hardware::device_id{0U};
  first.staleness = 1;
  const auto expected = losses_of(p, nullptr);
  const auto losses = losses_of(p, &plan);
  REQUIRE(losses.size() == expected.size());
  for (std::size_t s = 0; s < losses.size(); ++s) {
    CHECK(losses[s] == Approx(expected[s]).epsilon(1e-4));
  }
}

TEST_CASE("fused kernels hold gathered weights, shares of gradients and micro-batches no longer than the program") {
  auto p = plan_of("zoo:mlp?layers=6&hidden=64&batch=4", 2);
  random_engine random{6};
  const auto plan = test::data_parallel_job{p}.random_plan(random, 1000);
  const auto ratio = [&] {
    const auto fused = arena_of(p, &plan);
    const auto alone = arena_of(p, nullptr);
    UNSCOPED_INFO(fused.count() << " bytes, " << alone.count() << " without kernels");
    return static_cast<double>(fused.count()) / static_cast<double>(alone.count());
  };
  CHECK(ratio() < 1.1);
  for (std::uint32_t stage = 1; stage <= 3; ++stage) {
    synchronize_all(p, sharded(stage));
    CHECK(ratio() < 1.5);  // a kernel of several operators holds the weights and gradients of all
  }
  synchronize_all(p, {});
  p.pipeline.microbatches = 8;
  p.pipeline.stages = {0, 0};
  CHECK(ratio() < 1.1);
}

TEST_CASE("fused kernels are refused with delayed updates") {
  auto p = plan_of("zoo:lenet?batch=4", 2);
  random_engine random{7};
  const auto plan = test::data_parallel_job{p}.random_plan(random, 100);
  p.pipeline.stages = {0, 0};
  p.pipeline.is_delayed = true;
  CHECK_THROWS_WITH(losses_of(p, &plan), Catch::Contains("a plan without delayed updates"));
}

TEST_CASE("training refuses a fusion plan of another model") {
  const auto p = plan_of("zoo:lenet?batch=4", 2);
  random_engine random{3};
  auto plan = test::data_parallel_job{plan_of("zoo:mlp?layers=3&hidden=8&batch=4", 2)}.random_plan(random, 50);
  CHECK_THROWS_WITH(losses_of(p, &plan), Catch::Contains("of a fusion plan"));
}

}  // namespace tests_of_fused_training
