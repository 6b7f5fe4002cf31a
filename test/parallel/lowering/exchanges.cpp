#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/lowering/exchanges.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/lowering/network.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/simulate/full.hpp>
#include <unity/tensor/zoo.hpp>

#include "../operators.hpp"

namespace tests_of_exchanges {

using namespace unity;
using hardware::device_id;
using parallel::routed_message;

namespace {

// Bytes over each link, by resource.
std::map<std::size_t, std::int64_t> moved(const tasks::fragment& f) {
  std::map<std::size_t, std::int64_t> all;
  for (const auto& t : f.tasks) {
    all[t.resource.index()] += t.volume.count();
  }
  return all;
}

tasks::fragment alone(parallel::network& n, std::span<const routed_message> messages) {
  tasks::fragment f;
  for (const auto& m : messages) {
    tasks::add_transfer(f, n.hops(m.from, m.to, m.volume), m.volume, 0, {});
  }
  return f;
}

// A one-way ring of five switches, each with one device.
hardware::machine ring_of_switches() {
  hardware::machine m = hardware::preset("p100:1x4");
  std::vector<hardware::placed_device> devices;
  std::vector<std::string> switches;
  std::vector<hardware::cable> cables;
  for (std::uint32_t i = 0; i < 5; ++i) {
    devices.push_back({"d" + std::to_string(i), 0, 0});
    switches.push_back("s" + std::to_string(i));
  }
  for (std::uint32_t i = 0; i < 5; ++i) {
    cables.push_back(
        {hardware::vertex_id{i}, hardware::vertex_id{5 + i}, 1'000'000'000, picoseconds{1000}, hardware::duplex::full});
    cables.push_back({hardware::vertex_id{5 + i}, hardware::vertex_id{5 + (i + 1) % 5}, 1'000'000'000,
                      picoseconds{1000}, hardware::duplex::simplex});
  }
  m.network = hardware::topology{std::move(devices), std::move(switches), std::move(cables), "ring"};
  return m;
}

}  // namespace

TEST_CASE("an exchange keeps messages without a common endpoint separate") {
  const auto m = hardware::preset("k80:2x4");
  parallel::network n{m};
  const std::vector<routed_message> messages{{device_id{0u}, device_id{4u}, bytes{1000}},
                                             {device_id{1u}, device_id{5u}, bytes{2000}}};
  tasks::fragment f;
  parallel::exchange_builder builder;
  const auto ends = builder.add(n, f, messages);
  CHECK(moved(f) == moved(alone(n, messages)));
  CHECK(f.tasks.size() == alone(n, messages).tasks.size());
  CHECK(ends[0].first == 0);
  CHECK(ends[1].first == ends[0].last + 1);
}

TEST_CASE("an exchange merges all-to-all messages into one task per link with the same bytes") {
  const auto* name = GENERATE("k80:2x4", "p100:2x4", "summit:2x6", "dgx_a100:2x8", "t4:2x8", "dgx_h100:2x8");
  const auto m = hardware::preset(name);
  parallel::network n{m};
  std::vector<routed_message> messages;
  for (std::size_t a = 0; a < n.device_count(); ++a) {
    for (std::size_t b = 0; b < n.device_count(); ++b) {
      if (a != b) {
        messages.push_back({device_id{a}, device_id{b}, bytes{static_cast<std::int64_t>(100 + 7 * a + b)}});
      }
    }
  }
  CAPTURE(name);
  tasks::fragment f;
  parallel::exchange_builder builder;
  const auto ends = builder.add(n, f, messages);
  const auto apart = alone(n, messages);
  CHECK(moved(f) == moved(apart));
  CHECK(f.tasks.size() <= m.network.link_count());
  CHECK(f.tasks.size() < apart.tasks.size() / 2);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const auto hops = n.hops(messages[i].from, messages[i].to, messages[i].volume);
    CHECK(f.tasks[ends[i].first].resource == hops.front().link);
    CHECK(f.tasks[ends[i].last].resource == hops.back().link);
  }
}

TEST_CASE("an exchange does not merge messages around a ring of one-way links") {
  const auto m = ring_of_switches();
  parallel::network n{m};
  std::vector<routed_message> messages;
  for (std::uint32_t a = 0; a < 5; ++a) {
    messages.push_back({device_id{a}, device_id{(a + 3) % 5}, bytes{64}});
    messages.push_back({device_id{a}, device_id{(a + 2) % 5}, bytes{64}});
  }
  tasks::fragment f;
  parallel::exchange_builder builder;
  builder.add(n, f, messages);
  CHECK(f.tasks.size() == alone(n, messages).tasks.size());
  CHECK(moved(f) == moved(alone(n, messages)));
  // A failure leaves the builder unchanged.
  const std::vector<routed_message> two{{device_id{0u}, device_id{1u}, bytes{5}},
                                        {device_id{0u}, device_id{2u}, bytes{6}}};
  tasks::fragment g;
  builder.add(n, g, two);
  CHECK(moved(g) == moved(alone(n, two)));
  CHECK(g.tasks.size() < alone(n, two).tasks.size());
}

TEST_CASE("lowering to exchanges moves the bytes of messages on each link with no more tasks", "[law]") {
  const auto& a = parallel::test::operators();
  const auto* model = GENERATE("zoo:lenet?batch=48", "zoo:rnnlm?batch=48&hidden=48&vocab=96&seq=2");
  const auto* name = GENERATE("p100:1x4", "k80:2x4", "summit:2x6");
  const auto g = tensor::zoo::build(a, model);
  const auto m = hardware::preset(name);
  parallel::lowering messages{a, g, m, parallel::transfers::messages};
  parallel::lowering exchanges{a, g, m};
  simulate::full_simulation simulation;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(model, name, seed);
    random_engine random{seed};
    const auto s = parallel::random_strategy(messages.dimensions(), m.network.device_count(), random);
    const auto one = messages.run(s);
    const auto other = exchanges.run(s);
    REQUIRE(one.fragment_count() == other.fragment_count());
    for (std::size_t f = 0; f < one.fragment_count(); ++f) {
      REQUIRE(moved(one[tasks::fragment_id{f}]) == moved(other[tasks::fragment_id{f}]));
    }
    REQUIRE(other.task_count() <= one.task_count());
    // Both programs put the same bytes on each link, so their times are close.
    const auto apart = static_cast<double>(simulation.run(one).count());
    const auto together = static_cast<double>(simulation.run(other).count());
    REQUIRE(together > 0.7 * apart);
    REQUIRE(together < 1.4 * apart);
    // Cached knowledge of earlier edges does not change the program.
    const auto anew = parallel::lowering{a, g, m}.run(s);
    for (std::size_t f = 0; f < other.fragment_count(); ++f) {
      REQUIRE(anew[tasks::fragment_id{f}] == other[tasks::fragment_id{f}]);
    }
  }
}

}  // namespace tests_of_exchanges
