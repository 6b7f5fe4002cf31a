#include <unity/parallel/lowering/rings.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <vector>

#include <unity/machine/presets.hpp>
#include <unity/parallel/lowering/network.hpp>
#include <unity/program/fragment.hpp>

namespace tests_of_rings {

using namespace unity;
using machine::device_id;

TEST_CASE("every link of a ring carries 2(k-1)/k of what is reduced, in whole bytes") {
  CHECK(parallel::ring_volume(bytes{1000}, 4, 6).count() == 1500);
  CHECK(parallel::ring_volume(bytes{10}, 3, 4).count() == 14);  // 13.33
  CHECK(parallel::ring_volume(bytes{7}, 2, 2).count() == 7);
  CHECK(parallel::ring_volume(bytes{1'000'000'000'000'000}, 1000, 1998).count() == 1'998'000'000'000'000);
}

TEST_CASE("a ring goes through a node's devices, and through the next node's backwards") {
  const auto m = machine::preset("p100:3x2");
  const parallel::network n{m};
  std::vector<device_id> all;
  for (std::size_t d = 0; d < 6; ++d) {
    all.push_back(device_id{5 - d});
  }
  const std::vector<device_id> ring{device_id{0U}, device_id{1U}, device_id{3U},
                                    device_id{2U}, device_id{4U}, device_id{5U}};
  CHECK(ring_of(n, all) == ring);
}

TEST_CASE("an all-reduce starts after all contributions and is done after all messages") {
  const auto m = machine::preset("p100:1x4");
  parallel::network n{m};
  program::fragment f;
  const std::vector<device_id> devices{device_id{0U}, device_id{1U}, device_id{2U}};
  const std::vector<program::task_ref> contributions{{program::fragment_id{7U}, 0}, {program::fragment_id{7U}, 1}};
  const auto done = add_all_reduce(n, f, devices, bytes{3000}, contributions);
  std::size_t first = 0;
  std::size_t last = 0;
  for (const auto& d : f.dependencies) {
    first += d.before.fragment == program::fragment_id{7U} ? 1U : 0U;
    last += d.after == done ? 1U : 0U;
  }
  CHECK(first == 2);
  CHECK(last == 3);
  CHECK(parallel::message_bytes(f).count() == 3 * 4000);
}

TEST_CASE("without messages a ring is nothing") {
  const auto m = machine::preset("p100:1x2");
  parallel::network n{m};
  program::fragment f;
  CHECK(add_ring(n, f, {}, 1, {}).empty());
  CHECK(f == program::fragment{});
}

}  // namespace tests_of_rings
