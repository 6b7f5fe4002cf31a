// The program of one rank lowered alone equals the one that lowering all ranks gives it.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <unity/backend/communicator.hpp>
#include <unity/backend/local_communicator.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/random.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/ranks/divided_training.hpp>
#include <unity/parallel/ranks/identical_ranks.hpp>
#include <unity/parallel/ranks/rank_lowering.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/parallel/recomputation.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/systems/autodist/builders.hpp>
#include <unity/tensor/loss.hpp>
#include <unity/train/training_plan.hpp>

#include "../parallel/random_sync.hpp"
#include "../support/cases.hpp"
#include "../support/message_of.hpp"
#include "runs.hpp"

namespace tests_of_one_rank {

using namespace unity;
using train::test::operators;

namespace {

constexpr std::uint64_t seed = 11;

// Data parallelism on the last `computing` devices; the others are servers.
parallel::plan plan_of(const std::string& model, std::size_t devices, std::size_t computing,
                       std::int64_t microbatches = 1) {
  parallel::plan p;
  p.graph = tensor::with_delivered_outputs(operators(), tensor::zoo::build(operators(), model));
  if (microbatches > 1) {
    p.graph = parallel::microbatch(operators(), p.graph, parallel::graph_dimensions{operators(), p.graph}, microbatches)
                  .value();
    p.pipeline.microbatches = microbatches;
    p.pipeline.stages.assign(devices, 0);
  }
  p.machine = hardware::preset(devices == 4   ? "p100:2x2"
                               : devices == 6 ? "p100:2x3"
                                              : "host:1x" + std::to_string(devices));
  std::vector<hardware::device_id> replicas;
  for (std::size_t d = devices - computing; d < devices; ++d) {
    replicas.emplace_back(d);
  }
  p.configurations = parallel::replicated_data_parallel(parallel::graph_dimensions{operators(), p.graph}, replicas);
  return train::with_loss(operators(), p, tensor::loss::mean_square);
}

// Whether the lowering writes ranks one by one.
bool is_one(const parallel::plan& p) {
  return parallel::detail::divided_training{operators(), p, 0}.written().is_one();
}

fingerprint exchanges_of_all(const parallel::rank_programs& all) {
  fingerprint sum;
  for (std::uint32_t r = 0; r < all.ranks.size(); ++r) {
    sum += parallel::exchanges_of(all, r);
  }
  return sum;
}

void require_equal(const parallel::plan& p) {
  const auto all = parallel::programs_of_ranks(operators(), p);
  REQUIRE(exchanges_of_all(all) == fingerprint{});
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

// Random compressors of all-reduced parts, staleness of served ones, and recomputation.
void change(random_engine& random, parallel::plan& p) {
  const auto staleness = static_cast<std::uint32_t>(random.below(3));
  const auto kind = random.below(5);
  for (auto& w : p.synchronization.weights) {
    for (auto& part : w.parts) {
      if (part.kind == parallel::sync_kind::parameter_server && part.is_proxied) {
        part.staleness = staleness;
      }
      if (part.kind == parallel::sync_kind::all_reduce && !part.is_sparse &&
          part.bucket == parallel::synchronizer::no_bucket && !w.is_default()) {
        part.compressor = kind == 1   ? parallel::compressor{parallel::compression::float16, random.below(2) == 0, 0}
                          : kind == 2 ? parallel::compressor{parallel::compression::power_sgd, true, 2}
                          : kind == 3 ? parallel::compressor{parallel::compression::top_k, true, 100}
                                      : parallel::compressor{};
      }
    }
  }
  if (random.below(2) == 0) {
    p.recomputed = parallel::recomputation_but_every(p.graph, 3);
  }
}

}  // namespace

TEST_CASE("lowering one rank alone gives its program under the AutoDist builders") {
  unity::test::one_of_some is_tried;
  std::size_t alone = 0;
  std::size_t together = 0;
  for (const auto* model :
       {"zoo:mlp?layers=3&hidden=7&batch=20", "zoo:lenet?batch=20", "zoo:dlrm?form=ae&batch=20&hidden=8&vocab=41",
        "zoo:ncf?batch=20&vocab=50&items=30&hidden=8", "zoo:bert?layers=1&hidden=8&heads=2&seq=4&vocab=16&batch=20"}) {
    for (const auto& [devices, computing] :
         std::vector<std::pair<std::size_t, std::size_t>>{{1, 1}, {2, 2}, {4, 4}, {5, 5}, {5, 4}, {4, 2}}) {
      auto p = plan_of(model, devices, computing);
      std::vector<hardware::device_id> servers;
      for (std::size_t d = 0; d < std::max<std::size_t>(1, devices - computing); ++d) {
        servers.emplace_back(d);
      }
      const auto problem = systems::sync_problem_of(operators(), p.graph, servers);
      for (const auto& b : systems::sync_builders) {
        for (const bool is_proxied : {false, true}) {
          if (!is_tried()) {
            continue;
          }
          CAPTURE(model, devices, computing, b.name, is_proxied);
          systems::builder_options o;
          o.chunk = 3;
          o.is_proxied = is_proxied;
          p.synchronization = b.build(problem, o);
          require_equal(p);
          ++(is_one(p) ? alone : together);
        }
      }
    }
  }
  CHECK(alone > 500 / unity::test::one_listed_case_of);
  CHECK(together > 0);  // plans whose servers look up rows
  INFO(alone << " " << together);
}

TEST_CASE("lowering one rank alone gives its program under random synchronization", "[law]") {
  const auto cases = unity::test::all_or<std::uint64_t>(300, 12);
  std::size_t alone = 0;
  for (std::uint64_t i = 0; i < cases; ++i) {
    const auto own = seed + 1000 * i;
    CAPTURE(own);
    random_engine random{own};
    const auto* model = i % 3 == 0   ? "zoo:mlp?layers=3&hidden=7&batch=40"
                        : i % 3 == 1 ? "zoo:dlrm?form=ae&batch=40&hidden=8&vocab=41"
                                     : "zoo:gpt?layers=1&hidden=8&heads=2&seq=4&vocab=16&batch=40";
    const auto devices = std::vector<std::size_t>{1, 2, 4, 5}[random.below(4)];
    const auto computing = devices > 2 && random.below(3) == 0 ? std::size_t{2} : devices;
    auto p = plan_of(model, devices, computing, random.below(3) == 0 ? 2 : 1);
    CAPTURE(model, devices, computing, p.pipeline.microbatches);
    p.synchronization = parallel::test::random_sync(random, operators(), p, random.below(2) == 0);
    change(random, p);
    require_equal(p);
    alone += is_one(p) ? 1 : 0;
  }
  CHECK(alone > cases / 2);
}

TEST_CASE("lowering one rank alone gives its program under model parallelism and pipelines", "[law]") {
  const auto cases = unity::test::cases(30);
  for (std::uint64_t i = 0; i < cases; ++i) {
    const auto own = seed + 1000 * i;
    CAPTURE(own);
    random_engine random{own};
    const auto* parallelism = i % 2 == 0 ? "model" : "mixed";
    auto p = train::with_loss(operators(), train::test::plan_for("zoo:mlp?layers=3&hidden=8&batch=8", 4, parallelism),
                              tensor::loss::mean_square);
    p.synchronization = parallel::test::random_sync(random, operators(), p);
    CHECK_FALSE(is_one(p));
    require_equal(p);
  }
  const auto whole = train::test::plan_for("zoo:mlp?layers=4&hidden=8&batch=8", 1, "data");
  for (const bool is_delayed : {false, true}) {
    require_equal(
        train::with_loss(operators(), train::test::in_stages(whole, 2, 4, is_delayed), tensor::loss::mean_square));
  }
}

TEST_CASE("exchange fingerprints of all ranks cancel only if both message ends agree") {
  auto p = plan_of("zoo:mlp?layers=3&hidden=7&batch=20", 4, 4);
  random_engine random{seed};
  p.synchronization = parallel::test::random_sync(random, operators(), p);
  const auto all = parallel::programs_of_ranks(operators(), p);
  std::vector<std::pair<std::size_t, std::size_t>> messages;  // (rank, step) of each message
  for (std::size_t r = 0; r < 4; ++r) {
    for (std::size_t s = 0; s < all.ranks[r].steps.size(); ++s) {
      const auto kind = all.ranks[r].steps[s].kind;
      if (kind == parallel::step_kind::send || kind == parallel::step_kind::receive || parallel::is_collective(kind)) {
        messages.emplace_back(r, s);
      }
    }
  }
  REQUIRE(messages.size() > 20);
  for (const auto& [r, s] : messages) {
    CAPTURE(r, s);
    auto other = all;
    auto& step = other.ranks[r].steps[s];
    const auto before = step;
    ++step.tag;
    CHECK_FALSE(exchanges_of_all(other) == fingerprint{});
    step = before;
    step.kind = parallel::step_kind::run;  // drops the message
    CHECK_FALSE(exchanges_of_all(other) == fingerprint{});
    step = before;
    if (step.value.valid()) {  // changes the shape
      const auto& g = other.ranks[r].graph;
      for (const auto v : value_ids(g)) {
        step.value = g.type(v).dims != g.type(before.value).dims ? v : step.value;
      }
      CHECK_FALSE(exchanges_of_all(other) == fingerprint{});
    }
  }
}

TEST_CASE("all ranks refuse a rank with a differing message in one line") {
  const auto p = plan_of("zoo:mlp?layers=3&hidden=7&batch=20", 4, 4);
  const auto all = parallel::programs_of_ranks(operators(), p);
  std::vector<std::string> lines(4);
  backend::run_local(4, [&](backend::local_communicator& world) {
    const auto rank = static_cast<std::uint32_t>(world.rank());
    auto own = all;
    if (rank == 2) {
      const auto first = std::find_if(own.ranks[2].steps.begin(), own.ranks[2].steps.end(),
                                      [](const auto& s) { return parallel::is_collective(s.kind); });
      ++first->tag;
    }
    backend::cancel(world, parallel::exchanges_of(all, rank), "the plan");
    lines[rank] =
        unity::test::message_of([&] { backend::cancel(world, parallel::exchanges_of(own, rank), "the plan"); });
  });
  for (const auto& line : lines) {
    CHECK(line ==
          "the plan: messages of which a rank has one end, and no rank the other; expected both ends of each on its "
          "ranks");
  }
}

TEST_CASE("different plans have different fingerprints") {
  const auto p = plan_of("zoo:mlp?layers=3&hidden=7&batch=20", 4, 4);
  const auto own = parallel::fingerprint_of(p);
  CHECK(own == parallel::fingerprint_of(parallel::plan{p}));
  std::vector<parallel::plan> others(9, p);
  others[0].pipeline.microbatches = 2;
  others[1].updates = parallel::optimizer::adam;
  others[2].synchronization.weights.resize(6);
  others[3].synchronization.weights.resize(6);
  others[3].synchronization.weights[1].parts[0].kind = parallel::sync_kind::sharded;
  std::swap(others[4].configurations[3].devices[0], others[4].configurations[3].devices[1]);
  others[5].recomputed = parallel::recomputation_but_every(p.graph, 3);
  others[6] = plan_of("zoo:mlp?layers=3&hidden=7&batch=20", 5, 4);
  others[7] = plan_of("zoo:mlp?layers=3&hidden=7&batch=24", 4, 4);
  others[8].machine = hardware::preset("p100:1x4");  // a reader on another node takes another copy
  REQUIRE(others[8].machine.network.device_count() == p.machine.network.device_count());
  for (std::size_t i = 0; i < others.size(); ++i) {
    CAPTURE(i);
    CHECK_FALSE(parallel::fingerprint_of(others[i]) == own);
  }
  auto served = others[3];
  auto& part = served.synchronization.weights[1].parts[0];
  part.kind = parallel::sync_kind::parameter_server;
  part.destination = hardware::device_id{std::size_t{0}};
  const auto by_device = parallel::fingerprint_of(served);
  part.is_per_node = true;  // other ranks send to the server instead
  CHECK_FALSE(parallel::fingerprint_of(served) == by_device);
}

}  // namespace tests_of_one_rank
