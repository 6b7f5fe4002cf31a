#include <unity/hardware/topology.hpp>

#include <catch2/catch.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "../support/message_of.hpp"

namespace tests_of_topology {

static_assert(std::regular<unity::hardware::topology>);

namespace {

using namespace unity;
using hardware::cable;
using hardware::duplex;
using hardware::link_id;
using hardware::topology;
using hardware::vertex_id;

vertex_id v(std::size_t i) { return vertex_id{i}; }
link_id l(std::size_t i) { return link_id{i}; }

// Two devices and a switch; one cable of each kind.
topology example() {
  return {{{"a", 0, 0}, {"b", 0, 0}},
          {"s"},
          {{v(0), v(2), 100, picoseconds{1}, duplex::full},
           {v(2), v(1), 200, picoseconds{2}, duplex::half},
           {v(0), v(1), 300, picoseconds{3}, duplex::simplex}}};
}
std::string complaint(const std::vector<hardware::placed_device>& devices, const std::vector<std::string>& switches,
                      const std::vector<cable>& cables) {
  return unity::test::message_of([&] { static_cast<void>(topology{devices, switches, cables, "m.json"}); });
}

TEST_CASE("a full-duplex cable is two links; half-duplex shares a resource; simplex is one link") {
  const auto t = example();
  REQUIRE(t.link_count() == 5);
  CHECK(t.resource_count() == 4);
  CHECK(t.name(l(0)) == "a -> s");
  CHECK(t.name(l(1)) == "s -> a");
  CHECK(t.resource(l(0)) != t.resource(l(1)));
  CHECK(t.name(l(2)) == "s -> b");
  CHECK(t.name(l(3)) == "b -> s");
  CHECK(t.resource(l(2)) == t.resource(l(3)));
  CHECK(t.name(l(4)) == "a -> b");
  CHECK(t.bytes_per_second(l(3)) == 200);
  CHECK(t.latency(l(4)) == picoseconds{3});
}

TEST_CASE("topology finds links by their source and by their target") {
  const auto t = example();
  CHECK(std::vector(t.links_from(v(0)).begin(), t.links_from(v(0)).end()) == std::vector{l(0), l(4)});
  CHECK(std::vector(t.links_to(v(1)).begin(), t.links_to(v(1)).end()) == std::vector{l(2), l(4)});
  std::size_t seen = 0;
  for (std::size_t i = 0; i < t.vertex_count(); ++i) {
    for (const auto link : t.links_from(v(i))) {
      CHECK(t.source(link) == v(i));
      ++seen;
    }
  }
  CHECK(seen == t.link_count());
}

TEST_CASE("topologies of equal parts are equal; an empty one differs") {
  CHECK(example() == example());
  CHECK(topology{} == topology{{}, {}, {}});
  CHECK_FALSE(example() == topology{});
}

TEST_CASE("topologies that differ in one device or switch or cable or summing switch are unequal") {
  const auto t = example();
  const std::vector<hardware::placed_device> devices{t.devices().begin(), t.devices().end()};
  const std::vector<std::string> switches{t.switches().begin(), t.switches().end()};
  const std::vector<cable> cables{t.cables().begin(), t.cables().end()};
  CHECK(topology{devices, switches, cables} == t);
  for (const auto& other :
       {hardware::placed_device{"c", 0, 0}, hardware::placed_device{"b", 1, 0}, hardware::placed_device{"b", 0, 1}}) {
    auto changed = devices;
    changed[1] = other;
    CAPTURE(other.name, other.model, other.node);
    CHECK_FALSE(topology{changed, switches, cables} == t);
  }
  CHECK_FALSE(topology{devices, std::vector<std::string>{"u"}, cables} == t);
  const auto with = [&](const auto& change) {
    auto changed = cables;
    change(changed[2]);
    return topology{devices, switches, changed};
  };
  CHECK_FALSE(with([](cable& c) { c.bytes_per_second = 301; }) == t);
  CHECK_FALSE(with([](cable& c) { c.latency = picoseconds{4}; }) == t);
  CHECK_FALSE(with([](cable& c) { c.mode = duplex::full; }) == t);
  CHECK_FALSE(with([](cable& c) { std::swap(c.from, c.to); }) == t);
  auto summing = t;
  summing.set_reduces(v(2));
  CHECK(summing.reduces(v(2)));
  CHECK_FALSE(summing.reduces(v(0)));
  CHECK_FALSE(t.reduces(v(2)));
  CHECK_FALSE(summing == t);
}

TEST_CASE("link_between finds the fastest direct link and of equal ones the first") {
  const topology t{{{"a", 0, 0}, {"b", 0, 0}},
                   {"s"},
                   {{v(0), v(1), 100, {}, duplex::full},
                    {v(0), v(1), 300, {}, duplex::simplex},
                    {v(1), v(0), 300, {}, duplex::full},
                    {v(0), v(2), 900, {}, duplex::full}}};
  REQUIRE(t.link_between(v(0), v(1)).has_value());
  CHECK(*t.link_between(v(0), v(1)) == l(2));  // link 0 is slower, link 4 as fast
  REQUIRE(t.link_between(v(1), v(0)).has_value());
  CHECK(*t.link_between(v(1), v(0)) == l(3));
  CHECK_FALSE(t.link_between(v(1), v(2)).has_value());  // only by way of a
}

TEST_CASE("slow_down changes rate and latency of the cables of one rate only") {
  auto t = example();
  t.slow_down(200, 4, 3);
  for (const auto link : {l(2), l(3)}) {
    CHECK(t.bytes_per_second(link) == 50);
    CHECK(t.latency(link) == picoseconds{6});
  }
  CHECK(t.bytes_per_second(l(0)) == 100);
  CHECK(t.latency(l(0)) == picoseconds{1});
  CHECK(t.bytes_per_second(l(4)) == 300);
  CHECK(t.latency(l(4)) == picoseconds{3});
  t.slow_down(50, 1000, 0.5);
  CHECK(t.bytes_per_second(l(2)) == 1);  // never 0
  CHECK(t.latency(l(2)) == picoseconds{3});
}

TEST_CASE("transfer_time of bytes is rounded up and saturates") {
  CHECK(hardware::transfer_time(bytes{0}, 7) == picoseconds{0});
  CHECK(hardware::transfer_time(bytes{1}, 1'000'000'000'000) == picoseconds{1});
  CHECK(hardware::transfer_time(bytes{1}, 3'000'000'000'000) == picoseconds{1});
  CHECK(hardware::transfer_time(bytes{10}, 3'000'000'000'000) == picoseconds{4});
  CHECK(hardware::transfer_time(bytes{12'500'000'000}, 12'500'000'000) == picoseconds{1'000'000'000'000});
  CHECK(hardware::transfer_time(bytes{std::numeric_limits<std::int64_t>::max()}, 1).count() ==
        std::numeric_limits<std::int64_t>::max());
  const hardware::route_cost slow{picoseconds{1000}, 1'000'000};
  CHECK(hardware::transfer_time(slow, bytes{5}) == picoseconds{5'001'000});
  CHECK(hardware::transfer_time(slow, bytes{10'000'000'000'000}).count() == std::numeric_limits<std::int64_t>::max());
}

TEST_CASE("an invalid topology is rejected with the cable and what was expected") {
  const std::vector<hardware::placed_device> ab{{"a", 0, 0}, {"b", 0, 0}};
  CHECK(complaint(ab, {}, {{v(0), v(1), 0, {}, duplex::full}}) ==
        "m.json, links[0] (a - b): a bandwidth of 0; expected bytes per second above 0");
  CHECK(complaint(ab, {}, {{v(0), v(1), 1, {}, duplex::full}, {v(0), v(2), 1, {}, duplex::full}}) ==
        "m.json, links[1]: an end that is neither a device nor a switch; expected one of the 2");
  CHECK(complaint(ab, {}, {{v(1), v(1), 1, {}, duplex::full}}) ==
        "m.json, links[0] (b - b): both ends are the same; expected two ends");
  CHECK(complaint(ab, {}, {{v(0), v(1), 1, picoseconds{-1}, duplex::full}}) ==
        "m.json, links[0] (a - b): a latency of -1 ps; expected at least 0");
  CHECK(complaint(ab, {"a"}, {}) == "m.json: two devices or switches named \"a\"; expected names of their own");
  CHECK(complaint({{"", 0, 0}}, {}, {}) == "m.json: a device or switch without a name; expected names");
  CHECK(complaint(ab, {"s"}, {}).empty());
}

}  // namespace

}  // namespace tests_of_topology
