#include <unity/parallel/lowering/replicas.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "../elements.hpp"

namespace tests_of_replicas {

using namespace unity;
using hardware::device_id;
using parallel::box;

TEST_CASE("replicas_of groups parts of a weight by the devices that hold them") {
  const std::vector<box> read{{{0, 0}, {4, 6}}, {{0, 0}, {2, 6}}, {{0, 0}, {4, 6}}};
  const std::vector<device_id> on{device_id{0U}, device_id{1U}, device_id{2U}};
  const auto r = parallel::replicas_of(read, on);
  REQUIRE(r.groups.size() == 2);
  CHECK(r.groups[0] == parallel::replica_group{{device_id{0U}, device_id{1U}, device_id{2U}}, 12, {0, 1}});
  CHECK(r.groups[1] == parallel::replica_group{{device_id{0U}, device_id{2U}}, 12, {0}});
  CHECK(r.box_of == std::vector<std::uint32_t>{0, 1, 0});
}

TEST_CASE("replica groups of random boxes count each element for the devices that read it") {
  const std::uint64_t seed = 3;
  INFO("seed " << seed);
  random_engine random{seed};
  const tensor::shape dims{5, 6};
  for (int i = 0; i < 200; ++i) {
    std::vector<box> read;
    std::vector<device_id> on;
    for (auto n = random.below(6) + 1; n-- > 0;) {
      const auto b = parallel::test::random_box(random, dims);
      if (!b.empty()) {
        read.push_back(b);
        on.push_back(device_id{static_cast<std::size_t>(random.below(4))});
      }
    }
    std::map<std::set<device_id>, std::int64_t> expected;
    for (std::size_t e = 0; e < 30; ++e) {
      std::set<device_id> devices;
      for (std::size_t k = 0; k < read.size(); ++k) {
        if (parallel::test::counts({read[k]}, dims)[e] > 0) {
          devices.insert(on[k]);
        }
      }
      if (!devices.empty()) {
        ++expected[devices];
      }
    }
    std::map<std::set<device_id>, std::int64_t> found;
    for (const auto& g : parallel::replicas_of(read, on).groups) {
      found[{g.devices.begin(), g.devices.end()}] += g.elements;
    }
    REQUIRE(found == expected);
  }
}

}  // namespace tests_of_replicas
