// Delta simulation under the search's own moves: the times of all tasks equal those of a full simulation.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/timeline.hpp>
#include <unity/systems/flexflow/evaluator.hpp>
#include <unity/systems/flexflow/moves.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/zoo.hpp>

#include "../simulate/as_full.hpp"
#include "../support/cases.hpp"

namespace tests_of_flexflow_delta {

using namespace unity;

namespace {

constexpr std::array models{"zoo:lenet?batch=64", "zoo:alexnet?batch=64", "zoo:rnnlm?batch=32&hidden=64&vocab=96&seq=3",
                            "zoo:nmt?batch=24&hidden=48&vocab=60&seq=2", "zoo:candle_uno?batch=48&layers=2&hidden=40"};
constexpr std::array machines{"p100:1x4", "k80:2x4", "summit:2x6"};

// Number of proposals. UNITY_PROPOSALS=1000000 gives docs/performance.md's test, which takes minutes.
std::uint64_t proposals() {
  const char* text = std::getenv("UNITY_PROPOSALS");
  return text == nullptr ? 6000 : std::strtoull(text, nullptr, 10);
}

}  // namespace

TEST_CASE("delta simulation of FlexFlow search moves equals full simulation task by task", "[law]") {
  const auto& a = tensor::training_algebra();
  const std::string model = GENERATE(from_range(models));
  const std::string name = GENERATE(from_range(machines));
  if (static unity::test::one_of_some is_tried; !is_tried()) {
    return;
  }
  const auto g = tensor::zoo::build(a, model);
  const auto m = hardware::preset(name);
  const parallel::lowering l{a, g, m};
  const systems::strategy_moves moves{a, g, l.dimensions(), m.network.device_count()};
  const auto each = proposals() / (models.size() * machines.size());
  const auto data = parallel::data_parallel(l.dimensions(), m.network);
  simulate::full_simulation full;
  std::uint64_t accepted = 0;
  std::uint64_t compared = 0;
  for (std::uint64_t seed = 0; seed * 2000 < each; ++seed) {
    // Proposes single operators on any devices, as in the paper, or regions on blocks; in cold and hot chains.
    const systems::strategy_proposal proposal{
        &moves, seed % 2 == 0 ? 0.0 : 0.9, 0.4,
        seed % 2 == 0 ? systems::device_choice::any : systems::device_choice::blocks};
    random_engine random{seed};
    systems::strategy_evaluator evaluator{l, {}};
    const auto start = evaluator.reset(seed % 3 == 2 ? systems::random_unit_strategy(moves, random) : data);
    const auto beta = (seed % 4 < 2 ? 5.0 : 200.0) / static_cast<double>(start);
    for (std::uint64_t i = 0; i < std::min<std::uint64_t>(2000, each - seed * 2000); ++i) {
      CAPTURE(model, name, seed, i);
      const auto move = proposal.sample(evaluator.state(), random)->move;
      const auto spare = static_cast<cost_value>(-std::log(1 - random.unit()) / beta);
      const bool is_tried = evaluator.try_move(move, evaluator.cost() + spare).has_value();
      if (i % 100 == 99) {
        test::require_as_full(evaluator.simulation(), full);
        ++compared;
      }
      if (is_tried) {
        ++accepted;
        evaluator.commit();
        REQUIRE(evaluator.cost() == evaluator.simulation().iteration_time().count());
      }
    }
  }
  CAPTURE(each, accepted);
  CHECK(accepted > 0);
  CHECK(compared == each / 2000 * 20 + each % 2000 / 100);
}

}  // namespace tests_of_flexflow_delta
