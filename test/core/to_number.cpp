#include <unity/core/printable.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>

#include <catch2/catch.hpp>

namespace tests_of_to_number {

using unity::to_number;

TEST_CASE("to_number accepts only text that is a number as a whole") {
  CHECK(to_number<std::int64_t>("-12") == -12);
  CHECK(to_number<double>("2.5e-3") == 2.5e-3);
  for (const auto* text : {"", " 1", "1 ", "1x", "x", "+1", "-", "0x1"}) {
    CAPTURE(text);
    CHECK_FALSE(to_number<std::int64_t>(text));
    CHECK_FALSE(to_number<double>(text));
  }
  CHECK_FALSE(to_number<std::int64_t>("1.0"));
  CHECK_FALSE(to_number<std::size_t>("-1"));
}

TEST_CASE("to_number returns nothing for numbers out of range of the type") {
  CHECK(to_number<std::int64_t>("9223372036854775807") == std::numeric_limits<std::int64_t>::max());
  CHECK_FALSE(to_number<std::int64_t>("9223372036854775808"));
  CHECK_FALSE(to_number<std::uint8_t>("256"));
  CHECK_FALSE(to_number<double>("1e999"));
}

}  // namespace tests_of_to_number
