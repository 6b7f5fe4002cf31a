// Every plan, found or named, computes what its graph does, forward and backward.

#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <span>
#include <string>

#include <unity/hardware/presets.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/strategies/expert_strategies.hpp>
#include <unity/parallel/strategies/figure_strategies.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/systems/unity.hpp>
#include <unity/tensor/convert.hpp>
#include <unity/tensor/zoo.hpp>

#include "../support/cases.hpp"
#include "../support/operators.hpp"
#include "plan_checks.hpp"

namespace tests_of_unity_values {

namespace {

using namespace unity;
using test::check_found;
using test::check_values;

// Networks of images take longer and are in unity_values_images.cpp.
constexpr std::array<const char*, 9> models{"zoo:mlp?layers=3&hidden=96&batch=48",
                                            "zoo:mlp?form=ae&layers=2&hidden=96&batch=48",
                                            "zoo:dlrm?batch=96",
                                            "zoo:dlrm?form=ae",
                                            "zoo:xdl?form=ae",
                                            "zoo:candle_uno?layers=2&hidden=240&batch=48",
                                            "zoo:candle_uno?form=ae&layers=2&hidden=240&batch=48",
                                            "zoo:bert_large?layers=1&hidden=48&heads=4&seq=16&vocab=96&batch=12",
                                            "zoo:bert_large?form=ae&layers=2&hidden=48&heads=4&seq=16&batch=12"};

}  // namespace

TEST_CASE("data-parallel/model-parallel/expert strategies keep values and gradients") {
  constexpr const char* presets[] = {"p100:1x4", "summit:2x6"};
  for (const char* preset : std::span{presets}.first(unity::test::cases(2))) {
    for (const char* name : models) {
      CAPTURE(name, preset);
      const auto m = hardware::preset(preset);
      const auto g = tensor::with_delivered_outputs(test::training::operators(),
                                                      tensor::zoo::build(test::training::operators(), name));
      const parallel::graph_dimensions all{test::training::operators(), g};
      check_values(g, parallel::data_parallel(all, m.network), 1);
      check_values(g, parallel::model_parallel(test::training::operators(), g, all, m.network), 2);
      for (const auto& s : parallel::expert_strategies(test::training::operators(), g, all, m.network)) {
        check_values(g, s, 3);
      }
    }
  }
}

TEST_CASE("both strategies of figure 2 keep values and gradients of figure 1's perceptron") {
  const auto g = tensor::zoo::build(test::training::operators(), "zoo:mlp?form=fig1");
  const auto m = hardware::preset("p100:1x2");
  const parallel::graph_dimensions all{test::training::operators(), g};
  const auto a = parallel::figure_2a_strategy(test::training::operators(), g, all, m.network);
  const auto b = parallel::figure_2b_strategy(test::training::operators(), g, all, m.network);
  REQUIRE((a && b));
  check_values(g, *a, 1);
  check_values(g, *b, 1);
}

TEST_CASE("Unity's plans keep the values and gradients of zoo models on three machines", "[exhaustive]") {
  std::uint64_t seed = 0;
  for (const char* preset : {"p100:1x2", "p100:1x4", "summit:2x6"}) {
    for (const char* name : models) {
      CAPTURE(name, preset);
      systems::unity_options o;
      o.seed = ++seed;
      o.proposals = 100;
      if (seed % 2 == 0) {
        o.uses &= ~(1U << static_cast<unsigned>(parallel::index_use::pipeline));
      }
      check_found(tensor::zoo::build(test::training::operators(), name), hardware::preset(preset), o);
    }
  }
}

}  // namespace tests_of_unity_values
