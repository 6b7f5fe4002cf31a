// What ranks compute is what one device computes: outputs and gradients, for strategies at random.

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <string>

#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/parallel/plan.hpp>

#include "../../support/cases.hpp"
#include "../operators.hpp"
#include "../random_plan.hpp"
#include "../random_sync.hpp"
#include "../rank_runs.hpp"

namespace tests_of_rank_lowering {

using namespace unity;
using namespace unity::parallel;
using parallel::test::operators;

TEST_CASE("ranks compute what one device computes, on graphs and under strategies at random") {
  std::size_t compared = 0;
  for (std::uint64_t seed = 0; compared < unity::test::cases(500); ++seed) {
    const auto p = parallel::test::plan_at_random(seed);
    if (!p) {
      continue;
    }
    std::string names;
    for (const auto n : node_ids(p->graph)) {
      names += " " + operators().signature(p->graph.operation(n).kind).name;
    }
    CAPTURE(seed, names);
    CHECK(parallel::test::error_on_ranks(operators(), *p, seed) < 1e-9);
    auto synchronized = *p;
    random_engine random{seed};
    synchronized.synchronization = parallel::test::random_sync(random, operators(), *p);
    CHECK(parallel::test::error_on_ranks(operators(), synchronized, seed) < 1e-9);
    ++compared;
  }
}

}  // namespace tests_of_rank_lowering
