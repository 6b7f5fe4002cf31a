#include <unity/io/tensor_data.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

namespace tests_of_tensor_data {

namespace io = unity::io;
using unity::tensor::dtype;

TEST_CASE("tensor data of every element type keeps its values") {
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

TEST_CASE("tensor data keeps the extreme 64-bit integers") {
  const std::vector<std::int64_t> values{std::numeric_limits<std::int64_t>::max(),
                                         std::numeric_limits<std::int64_t>::min()};
  CHECK(io::elements_of<std::int64_t>(io::make_data(dtype::int64, {2}, values)) == values);
}

TEST_CASE("tensor data of every element type keeps its extreme values") {
  const std::vector<std::pair<dtype, std::vector<double>>> all{
      {dtype::float32, {-1.5, 0x1p-149, 0x1.fffffep127}},
      {dtype::float64, {-1.5, 0x1p-1074, std::numeric_limits<double>::max()}},
      {dtype::float16, {-1.5, 0x1p-24, 65504}},
      {dtype::bfloat16, {-1.5, 0x1p-133, 0x1.fep127}},
      {dtype::int64, {-0x1p63, -1, 0x1p62}},
      {dtype::int32, {-0x1p31, -1, 0x1p31 - 1}},
      {dtype::int8, {-128, -1, 127}},
      {dtype::uint8, {0, 128, 255}},
      {dtype::boolean, {0, 1, 1}}};
  REQUIRE(all.size() == unity::tensor::dtype_names.size());
  for (const auto& [element, values] : all) {
    CAPTURE(unity::tensor::name_of(element));
    CHECK(io::elements_of<double>(io::make_data(element, {3}, values)) == values);
  }
}

TEST_CASE("tensor data are stored as little-endian bytes") {
  const auto bytes_of = [](dtype element, const std::vector<double>& values) {
    return io::make_data(element, {static_cast<std::int64_t>(values.size())}, values).bytes.text();
  };
  CHECK(bytes_of(dtype::int32, {-2, 256}) == std::string{"\xfe\xff\xff\xff\x00\x01\x00\x00", 8});
  CHECK(bytes_of(dtype::int8, {-128, 127}) == std::string{"\x80\x7f", 2});
  CHECK(bytes_of(dtype::boolean, {0, 0.5, -3}) == std::string{"\x00\x01\x01", 3});
  CHECK(bytes_of(dtype::float32, {1}) == std::string{"\x00\x00\x80\x3f", 4});
  CHECK(bytes_of(dtype::float16, {1, -2}) == std::string{"\x00\x3c\x00\xc0", 4});
  CHECK(bytes_of(dtype::bfloat16, {1, -2}) == std::string{"\x80\x3f\x00\xc0", 4});
}

// The number that 16 bits stand for: a sign, an exponent of that many bits, and a fraction.
static double number_of(unsigned bits, int exponent_bits) {
  const int fraction_bits = 15 - exponent_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const auto exponent = static_cast<int>((bits & 0x7fffU) >> fraction_bits);
  const auto fraction = static_cast<double>(bits & ((1U << fraction_bits) - 1U));
  const double sign = (bits & 0x8000U) != 0 ? -1 : 1;
  if (exponent == 2 * bias + 1) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  return exponent == 0 ? sign * std::ldexp(fraction, 1 - bias - fraction_bits)
                       : sign * std::ldexp(fraction + std::ldexp(1, fraction_bits), exponent - bias - fraction_bits);
}

TEST_CASE("all float16 and bfloat16 numbers survive a round trip through double") {
  for (const auto element : {dtype::float16, dtype::bfloat16}) {
    std::string bytes(2 * 0x10000, '\0');
    for (unsigned bits = 0; bits < 0x10000U; ++bits) {
      const auto half = static_cast<std::uint16_t>(bits);
      std::memcpy(bytes.data() + std::size_t{2} * bits, &half, sizeof half);
    }
    const io::tensor_data all{element, {0x10000}, bytes};
    const auto wide = io::elements_of<double>(all);
    const auto back = io::make_data(element, all.dims, wide);
    std::size_t different = 0;  // from what the bits stand for
    for (std::size_t i = 0; i < wide.size(); ++i) {
      const auto expected = number_of(static_cast<unsigned>(i), element == dtype::float16 ? 5 : 8);
      const bool is_same = std::isnan(expected) ? std::isnan(wide[i]) : wide[i] == expected;
      different += is_same ? 0 : 1;
      if (!std::isnan(wide[i])) {
        REQUIRE(bytes.compare(2 * i, 2, back.bytes.text(), 2 * i, 2) == 0);
      }
    }
    CHECK(different == 0);
  }
}

TEST_CASE("find_nan finds NaN in floating-point types and ignores infinities and integers") {
  const auto nan = std::numeric_limits<double>::quiet_NaN();
  for (const auto element : {dtype::float32, dtype::float64, dtype::float16, dtype::bfloat16}) {
    CHECK(io::find_nan(io::make_data(element, {3}, std::vector<double>{1, 2, nan})) == 2U);
    CHECK_FALSE(
        io::find_nan(io::make_data(element, {2}, std::vector<double>{1, std::numeric_limits<double>::infinity()})));
  }
  CHECK_FALSE(io::find_nan({dtype::int64, {1}, std::string(8, '\xff')}));
}

}  // namespace tests_of_tensor_data
