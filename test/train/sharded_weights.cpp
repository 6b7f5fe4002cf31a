#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/backend/host_values.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/ranks/rank_lowering.hpp>
#include <unity/parallel/recomputation.hpp>
#include <unity/parallel/strategies/sync_policies.hpp>
#include <unity/simulate/full.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/train/value_places.hpp>

#include "../support/cases.hpp"
#include "runs.hpp"

namespace tests_of_sharded_weights {

namespace {

using namespace unity;
using train::test::operators;

constexpr std::size_t devices = 4;

parallel::synchronizer stage_3(std::uint32_t prefetch, bool is_resharded = true) {
  auto s = parallel::sharded_by_stage(3);
  s.prefetch = prefetch;
  s.is_resharded = is_resharded;
  return s;
}

// A model in which 4 divides all weights.
parallel::plan plan_with(const parallel::synchronizer& sync) {
  auto p = train::with_loss(operators(), train::test::plan_for("zoo:mlp?layers=6&hidden=32&batch=8", devices, "data"),
                            tensor::loss::mean_square);
  p.updates = parallel::optimizer::adam;
  const parallel::lowering l{operators(), p.graph, p.machine};
  p.synchronization = parallel::sharded_sync(l, sync);
  return p;
}

// Micro-batches over stages of equally many devices, each dividing the samples.
parallel::plan in_micro_batches(const std::string& model, std::int64_t microbatches, std::size_t stages) {
  const auto whole = train::test::plan_for(model, 1, "data");
  auto p = train::test::in_stages(whole, devices, microbatches, false);
  const parallel::graph_dimensions all{operators(), p.graph};
  const auto each = devices / stages;
  const auto shared = parallel::data_parallel(all, hardware::preset("p100:1x" + std::to_string(each)).network);
  for (std::size_t n = 0; n < shared.size(); ++n) {
    p.configurations[n] = shared[n];
    for (auto& d : p.configurations[n].devices) {
      d = hardware::device_id{n * stages / shared.size() * each + d.index()};
    }
  }
  for (std::size_t d = 0; d < devices; ++d) {
    p.pipeline.stages[d] = static_cast<std::uint32_t>(d / each);
  }
  return train::with_loss(operators(), p, tensor::loss::mean_square);
}

std::vector<double> losses_of(const parallel::plan& p) {
  return train::test::train_some(p, {parallel::optimizer::adam, 0.01}, 3, 0, 3, {}, {});
}

train::planned_memory memory_of(const parallel::plan& p) {
  const auto programs = parallel::programs_of_ranks(operators(), p, 0);
  const std::vector<std::size_t> workspaces(programs.ranks[0].steps.size());
  return train::memory_of_rank(operators(), programs.ranks[0], p.updates, workspaces);
}

struct stay_of {
  std::int64_t first = 0;
  std::int64_t last = 0;  // inclusive
  std::int64_t size = 0;
};
std::int64_t most_at_once(const std::vector<stay_of>& all) {
  std::int64_t most = 0;
  for (const auto& at : all) {
    std::int64_t held = 0;
    for (const auto& x : all) {
      held += x.first <= at.first && at.first <= x.last ? x.size : 0;
    }
    most = std::max(most, held);
  }
  return most;
}

// Gathered weights on rank 0: each from the step that begins its gather to the last that reads it.
std::vector<stay_of> gathered_on_rank(const parallel::plan& p) {
  const auto programs = parallel::programs_of_ranks(operators(), p, 0);
  const auto& own = programs.ranks[0];
  const train::value_places places{operators(), own};
  std::vector<stay_of> all;
  for (const auto& s : own.steps) {
    const bool is_share = std::any_of(own.weights.begin(), own.weights.end(),
                                      [&](const parallel::weight_part& w) { return w.weight.value == s.value; });
    if (s.kind == parallel::step_kind::gather && is_share) {
      const auto v = own.graph.results(s.node)[0];
      const auto& stay = places[v].front();
      all.push_back({static_cast<std::int64_t>(stay.first), static_cast<std::int64_t>(stay.last),
                     static_cast<std::int64_t>(backend::byte_count(own.graph.type(v)))});
    }
  }
  return all;
}

// Gathered weights on device 0 in the simulation, without its own shares.
std::vector<stay_of> gathered_in_simulation(const parallel::plan& p) {
  const auto program = parallel::lower(operators(), p);
  simulate::full_simulation full;
  full.run(program);
  const auto times = [&](const tasks::task_ref& r, tasks::fragment_id own) {
    return full.times()[program.find(r.fragment.valid() ? r.fragment : own, r.index).index()];
  };
  std::vector<stay_of> all;
  for (std::size_t f = 0; f < program.fragment_count(); ++f) {
    const tasks::fragment_id id{f};
    if (program.owner_of(id).kind != tasks::owner_kind::shares) {
      continue;
    }
    const auto& c = program[id];
    for (std::uint32_t b = 0; b < c.buffers.size(); ++b) {
      if (c.buffers[b].device != 0 || c.buffers[b].producer.fragment.valid()) {
        continue;  // another device's, or a gradient
      }
      stay_of own{times(c.buffers[b].producer, id).start, 0, c.buffers[b].size.count()};
      for (const auto& r : c.reads) {
        own.last = r.of.index == b ? std::max(own.last, times(r.reader, id).end - 1) : own.last;
      }
      all.push_back(own);
    }
  }
  return all;
}

}  // namespace

TEST_CASE("ranks keep as many bytes of weight and optimizer shards as are simulated") {
  const auto sync =
      GENERATE(parallel::sharded_by_stage(1), parallel::sharded_by_stage(2), stage_3(1), stage_3(0, false));
  CAPTURE(sync.stage, sync.is_resharded);
  const auto p = plan_with(sync);
  const auto program = parallel::lower(operators(), p);
  std::int64_t simulated = 0;
  for (std::size_t f = 0; f < program.fragment_count(); ++f) {
    for (const auto& b : program[tasks::fragment_id{f}].buffers) {
      simulated += b.permanent && b.device == 0 ? b.size.count() : 0;
    }
  }
  const parallel::training_graph training{operators(), p.graph};
  std::int64_t weights = 0;
  for (const auto& w : training.weights()) {
    weights += static_cast<std::int64_t>(backend::byte_count(p.graph.type(w.value)));
  }
  const auto gradients = sync.stage == 1 ? weights : weights / 4;  // in the rank's arena
  const auto own = memory_of(p);
  CHECK((own.weights + own.states).count() / 2 == simulated - gradients);  // weights have two versions
  CHECK((own.weights + own.states).count() / 2 == (sync.stage == 3 ? weights / 4 : weights) + 2 * weights / 4);
}

TEST_CASE("ranks gather weights as often as simulated with a consistent peak") {
  const auto sync = GENERATE(stage_3(0), stage_3(1), stage_3(2), stage_3(9), stage_3(1, false));
  CAPTURE(sync.prefetch, sync.is_resharded);
  const auto p = plan_with(sync);
  const auto on_rank = gathered_on_rank(p);
  const auto simulated = gathered_in_simulation(p);
  REQUIRE(on_rank.size() > 10);
  CHECK(on_rank.size() == simulated.size());
  CHECK(most_at_once(on_rank) * 3 / 4 == most_at_once(simulated));
}

TEST_CASE("sharded micro-batches in stages and recomputed train as all-reduced ones", "[law]") {
  const std::string model =
      GENERATE("zoo:mlp?layers=4&hidden=9&batch=16", "zoo:gpt?layers=1&hidden=8&heads=2&seq=4&vocab=16&batch=8");
  const std::size_t stages = GENERATE(1U, 2U);
  const bool is_recomputed = GENERATE(false, true);
  CAPTURE(model, stages, is_recomputed);
  auto p = in_micro_batches(model, 2, stages);
  std::vector<parallel::synchronizer> ways;
  for (const auto& sync :
       {parallel::sharded_by_stage(1), parallel::sharded_by_stage(2), stage_3(0), stage_3(2), stage_3(1, false)}) {
    if (static unity::test::one_of_some is_tried; is_tried()) {
      ways.push_back(sync);
    }
  }
  if (ways.empty()) {
    return;
  }
  const auto expected = losses_of(p);
  if (is_recomputed) {
    p.recomputed = parallel::recomputation_but_every(p.graph, 3);
  }
  const parallel::lowering l{operators(), p.graph, p.machine};
  for (const auto& sync : ways) {
    CAPTURE(sync.stage, sync.prefetch, sync.is_resharded);
    p.synchronization = parallel::sharded_sync(l, sync);
    if (sync.stage == 3 && stages == 2 && model.starts_with("zoo:gpt")) {  // both stages read the table of words
      CHECK_THROWS_WITH(parallel::lower(operators(), p), Catch::Contains("readers in 2 stages"));
      continue;
    }
    CHECK(simulate::full_simulation{}.run(parallel::lower(operators(), p)) > picoseconds{});
    const auto own = losses_of(p);
    REQUIRE(own.size() == expected.size());
    for (std::size_t s = 0; s < own.size(); ++s) {
      CAPTURE(s, own[s], expected[s]);
      REQUIRE(std::abs(own[s] - expected[s]) <= 1e-11 * std::abs(expected[s]));
    }
  }
}

TEST_CASE("a weight of two pipeline stages has a replica in each and summed gradients") {
  tensor::builder b{operators()};
  const auto x = b.input("x", {8, 6});
  const auto w = b.weight("w", {6, 6});
  const auto y = b.matmul(b.relu(b.matmul(x, w)), w);
  const std::vector<value_id> outputs{y};
  const auto whole = train::test::plan_for(std::move(b).finish(outputs), 1, "data");
  const auto of = [&](std::size_t stages) {
    return train::with_loss(operators(), train::test::in_stages(whole, stages, 4, false), tensor::loss::mean_square);
  };
  const auto expected = losses_of(of(1));
  auto p = of(2);
  const parallel::training_graph training{operators(), p.graph};
  REQUIRE(training.weights().size() == 1);
  for (const auto& sync : {parallel::synchronizer{}, parallel::sharded_by_stage(1), parallel::sharded_by_stage(2),
                           parallel::sharded_by_stage(3)}) {
    CAPTURE(sync.kind, sync.stage);
    p.synchronization = parallel::sharded_sync({operators(), p.graph, p.machine}, sync);
    if (sync.stage == 3) {
      const auto why = Catch::Contains("stage 3 of sharded, and readers in 2 stages of the pipeline; expected readers");
      CHECK_THROWS_WITH(parallel::programs_of_ranks(operators(), p), why);
      CHECK_THROWS_WITH(parallel::lower(operators(), p), why);
      continue;
    }
    const auto programs = parallel::programs_of_ranks(operators(), p);
    std::size_t sums = 0;
    for (const auto& s : programs.ranks[0].steps) {
      sums += s.kind == parallel::step_kind::reduce || s.kind == parallel::step_kind::scatter ? 1U : 0U;
    }
    CHECK(sums == (sync.stage > 1 ? 4U : 1U));  // once per micro-batch, or once per iteration
    CHECK(programs.ranks[0].weights.size() == 1);
    CHECK(programs.ranks[1].weights.size() == 1);
    const auto own = losses_of(p);
    for (std::size_t s = 0; s < expected.size(); ++s) {
      CHECK(own[s] == Approx(expected[s]).epsilon(1e-11));
    }
    CHECK(simulate::full_simulation{}.run(parallel::lower(operators(), p)) > picoseconds{});
  }
}

TEST_CASE("a higher sharding stage and less prefetch need less memory on a rank") {
  auto total = [&](const parallel::synchronizer& sync) { return memory_of(plan_with(sync)).sum(); };
  CHECK(total(stage_3(1)) < total(parallel::sharded_by_stage(2)));
  CHECK(total(stage_3(0)) <= total(stage_3(1)));
  CHECK(total(stage_3(1)) <= total(stage_3(9)));
  CHECK(total(stage_3(1)) < total(stage_3(1, false)));
  CHECK(total(stage_3(1, false)) < total(parallel::sharded_by_stage(1)));
}

}  // namespace tests_of_sharded_weights
