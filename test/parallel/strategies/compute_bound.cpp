#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/strategies/compute_bound.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/simulate/full.hpp>
#include <unity/tensor/zoo.hpp>

#include "../operators.hpp"

namespace tests_of_compute_bound {

using namespace unity;

namespace {

// Four devices, of which the last two are of another kind, a hundred times as fast.
hardware::machine of_two_kinds() {
  auto m = hardware::preset("p100:1x4");
  auto fast = m.devices[0];
  fast.name += ", faster";
  for (auto& p : fast.peaks) {
    p.flops_per_second *= 100;
  }
  fast.bytes_per_second *= 100;
  fast.launch_seconds /= 100;
  const auto& net = m.network;
  std::vector<hardware::placed_device> placed(net.devices().begin(), net.devices().end());
  for (std::size_t d = 2; d < placed.size(); ++d) {
    placed[d].model = static_cast<std::uint32_t>(m.devices.size());
  }
  m.network = hardware::topology{std::move(placed),
                                 {net.switches().begin(), net.switches().end()},
                                 {net.cables().begin(), net.cables().end()}};
  m.devices.push_back(fast);
  return m;
}

// Time of the operator's tasks, one after another.
std::int64_t computing(parallel::lowering& l, node_id n, const parallel::configuration& c) {
  parallel::strategy s(l.dimensions().node_count());
  s[n.index()] = c;
  std::int64_t sum = 0;
  for (const auto& t : l.lowered_operator(s, n).tasks) {
    sum += t.duration.count();
  }
  return sum;
}

}  // namespace

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

TEST_CASE("compute_bound shares the least computing on any kind of device among all devices") {
  const auto& a = parallel::test::operators();
  const auto is_mixed = GENERATE(false, true);
  const auto* model = GENERATE("zoo:mlp?form=fig1", "zoo:rnnlm?batch=8&hidden=16&vocab=32&seq=2");
  CAPTURE(is_mixed, model);
  const auto g = tensor::zoo::build(a, model);
  const auto m = is_mixed ? of_two_kinds() : hardware::preset("p100:1x4");
  parallel::lowering l{a, g, m};
  const parallel::placements all{l.dimensions(), 4};
  std::int64_t sum = 0;
  parallel::strategy on_last;
  for (const auto n : node_ids(g)) {
    const auto& o = l.dimensions()[n];
    on_last.push_back(parallel::on_device(o, hardware::device_id{std::size_t{3}}));
    if (o.inputs.empty()) {
      continue;
    }
    auto least = std::numeric_limits<std::int64_t>::max();
    for (const auto& placed : all.all(n)) {
      least = std::min(least, computing(l, n, placed));
      auto same = placed;
      for (std::size_t d = 0; d < 4; ++d) {
        for (auto& on : same.devices) {
          on = hardware::device_id{d};
        }
        least = std::min(least, computing(l, n, same));
      }
    }
    sum += least;
  }
  const auto bound = parallel::compute_bound(l, m, all);
  CHECK(bound.count() == (sum + 3) / 4);
  // With a fast device, this strategy is far faster than any division among slow ones.
  CHECK(simulate::full_simulation{}.run(l.run(on_last)) >= bound);
}

TEST_CASE("compute_bound on one device is the sum of forward and backward task times") {
  const auto& a = parallel::test::operators();
  const auto g = tensor::zoo::build(a, "zoo:lenet?batch=8");
  const auto m = hardware::preset("h200:1x1");
  parallel::lowering l{a, g, m};
  const auto p = l.run(parallel::data_parallel(l.dimensions(), m.network));
  std::int64_t sum = 0;
  for (std::size_t f = 0; f < p.fragment_count(); ++f) {
    for (const auto& t : p[tasks::fragment_id{f}].tasks) {
      sum += t.kind == tasks::task_kind::forward || t.kind == tasks::task_kind::backward ? t.duration.count() : 0;
    }
  }
  CHECK(parallel::compute_bound(l, m, parallel::placements{l.dimensions(), 1}).count() == sum);
}

}  // namespace tests_of_compute_bound
