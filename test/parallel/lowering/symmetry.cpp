#include <unity/parallel/lowering/symmetry.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <initializer_list>
#include <vector>

#include <unity/hardware/presets.hpp>

namespace tests_of_symmetry {

using namespace unity;
using hardware::device_id;

namespace {

std::vector<device_id> devices(std::initializer_list<std::size_t> numbers) {
  std::vector<device_id> all;
  for (const auto n : numbers) {
    all.push_back(device_id{n});
  }
  return all;
}

}  // namespace

TEST_CASE("a device_symmetry of equal cycles has images and one representative per cycle") {
  const auto s = parallel::device_symmetry::of(devices({2, 3, 4, 5, 0, 1}));
  REQUIRE(s);
  CHECK(s->order() == 3);
  CHECK(s->image(device_id{1U}) == device_id{3U});
  CHECK(s->image(device_id{3U}, 2) == device_id{1U});
  CHECK(s->image(device_id{5U}, 3) == device_id{5U});
  CHECK(s->representative(device_id{5U}) == device_id{1U});
  CHECK(s->represents(device_id{0U}));
  CHECK_FALSE(s->represents(device_id{2U}));
}

TEST_CASE("unequal cycles or a repeated image are no device symmetry") {
  CHECK_FALSE(parallel::device_symmetry::of(devices({1, 0, 2})));
  CHECK_FALSE(parallel::device_symmetry::of(devices({0, 2, 1})));
  CHECK_FALSE(parallel::device_symmetry::of(devices({1, 1})));
}

TEST_CASE("node_shifts of equal nodes has a shift for each divisor of their number") {
  const auto all = parallel::node_shifts(hardware::preset("p100:4x2").network);
  REQUIRE(all.size() == 2);
  CHECK(all[0].order() == 4);
  CHECK(all[0].image(device_id{7U}) == device_id{1U});
  CHECK(all[1].order() == 2);
  CHECK(all[1].image(device_id{7U}) == device_id{3U});
  CHECK(parallel::node_shifts(hardware::preset("p100:1x4").network).empty());
}

TEST_CASE("node_shifts maps nodes only onto nodes with the same devices") {
  const std::vector<hardware::placed_device> placed{{"a", 0, 0}, {"b", 1, 1}, {"c", 0, 2}, {"d", 1, 3}};
  const hardware::topology t{placed, {}, {}};
  const auto all = parallel::node_shifts(t);
  REQUIRE(all.size() == 1);
  CHECK(all[0].order() == 2);
  CHECK(all[0].image(device_id{1U}) == device_id{3U});
}

TEST_CASE("link_orbits admit messages along a rail; images of one across rails share a link") {
  const auto m = hardware::preset("dgx_h100:4x8");
  parallel::network n{m};
  const auto s = parallel::node_shifts(m.network).front();
  parallel::link_orbits links{s, n};
  CHECK(links.admit(device_id{3U}, device_id{11U}).empty());
  CHECK(links.admit(device_id{3U}, device_id{4U}).empty());
  CHECK(links.admit(device_id{7U}, device_id{8U}) == "a link that several images of one message share");
  const auto first = n.route(device_id{3U}, device_id{11U}).front().resource;
  const auto third = n.route(device_id{19U}, device_id{27U}).front().resource;
  CHECK(links.representative(third) == first);
  CHECK(links.place(first).shift == 0);
  CHECK(links.place(third).shift == 2);
}

TEST_CASE("link_orbits reject routes over links with different rates") {
  const std::vector<hardware::placed_device> placed{{"a", 0, 0}, {"b", 0, 1}, {"c", 0, 2}};
  const auto cable = [](std::size_t a, std::int64_t rate) {
    return hardware::cable{hardware::vertex_id{a}, hardware::vertex_id{3U}, rate, picoseconds{5},
                           hardware::duplex::full};
  };
  auto m = hardware::preset("p100:1x1");
  m.network = hardware::topology{placed, {"switch"}, {cable(0, 100), cable(1, 100), cable(2, 200)}};
  parallel::network n{m};
  const auto s = parallel::node_shifts(m.network).front();
  parallel::link_orbits links{s, n};
  CHECK(links.admit(device_id{0U}, device_id{1U}) == "routes that differ");
}

TEST_CASE("orbits_of maps the tasks of a device to those of its image in order") {
  const auto s = parallel::device_symmetry::of(devices({1, 0, 3, 2})).value();
  const auto o = parallel::orbits_of(s, devices({0, 1, 1, 0}));
  REQUIRE(o);
  CHECK(o->image == std::vector<std::uint32_t>{1, 0, 3, 2});
  CHECK(o->kept == std::vector<std::uint32_t>{0, 3});
  CHECK(o->folded == std::vector<std::uint32_t>{0, 0, 1, 1});
  CHECK_FALSE(parallel::orbits_of(s, devices({0, 1, 1})));
  CHECK_FALSE(parallel::orbits_of(s, devices({2})));
}

}  // namespace tests_of_symmetry
