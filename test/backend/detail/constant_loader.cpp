// The bytes of sources: given data, or the values that evaluation gives.

#include <unity/backend/detail/constant_loader.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/graph/concepts.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/element.hpp>
#include <unity/tensor/evaluate.hpp>

#include "../../support/message_of.hpp"
#include "../../tensor/testing.hpp"

namespace tests_of_constant_loader {

using namespace unity;
using unity::backend::detail::source_bytes;
using unity::tensor::dense;
using unity::tensor::dtype;
using unity::tensor::test::standard;

namespace {

// The numbers that bytes of elements of type T hold.
template <class T>
std::vector<double> numbers_in(const std::vector<std::byte>& bytes) {
  std::vector<double> all;
  REQUIRE(bytes.size() % sizeof(T) == 0);
  for (std::size_t i = 0; i < bytes.size(); i += sizeof(T)) {
    T x{};
    std::memcpy(&x, bytes.data() + i, sizeof x);
    all.push_back(static_cast<double>(x));
  }
  return all;
}

}  // namespace

TEST_CASE("source_bytes are the given data in the element type of the source") {
  tensor::builder b{standard()};
  b.weight("floats", {3});
  b.constant("integers", {3}, dtype::int64);
  b.weight("halves", {3}, dtype::float16);
  b.weight("absent", {3}, dtype::float64);
  b.fill(2.5, {2});
  const auto g = std::move(b).finish({});
  const tensor::source_data data = [](std::string_view name) -> std::optional<dense<double>> {
    return name == "absent" ? std::nullopt : std::optional{dense<double>{{3}, {1, -2, 40}}};
  };
  const auto bytes = [&](std::size_t n, std::uint64_t seed) {
    return source_bytes(standard(), g, node_id{n}, data, seed);
  };
  const std::vector<double> given{1, -2, 40};
  CHECK(numbers_in<float>(bytes(0, 1)) == given);
  CHECK(numbers_in<std::int64_t>(bytes(1, 1)) == given);
  const auto halves = bytes(2, 1);
  REQUIRE(halves.size() == 6);
  for (std::size_t i = 0; i < 3; ++i) {
    std::uint16_t half = 0;
    std::memcpy(&half, halves.data() + 2 * i, sizeof half);
    CHECK(half == tensor::to_float16(given[i]));
  }
  for (const std::uint64_t seed : {1U, 2U}) {
    const auto expected = tensor::evaluate<double>(standard(), g.operation(node_id{std::size_t{3}}), {}, {}, seed)[0];
    CHECK(numbers_in<double>(bytes(3, seed)) == expected.data);
  }
  CHECK_FALSE(bytes(3, 1) == bytes(3, 2));
  CHECK(numbers_in<float>(bytes(4, 1)) == std::vector<double>{2.5, 2.5});  // not a source: data do not matter
}

TEST_CASE("source_bytes refuse data of another size and name the source") {
  tensor::builder b{standard()};
  b.weight("w", {2, 3});
  const auto g = std::move(b).finish({});
  const dense<double> wrong[] = {{{3, 2}, std::vector<double>(6)},
                                 {{6}, std::vector<double>(6)},
                                 {{2, 3}, std::vector<double>(5)},
                                 {{2, 3}, std::vector<double>(7)}};
  for (const auto& values : wrong) {
    const tensor::source_data data = [&](std::string_view) { return std::optional{values}; };
    const auto said = unity::test::message_of(
        [&] { static_cast<void>(source_bytes(standard(), g, node_id{std::size_t{0}}, data, 0)); });
    CAPTURE(said);
    CHECK(said.rfind("source w: ", 0) == 0);
    CHECK(said.find("float32") != std::string::npos);
    CHECK(said.find('\n') == std::string::npos);
  }
}

}  // namespace tests_of_constant_loader
