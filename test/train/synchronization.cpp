#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/core/units.hpp>
#include <unity/io/weights_file.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/ranks/rank_lowering.hpp>
#include <unity/parallel/strategies/sync_policies.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/train/checkpoint.hpp>

#include "../parallel/random_sync.hpp"
#include "../support/cases.hpp"
#include "../support/message_of.hpp"
#include "runs.hpp"

namespace tests_of_synchronization {

namespace {

using namespace unity;
using train::test::operators;

constexpr std::uint64_t seed = 3;

parallel::synchronization sync_of(const parallel::plan& p, std::string_view name) {
  parallel::lowering l{operators(), p.graph, p.machine};
  auto kept = parallel::sharded_by_stage(3);
  kept.is_resharded = false;
  kept.prefetch = 3;
  auto late = parallel::sharded_by_stage(3);
  late.prefetch = 0;
  return name == "zero"         ? parallel::sharded_sync(l)
         : name == "zero 2"     ? parallel::sharded_sync(l, parallel::sharded_by_stage(2))
         : name == "zero 3"     ? parallel::sharded_sync(l, parallel::sharded_by_stage(3))
         : name == "late"       ? parallel::sharded_sync(l, late)
         : name == "kept"       ? parallel::sharded_sync(l, kept)
         : name == "ps"         ? parallel::served_sync(l, p.configurations)
         : name == "bucket"     ? parallel::bucketed_sync(l, p.configurations, bytes{600})
         : name == "one bucket" ? parallel::bucketed_sync(l, p.configurations, bytes{1'000'000})
                                : parallel::synchronization{};
}

std::vector<double> losses_of(const parallel::plan& p, const train::update_rule& rule, std::uint64_t from,
                              std::uint64_t until, const std::filesystem::path& before = {},
                              const std::filesystem::path& after = {}) {
  return train::test::train_some(p, rule, seed, from, until, before, after);
}

void require_near(const std::vector<double>& own, const std::vector<double>& expected) {
  REQUIRE(own.size() == expected.size());
  for (std::size_t s = 0; s < own.size(); ++s) {
    CAPTURE(s, own[s], expected[s]);
    REQUIRE(std::abs(own[s] - expected[s]) <= 1e-11 * std::abs(expected[s]));
  }
}

parallel::plan plan_of(const std::string& model, std::size_t devices, std::string_view parallelism) {
  return train::with_loss(operators(), train::test::plan_for(model, devices, parallelism), tensor::loss::mean_square);
}

}  // namespace

TEST_CASE("losses do not depend on the weight synchronization except for rounding") {
  const auto* model = GENERATE("zoo:mlp?layers=3&hidden=7&batch=8", "zoo:dlrm?form=ae&batch=8&hidden=8&vocab=40",
                               "zoo:gpt?layers=1&hidden=8&heads=2&seq=4&vocab=16&batch=4");
  const auto* parallelism = GENERATE("data", "model", "mixed");
  const auto devices = GENERATE(std::size_t{1}, std::size_t{2}, std::size_t{4});
  if (static unity::test::one_of_some is_tried; !is_tried()) {
    return;
  }
  CAPTURE(model, parallelism, devices);
  const train::update_rule rule{parallel::optimizer::adam, 0.01};
  auto p = plan_of(model, devices, parallelism);
  const auto expected = losses_of(p, rule, 0, 4);
  const auto plain = parallel::programs_of_ranks(operators(), p).ranks[0];
  for (const auto* sync : {"zero", "zero 2", "zero 3", "late", "kept", "ps", "bucket", "one bucket"}) {
    CAPTURE(sync);
    p.synchronization = sync_of(p, sync);
    if (devices > 1 && std::string_view{parallelism} == "data") {  // ranks do something else for the same losses
      REQUIRE_FALSE(parallel::programs_of_ranks(operators(), p).ranks[0] == plain);
    }
    require_near(losses_of(p, rule, 0, 4), expected);
  }
}

TEST_CASE("losses do not depend on random synchronization of weight parts", "[law]") {
  const auto cases = unity::test::cases(12);
  std::set<parallel::sync_kind> kinds;
  std::size_t divided = 0;
  for (std::uint64_t s = 0; s < static_cast<std::uint64_t>(cases); ++s) {
    random_engine random{s};
    const auto* parallelism = s % 3 == 0 ? "data" : s % 3 == 1 ? "model" : "mixed";
    const auto devices = std::size_t{2} << random.below(2);
    auto p = plan_of(
        s % 2 == 0 ? "zoo:mlp?layers=3&hidden=9&batch=8" : "zoo:gpt?layers=1&hidden=8&heads=2&seq=4&vocab=16&batch=4",
        devices, parallelism);
    CAPTURE(s, parallelism, devices);
    const train::update_rule rule{parallel::optimizer::momentum, 0.05};
    const auto expected = losses_of(p, rule, 0, 3);
    p.synchronization = parallel::test::random_sync(random, operators(), p);
    for (const auto& w : p.synchronization.weights) {
      divided += w.parts.size() > 1 ? 1 : 0;
      for (const auto& part : w.parts) {
        kinds.insert(part.kind);
      }
    }
    require_near(losses_of(p, rule, 0, 3), expected);
  }
  CHECK(kinds.size() == 3);
  CHECK(divided > 0);
}

TEST_CASE("pipelined micro-batches give the same losses for several weight synchronizations") {
  const auto whole = train::test::plan_for("zoo:mlp?layers=4&hidden=8&batch=8", 1, "data");
  auto p = train::with_loss(operators(), train::test::in_stages(whole, 2, 4, false), tensor::loss::mean_square);
  const train::update_rule rule{parallel::optimizer::adam, 0.01};
  const auto expected = losses_of(p, rule, 0, 3);
  for (const auto* sync : {"zero", "ps", "one bucket"}) {
    CAPTURE(sync);
    p.synchronization = sync_of(p, sync);
    require_near(losses_of(p, rule, 0, 3), expected);
  }
}

TEST_CASE("a checkpoint resumes under another weight synchronization") {
  const std::filesystem::path folder{UNITY_TEST_SCRATCH_DIR};
  const auto file = [&](const std::string& name) { return folder / ("train_sync_" + name); };
  const train::update_rule rule{parallel::optimizer::adam, 0.01};
  const auto before = plan_of("zoo:mlp?layers=3&hidden=9&batch=8", 4, "data");
  const auto expected = losses_of(before, rule, 0, 6);
  const std::vector<double> rest(expected.begin() + 3, expected.end());
  for (const auto* sync : {"zero", "zero 3", "ps", "bucket"}) {
    CAPTURE(sync);
    auto p = before;
    p.synchronization = sync_of(p, sync);
    static_cast<void>(losses_of(p, rule, 0, 3, {}, file("first")));
    require_near(losses_of(p, rule, 3, 6, file("first")), rest);
    for (const auto* other : {"", "zero", "zero 3", "ps"}) {
      CAPTURE(other);
      auto q = plan_of("zoo:mlp?layers=3&hidden=9&batch=8", 2, "mixed");
      q.synchronization = sync_of(q, other);
      require_near(losses_of(q, rule, 3, 6, file("first"), file("second")), rest);
    }
  }
}

TEST_CASE("optimizer state of a sharded weight is divided among its replicas") {
  auto p = plan_of("zoo:mlp?layers=3&hidden=9&batch=8", 4, "data");
  p.synchronization = sync_of(p, "zero");
  const auto programs = parallel::programs_of_ranks(operators(), p);
  std::vector<std::int64_t> kept(programs.ranks.front().weights.size());
  for (const auto& r : programs.ranks) {
    for (std::size_t w = 0; w < r.weights.size(); ++w) {
      kept[w] += r.weights[w].gradient.valid() ? r.weights[w].updated.volume() : 0;
    }
  }
  for (std::size_t w = 0; w < kept.size(); ++w) {
    CHECK(kept[w] == programs.ranks.front().weights[w].weight.part.volume());
  }
}

TEST_CASE("unsynchronized replicas and delayed updates with servers are refused") {
  auto p = plan_of("zoo:mlp?layers=3&hidden=8&batch=8", 2, "data");
  p.synchronization = sync_of(p, "zero");
  for (auto& w : p.synchronization.weights) {
    w.parts.front().kind = parallel::sync_kind::none;
  }
  CHECK_THROWS_WITH(parallel::programs_of_ranks(operators(), p),
                    Catch::Contains("held by 2 ranks and not synchronized; expected a way to keep them equal"));
  const auto whole = train::test::plan_for("zoo:mlp?layers=4&hidden=8&batch=8", 1, "data");
  auto delayed = train::with_loss(operators(), train::test::in_stages(whole, 2, 4, true), tensor::loss::mean_square);
  delayed.synchronization = sync_of(delayed, "ps");
  CHECK_THROWS_WITH(parallel::programs_of_ranks(operators(), delayed), Catch::Contains("delayed updates"));
}

TEST_CASE("ranks with different plans all report the mismatch") {
  const auto data = train::test::plan_for("zoo:mlp?layers=3&hidden=6&batch=4", 2, "data");
  const auto with = train::with_loss(operators(), data, tensor::loss::mean_square);
  auto other = with;  // the same sizes everywhere, but different messages
  const auto weights = parallel::training_graph{operators(), other.graph}.weights().size();
  other.synchronization.weights.resize(weights);
  auto& served = other.synchronization.weights.front().parts.front();
  served.kind = parallel::sync_kind::parameter_server;
  served.destination = hardware::device_id{std::size_t{1}};
  std::vector<std::string> messages(2);
  backend::run_local(2, [&](backend::local_communicator& world) {
    backend::reference_backend b{operators()};
    const auto rank = static_cast<std::size_t>(world.rank());
    messages[rank] = unity::test::message_of(
        [&] { const train::test::reference_trainer own{b, operators(), rank == 0 ? with : other, world, {}, 1}; });
  });
  CHECK(messages[0] == "the plan: rank 1 differs from rank 0; expected the same on all ranks");
  CHECK(messages[1] == messages[0]);
}

}  // namespace tests_of_synchronization
