// Training with offloaded values equals training without, bit for bit, in less memory.
#include <unity/train/offloaded_values.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/offloading.hpp>
#include <unity/parallel/ranks/rank_lowering.hpp>
#include <unity/parallel/recomputation.hpp>
#include <unity/train/value_places.hpp>

#include "../parallel/divided_at_random.hpp"
#include "../parallel/held_results.hpp"
#include "../support/cases.hpp"
#include "runs.hpp"

namespace tests_of_offloaded_values {

namespace {

using namespace unity;
using train::test::operators;

constexpr std::uint64_t seed = 7;
const train::update_rule rule{parallel::optimizer::adam, 0.01};

constexpr const char* mlp = "zoo:mlp?layers=6&hidden=8&batch=8";
constexpr const char* gpt = "zoo:gpt?layers=1&hidden=8&heads=2&seq=4&vocab=16&batch=8";
constexpr const char* lenet = "zoo:lenet?batch=8";

std::vector<double> losses_of(const parallel::plan& p) { return train::test::train_some(p, rule, seed, 0, 3, {}, {}); }

std::size_t moves_of(const parallel::plan& p) {
  std::size_t sum = 0;
  for (const auto& rank : parallel::programs_of_ranks(operators(), p).ranks) {
    sum += train::with_offloaded_values(operators(), rank, p.offloaded).steps.size() - rank.steps.size();
  }
  return sum;
}

// Recomputes random operators and offloads others. Returns the number of moves.
std::size_t require_equal_losses(parallel::plan p, random_engine& random, int sets) {
  const auto expected = losses_of(p);
  REQUIRE(expected.front() != expected.back());
  std::size_t moves = 0;
  for (int k = 0; k < sets; ++k) {
    CAPTURE(k);
    p.recomputed.assign(p.graph.node_count(), false);
    p.offloaded.assign(p.graph.node_count(), false);
    for (const auto n : node_ids(p.graph)) {
      const auto draw = k == 0 ? 1 : random.below(3);
      p.recomputed[n.index()] = draw == 0 && parallel::can_recompute(p.graph, n);
      p.offloaded[n.index()] = draw == 1 && parallel::can_offload(p.graph, n);
    }
    moves += moves_of(p);
    REQUIRE(losses_of(p) == expected);  // bit for bit
  }
  return moves;
}

bytes arena_of(const parallel::plan& p) {
  const auto rank = parallel::programs_of_ranks(operators(), p).ranks[0];
  const auto own = train::with_offloaded_values(operators(), rank, p.offloaded);
  return train::memory_of_rank(operators(), own, p.updates, {}).arena;
}

// Values that a rank's program stores on the host, except those that it sends, which stay until the receiver has them.
std::vector<bool> stored_values(const parallel::rank_program& p) {
  const train::value_places places{operators(), p};
  std::vector<bool> all(p.graph.value_count());
  for (const auto& s : p.steps) {
    if (s.kind == parallel::step_kind::store) {
      all[s.value.index()] = true;
    }
  }
  for (const auto& s : p.steps) {
    if (s.kind == parallel::step_kind::send) {
      all[places.root(s.value).index()] = false;
    }
  }
  return all;
}

// Peak bytes of such values on the rank.
std::int64_t held_by_rank(const parallel::rank_program& p) {
  const train::value_places places{operators(), p};
  const auto stored = stored_values(p);
  std::vector<std::int64_t> changes(p.steps.size() + 2);
  for (const auto v : value_ids(p.graph)) {
    for (const auto& s : places[v]) {
      const auto size = stored[v.index()] ? static_cast<std::int64_t>(backend::byte_count(p.graph.type(v))) : 0;
      changes[s.first] += size;
      changes[s.last + 1] -= size;
    }
  }
  std::partial_sum(changes.begin(), changes.end(), changes.begin());
  return *std::max_element(changes.begin(), changes.end());
}

}  // namespace

TEST_CASE("offloading random values keeps losses bitwise under several strategies", "[law]") {
  const auto cases = unity::test::cases(9);
  for (std::uint64_t s = 0; s < cases; ++s) {
    CAPTURE(s);
    random_engine random{s};
    const auto devices = std::size_t{1} << (s % 3);
    auto p = train::test::plan_for(s % 3 == 0 ? mlp : s % 3 == 1 ? gpt : lenet, devices, "data");
    if (s % 2 == 0) {
      p.configurations =
          parallel::test::divided_at_random(p.graph, parallel::graph_dimensions{operators(), p.graph}, devices, random);
    }
    CHECK(require_equal_losses(train::with_loss(operators(), p, tensor::loss::mean_square), random, 2) > 0);
  }
}

TEST_CASE("offloading random values keeps losses bitwise with micro-batches in three schedules") {
  const auto whole = train::test::plan_for("zoo:mlp?layers=8&hidden=8&batch=8", 1, "data");
  using schedules = parallel::pipeline_schedule;
  random_engine random{seed};
  for (const auto schedule : {schedules::one_forward_one_backward, schedules::gpipe, schedules::zero_bubble}) {
    CAPTURE(static_cast<int>(schedule), seed);
    auto p = train::test::in_stages(whole, 2, 4, false);
    p.pipeline.schedule = schedule;
    CHECK(require_equal_losses(train::with_loss(operators(), p, tensor::loss::mean_square), random, 2) > 0);
  }
}

TEST_CASE("offloading shrinks a rank's arena and stores each offloaded result once") {
  auto p = train::with_loss(operators(), train::test::plan_for("zoo:mlp?layers=40&hidden=8&batch=256", 2, "data"),
                            tensor::loss::mean_square);
  const auto all = arena_of(p);
  p.offloaded = parallel::offloaded_results(operators(), p.graph, {}, false);
  const auto some = arena_of(p);
  CAPTURE(all.count(), some.count());
  CHECK(5 * some.count() < 2 * all.count());
  train::test::on_threads(p, rule, seed, train::batches{operators(), p.graph, seed}, [&](auto& rank, auto&) {
    static_cast<void>(rank.step(0));
    const auto& program = rank.executor().program();
    std::int64_t stored = 0;
    for (const auto& s : program.steps) {
      stored += s.kind == parallel::step_kind::store ? static_cast<std::int64_t>(rank.executor().size_of(s.value)) : 0;
    }
    if (stored == 0 || rank.executor().moved().stored != bytes{stored} ||
        rank.executor().moved().loaded < bytes{stored}) {
      throw error{"test", std::to_string(rank.executor().moved().stored.count()), std::to_string(stored)};
    }
  });
}

TEST_CASE("simulated device memory exceeds what ranks hold by at most four results") {
  using schedules = parallel::pipeline_schedule;
  const auto schedule = GENERATE(schedules::one_forward_one_backward, schedules::gpipe, schedules::interleaved);
  const auto rate = GENERATE(1e8, 1e10, 1e13);
  random_engine random{seed};
  auto p =
      train::test::in_stages(train::test::plan_for("zoo:mlp?layers=32&hidden=64&batch=512", 1, "data"), 4, 8, false);
  p.pipeline.schedule = schedule;
  p.pipeline.chunks = schedule == schedules::interleaved ? 2 : 1;
  for (const auto n : node_ids(p.graph)) {
    if (auto& c = p.configurations[n.index()]; !c.devices.empty()) {
      c.devices = {hardware::device_id{n.index() * 4 * p.pipeline.chunks / p.graph.node_count() % 4}};
    }
  }
  for (auto& d : p.machine.devices) {
    d.host_bytes_per_second = rate;
  }
  p = train::with_loss(operators(), p, tensor::loss::mean_square);
  for (const auto n : node_ids(p.graph)) {
    p.offloaded.push_back(random.below(4) > 0 && parallel::can_offload(p.graph, n));
  }
  const auto program = parallel::lower(operators(), p);
  const auto ranks = parallel::programs_of_ranks(operators(), p).ranks;
  const std::int64_t result = 64 * 64 * 8;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const auto own = train::with_offloaded_values(operators(), ranks[r], p.offloaded);
    const auto stored = stored_values(own);
    parallel::offloading away(p.graph.node_count());
    for (const auto& s : own.steps) {
      if (s.kind == parallel::step_kind::store && stored[s.value.index()]) {
        away[s.origin.index()] = true;
      }
    }
    const auto held = held_by_rank(own);
    const auto simulated = parallel::test::held_results(program, away)[r].count();
    CAPTURE(seed, schedule, rate, r, held / result, simulated / result);
    CHECK(held > 0);
    CHECK(simulated >= held);
    CHECK(simulated <= held + 4 * result);
  }
}

TEST_CASE("no step reads or awaits an offloaded value between its store and its fetch") {
  auto p = train::test::plan_for(mlp, 1, "data");
  p = train::with_loss(operators(), train::test::in_stages(p, 2, 2, false), tensor::loss::mean_square);
  p.offloaded = parallel::offloaded_results(operators(), p.graph, {}, false);
  for (const auto& rank : parallel::programs_of_ranks(operators(), p).ranks) {
    const auto own = train::with_offloaded_values(operators(), rank, p.offloaded);
    const train::value_places places{operators(), rank};
    for (std::size_t s = 0; s < own.steps.size(); ++s) {
      const auto& step = own.steps[s];
      if (step.kind == parallel::step_kind::wait) {
        const auto& begun = own.steps[step.peer];
        REQUIRE((begun.kind == parallel::step_kind::send || begun.kind == parallel::step_kind::receive ||
                 parallel::is_collective(begun.kind)));
        REQUIRE(begun.tag == step.tag);
      }
      if (step.kind != parallel::step_kind::store) {
        continue;
      }
      // Between store and fetch, no step reads the value or waits for a message of it.
      for (auto t = s + 1; own.steps[t].kind != parallel::step_kind::fetch || own.steps[t].value != step.value; ++t) {
        REQUIRE(t + 1 < own.steps.size());
        const auto& between = own.steps[t];
        if (between.kind == parallel::step_kind::run || between.kind == parallel::step_kind::load) {
          for (const auto v : own.graph.operands(between.node)) {
            REQUIRE(places.root(v) != step.value);
          }
        } else if (between.kind == parallel::step_kind::wait) {
          REQUIRE((!own.steps[between.peer].value.valid() || places.root(own.steps[between.peer].value) != step.value));
        }
      }
    }
  }
}

}  // namespace tests_of_offloaded_values
