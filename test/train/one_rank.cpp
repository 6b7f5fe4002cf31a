// The program of one rank, lowered alone, is the one that lowering all ranks writes for it.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/machine/presets.hpp>
#include <unity/machine/topology.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/microbatch.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/ranks/alike_ranks.hpp>
#include <unity/parallel/ranks/divided_training.hpp>
#include <unity/parallel/ranks/rank_lowering.hpp>
#include <unity/parallel/recomputation.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/systems/autodist/builders.hpp>
#include <unity/tensor/loss.hpp>
#include <unity/train/training_plan.hpp>

#include "../parallel/random_sync.hpp"
#include "../support/cases.hpp"
#include "runs.hpp"

namespace tests_of_one_rank {

using namespace unity;
using train::test::operators;

namespace {

constexpr std::uint64_t seed = 11;

// Samples on so many of the devices; those that are left serve.
parallel::plan plan_of(const std::string& model, std::size_t devices, std::size_t computing,
                       std::int64_t microbatches = 1) {
  parallel::plan p;
  p.graph = parallel::with_delivered_outputs(operators(), tensor::zoo::build(operators(), model));
  if (microbatches > 1) {
    p.graph = parallel::microbatch(operators(), p.graph, parallel::graph_dimensions{operators(), p.graph}, microbatches)
                  .value();
    p.pipeline.microbatches = microbatches;
    p.pipeline.stages.assign(devices, 0);
  }
  p.machine = machine::preset("host:1x" + std::to_string(devices));
  std::vector<machine::device_id> replicas;
  for (std::size_t d = devices - computing; d < devices; ++d) {
    replicas.emplace_back(d);
  }
  p.configurations = parallel::replicated_data_parallel(parallel::graph_dimensions{operators(), p.graph}, replicas);
  return train::with_loss(operators(), p, tensor::loss::mean_square);
}

// Whether ranks are written one by one.
bool is_one(const parallel::plan& p) {
  return parallel::detail::divided_training{operators(), p, 0}.written().is_one();
}

void require_equal(const parallel::plan& p) {
  const auto all = parallel::programs_of_ranks(operators(), p);
  for (std::uint32_t r = 0; r < all.ranks.size(); ++r) {
    CAPTURE(r);
    const auto one = parallel::programs_of_ranks(operators(), p, r);
    REQUIRE(one.groups == all.groups);
    REQUIRE(one.ranks.size() == all.ranks.size());
    for (std::uint32_t other = 0; other < all.ranks.size(); ++other) {
      REQUIRE(one.ranks[other] == (other == r ? all.ranks[r] : parallel::rank_program{}));
    }
  }
}

}  // namespace

TEST_CASE("probe") {
  for (const auto* model :
       {"zoo:mlp?layers=3&hidden=7&batch=60", "zoo:lenet?batch=20", "zoo:dlrm?form=ae&batch=20&hidden=8&vocab=41",
        "zoo:ncf?batch=20", "zoo:bert?layers=1&hidden=8&heads=2&seq=4&vocab=16&batch=20",
        "zoo:gpt?layers=1&hidden=8&heads=2&seq=4&vocab=16&batch=20", "zoo:resnet50?batch=20&image=32&hidden=4"}) {
    for (std::size_t devices : {1, 2, 4, 5}) {
      auto p = plan_of(model, devices, devices);
      UNSCOPED_INFO(model << " " << devices << " " << is_one(p));
      CHECK(is_one(p));
      require_equal(p);
    }
  }
}

}  // namespace tests_of_one_rank
