// Selection of the largest elements, against sorting, on the evaluator and the cpu backend, with NaNs.
#include <unity/tensor/operators/selection.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/backend/cpu.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/backend/reference.hpp>
#include <unity/core/random.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/differentiate.hpp>

#include "../support/cases.hpp"
#include "../tensor/testing.hpp"
#include "cuda_host_backend.hpp"
#include "kernel_run.hpp"

namespace tests_of_selection {

using namespace unity::tensor;
using namespace unity::tensor::test;

namespace {

const algebra& operators() {
  static const auto a = training_algebra();
  return a;
}

// Reference: sorts with NaN before all numbers and ties by index.
std::vector<double> sorted(const std::vector<double>& x, std::int64_t count) {
  std::vector<std::size_t> order(x.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto key = [&](std::size_t i) {
    return std::pair{std::isnan(x[i]) ? 1 : 0, std::isnan(x[i]) ? 0 : std::abs(x[i])};
  };
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return key(a) > key(b) || (key(a) == key(b) && a < b); });
  order.resize(static_cast<std::size_t>(count));
  return {order.begin(), order.end()};
}

template <class Backend>
std::vector<double> run(Backend&& b, const std::vector<double>& x, std::int64_t count, dtype element) {
  const std::vector<tensor_type> inputs{type({static_cast<std::int64_t>(x.size())}, element)};
  const auto op = operators().make_operation("top_k", {{"count", count}});
  const auto outputs = *operators().infer(op, inputs);
  const auto kernel = b.prepare(op, inputs, outputs);
  const auto bytes = unity::backend::encode(dense<double>{inputs[0].dims, x}, inputs[0]);
  const auto made = unity::backend::test::run_kernel(b, kernel, inputs, outputs, {bytes});
  return unity::backend::decode<double>(made[0].data(), outputs[0]).data;
}

}  // namespace

TEST_CASE("top-k orders by magnitude then index with NaN first", "[law]") {
  constexpr std::uint64_t seed = 3;
  const auto cases = unity::test::cases(100);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> special{0, -0.0, 1, -1, infinity, -infinity, none, -none, 0x1p-24, 65504};
  for (std::size_t i = 0; i < cases; ++i) {
    const auto own = seed + 1000 * i;
    unity::random_engine random{own};
    const auto n = i == 0 ? std::int64_t{20'000} : random.between(1, 300);
    const auto count = random.between(1, n);
    const auto element = std::vector{dtype::float64, dtype::float32, dtype::float16, dtype::bfloat16}[i / 2 % 4];
    std::vector<double> x(static_cast<std::size_t>(n));
    for (auto& v : x) {  // few distinct values, representable in all types
      v = i % 2 == 0 ? static_cast<double>(random.between(-100, 100)) / 4 : special[random.below(special.size())];
    }
    CAPTURE(own, n, count, name_of(element));
    const auto expected = sorted(x, count);
    CHECK(run(unity::backend::cpu_backend{operators(), {.threads = 1}}, x, count, element) == expected);
    CHECK(run(unity::backend::cpu_backend{operators(), {.threads = 3}}, x, count, element) == expected);
    if (n <= 300) {
      CHECK(run(unity::backend::reference_backend{operators()}, x, count, element) == expected);
      CHECK(run(unity::backend::test::host_backend{operators(), false, 32}, x, count, element) == expected);
    }
  }
}

TEST_CASE("top-k infers the index type from the vector's size and refuses invalid operands") {
  const auto of = [](std::int64_t n, std::int64_t count) {
    return operators().infer(operators().make_operation("top_k", {{"count", count}}), types{type({n})});
  };
  CHECK((*of(10, 4))[0] == type({4}, dtype::int32));
  CHECK((*of((std::int64_t{1} << 31) - 1, 4))[0] == type({4}, dtype::int32));
  CHECK((*of(std::int64_t{1} << 31, 4))[0] == type({4}, dtype::int64));
  const auto refused = [](std::int64_t count, const tensor_type& t) {
    return operators().why_not(operators().make_operation("top_k", {{"count", count}}), types{t});
  };
  CHECK(refused(5, type({4})) == "a number of elements that the vector has");
  CHECK(refused(0, type({4})) == "a number of elements that the vector has");
  CHECK(refused(1, type({4, 4})) == "rank 1 in operand 0");
  CHECK(refused(1, type({4}, dtype::int32)) == "floating-point elements");
}

TEST_CASE("top-k has no adjoint and counts its work") {
  const auto op = operators().make_operation("top_k", {{"count", 2}});
  CHECK(adjoint_of(operators(), op, types{type({5})}).graph.outputs().empty());
  const auto w = operators().work(op, types{type({5})}, types{type({2}, dtype::int32)});
  CHECK(w.operations.count() == 5);
  CHECK(w.moved.count() == 28);
}

}  // namespace tests_of_selection
