// Plans that fit their devices only with moves to the host.
#include <unity/train/memory_moves.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/units.hpp>
#include <unity/parallel/ranks/rank_lowering.hpp>
#include <unity/parallel/ranks/simulated_ranks.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/simulate/full.hpp>
#include <unity/tensor/work.hpp>
#include <unity/train/value_places.hpp>

#include "../support/machine_without_starts.hpp"
#include "../support/message_of.hpp"
#include "runs.hpp"

namespace tests_of_simulated_moves {

using namespace unity;
using train::test::operators;

namespace {

constexpr double rate = 1e9;

train::planned_memory held(const parallel::plan& p, std::size_t rank = 0) {
  const auto program = parallel::programs_of_ranks(operators(), p).ranks[rank];
  return train::memory_of_rank(operators(), program, p.updates, std::vector<std::size_t>(program.steps.size()));
}

// The plan on devices with this much memory.
parallel::plan limited(parallel::plan p, bytes memory) {
  for (auto& d : p.machine.devices) {
    d.memory = memory;
  }
  return p;
}

train::simulated_moves simulated(const parallel::plan& p, double host_rate = rate) {
  return train::simulate_moves(operators(), p, parallel::analytic_durations(operators(), p.machine), host_rate);
}

// The plan with memory for its weights and this share of its arena without moves.
parallel::plan scant(const parallel::plan& p, double share) {
  const auto m = held(p);
  const auto arena = static_cast<std::int64_t>(share * static_cast<double>(m.arena.count()));
  return limited(p, m.sum() - m.arena + bytes{arena});
}

}  // namespace

TEST_CASE("simulated moves on one device add their transfer time to the iteration", "[law]") {
  auto p = train::test::plan_for("zoo:lenet?batch=16", 1, "data");
  p.machine = test::machine_without_starts("p100:1x1");
  const auto whole = simulated(limited(p, held(p).sum()));
  for (const double share : {0.9, 0.75}) {
    CAPTURE(share);
    const auto q = scant(p, share);
    const auto found = simulated(q);
    const auto program = parallel::programs_of_ranks(operators(), q).ranks[0];
    const auto moves = train::with_moves(operators(), program, std::vector<std::size_t>(program.steps.size()),
                                         found.limit, train::quick_planning);
    CHECK(moves.arena <= found.limit);
    std::int64_t moved = 0;
    for (const auto& s : moves.program.steps) {
      if (s.kind == parallel::step_kind::store || s.kind == parallel::step_kind::fetch) {
        moved += tensor::total_bytes({&moves.program.graph.type(s.value), 1}).count();
      }
    }
    CHECK(found.moved == moves.moved);
    const auto added = to_seconds(found.iteration) - to_seconds(whole.iteration);
    CHECK(added == Approx(static_cast<double>(moved) / rate).margin(1e-9));
    const auto sooner = to_seconds(simulated(limited(p, held(p).sum()), 2 * rate).iteration);
    CHECK(to_seconds(simulated(q, 2 * rate).iteration) - sooner == Approx(added / 2).margin(1e-9));
  }
}

TEST_CASE("less memory does not shorten the simulated iteration on two devices") {
  for (const auto* parallelism : {"data", "mixed"}) {
    CAPTURE(parallelism);
    const auto p = train::test::plan_for("zoo:lenet?batch=16", 2, parallelism);
    picoseconds before{};
    for (const double share : {1.2, 0.98, 0.97}) {
      const auto found = simulated(scant(p, share));
      CHECK(found.iteration >= before);
      before = found.iteration;
    }
    CHECK(before >= simulated(limited(p, bytes{})).iteration);  // bytes{}: the memory is unknown
  }
}

TEST_CASE("memory too small for any moves is refused with the device's name") {
  const auto p = train::test::plan_for("zoo:lenet?batch=16", 2, "data");
  const auto m = held(p);
  CHECK(test::message_of([&] { static_cast<void>(simulated(limited(p, bytes{1000}))); }) ==
        "n0/gpu0: 1000 bytes; expected more than the " + std::to_string((m.sum() - m.arena).count()) +
            " of weights and what the optimizer keeps");
  const auto message = test::message_of([&] { static_cast<void>(simulated(scant(p, 0.01))); });
  CHECK(message.find("n0/gpu0, memory plan: an arena of ") == 0);
}

}  // namespace tests_of_simulated_moves
