#include <unity/io/tensor_data.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>

namespace io = unity::io;
using unity::tensor::dtype;

TEST_CASE("elements of every type come back as they were put in") {
  for (std::size_t i = 0; i < unity::tensor::dtype_names.size(); ++i) {
    const auto element = static_cast<dtype>(i);
    CAPTURE(unity::tensor::dtype_names[i]);
    const std::vector<double> values{0, 1, 1, 0, 1, 0};
    const auto data = io::make_data(element, {2, 3}, values);
    CHECK(static_cast<std::int64_t>(data.bytes.size()) == 6 * unity::tensor::size_of(element));
    CHECK(io::elements_of<double>(data) == values);
    CHECK(io::elements_of<std::int64_t>(data) == std::vector<std::int64_t>{0, 1, 1, 0, 1, 0});
  }
}

TEST_CASE("large integers keep all digits") {
  const std::vector<std::int64_t> values{std::numeric_limits<std::int64_t>::max(),
                                         std::numeric_limits<std::int64_t>::min()};
  CHECK(io::elements_of<std::int64_t>(io::make_data(dtype::int64, {2}, values)) == values);
}

TEST_CASE("every half-precision number survives the way through double") {
  for (unsigned bits = 0; bits < 0x10000U; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const auto wide = io::detail::narrow_to_double<5, 10>(half);
    const auto brain = io::detail::narrow_to_double<8, 7>(half);
    if (!std::isnan(wide)) {
      REQUIRE(io::detail::double_to_narrow<5, 10>(wide) == half);
    }
    if (!std::isnan(brain)) {
      REQUIRE(io::detail::double_to_narrow<8, 7>(brain) == half);
      REQUIRE(static_cast<float>(brain) == std::bit_cast<float>(bits << 16U));
    }
  }
}

TEST_CASE("numbers between two half-precision ones go to the nearer, ties to the even one") {
  unity::random_engine random{7};
  for (int i = 0; i < 100000; ++i) {
    const auto low = static_cast<std::uint16_t>(random.below(0x7bff));
    const auto a = io::detail::narrow_to_double<5, 10>(low);
    const auto b = io::detail::narrow_to_double<5, 10>(static_cast<std::uint16_t>(low + 1));
    const auto middle = (a + b) / 2;
    const auto even = (low & 1U) == 0 ? low : low + 1;
    REQUIRE(io::detail::double_to_narrow<5, 10>(middle) == even);
    REQUIRE(io::detail::double_to_narrow<5, 10>(a + (b - a) * 0.49) == low);
    REQUIRE(io::detail::double_to_narrow<5, 10>(-(a + (b - a) * 0.51)) == ((low + 1) | 0x8000));
  }
  CHECK(std::isinf(io::detail::narrow_to_double<5, 10>(io::detail::double_to_narrow<5, 10>(65520))));
  CHECK(io::detail::narrow_to_double<5, 10>(io::detail::double_to_narrow<5, 10>(65519)) == 65504);
}

TEST_CASE("NaN is found in every floating-point type and nowhere else") {
  const auto nan = std::numeric_limits<double>::quiet_NaN();
  for (const auto element : {dtype::float32, dtype::float64, dtype::float16, dtype::bfloat16}) {
    CHECK(io::find_nan(io::make_data(element, {3}, std::vector<double>{1, 2, nan})) == 2U);
    CHECK_FALSE(
        io::find_nan(io::make_data(element, {2}, std::vector<double>{1, std::numeric_limits<double>::infinity()})));
  }
  CHECK_FALSE(io::find_nan({dtype::int64, {1}, std::string(8, '\xff')}));
}
