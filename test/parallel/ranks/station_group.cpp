#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/ranks/identical_ranks.hpp>
#include <unity/parallel/ranks/server_exchange.hpp>
#include <unity/parallel/synchronization.hpp>

namespace tests_of_station_group {

using namespace unity;
using hardware::device_id;
using parallel::detail::station_group;
using parallel::detail::written_ranks;

TEST_CASE("station_group counts equal those of listing all messages", "[law]") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    const auto m =
        hardware::preset("p100:" + std::to_string(1 + random.below(5)) + "x" + std::to_string(1 + random.below(4)));
    const auto count = m.network.device_count();
    std::vector<std::uint32_t> ranks;
    std::vector<device_id> devices;
    for (std::uint32_t r = 0; r < count; ++r) {
      if (random.below(4) > 0 || (ranks.empty() && r + 1 == count)) {
        ranks.push_back(r);
        devices.emplace_back(std::size_t{r});
      }
    }
    const auto only = static_cast<std::uint32_t>(random.below(count));
    const bool is_one = random.below(2) == 0;
    const auto written = is_one ? written_ranks{count, only, devices} : written_ranks{count};
    const bool is_per_node = random.below(4) > 0;
    CAPTURE(is_one, is_per_node, only);
    const station_group group{ranks, is_per_node, m.network, written};
    REQUIRE(group.size() == ranks.size());
    for (std::uint32_t server = 0; server < count; ++server) {
      CAPTURE(server);
      const auto stations = parallel::stations_of(devices, device_id{std::size_t{server}}, m.network);
      const auto with = group.with(server);
      std::size_t relayed = 0;
      std::size_t others = 0;
      for (std::size_t i = 0; i < ranks.size(); ++i) {
        CAPTURE(i);
        const auto station = static_cast<std::uint32_t>(stations[i].index());
        const auto expected = is_per_node && station != server ? station : ranks[i];
        CHECK(group.rank(i) == ranks[i]);
        CHECK(group.station(i, server) == expected);
        CHECK(group.relayed_before(i, server) == relayed);
        CHECK(group.others_before(i, server) == others);
        relayed += expected != ranks[i] ? 1 : 0;
        others += ranks[i] != server ? 1 : 0;
        // A rank whose program is written, or whose station's is, must be near.
        const bool is_near = std::binary_search(group.near().begin(), group.near().end(), i);
        CHECK((is_near || (!written.has(ranks[i]) && !written.has(expected))));
        CHECK((std::binary_search(with.begin(), with.end(), i) || (!is_near && !written.has(server))));
      }
      CHECK(group.relayed_before(ranks.size(), server) == relayed);
      CHECK(group.others_before(ranks.size(), server) == others);
    }
  }
}

TEST_CASE("station_group has only ranks of the same node near a written rank") {
  const auto m = hardware::preset("p100:64x4");
  std::vector<std::uint32_t> ranks;
  std::vector<device_id> devices;
  for (std::uint32_t r = 0; r < 256; ++r) {
    ranks.push_back(r);
    devices.emplace_back(std::size_t{r});
  }
  const written_ranks written{256, 10, devices};
  const station_group group{ranks, true, m.network, written};
  CHECK(std::vector<std::uint32_t>(group.near().begin(), group.near().end()) ==
        std::vector<std::uint32_t>{8, 9, 10, 11});
  CHECK(group.with(0).size() == 4);
  CHECK(group.with(10).size() == 256);
}

}  // namespace tests_of_station_group
