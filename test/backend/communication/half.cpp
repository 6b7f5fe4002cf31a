#include <catch2/catch.hpp>

#include <cmath>
#include <cstdint>
#include <limits>

#include <unity/backend/communication/half.hpp>
#include <unity/core/random.hpp>

using namespace unity::backend;

namespace {

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

// Between neighbours the nearer one is taken, halfway the even one.
template <class To>
void check_rounding(To to, int mantissa_bits, int bias) {
  const auto largest = static_cast<std::uint16_t>((((1 << (15 - mantissa_bits)) - 1) << mantissa_bits) - 1);
  for (std::uint16_t bits = 0; bits < largest; ++bits) {
    const auto above = static_cast<std::uint16_t>(bits + 1);
    const auto middle =
        static_cast<float>((value_of(bits, mantissa_bits, bias) + value_of(above, mantissa_bits, bias)) / 2);
    const auto even = (bits & 1U) == 0 ? bits : above;
    const auto infinity = std::numeric_limits<float>::infinity();
    REQUIRE(to(middle) == even);
    REQUIRE(to(-middle) == static_cast<std::uint16_t>(even | 0x8000U));
    REQUIRE(to(std::nextafter(middle, 0.0F)) == bits);
    REQUIRE(to(std::nextafter(middle, infinity)) == above);
  }
}

}  // namespace

TEST_CASE("every float16 is read exactly and written back") { check_every_pattern(from_float16, to_float16, 10, 15); }
TEST_CASE("every bfloat16 is read exactly and written back") {
  check_every_pattern(from_bfloat16, to_bfloat16, 7, 127);
}
TEST_CASE("float16 rounds to nearest, ties to even") { check_rounding(to_float16, 10, 15); }
TEST_CASE("bfloat16 rounds to nearest, ties to even") { check_rounding(to_bfloat16, 7, 127); }
TEST_CASE("what float16 cannot hold becomes infinite") {
  CHECK(to_float16(65519.996F) == 0x7bff);
  CHECK(to_float16(65520.0F) == 0x7c00);
  CHECK(to_float16(-1e30F) == 0xfc00);
  CHECK(to_bfloat16(std::numeric_limits<float>::max()) == 0x7f80);
}
