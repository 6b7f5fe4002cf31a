#include <unity/tensor/operators/normalization.hpp>

#include <cmath>
#include <cstdint>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>

#include "../testing.hpp"

namespace tests_of_normalization {

using namespace unity::tensor;
using namespace unity::tensor::test;

TEST_CASE("softmax normalizes exponentials along its axis") {
  unity::random_engine random{1};
  const auto x = random_tensor({3, 4, 5}, random);
  const auto expected = tabulate(x.dims, [&](const shape& p) {
    double sum = 0;
    for (std::int64_t i = 0; i < 4; ++i) {
      sum += std::exp(at(x, {p[0], i, p[2]}));
    }
    return std::exp(at(x, {p[0], p[1], p[2]})) / sum;
  });
  CHECK(distance(run("softmax", {{"axis", 1}}, {x}), expected) < 1e-14);
}

TEST_CASE("softmax does not overflow") {
  const auto y = run("softmax", {{"axis", 0}}, {{{2}, {10000, 10000}}});
  CHECK(y.data[0] == Approx(0.5));
}

TEST_CASE("layer_norm normalizes the last dimensions and then scales and shifts") {
  unity::random_engine random{2};
  const auto x = random_tensor({2, 3, 4}, random);
  const auto gamma = random_tensor({3, 4}, random);
  const auto beta = random_tensor({3, 4}, random);
  const auto expected = tabulate(x.dims, [&](const shape& p) {
    double mean = 0;
    double square = 0;
    for (std::int64_t i = 0; i < 12; ++i) {
      const auto v = at(x, {p[0], i / 4, i % 4});
      mean += v / 12;
      square += v * v / 12;
    }
    const auto deviation = std::sqrt(square - mean * mean + 1e-3);
    return (at(x, {p[0], p[1], p[2]}) - mean) / deviation * at(gamma, {p[1], p[2]}) + at(beta, {p[1], p[2]});
  });
  CHECK(distance(run("layer_norm", {{"axis", 1}, {"epsilon", 1e-3}}, {x, gamma, beta}), expected) < 1e-13);
}

TEST_CASE("batch_norm applies given statistics of each channel") {
  unity::random_engine random{3};
  const auto x = random_tensor({2, 3, 4, 5}, random);
  const auto scale = random_tensor({3}, random);
  const auto bias = random_tensor({3}, random);
  const auto mean = random_tensor({3}, random);
  const dense<double> variance{{3}, {0.5, 1, 2}};
  const auto expected = tabulate(x.dims, [&](const shape& p) {
    const auto c = p[1];
    return (at(x, {p[0], c, p[2], p[3]}) - at(mean, {c})) / std::sqrt(at(variance, {c}) + 1e-5) * at(scale, {c}) +
           at(bias, {c});
  });
  CHECK(distance(run("batch_norm", {}, {x, scale, bias, mean, variance}), expected) < 1e-14);
}

TEST_CASE("softmax / layer_norm / batch_norm refuse invalid attributes and operands") {
  CHECK(refusal_of("softmax", {{"axis", 2}}, {type({2, 3})}) == "an axis within the rank");
  CHECK(refusal_of("softmax", {{"axis", 0}}, {type({2}, dtype::int32)}) == "floating-point elements");
  CHECK(refusal_of("layer_norm", {{"axis", 1}}, {type({2, 3}), type({1}), type({3})}) ==
        "the normalized dimensions in operand 1");
  CHECK(refusal_of("layer_norm", {{"axis", 1}}, {type({2, 3}), type({3}), type({2, 3})}) ==
        "the normalized dimensions in operand 2");
  CHECK(refusal_of("layer_norm", {{"axis", 1}, {"epsilon", -1.0}}, {type({2, 3}), type({3}), type({3})}) ==
        "a non-negative epsilon");
  const auto c = type({3});
  CHECK(refusal_of("batch_norm", {}, {type({3}), c, c, c, c}) == "rank 2 or more in operand 0");
  CHECK(refusal_of("batch_norm", {}, {type({2, 3}), c, type({4}), c, c}) ==
        "one value per channel in operand 2");
  CHECK(refusal_of("batch_norm", {}, {type({2, 3}), c, c, c, type({3, 1})}) ==
        "one value per channel in operand 4");
}

}  // namespace tests_of_normalization
