#include <unity/tensor/operators/matmul.hpp>

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>

#include "../testing.hpp"

namespace tests_of_matmul {

using namespace unity::tensor;
using namespace unity::tensor::test;

namespace {

const types matrices{type({2, 3}), type({3, 4})};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double gelu(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }

}  // namespace

TEST_CASE("matmul infers shapes with broadcast leading dimensions") {
  CHECK(shapes("matmul", {}, matrices)[0] == shape{2, 4});
  CHECK(shapes("matmul", {}, {type({5, 2, 3}), type({3, 4})})[0] == shape{5, 2, 4});
  CHECK(shapes("matmul", {}, {type({2, 3}), type({5, 3, 4})})[0] == shape{5, 2, 4});
  CHECK(shapes("matmul", {}, {type({7, 1, 2, 3}), type({5, 3, 4})})[0] == shape{7, 5, 2, 4});
}

TEST_CASE("matmul refuses invalid operands") {
  CHECK(refusal_of("matmul", {}, {type({2, 3}), type({4, 5})}) == "agreement with the size of k in operand 1");
  CHECK(refusal_of("matmul", {}, {type({3}), type({3, 4})}) == "operands of rank 2 or more");
  CHECK(refusal_of("matmul", {}, {type({2, 2, 3}), type({3, 3, 4})}) == "leading dimensions that broadcast");
  CHECK(refusal_of("matmul", {}, {type({2, 3})}) == "2 operand(s)");
  CHECK(refusal_of("matmul", {}, {type({2, 3}), type({3, 4}, dtype::float64)}) ==
        "operands of one element type");
  CHECK(refusal_of("matmul", {}, {type({2, 3}, dtype::int32), type({3, 4}, dtype::int32)}) ==
        "floating-point elements");
  CHECK_FALSE(refusal_of("matmul", {}, {type({0, 3}), type({3, 4})}).empty());
  CHECK_FALSE(refusal_of("matmul", {}, {type({-2, 3}), type({3, 4})}).empty());
}

TEST_CASE("matmul refuses a result with too many elements") {
  const auto big = std::int64_t{1} << 40;
  CHECK(refusal_of("matmul", {}, {type({big, 1}), type({1, big})}) ==
        "a result of positive sizes and a countable number of elements");
}

TEST_CASE("matmul agrees with nested loops") {
  unity::random_engine random{1};
  for (const auto& [m, k, n] : {std::array{1, 1, 1}, {2, 3, 4}, {1, 9, 1}, {7, 1, 5}, {8, 13, 1}, {1, 6, 17}}) {
    const auto a = random_tensor({3, m, k}, random);
    const auto b = random_tensor({2, 1, k, n}, random);
    const auto expected = tabulate({2, 3, m, n}, [&](const shape& p) {
      double sum = 0;
      for (std::int64_t i = 0; i < k; ++i) {
        sum += at(a, {p[1], p[2], i}) * at(b, {p[0], 0, i, p[3]});
      }
      return sum;
    });
    CHECK(distance(run("matmul", {}, {a, b}), expected) < 1e-14);
  }
}

TEST_CASE("linear adds a bias and applies its activation") {
  unity::random_engine random{2};
  const auto x = random_tensor({2, 5, 3}, random);
  const auto w = random_tensor({3, 4}, random);
  const auto bias = random_tensor({4}, random);
  double (*const functions[])(double) = {[](double v) { return v; }, [](double v) { return std::fmax(v, 0); }, sigmoid,
                                         std::tanh, gelu};
  const std::string names[] = {"none", "relu", "sigmoid", "tanh", "gelu"};
  for (std::size_t f = 0; f < 5; ++f) {
    for (const bool biased : {false, true}) {
      const auto expected = tabulate({2, 5, 4}, [&](const shape& p) {
        double sum = biased ? at(bias, {p[2]}) : 0;
        for (std::int64_t i = 0; i < 3; ++i) {
          sum += at(x, {p[0], p[1], i}) * at(w, {i, p[2]});
        }
        return functions[f](sum);
      });
      auto operands = std::vector{x, w};
      if (biased) {
        operands.push_back(bias);
      }
      CHECK(distance(run("linear", {{"activation", names[f]}}, operands), expected) < 1e-14);
    }
  }
}

TEST_CASE("linear refuses invalid operands") {
  CHECK(shapes("linear", {}, {type({3}), type({3, 4})})[0] == shape{4});
  CHECK(refusal_of("linear", {}, {type({2, 3})}) == "2 to 3 operand(s)");
  CHECK(refusal_of("linear", {}, {type({2, 3}), type({3, 4}), type({5})}) ==
        "agreement with the size of n in operand 2");
  CHECK(refusal_of("linear", {}, {type({2, 3}), type({1, 3, 4})}) == "rank 2 in operand 1");
  CHECK(refusal_of("linear", {}, {type({}), type({3, 4})}) == "rank 1 or more in operand 0");
}

}  // namespace tests_of_matmul
