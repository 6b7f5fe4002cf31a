#include <unity/parallel/plan.hpp>

#include <catch2/catch.hpp>

#include <cstddef>

#include <unity/hardware/presets.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/zoo.hpp>

namespace tests_of_plan {

using namespace unity;

TEST_CASE("a plan that does not fit its graph or machine is rejected with node and reason") {
  const auto a = tensor::training_algebra();
  const auto g = tensor::zoo::build(a, "zoo:lenet?batch=4");
  const parallel::graph_dimensions all{a, g};
  const auto m = hardware::preset("p100:1x4");
  const auto good = parallel::data_parallel(all, m.network);
  CHECK_NOTHROW(check(a, parallel::plan{g, good, m}));
  CHECK_THROWS_WITH(check(a, parallel::plan{g, {}, m}), Catch::Contains("0 configurations"));
  CHECK_THROWS_WITH(check(a, parallel::plan{g, parallel::strategy(g.node_count()), m}),
                    Catch::Contains("(conv2d)") && Catch::Contains("0 degrees"));
  CHECK_THROWS_WITH(check(a, parallel::plan{g, good, hardware::preset("p100:1x2")}),
                    Catch::Contains("more tasks than the 2 devices"));
  auto source = good;
  source[0].devices.push_back(hardware::device_id{std::size_t{0}});
  CHECK_THROWS_WITH(check(a, parallel::plan{g, source, m}), Catch::Contains("node 0 (input)"));
}

}  // namespace tests_of_plan
