#include <unity/cost/roofline.hpp>

#include <catch2/catch.hpp>

namespace tests_of_roofline {

namespace {

using namespace unity;

TEST_CASE("a device is found by its name, and only so") {
  for (const auto& d : device_presets) {
    const auto found = find_device(d.name);
    REQUIRE(found);
    CHECK(found->flops_per_second == d.flops_per_second);
    CHECK(d.flops_per_second > 0);
    CHECK(d.bytes_per_second > 0);
    CHECK_FALSE(d.source.empty());
  }
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
