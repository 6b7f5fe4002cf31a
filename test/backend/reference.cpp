#include <unity/backend/reference.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/backend/device_backend.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/core/random.hpp>
#include <unity/tensor/algebra.hpp>

#include "../support/cases.hpp"
#include "../support/message_of.hpp"
#include "operator_suite.hpp"

namespace tests_of_reference {

namespace {

using namespace unity::backend;
using unity::backend::test::check_chains;
using unity::backend::test::check_integer_ranges;
using unity::backend::test::check_large_operators;
using unity::backend::test::check_operators;
using unity::tensor::dense;
using unity::tensor::dtype;
using unity::tensor::layout;
using unity::tensor::tensor_type;
using unity::tensor::test::standard;
using unity::tensor::test::type;
using unity::test::message_of;

reference_backend make(const unity::tensor::algebra& a) { return reference_backend{a}; }

static_assert(device_backend<reference_backend> && fusing_backend<reference_backend>);
static_assert(!packing_backend<reference_backend> && !recording_backend<reference_backend>);
static_assert(!clocked_backend<reference_backend>);

std::uint16_t bits_of(double value, dtype element) {
  const auto stored = encode(dense<double>{{1}, {value}}, type({1}, element));
  std::uint16_t bits = 0;
  std::memcpy(&bits, stored.data(), sizeof bits);
  return bits;
}

double round_trip(double value, dtype element) {
  const auto t = type({}, element);
  return decode<double>(encode(dense<double>{{}, {value}}, t).data(), t).data[0];
}

// A defective backend: leaves the first element of a result unwritten.
class careless_backend : public reference_backend {
 public:
  using reference_backend::reference_backend;
  void run(const kernel& k, std::span<const std::byte* const> in, std::span<std::byte* const> out, std::byte* work) {
    std::array<std::byte, 4> before{};
    std::copy_n(out[0], before.size(), before.begin());
    reference_backend::run(k, in, out, work);
    std::copy(before.begin(), before.end(), out[0]);
  }
};

// A defective backend: writes past the end of its result.
class overflowing_backend : public reference_backend {
 public:
  using reference_backend::reference_backend;
  kernel prepare(const unity::tensor::operation& op, std::span<const tensor_type> in,
                 std::span<const tensor_type> out) {
    behind_ = byte_count(out[0]);
    return reference_backend::prepare(op, in, out);
  }
  void run(const kernel& k, std::span<const std::byte* const> in, std::span<std::byte* const> out, std::byte* work) {
    reference_backend::run(k, in, out, work);
    out[0][behind_] = std::byte{0};
  }

 private:
  std::size_t behind_ = 0;
};

}  // namespace

TEST_CASE("the operator suite detects an unwritten result element", "[reference][!shouldfail]") {
  check_operators([](const auto& a) { return careless_backend{a}; }, {.cases = 1});
}

TEST_CASE("the operator suite detects a write past the end of a result", "[reference][!shouldfail]") {
  check_operators([](const auto& a) { return overflowing_backend{a}; }, {.cases = 1});
}

TEST_CASE("the operator suite detects operator kinds without a run case", "[reference][!shouldfail]") {
  check_operators(make, {.cases = 1, .types = {dtype::float32}});  // runs no case of embedding
}

TEST_CASE("reference kernels match the double evaluator for every operator", "[reference]") {
  check_operators(make, {.cases = static_cast<int>(unity::test::cases(40))});
}

TEST_CASE("reference kernels match the double evaluator in 16-bit floats and float64", "[reference]") {
  check_operators(make, {.tolerance = 1e-2, .cases = 6, .element = dtype::bfloat16});
  check_operators(make, {.tolerance = 2e-3, .cases = 6, .element = dtype::float16});
  check_operators(make, {.tolerance = 1e-14, .cases = 6, .element = dtype::float64});
}

TEST_CASE("reference kernels match the evaluator on large tensors", "[reference]") { check_large_operators(make); }

TEST_CASE("reference chain kernels match the double evaluator", "[reference]") { check_chains(make); }

TEST_CASE("the reference backend refuses operators without meaning and wrong operands", "[reference]") {
  auto b = make(standard());
  const std::array types{type({2, 3})};
  const auto prepare = [&](const char* name, unity::tensor::test::attributes a, std::span<const tensor_type> in) {
    return message_of([&] { static_cast<void>(b.prepare(standard().make_operation(name, a), in, types)); });
  };
  CHECK(prepare("input", {{"name", "x"}, {"dims", {2, 3}}}, {}) ==
        "reference kernel of input: no operands; expected an operator with a known meaning");
  CHECK(prepare("opaque", {{"name", "m"}, {"signature", "s"}, {"elements", {0}}, {"dims", {2, 2, 3}}}, types) ==
        "reference kernel of opaque: operands float32[2,3]; expected an operator with a known meaning");
  CHECK(prepare("add", {}, types) == "reference kernel of add: operands float32[2,3]; expected 2 operand(s)");
  CHECK(prepare("transpose", {{"permutation", {1, 0}}}, types) ==
        "reference kernel of transpose: operands float32[2,3]; expected results of the types that its operands give");
}

TEST_CASE("reference backend memory is aligned and oversized allocations are refused", "[reference]") {
  auto b = make(standard());
  for (const std::size_t size : {std::size_t{1}, std::size_t{63}, std::size_t{1000}, std::size_t{5} << 20U}) {
    auto m = b.allocate(size);
    m.data()[size - 1] = std::byte{1};
    CHECK(reinterpret_cast<std::uintptr_t>(m.data()) % memory_alignment == 0);
    CHECK(m.size() == size);
  }
  CHECK(b.allocate(0).size() == 0);
  const auto too_much = std::size_t{1} << 60U;
  CHECK(message_of([&] { static_cast<void>(b.allocate(too_much)); }) ==
        "memory of the host: no " + std::to_string(too_much) + " bytes; expected as much free memory");
}

TEST_CASE("integer results of reference kernels keep the low bits of numbers that do not fit", "[reference]") {
  check_integer_ranges(make);
}

TEST_CASE("encoding rounds values and keeps low bits according to the element type", "[reference]") {
  CHECK(bits_of(1, dtype::float16) == 0x3C00);
  CHECK(bits_of(-2, dtype::float16) == 0xC000);
  CHECK(bits_of(65504, dtype::float16) == 0x7BFF);
  CHECK(bits_of(65520, dtype::float16) == 0x7C00);  // halfway to the next value: rounds to infinity
  CHECK(bits_of(65519.99, dtype::float16) == 0x7BFF);
  CHECK(bits_of(0x1p-24, dtype::float16) == 0x0001);      // the least positive value
  CHECK(bits_of(0x1p-25, dtype::float16) == 0x0000);      // a tie, to even
  CHECK(bits_of(0x1.8p-24, dtype::float16) == 0x0002);    // a tie, to even
  CHECK(bits_of(1 + 0x1p-11, dtype::float16) == 0x3C00);  // a tie, to even
  CHECK(bits_of(1 + 0x3p-11, dtype::float16) == 0x3C02);
  CHECK(bits_of(1, dtype::bfloat16) == 0x3F80);
  CHECK(bits_of(-0.0, dtype::bfloat16) == 0x8000);
  CHECK(bits_of(1 + 0x1p-8, dtype::bfloat16) == 0x3F80);
  CHECK(bits_of(1e39, dtype::bfloat16) == 0x7F80);
  CHECK(std::isnan(round_trip(std::nan(""), dtype::float16)));
  CHECK(std::isnan(round_trip(std::nan(""), dtype::bfloat16)));
  CHECK(round_trip(-INFINITY, dtype::float16) == -INFINITY);
  CHECK(round_trip(-1.9, dtype::int8) == -1);
  CHECK(round_trip(300, dtype::int8) == 44);
  CHECK(round_trip(-300, dtype::uint8) == 212);
  CHECK(round_trip(std::nan(""), dtype::int32) == 0);
  CHECK(round_trip(1e300, dtype::int64) == std::ldexp(1, 63));
  CHECK(round_trip(-7, dtype::boolean) == 1);
  CHECK(round_trip(0.1, dtype::float64) == 0.1);
}

TEST_CASE("every 16-bit float except NaN survives a decode and encode round trip", "[reference]") {
  for (const auto element : {dtype::float16, dtype::bfloat16}) {
    for (unsigned bits = 0; bits < 0x10000U; ++bits) {
      const auto stored = static_cast<std::uint16_t>(bits);
      std::array<std::byte, 2> bytes{};
      std::memcpy(bytes.data(), &stored, sizeof stored);
      const auto value = decode<double>(bytes.data(), type({}, element)).data[0];
      if (!std::isnan(value) && bits_of(value, element) != stored) {
        FAIL("bits " << bits << " of " << unity::tensor::name_of(element));
      }
    }
  }
}

TEST_CASE("encoding stores column-major matrices by columns", "[reference]") {
  tensor_type t = type({2, 2, 3});
  t.order = layout::column_major;
  const dense<float> values{{2, 2, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}};
  const auto stored = encode(values, t);
  const auto flat = decode<float>(stored.data(), type({12}));
  CHECK(flat.data == std::vector<float>{0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11});
  CHECK(decode<float>(stored.data(), t) == values);
  const auto strides = unity::tensor::strides_of(t.dims, t.order);
  for (std::size_t i = 0; i < 12; ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const auto place = at / 6 * strides[0] + at / 3 % 2 * strides[1] + at % 3 * strides[2];
    CHECK(flat.data[static_cast<std::size_t>(place)] == values.data[i]);
  }
}

TEST_CASE("the relative error is relative to the largest magnitude and infinite for NaN", "[reference]") {
  const dense<double> expected{{3}, {1, -4, 0}};
  CHECK(relative_error(expected, expected) == 0);
  CHECK(relative_error(dense<float>{{3}, {1, -4, 1}}, expected) == 0.25);
  CHECK(relative_error(dense<float>{{2}, {1, -4}}, expected) == INFINITY);
  CHECK(relative_error(dense<double>{{3}, {1, -4, std::nan("")}}, expected) == INFINITY);
  const dense<double> infinite{{2}, {INFINITY, 1}};
  CHECK(relative_error(infinite, infinite) == 0);
  CHECK(relative_error(expected, dense<double>{{3}, {1, std::nan(""), 0}}) == INFINITY);
  CHECK(relative_error(dense<double>{{2}, {-INFINITY, 1}}, infinite) == INFINITY);
}

}  // namespace tests_of_reference
