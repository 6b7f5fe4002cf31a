#include <unity/tensor/element.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <unity/tensor/shape.hpp>

namespace tests_of_element {

namespace {

using unity::tensor::dtype;
using unity::tensor::exceeds_float32;
using unity::tensor::from_bfloat16;
using unity::tensor::from_float16;
using unity::tensor::to_bfloat16;
using unity::tensor::to_float16;
using unity::tensor::to_integer;

// The value of a 16-bit pattern from its fields.
double value_of(std::uint16_t bits, int mantissa_bits, int bias) {
  const int exponent = (bits & 0x7fff) >> mantissa_bits;
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                                         : std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

template <class From, class To>
void check_every_pattern(From from, To to, int mantissa_bits, int bias) {
  const auto infinite = static_cast<std::uint16_t>(((1 << (15 - mantissa_bits)) - 1) << mantissa_bits);
  for (std::uint32_t i = 0; i < 0x10000U; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const auto magnitude = static_cast<std::uint16_t>(bits & 0x7fffU);
    const float value = from(bits);
    if (magnitude > infinite) {
      REQUIRE((std::isnan(value) && std::isnan(from(to(value)))));
    } else {
      REQUIRE(to(value) == bits);
      REQUIRE((magnitude == infinite ? std::isinf(value) : value == value_of(bits, mantissa_bits, bias)));
    }
  }
}

// Numbers between two neighbours are rounded to the nearer one, and ties to even.
template <class Real, class To>
void check_rounding(To to, int mantissa_bits, int bias) {
  const auto largest = static_cast<std::uint16_t>((((1 << (15 - mantissa_bits)) - 1) << mantissa_bits) - 1);
  for (std::uint16_t bits = 0; bits < largest; ++bits) {
    const auto above = static_cast<std::uint16_t>(bits + 1);
    const auto middle =
        static_cast<Real>((value_of(bits, mantissa_bits, bias) + value_of(above, mantissa_bits, bias)) / 2);
    const auto even = (bits & 1U) == 0 ? bits : above;
    REQUIRE(to(middle) == even);
    REQUIRE(to(-middle) == static_cast<std::uint16_t>(even | 0x8000U));
    REQUIRE(to(std::nextafter(middle, Real{0})) == bits);
    REQUIRE(to(std::nextafter(middle, std::numeric_limits<Real>::infinity())) == above);
    REQUIRE(to(std::nextafter(-middle, Real{0})) == static_cast<std::uint16_t>(bits | 0x8000U));
  }
}

static_assert(to_float16(1.0F) == 0x3C00 && to_bfloat16(-0.0) == 0x8000 && from_float16(0xC000) == -2.0F);
static_assert(exceeds_float32(dtype::float64) && exceeds_float32(dtype::int32) && exceeds_float32(dtype::int64));
static_assert(!exceeds_float32(dtype::float32) && !exceeds_float32(dtype::bfloat16) && !exceeds_float32(dtype::int8));

}  // namespace

TEST_CASE("every float16 bit pattern decodes exactly and round-trips") {
  check_every_pattern(from_float16, to_float16, 10, 15);
}
TEST_CASE("every bfloat16 bit pattern decodes exactly and round-trips") {
  check_every_pattern(from_bfloat16, to_bfloat16, 7, 127);
}
TEST_CASE("float32 to 16-bit float conversion rounds to nearest with ties to even") {
  check_rounding<float>(to_float16, 10, 15);
  check_rounding<float>(to_bfloat16, 7, 127);
}
TEST_CASE("float64 to 16-bit float conversion rounds once without double rounding") {
  check_rounding<double>(to_float16, 10, 15);
  check_rounding<double>(to_bfloat16, 7, 127);
}
TEST_CASE("16-bit float conversion maps overflow to infinity and underflow to zero and keeps NaN") {
  CHECK(to_float16(65519.996F) == 0x7bff);
  CHECK(to_float16(std::nextafter(65520.0, 0.0)) == 0x7bff);
  CHECK(to_float16(65520.0F) == 0x7c00);
  CHECK(to_float16(-1e30F) == 0xfc00);
  CHECK(to_float16(1e300) == 0x7c00);
  CHECK(to_float16(std::numeric_limits<double>::denorm_min()) == 0);
  CHECK(to_float16(-1e-300) == 0x8000);
  CHECK(to_bfloat16(std::numeric_limits<float>::max()) == 0x7f80);
  CHECK(to_bfloat16(-std::numeric_limits<double>::max()) == 0xff80);
  CHECK(to_bfloat16(1e-300) == 0);
  CHECK(std::isnan(from_float16(to_float16(std::numeric_limits<double>::quiet_NaN()))));
  CHECK(std::isnan(from_bfloat16(to_bfloat16(-std::numeric_limits<double>::quiet_NaN()))));
}

TEST_CASE("to_integer truncates towards zero and saturates") {
  CHECK(to_integer<std::int32_t>(1.9) == 1);
  CHECK(to_integer<std::int32_t>(-1.9) == -1);
  CHECK(to_integer<std::int8_t>(127.9F) == 127);
  CHECK(to_integer<std::int8_t>(128.0F) == 127);
  CHECK(to_integer<std::int8_t>(-128.9F) == -128);
  CHECK(to_integer<std::int8_t>(-1e9F) == -128);
  CHECK(to_integer<std::uint8_t>(-0.5) == 0);
  CHECK(to_integer<std::uint8_t>(255.5) == 255);
  CHECK(to_integer<std::uint8_t>(256.0) == 255);
  CHECK(to_integer<std::int32_t>(2147483647.0) == std::numeric_limits<std::int32_t>::max());
  CHECK(to_integer<std::int32_t>(2147483648.0F) == std::numeric_limits<std::int32_t>::max());
  CHECK(to_integer<std::int64_t>(0x1p63) == std::numeric_limits<std::int64_t>::max());
  CHECK(to_integer<std::int64_t>(std::nextafter(0x1p63, 0.0)) == std::numeric_limits<std::int64_t>::max() - 1023);
  CHECK(to_integer<std::int64_t>(-0x1p63) == std::numeric_limits<std::int64_t>::min());
  CHECK(to_integer<std::int64_t>(-std::numeric_limits<float>::infinity()) == std::numeric_limits<std::int64_t>::min());
  CHECK(to_integer<std::int64_t>(std::numeric_limits<double>::quiet_NaN()) == 0);
}

TEST_CASE("round_to rounds floats and wraps integers to the element type") {
  const auto rounded = [](dtype element, double number) {
    double numbers[] = {number};
    unity::tensor::round_to(element, numbers);
    return numbers[0];
  };
  CHECK(rounded(dtype::float64, 0.1) == 0.1);
  CHECK(rounded(dtype::float32, 0.1) == static_cast<double>(0.1F));
  CHECK(rounded(dtype::float16, 70000) == std::numeric_limits<double>::infinity());
  CHECK(rounded(dtype::bfloat16, 1 + 0x1p-8) == 1);
  CHECK(rounded(dtype::bfloat16, 1 + 0x1.8p-8) == 1 + 0x1p-7);
  CHECK(std::isnan(rounded(dtype::float16, std::numeric_limits<double>::quiet_NaN())));
  CHECK(rounded(dtype::int64, -7.9) == -7);
  CHECK(rounded(dtype::int32, 0x1p31) == -0x1p31);
  CHECK(rounded(dtype::int8, 200) == -56);
  CHECK(rounded(dtype::uint8, -1) == 255);
  CHECK(rounded(dtype::uint8, 300.5) == 44);
  CHECK(rounded(dtype::boolean, 0.25) == 1);
  CHECK(rounded(dtype::boolean, 0) == 0);
}

TEST_CASE("exceeds_float32 of a list of types is true if it is for one of them") {
  using unity::tensor::tensor_type;
  CHECK_FALSE(exceeds_float32(std::vector<tensor_type>{}));
  CHECK_FALSE(exceeds_float32(std::vector<tensor_type>{{}, {.element = dtype::float16}}));
  CHECK(exceeds_float32(std::vector<tensor_type>{{}, {.element = dtype::int64}}));
}

}  // namespace tests_of_element
