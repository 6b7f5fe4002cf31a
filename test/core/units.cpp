#include <concepts>
#include <cstdint>
#include <limits>

#include <fmt/core.h>
#include <catch2/catch.hpp>

#include <unity/core/units.hpp>

namespace tests_of_units {

using unity::bytes;
using unity::flops;
using unity::picoseconds;

template <class A, class B>
concept addable = requires(A a, B b) { a + b; };

static_assert(std::regular<bytes> && std::totally_ordered<bytes>);
static_assert(addable<bytes, bytes>);
static_assert(!addable<bytes, flops>, "quantities of two units do not add");
static_assert(!std::equality_comparable_with<bytes, flops>);
static_assert(!std::equality_comparable_with<picoseconds, unity::nanoseconds>);
static_assert(!std::convertible_to<std::int64_t, bytes>, "a number has no unit until it is given one");

TEST_CASE("quantities add and subtract and compare by their counts") {
  constexpr bytes a{5};
  constexpr bytes b{-3};
  CHECK((a + b).count() == 2);
  CHECK((a - b).count() == 8);
  CHECK(b < bytes{});
  CHECK((a - a) == bytes{});
  auto sum = a;
  sum += b;
  sum -= bytes{1};
  CHECK(sum == bytes{1});
}

TEST_CASE("a quantity times or divided by a number keeps its unit") {
  constexpr bytes a{7};
  CHECK(-a == bytes{-7});
  CHECK(a * 3 == bytes{21});
  CHECK(3 * a == bytes{21});
  CHECK(a / 2 == bytes{3});
  CHECK(-a / 2 == bytes{-3});
  auto b = a;
  b *= 4;
  CHECK(b == bytes{28});
  b /= 3;
  CHECK(b == bytes{9});
}

TEST_CASE("nanoseconds convert to picoseconds for positive and negative counts") {
  CHECK(unity::to_picoseconds(unity::nanoseconds{12}) == picoseconds{12'000});
  CHECK(unity::to_picoseconds(unity::nanoseconds{-1}) == picoseconds{-1'000});
  CHECK(fmt::format("{}", unity::nanoseconds{12}) == "12 ns");
}

TEST_CASE("from_seconds rounds to the nearest picosecond for both signs") {
  CHECK(unity::from_seconds(1.0).count() == 1'000'000'000'000);
  CHECK(unity::from_seconds(1.6e-12).count() == 2);
  CHECK(unity::from_seconds(1.4e-12).count() == 1);
  CHECK(unity::from_seconds(-1.6e-12).count() == -2);
  CHECK(unity::from_seconds(0).count() == 0);
  CHECK(unity::from_seconds(9e6).count() == 9'000'000'000'000'000'000);
}

TEST_CASE("from_seconds clamps to nine million seconds of either sign and takes NaN as the most") {
  constexpr picoseconds most{9'000'000'000'000'000'000};
  for (const double s : {9.000001e6, 1e7, 1e300, std::numeric_limits<double>::infinity()}) {
    CAPTURE(s);
    CHECK(unity::from_seconds(s) == most);
    CHECK(unity::from_seconds(-s) == -most);
  }
  CHECK(unity::from_seconds(std::numeric_limits<double>::quiet_NaN()) == most);
  CHECK(unity::from_seconds(-8.999999e6).count() == -8'999'999'000'000'000'000);
  CHECK(unity::from_seconds(-1.4e-12).count() == -1);
}

TEST_CASE("seconds round-trip through picoseconds") {
  for (const double s : {1e-9, 3.25e-3, 0.5, 12.0, 86400.0, -0.25, -8e6}) {
    CAPTURE(s);
    CHECK(unity::to_seconds(unity::from_seconds(s)) == Approx(s).epsilon(1e-12));
  }
}

}  // namespace tests_of_units
