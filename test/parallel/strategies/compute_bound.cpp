#include <cstdint>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/strategies/compute_bound.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/simulate/full.hpp>
#include <unity/tensor/zoo.hpp>

#include "../operators.hpp"

namespace tests_of_compute_bound {

using namespace unity;

TEST_CASE("compute_bound is at most the simulated time of random strategies", "[law]") {
  const auto& a = parallel::test::operators();
  const auto* model =
      GENERATE("zoo:lenet?batch=96", "zoo:rnnlm?batch=24&hidden=48&vocab=96&seq=2", "zoo:mlp?form=fig1");
  const auto* name = GENERATE("p100:1x4", "k80:2x4", "summit:1x6");
  const auto g = tensor::zoo::build(a, model);
  const auto m = hardware::preset(name);
  parallel::lowering l{a, g, m};
  const parallel::placements all{l.dimensions(), m.network.device_count()};
  const auto bound = parallel::compute_bound(l, m, all);
  CHECK(bound > picoseconds{0});
  simulate::full_simulation simulation;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    CAPTURE(model, name, seed);
    random_engine random{seed};
    parallel::strategy s;
    for (const auto n : node_ids(g)) {
      const bool is_source = l.dimensions()[n].inputs.empty();
      s.push_back(is_source ? parallel::configuration{} : all.sample(n, random));
    }
    REQUIRE(simulation.run(l.run(s)) >= bound);
  }
}

TEST_CASE("compute_bound on one device is the sum of forward and backward task times") {
  const auto& a = parallel::test::operators();
  const auto g = tensor::zoo::build(a, "zoo:lenet?batch=8");
  const auto m = hardware::preset("h200:1x1");
  parallel::lowering l{a, g, m};
  const auto p = l.run(parallel::data_parallel(l.dimensions(), m.network));
  std::int64_t sum = 0;
  for (std::size_t f = 0; f < p.fragment_count(); ++f) {
    for (const auto& t : p.code(tasks::fragment_id{f}).tasks) {
      sum += t.kind == tasks::task_kind::forward || t.kind == tasks::task_kind::backward ? t.duration.count() : 0;
    }
  }
  CHECK(parallel::compute_bound(l, m, parallel::placements{l.dimensions(), 1}).count() == sum);
}

}  // namespace tests_of_compute_bound
