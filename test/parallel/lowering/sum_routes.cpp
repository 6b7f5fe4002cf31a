#include <unity/parallel/lowering/sum_writer.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <utility>
#include <vector>

#include <unity/hardware/presets.hpp>
#include <unity/parallel/lowering/network.hpp>

namespace tests_of_sum_routes {

using namespace unity;
using hardware::device_id;
using parallel::box;
using parallel::sum_route;
using parallel::sum_routes;

namespace {

std::vector<device_id> devices(std::initializer_list<std::size_t> all) {
  std::vector<device_id> d;
  for (const auto i : all) {
    d.push_back(device_id{i});
  }
  return d;
}

// Routes of a sum over 12 elements with partials on `from`; consumer i reads boxes[i] on to[i].
sum_routes routes(std::initializer_list<std::size_t> from, const std::vector<box>& boxes,
                  std::initializer_list<std::size_t> to) {
  const auto m = hardware::preset("p100:2x4");
  const parallel::network n{m};
  parallel::summed_value s;
  s.from = devices(from);
  s.producers.resize(s.from.size());
  s.consumers.resize(boxes.size());
  std::iota(s.consumers.begin(), s.consumers.end(), std::uint32_t{0});
  s.to = devices(to);
  s.needed = parallel::replicas_of(boxes, s.to);
  return routes_of(n.topology(), s);
}

const box all{{0}, {12}};

}  // namespace

TEST_CASE("a sum that all devices with partial sums need is all-reduced") {
  const auto r = routes({1, 0, 2}, {all, all, all}, {0, 1, 2});
  CHECK(r.reduced == 12);
  CHECK(r.reduced_for.at(device_id{1U}) == std::vector<std::uint32_t>{1});
  CHECK(r.routes.empty());
}

TEST_CASE("a sum is reduced around a ring to the devices that need it") {
  const auto one = routes({0, 1, 2}, {all}, {1});
  CHECK(one.reduced == 0);
  CHECK(one.ring == devices({0, 1, 2}));
  CHECK(one.held == std::vector<std::int64_t>{0, 12, 0});
  CHECK(one.sent == std::vector<std::int64_t>{12, 0, 12});
  CHECK(one.routes == decltype(one.routes){{{1, device_id{1U}}, {12, {0}}}});
  const auto halves = routes({0, 1}, {box{{0}, {6}}, box{{6}, {12}}}, {1, 0});
  CHECK(halves.held == std::vector<std::int64_t>{6, 6});
  CHECK(halves.sent == std::vector<std::int64_t>{6, 6});
  CHECK(halves.routes == decltype(halves.routes){{{0, device_id{0U}}, {6, {1}}}, {{1, device_id{1U}}, {6, {0}}}});
}

TEST_CASE("a sum needed on another device is reduced in equal shares and sent from there") {
  const auto r = routes({0, 1, 2}, {all, all}, {5, 5});
  CHECK(r.held == std::vector<std::int64_t>{4, 4, 4});
  CHECK(r.sent == std::vector<std::int64_t>{8, 8, 8});
  REQUIRE(r.routes.size() == 3);
  for (const auto& [ends, way] : r.routes) {
    CHECK(ends.second == device_id{5U});
    CHECK(way == sum_route{4, {0, 1}});
  }
}

TEST_CASE("elements needed on all devices are all-reduced; the others end where they are needed") {
  const auto r = routes({0, 1}, {all, box{{0}, {4}}, box{{0}, {2}}}, {0, 1, 4});
  // Two elements are needed on 0, 1 and 4; two more on 0 and 1; the others on 0.
  CHECK(r.reduced == 2);
  CHECK(r.held == std::vector<std::int64_t>{9, 1});
  CHECK(r.sent == std::vector<std::int64_t>{1, 9});
  CHECK(r.routes.at({0, device_id{4U}}) == sum_route{1, {2}});
  CHECK(r.routes.at({0, device_id{1U}}) == sum_route{1, {1}});
  CHECK(r.routes.at({0, device_id{0U}}) == sum_route{9, {0}});
}

TEST_CASE("partial sums on one device are added there without messages") {
  const auto r = routes({3, 3}, {all, all}, {3, 4});
  CHECK(r.reduced == 0);
  CHECK(r.ring == devices({3}));
  CHECK(r.sent == std::vector<std::int64_t>{0});
  CHECK(r.held == std::vector<std::int64_t>{12});
  CHECK(r.routes.size() == 2);
}

}  // namespace tests_of_sum_routes
