#include <unity/cost/roofline.hpp>

#include <catch2/catch.hpp>

namespace tests_of_roofline {

namespace {

using namespace unity;

TEST_CASE("a device is found by its name, and only so") {
  for (const auto& d : known_devices) {
    CAPTURE(d.id);
    const auto found = find_device(d.id);
    REQUIRE(found);
    CHECK(found->name == d.id);
    CHECK(found->flops_per_second == d.float32);
    CHECK(d.float32 > 0);
    CHECK(d.bytes_per_second > 0);
    CHECK(d.launch_seconds > 0);
    CHECK_FALSE(d.source.empty());
  }
  CHECK(find_device("v100")->product_efficiency[1][0] == 1);
  CHECK(find_device("v100")->product_efficiency[0][0] == 2.0 / 3);
  CHECK(find_device("t4")->product_efficiency[0][0] == 1);
  CHECK_FALSE(find_device("abacus"));
  CHECK_FALSE(find_device(""));
}

TEST_CASE("the longer of arithmetic and traffic counts, and the launch on top") {
  const auto taso = *find_device("taso");  // 10 T operations/s, 700 GB/s, 5 us
  CHECK(roofline_time(taso, {}) == picoseconds{5'000'000});
  CHECK(roofline_time(taso, {flops{10'000'000'000}, bytes{7}}) == picoseconds{1'005'000'000});
  CHECK(roofline_time(taso, {flops{1}, bytes{7'000'000'000}}) == picoseconds{10'005'000'000});
  CHECK(roofline_time(taso, {flops{10'000'000'000}, bytes{7}}, 0.5) == picoseconds{2'005'000'000});
}

}  // namespace

}  // namespace tests_of_roofline
