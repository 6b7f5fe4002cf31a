#include <unity/cost/roofline.hpp>

#include <catch2/catch.hpp>

namespace tests_of_roofline {

namespace {

using namespace unity;

TEST_CASE("the roofline time is the maximum of arithmetic and traffic plus the launch") {
  const device_rates d{"a device", 10e12, 700e9, 5e-6};
  CHECK(roofline_time(d, {}) == picoseconds{5'000'000});
  CHECK(roofline_time(d, {flops{10'000'000'000}, bytes{7}}) == picoseconds{1'005'000'000});
  CHECK(roofline_time(d, {flops{1}, bytes{7'000'000'000}}) == picoseconds{10'005'000'000});
  CHECK(roofline_time(d, {flops{10'000'000'000}, bytes{7}}, 0.5) == picoseconds{2'005'000'000});
}

}  // namespace

}  // namespace tests_of_roofline
