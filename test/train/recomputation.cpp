// Training with recomputation equals training without, bit for bit, in less memory; and so do micro-batches of one
// stage.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/parallel/ranks/rank_lowering.hpp>
#include <unity/parallel/recomputation.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/parallel/strategies/sync_policies.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/train/value_places.hpp>

#include "../parallel/divided_at_random.hpp"
#include "../support/cases.hpp"
#include "runs.hpp"

namespace tests_of_training_again {

namespace {

using namespace unity;
using train::test::operators;

constexpr std::uint64_t seed = 5;
const train::update_rule rule{parallel::optimizer::adam, 0.01};

constexpr const char* mlp = "zoo:mlp?layers=6&hidden=8&batch=8";
constexpr const char* gpt = "zoo:gpt?layers=1&hidden=8&heads=2&seq=4&vocab=16&batch=4";
constexpr const char* dlrm = "zoo:dlrm?form=ae&batch=8&hidden=8&vocab=40";

std::vector<double> losses_of(const parallel::plan& p, std::uint64_t steps = 3) {
  return train::test::train_some(p, rule, seed, 0, steps, {}, {});
}

parallel::plan plan_of(const std::string& model, std::size_t devices, std::string_view parallelism) {
  return train::with_loss(operators(), train::test::plan_for(model, devices, parallelism), tensor::loss::mean_square);
}

// Each operator has a random division of its own, into parts, terms and copies on any devices.
parallel::plan divided_plan(const std::string& model, std::size_t devices, random_engine& random) {
  auto p = train::test::plan_for(model, devices, "data");
  p.configurations =
      parallel::test::divided_at_random(p.graph, parallel::graph_dimensions{operators(), p.graph}, devices, random);
  return train::with_loss(operators(), p, tensor::loss::mean_square);
}

parallel::recomputation random_set(const tensor::tensor_graph& g, random_engine& random) {
  parallel::recomputation all(g.node_count());
  const auto of = 1 + random.below(4);
  for (const auto n : node_ids(g)) {
    all[n.index()] = random.below(of + 1) < of && parallel::can_recompute(g, n);
  }
  return all;
}

// Recomputes everything that can be.
parallel::recomputation everything(const tensor::tensor_graph& g) {
  return parallel::recomputation_but_every(g, g.node_count() + 1);
}

void require_equal_losses(parallel::plan p, random_engine& random, int sets) {
  const auto expected = losses_of(p);
  REQUIRE(expected.front() != expected.back());
  std::vector<parallel::recomputation> all{parallel::full_recomputation(p.graph),
                                           parallel::recomputation_between_products(operators(), p.graph),
                                           parallel::recomputation_but_every(p.graph, 3), everything(p.graph)};
  for (int k = 0; k < sets; ++k) {
    all.push_back(random_set(p.graph, random));
  }
  for (std::size_t k = 0; k < all.size(); ++k) {
    CAPTURE(k);
    p.recomputed = all[k];
    REQUIRE(losses_of(p) == expected);  // bit for bit
  }
}

parallel::plan in_microbatches(const parallel::plan& whole, std::int64_t count) {
  auto p = whole;
  p.graph = parallel::microbatch(operators(), whole.graph, parallel::graph_dimensions{operators(), whole.graph}, count)
                .value();
  p.pipeline.microbatches = count;
  p.pipeline.stages.assign(p.machine.network.device_count(), 0);
  return p;
}

bytes arena_of(const parallel::plan& p, std::size_t rank = 0) {
  return train::memory_of_rank(operators(), parallel::programs_of_ranks(operators(), p).ranks[rank], p.updates, {})
      .arena;
}

train::planned_memory memory_on_reference(const parallel::rank_program& p, parallel::optimizer updates) {
  backend::reference_backend b{operators()};
  return train::memory_of_rank(operators(), p, updates, train::workspaces_of(b, operators(), p));
}

}  // namespace

TEST_CASE("recomputation keeps losses bitwise under fixed strategies") {
  const auto* model = GENERATE(mlp, gpt, dlrm);
  const auto* parallelism = GENERATE("data", "model", "mixed");
  const auto devices = GENERATE(std::size_t{1}, std::size_t{2}, std::size_t{4});
  if (static unity::test::one_of_some is_tried; !is_tried()) {
    return;
  }
  CAPTURE(model, parallelism, devices, seed);
  random_engine random{seed + devices};
  require_equal_losses(plan_of(model, devices, parallelism), random, 2);
}

TEST_CASE("recomputation keeps losses bitwise under random strategies", "[law]") {
  const auto cases = unity::test::cases(12);
  for (std::uint64_t s = 0; s < cases; ++s) {
    CAPTURE(s);
    random_engine random{s};
    require_equal_losses(divided_plan(s % 3 == 0   ? mlp
                                      : s % 3 == 1 ? gpt
                                                   : dlrm,
                                      std::size_t{2} << (s % 2), random),
                         random, 2);
  }
}

TEST_CASE("recomputation keeps losses bitwise with micro-batches in one or several stages") {
  const auto* model =
      GENERATE("zoo:mlp?layers=6&hidden=8&batch=8", "zoo:gpt?layers=1&hidden=8&heads=2&seq=4&vocab=16&batch=8");
  const auto whole = train::test::plan_for(model, 1, "data");
  const auto stages = GENERATE(std::size_t{2}, std::size_t{1}, std::size_t{3});
  const bool is_delayed = GENERATE(true, false);
  if (static unity::test::one_of_some is_tried; !is_tried()) {
    return;
  }
  CAPTURE(stages, is_delayed, seed);
  random_engine random{seed};
  require_equal_losses(
      train::with_loss(operators(), train::test::in_stages(whole, stages, 4, is_delayed), tensor::loss::mean_square),
      random, 2);
}

TEST_CASE("recomputation keeps losses bitwise with sharded weights") {
  auto p = plan_of(mlp, 4, "data");
  parallel::lowering l{operators(), p.graph, p.machine};
  p.synchronization = parallel::sharded_sync(l);
  random_engine random{seed};
  require_equal_losses(p, random, 2);
}

TEST_CASE("full recomputation shrinks a rank's arena") {
  for (const auto devices : {std::size_t{1}, std::size_t{2}}) {
    auto p = plan_of("zoo:mlp?layers=40&hidden=8&batch=256", devices, "data");
    const auto all = arena_of(p);
    p.recomputed = parallel::full_recomputation(p.graph);
    const auto some = arena_of(p);
    CAPTURE(devices, all.count(), some.count());
    CHECK(10 * some.count() < 6 * all.count());
    p.recomputed = everything(p.graph);  // then all results exist at once when the backward pass begins
    CHECK(arena_of(p) > some);
  }
}

TEST_CASE("recomputation runs each operator at most once more") {
  auto p = plan_of(mlp, 2, "data");
  const auto runs = [&](const parallel::plan& of) {
    std::vector<std::size_t> all(of.graph.node_count());
    const auto programs = parallel::programs_of_ranks(operators(), of);
    for (const auto& s : programs.ranks[0].steps) {
      all[s.origin.index()] += s.kind == parallel::step_kind::run ? 1 : 0;
    }
    return all;
  };
  const auto before = runs(p);
  p.recomputed = everything(p.graph);
  const auto after = runs(p);
  std::size_t more = 0;
  for (std::size_t n = 0; n < before.size(); ++n) {
    CAPTURE(n);
    CHECK(after[n] >= before[n]);
    CHECK(after[n] <= before[n] + 1);  // in a multilayer perceptron, one step each
    more += after[n] - before[n];
  }
  CHECK(more > 4);
}

TEST_CASE("micro-batches of one stage match the whole batch with a smaller arena") {
  const auto* model =
      GENERATE("zoo:mlp?layers=6&hidden=8&batch=32", "zoo:gpt?layers=2&hidden=8&heads=2&seq=4&vocab=16&batch=16");
  const auto devices = GENERATE(std::size_t{2}, std::size_t{1});
  if (static unity::test::one_of_some is_tried; !is_tried()) {
    return;
  }
  const auto whole = train::test::plan_for(model, devices, "data");
  auto one = train::with_loss(operators(), whole, tensor::loss::mean_square);
  const auto expected = losses_of(one);
  auto held = arena_of(one);
  constexpr std::int64_t counts[] = {2, 4, 8};
  for (const auto count : std::span{counts}.first(1 + unity::test::cases(2))) {
    CAPTURE(model, devices, count);
    const auto p = train::with_loss(operators(), in_microbatches(whole, count), tensor::loss::mean_square);
    const auto own = losses_of(p);
    for (std::size_t s = 0; s < own.size(); ++s) {
      CHECK(std::abs(own[s] - expected[s]) <= 1e-11 * std::abs(expected[s]));
    }
    CHECK(arena_of(p) < held);
    held = count == 2 ? arena_of(p) : held;
  }
}

TEST_CASE("a rank's arena and weight memory are predicted from its program") {
  const auto updates = GENERATE(parallel::optimizer::sgd, parallel::optimizer::momentum, parallel::optimizer::adam);
  const auto* model = GENERATE(mlp, gpt);
  const auto* division = GENERATE("data", "model");
  const bool is_recomputed = GENERATE(true, false);
  if (static unity::test::one_of_some is_tried; !is_tried()) {
    return;
  }
  auto p = plan_of(model, 2, division);
  p.updates = updates;
  if (is_recomputed) {
    p.recomputed = parallel::full_recomputation(p.graph);
  }
  const auto programs = parallel::programs_of_ranks(operators(), p);
  const train::update_rule own{updates, 0.01};
  train::test::on_threads(p, own, seed, train::batches{operators(), p.graph, seed}, [&](auto& rank, auto& world) {
    const auto expected = memory_on_reference(programs.ranks[static_cast<std::size_t>(world.rank())], updates);
    const auto weights = rank.executor().memory().kept;
    const bytes few{static_cast<std::int64_t>(64 * (4 * programs.ranks[0].weights.size() + 8))};  // alignment, scalars
    if (rank.executor().arena_size() != expected.arena || weights < expected.weights + expected.states ||
        weights > expected.weights + expected.states + 2 * few) {
      throw error{"test", std::to_string(weights.count()),
                  std::to_string((expected.weights + expected.states).count())};
    }
  });
}

TEST_CASE("recomputed dropout reuses its mask") {
  auto p = train::test::plan_for("zoo:mlp?layers=3&hidden=8&batch=8", 2, "data");
  tensor::builder b{operators()};
  auto x = b.input("x", {8, 4});
  for (const auto* name : {"first", "second"}) {
    x = b.relu(b.apply("dropout", {b.matmul(x, b.weight(name, {4, 4}))}, {{"rate", 0.5}})[0]);
  }
  p = train::test::plan_for(std::move(b).finish({x}), 2, "data");
  p.recomputed = everything(p.graph);
  const auto again = train::with_loss(operators(), p, tensor::loss::mean_square);
  p.recomputed = {};
  const auto kept = train::with_loss(operators(), p, tensor::loss::mean_square);
  CHECK(std::count(again.recomputed.begin(), again.recomputed.end(), true) == 6);
  CHECK(losses_of(again) == losses_of(kept));
}

}  // namespace tests_of_training_again
