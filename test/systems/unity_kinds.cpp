// A kind of parallelism more never makes a plan slower.

#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>

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

TEST_CASE("kinds of parallelism that are added as figure 15a adds them: none makes a plan slower") {
  using use = parallel::index_use;
  test::one_of_some tried;
  for (const char* name :
       {"zoo:mlp?hidden=512&batch=32", "zoo:alexnet?batch=16", "zoo:dlrm?form=ae&vocab=1000&batch=256",
        "zoo:bert?layers=2&hidden=256&heads=4&seq=64&vocab=1000&batch=8", "zoo:candle_uno?form=ae&layers=2&batch=32"}) {
    if (!tried()) {
      continue;
    }
    const auto g = tensor::zoo::build(operators(), name);
    const auto m = machine::preset("p100:1x4");
    systems::unity_options o;
    o.uses = 0;
    o.proposals = 0;  // of chains, which are drawn from other moves
    auto fewer = picoseconds{std::numeric_limits<std::int64_t>::max()};
    for (const auto kind :
         {use::data, use::model, use::reduction, use::special, use::spatial, use::placement, use::pipeline}) {
      o.uses |= parallel::index_uses{1} << static_cast<unsigned>(kind);
      const auto r =
          systems::unity(operators(), test::joint_rules(), g, m, parallel::analytic_durations(operators(), m), o);
      CAPTURE(name, o.uses, r.report.iteration, fewer);
      CHECK(r.report.excess.empty());
      CHECK(r.report.iteration <= fewer);
      fewer = r.report.iteration;
    }
  }
}

}  // namespace tests_of_unity_kinds
