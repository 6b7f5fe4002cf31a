#include <unity/hardware/machine.hpp>

#include <catch2/catch.hpp>

#include <concepts>

namespace tests_of_device {

static_assert(std::regular<unity::hardware::device> && std::regular<unity::hardware::link> &&
              std::regular<unity::hardware::machine>);

namespace {

using namespace unity;
using tensor::dtype;

hardware::device measured() {
  hardware::device d;
  d.name = "abacus";
  d.peaks = {{dtype::float32, "matmul", 2e12}, {dtype::bfloat16, "matmul", 9e12}, {dtype::float32, "conv2d", 3e12}};
  d.bytes_per_second = 1e11;
  d.launch_seconds = 1e-6;
  return d;
}

TEST_CASE("the peak rate of an element type is that of its fastest operator") {
  CHECK(hardware::peak_flops_per_second(measured(), dtype::float32) == 3e12);
  CHECK(hardware::peak_flops_per_second(measured(), dtype::bfloat16) == 9e12);
  CHECK_FALSE(hardware::peak_flops_per_second(measured(), dtype::int8));
}

TEST_CASE("roofline_of uses the float32 rate and is empty without one") {
  const auto d = measured();
  const auto rates = hardware::roofline_of(d);
  REQUIRE(rates);
  CHECK(rates->name == "abacus");
  CHECK(roofline_time(*rates, {flops{3'000'000'000}, bytes{1}}) == picoseconds{1'001'000'000});
  CHECK(roofline_time(*rates, {flops{1}, bytes{100'000'000}}) == picoseconds{1'001'000'000});
  auto half_only = d;
  half_only.peaks = {{dtype::float16, "matmul", 1}};
  CHECK_FALSE(hardware::roofline_of(half_only));
}

}  // namespace

}  // namespace tests_of_device
