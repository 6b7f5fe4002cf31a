#include <unity/parallel/strategies/statement_bound.hpp>

#include <catch2/catch.hpp>

#include <cstddef>

#include <unity/core/random.hpp>
#include <unity/parallel/strategies/statement_program.hpp>

#include "../../support/statement_subject.hpp"

namespace tests_of_statement_bound {

using namespace unity;

TEST_CASE("statement bounds are at most simulated; peaks without divided gradients are exact", "[exhaustive]") {
  const auto seed = Catch::rngSeed();
  CAPTURE(seed);
  random_engine random{seed};
  std::size_t merged = 0;
  std::size_t merged_inside = 0;  // phases that nothing overlaps
  double tight = 0;
  double tight_memory = 0;  // of statements that divide gradients
  std::size_t count = 0;
  std::size_t divided = 0;
  for (int i = 0; i < 2; ++i) {
    const auto x = test::random_statement_subject(random);
    CAPTURE(x.text);
    parallel::statement_peaks peaks;
    for (const auto& simulated : x.on.simulate_all(x.batch, x.layers)) {
      const auto& s = simulated.statement;
      CAPTURE(to_string(s));
      parallel::statement_groups groups{s, x.on.on};
      const auto work = x.on.work(s);
      const parallel::statement_stages stages{s, work, groups};
      const auto bound = parallel::iteration_bound(s, stages, x.on.on, x.on.times, groups);
      REQUIRE(bound <= simulated.iteration);
      tight += to_seconds(bound) / to_seconds(simulated.iteration);
      ++count;
      const auto least = peaks.least_of(s, stages, x.on.times.updates());
      if (s.divides_gradients()) {
        REQUIRE(least <= simulated.peak);
        tight_memory += static_cast<double>(least.count()) / static_cast<double>(simulated.peak.count());
        ++divided;
      } else {
        REQUIRE(least == simulated.peak);
      }
      if (const auto one = parallel::in_one_step_each(s, stages, work, groups)) {
        const auto again = s.overlaps_sums() ? x.on.simulate(s, work, &*one) : x.on.simulate(s, *one);
        REQUIRE(again.iteration == simulated.iteration);
        REQUIRE(again.peak == simulated.peak);
        ++(s.overlaps_sums() ? merged_inside : merged);
      }
    }
  }
  REQUIRE(count > 100);
  CHECK(merged > 0);
  CHECK(merged_inside > 0);
  CHECK(tight / static_cast<double>(count) > 0.8);
  CHECK(divided > 20);
  CHECK(tight_memory / static_cast<double>(divided) > 0.7);
}

TEST_CASE("the bound of a statement without pipeline equals the simulated time") {
  const test::statement_subject x{"zoo:gpt?layers=4&hidden=64&heads=4&seq=32&vocab=128", "dgx_a100_80:1x4"};
  for (const auto* plan : {"megatron:d=4,batch=16", "megatron:t=2,d=2,batch=8,sp,zero=1,recompute=full"}) {
    const auto s = parallel::parse_plan_statement(plan);
    const auto work = x.work(s);
    parallel::statement_groups groups{s, x.on};
    const parallel::statement_stages stages{s, work, groups};
    CHECK(parallel::iteration_bound(s, stages, x.on, x.times, groups) == x.simulate(s, work).iteration);
  }
}

}  // namespace tests_of_statement_bound
