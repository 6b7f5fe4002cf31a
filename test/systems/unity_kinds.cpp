// A kind of parallelism more hardly ever makes a plan slower.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>
#include <utility>

#include <unity/core/units.hpp>
#include <unity/machine/presets.hpp>
#include <unity/parallel/parallelism_kinds.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/systems/unity.hpp>
#include <unity/tensor/zoo.hpp>

#include "../support/cases.hpp"
#include "../support/operators.hpp"
#include "shipped_rules.hpp"

namespace tests_of_unity_kinds {

using namespace unity;
using unity::test::training::operators;

TEST_CASE("kinds of parallelism that are added as figure 15a adds them: none makes a plan much slower") {
  using use = parallel::index_use;
  test::one_of_some tried;
  // Before smaller sets were looked at, AlexNet was 5% slower. What is left: other substitutions are predicted to help.
  constexpr double share = 1.03;
  for (const auto& [name, preset] :
       {std::pair{"zoo:mlp?hidden=512&batch=32", "p100:1x4"}, std::pair{"zoo:alexnet?batch=48", "summit:2x6"},
        std::pair{"zoo:bert?layers=2&hidden=256&heads=4&seq=64&vocab=1000&batch=8", "p100:1x4"}}) {
    if (!tried()) {
      continue;
    }
    const auto g = tensor::zoo::build(operators(), name);
    const auto m = machine::preset(preset);
    systems::unity_options o;
    o.uses = 0;
    o.proposals = 0;                                       // of chains, which are drawn from other moves
    auto fewer = std::numeric_limits<double>::infinity();  // seconds
    for (const auto kind :
         {use::data, use::model, use::reduction, use::special, use::spatial, use::placement, use::pipeline}) {
      o.uses |= parallel::index_uses{1} << static_cast<unsigned>(kind);
      const auto r =
          systems::unity(operators(), test::joint_rules(), g, m, parallel::analytic_durations(operators(), m), o);
      const auto takes = to_seconds(r.report.iteration);
      CAPTURE(name, preset, o.uses);
      CHECK(r.report.excess.empty());
      CHECK(takes <= share * fewer);
      fewer = std::min(fewer, takes);
    }
  }
}

}  // namespace tests_of_unity_kinds
