#include <unity/io/tensor_data.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
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
    for (std::size_t i = 0; i < wide.size(); ++i) {
      if (!std::isnan(wide[i])) {
        REQUIRE(bytes.compare(2 * i, 2, back.bytes.text(), 2 * i, 2) == 0);
      }
    }
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
