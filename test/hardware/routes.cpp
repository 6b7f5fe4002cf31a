#include <unity/hardware/topology.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/hardware/presets.hpp>

#include "random_topology.hpp"

namespace tests_of_routes {

namespace {

using namespace unity;
using hardware::device_id;
using hardware::duplex;
using hardware::link_id;
using hardware::topology;
using hardware::vertex_id;

device_id d(std::size_t i) { return device_id{i}; }
vertex_id v(std::size_t i) { return vertex_id{i}; }

struct way {
  std::vector<link_id> links{};
  std::int64_t width = std::numeric_limits<std::int64_t>::max();
};

// Enumerates every simple path.
class every_way {
 public:
  every_way(const topology& t, device_id to) : t_{t}, to_{to}, visited_(t.vertex_count(), false) {}
  [[nodiscard]] std::vector<way> from(vertex_id start) {
    go(start, {});
    return found_;
  }

 private:
  void go(vertex_id at, const way& so_far) {
    if (at.index() == to_.index()) {
      found_.push_back(so_far);
      return;
    }
    if (t_.is_device(at) && !so_far.links.empty()) {
      return;
    }
    visited_[at.index()] = true;
    for (const auto l : t_.links_from(at)) {
      if (!visited_[t_.target(l).index()]) {
        auto longer = so_far;
        longer.links.push_back(l);
        longer.width = std::min(longer.width, t_.bytes_per_second(l));
        go(t_.target(l), longer);
      }
    }
    visited_[at.index()] = false;
  }

  const topology& t_;
  device_id to_;
  std::vector<bool> visited_;
  std::vector<way> found_{};
};

TEST_CASE("a route has the fewest links and of such routes the fastest slowest link") {
  std::size_t ties = 0;
  for (std::uint64_t seed = 1; seed < 60; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    const auto t = test::random_topology(random, 4, 1 + random.below(4));
    const hardware::route_table routes{t};
    for (std::size_t a = 0; a < t.device_count(); ++a) {
      for (std::size_t b = 0; b < t.device_count(); ++b) {
        if (a == b) {
          continue;
        }
        CAPTURE(a, b);
        const auto route = routes.between(t, d(a), d(b));
        std::size_t left = route.size();
        auto width = std::numeric_limits<std::int64_t>::max();
        picoseconds latency{};
        auto at = topology::vertex_of(d(a));
        for (const auto l : route) {
          REQUIRE(t.source(l) == at);
          // Of the best ways from here on, one that begins with the least link.
          const auto all = every_way{t, d(b)}.from(at);
          const auto& best = *std::min_element(all.begin(), all.end(), [](const way& x, const way& y) {
            return std::tuple{x.links.size(), -x.width, x.links.front()} <
                   std::tuple{y.links.size(), -y.width, y.links.front()};
          });
          REQUIRE(best.links.size() == left);
          CHECK(l == best.links.front());
          const bool is_tie = std::any_of(all.begin(), all.end(), [&](const way& w) {
            return w.links.size() == left && w.width == best.width && w.links.front() != l;
          });
          ties += is_tie ? 1 : 0;
          if (at == topology::vertex_of(d(a))) {
            width = best.width;
          }
          --left;
          at = t.target(l);
          latency += t.latency(l);
        }
        CHECK(at == topology::vertex_of(d(b)));
        const auto cost = routes.cost(t, d(a), d(b));
        CHECK(cost.bytes_per_second == width);
        CHECK(cost.latency == latency);
      }
    }
  }
  CHECK(ties > 0);
}

TEST_CASE("the lowest link number decides between equal routes") {
  const topology t{{{"a", 0, 0}, {"b", 0, 0}},
                   {"s", "u"},
                   {{v(3), v(1), 5, {}, duplex::full},
                    {v(0), v(2), 5, {}, duplex::full},
                    {v(0), v(3), 5, {}, duplex::full},
                    {v(2), v(1), 5, {}, duplex::full}}};
  const hardware::route_table routes{t};
  const auto route = routes.between(t, d(0), d(1));
  REQUIRE(route.size() == 2);
  CHECK(t.name(route[0]) == "a -> s");
  CHECK(t.name(routes.between(t, d(1), d(0))[0]) == "b -> u");
}

TEST_CASE("a pair of devices without links or switches between them is an error") {
  const std::vector<hardware::placed_device> abc{{"a", 0, 0}, {"b", 0, 0}, {"c", 0, 0}};
  const topology t{abc, {}, {{v(0), v(1), 1, {}, duplex::full}, {v(1), v(2), 1, {}, duplex::full}}};
  CHECK_THROWS_WITH((hardware::route_table{t, "m.json"}),
                    "m.json: no route from c to a; expected links or switches between them; devices do not forward");
  const topology one_way{{{"a", 0, 0}, {"b", 0, 0}}, {}, {{v(0), v(1), 1, {}, duplex::simplex}}};
  CHECK_THROWS_WITH(
      hardware::route_table{one_way},
      "topology: no route from b to a; expected links or switches between them; devices do not forward");
}

TEST_CASE("the route from a device to itself is empty and takes no time") {
  const auto m = hardware::preset("p100:1x2");
  const hardware::route_table routes{m.network};
  CHECK(routes.between(m.network, d(1), d(1)).empty());
  CHECK(hardware::transfer_time(routes.cost(m.network, d(1), d(1)), bytes{1'000'000}) == picoseconds{0});
}

TEST_CASE("a transfer takes the latencies of its route and the time of its slowest link") {
  const auto m = hardware::preset("p100:2x4");
  const hardware::route_table routes{m.network};
  const auto inside = routes.cost(m.network, d(0), d(3));
  CHECK(inside == hardware::route_cost{picoseconds{700'000}, 20'000'000'000});
  const auto outside = routes.cost(m.network, d(0), d(4));
  CHECK(outside == hardware::route_cost{picoseconds{2'000'000}, 12'500'000'000});
  CHECK(hardware::transfer_time(outside, bytes{12'500}) == picoseconds{3'000'000});
}

TEST_CASE("route_table of 1024 devices is built in under a second", "[exhaustive]") {
  const auto m = hardware::preset("p100:256x4");
  double best = 1e9;
  for (int i = 0; i < 3 && best > 1; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const hardware::route_table routes{m.network};
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    CHECK(routes.between(m.network, d(0), d(1023)).size() == 4);
  }
  CHECK(best < 1);
}

}  // namespace

}  // namespace tests_of_routes
