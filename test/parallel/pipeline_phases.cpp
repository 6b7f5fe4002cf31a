// The order of phases: each occurs once and after its dependencies, how much is held, and the time of a pipeline of
// equal stages.

#include <unity/parallel/pipeline.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include <unity/core/random.hpp>

#include "../support/cases.hpp"
#include "phase_clock.hpp"

namespace tests_of_pipeline_phases {

using namespace unity;
using parallel::pipeline;
using parallel::pipeline_pass;
using parallel::pipeline_schedule;
using parallel::test::clock_phases;
using parallel::test::equal_passes;
using parallel::test::scheduled;

namespace {

// Peak number of forward passes of a chunk whose last pass (backward, or weight gradient if that is separate) is
// pending.
std::int64_t most_held(const pipeline& p, std::uint32_t stage) {
  const auto last =
      p.schedule == pipeline_schedule::zero_bubble ? pipeline_pass::weight_gradient : pipeline_pass::backward;
  std::int64_t now = 0;
  std::int64_t most = 0;
  for (const auto& phase : parallel::phases_of(p, stage)) {
    now += phase.pass == pipeline_pass::forward ? 1 : 0;
    most = std::max(most, now);
    now -= phase.pass == last ? 1 : 0;
  }
  CHECK(now == 0);
  return most;
}

}  // namespace

TEST_CASE("random pipeline schedules run each phase once in micro-batch order without deadlock", "[law]") {
  const auto cases = unity::test::cases(400);
  for (std::uint64_t seed = 0; seed < cases; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    const auto p = parallel::test::pipeline_at_random(random);
    CAPTURE(p.schedule, p.stage_count(), p.microbatches, p.chunks);
    for (std::uint32_t stage = 0; stage < p.stage_count(); ++stage) {
      CAPTURE(stage);
      std::map<std::tuple<pipeline_pass, std::uint32_t>, std::int64_t> next;
      std::map<std::tuple<std::int64_t, std::uint32_t>, int> passed;
      for (const auto& phase : parallel::phases_of(p, stage)) {
        REQUIRE(phase.microbatch == next[std::tuple{phase.pass, phase.chunk}]++);
        REQUIRE(static_cast<int>(phase.pass) == passed[std::tuple{phase.microbatch, phase.chunk}]++);
      }
      const auto passes = p.schedule == pipeline_schedule::zero_bubble ? 3U : 2U;
      REQUIRE(next.size() == passes * p.chunks);
      for (const auto& [of, count] : next) {
        REQUIRE(count == p.microbatches);
      }
    }
    // No pass times make two stages wait for each other.
    REQUIRE(clock_phases(p, parallel::test::passes_at_random(random, p)).is_complete);
  }
}

TEST_CASE("activations held per pipeline stage match the published formulas of each schedule") {
  for (std::uint32_t stages = 2; stages <= 6; ++stages) {
    const std::int64_t p = stages;
    for (std::uint32_t stage = 0; stage < stages; ++stage) {
      for (std::int64_t m = 1; m <= 13; ++m) {
        CAPTURE(stages, stage, m);
        CHECK(most_held(scheduled(pipeline_schedule::gpipe, stages, m), stage) == m);
        CHECK(most_held(scheduled(pipeline_schedule::one_forward_one_backward, stages, m), stage) ==
              std::min<std::int64_t>(m, p - stage));
        CHECK(most_held(scheduled(pipeline_schedule::zero_bubble, stages, m), stage) == std::min(m, p));
        for (std::uint32_t v = 2; v <= 4; ++v) {
          // The first stage holds p (1 + (p - 1) / (p v)) micro-batches: Korthikanti et al., 2022.
          const auto ahead = 2 * (p - stage - 1) + (v - 1) * p + 1;
          CHECK(most_held(scheduled(pipeline_schedule::interleaved, stages, p * m, v), stage) ==
                std::min<std::int64_t>(p * m * v, ahead));
        }
      }
    }
  }
}

TEST_CASE("idle time of equal pipeline stages matches the published bubble formulas") {
  for (std::uint32_t stages = 2; stages <= 8; ++stages) {
    const std::int64_t p = stages;
    for (const auto m : {p, p + 1, 2 * p, 4 * p, 3 * p + 1}) {
      CAPTURE(stages, m);
      for (const auto& [f, b, w] : {std::tuple{10, 10, 10}, std::tuple{10, 12, 8}, std::tuple{20, 21, 19}}) {
        const auto whole = f + b + w;
        const auto idle = [&](pipeline_schedule s, std::int64_t microbatches, std::uint32_t v = 1) {
          const auto pipe = scheduled(s, stages, microbatches, v);
          return clock_phases(pipe, equal_passes(pipe, f, b, w)).end - microbatches * v * whole;
        };
        // Bubble fractions: (p - 1) / m, (p - 1) / (v m), and (p - 1) (f + b - w) / (m (f + b + w)).
        CHECK(idle(pipeline_schedule::gpipe, m) == (p - 1) * whole);
        CHECK(idle(pipeline_schedule::one_forward_one_backward, m) == (p - 1) * whole);
        CHECK(idle(pipeline_schedule::zero_bubble, m) == (p - 1) * (f + b - w));
        for (std::uint32_t v = 2; v <= 4 && m % p == 0; ++v) {
          // `whole` is the time of a chunk, a v-th of a stage.
          CHECK(idle(pipeline_schedule::interleaved, m, v) == (p - 1) * whole);
        }
      }
    }
  }
}

}  // namespace tests_of_pipeline_phases
