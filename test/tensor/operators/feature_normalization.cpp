#include <unity/tensor/operators/normalization.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>

#include "../testing.hpp"

namespace tests_of_feature_normalization {

using namespace unity::tensor;
using namespace unity::tensor::test;

TEST_CASE("log_softmax is the logarithm of softmax and finite where softmax is 0") {
  unity::random_engine random{1};
  const auto x = random_tensor({3, 4, 5}, random);
  auto expected = run("softmax", {{"axis", 1}}, {x});
  for (auto& v : expected.data) {
    v = std::log(v);
  }
  CHECK(distance(run("log_softmax", {{"axis", 1}}, {x}), expected) < 1e-13);
  CHECK(run("log_softmax", {{"axis", 0}}, {{{2}, {0, 10000}}}).data[0] == -10000);
}

TEST_CASE("flat_softmax treats the dimensions from its axis on as one") {
  unity::random_engine random{2};
  const auto x = random_tensor({2, 3, 4}, random);
  const auto expected = tabulate(x.dims, [&](const shape& p) {
    double sum = 0;
    for (std::int64_t i = 0; i < 12; ++i) {
      sum += std::exp(at(x, {p[0], i / 4, i % 4}));
    }
    return std::exp(at(x, {p[0], p[1], p[2]})) / sum;
  });
  CHECK(distance(run("flat_softmax", {{"axis", 1}}, {x}), expected) < 1e-13);
  auto logarithms = expected;
  for (auto& v : logarithms.data) {
    v = std::log(v);
  }
  CHECK(distance(run("flat_softmax", {{"axis", 1}, {"function", "log_softmax"}}, {x}), logarithms) < 1e-13);
  const auto hard = run("flat_softmax", {{"axis", 1}, {"function", "hardmax"}}, {x});
  CHECK(std::count(hard.data.begin(), hard.data.end(), 1.0) == 2);
}

TEST_CASE("group_norm and instance_norm normalize groups of channels per sample") {
  unity::random_engine random{3};
  const auto x = random_tensor({2, 6, 3, 4}, random);
  const auto normalized = [&](const shape& p, std::int64_t channels) {
    double mean = 0;
    double square = 0;
    const auto count = static_cast<double>(channels * 12);
    for (std::int64_t i = 0; i < channels * 12; ++i) {
      const auto v = at(x, {p[0], p[1] / channels * channels + i / 12, i / 4 % 3, i % 4});
      mean += v / count;
      square += v * v / count;
    }
    return (at(x, {p[0], p[1], p[2], p[3]}) - mean) / std::sqrt(square - mean * mean + 1e-3);
  };
  const auto scale = random_tensor({6}, random);
  const auto bias = random_tensor({6}, random);
  const auto by_channels =
      tabulate(x.dims, [&](const shape& p) { return normalized(p, 3) * at(scale, {p[1]}) + at(bias, {p[1]}); });
  CHECK(distance(run("group_norm", {{"groups", 2}, {"epsilon", 1e-3}}, {x, scale, bias}), by_channels) < 1e-13);
  const auto group_scale = random_tensor({2}, random);
  const auto group_bias = random_tensor({2}, random);
  const auto by_groups = tabulate(x.dims, [&](const shape& p) {
    return normalized(p, 3) * at(group_scale, {p[1] / 3}) + at(group_bias, {p[1] / 3});
  });
  CHECK(distance(run("group_norm", {{"groups", 2}, {"epsilon", 1e-3}}, {x, group_scale, group_bias}), by_groups) <
        1e-13);
  const auto by_instance =
      tabulate(x.dims, [&](const shape& p) { return normalized(p, 1) * at(scale, {p[1]}) + at(bias, {p[1]}); });
  CHECK(distance(run("instance_norm", {{"epsilon", 1e-3}}, {x, scale, bias}), by_instance) < 1e-13);
}

TEST_CASE("rms_norm divides by the root mean square") {
  unity::random_engine random{4};
  const auto x = random_tensor({2, 3, 4}, random);
  const auto scale = random_tensor({4}, random);
  const auto expected = tabulate(x.dims, [&](const shape& p) {
    double square = 0;
    for (std::int64_t i = 0; i < 12; ++i) {
      square += std::pow(at(x, {p[0], i / 4, i % 4}), 2) / 12;
    }
    return at(x, {p[0], p[1], p[2]}) / std::sqrt(square + 1e-3) * at(scale, {p[2]});
  });
  CHECK(distance(run("rms_norm", {{"axis", 1}, {"epsilon", 1e-3}}, {x, scale}), expected) < 1e-13);
}

TEST_CASE("local_response_norm agrees with loops over neighbouring channels") {
  unity::random_engine random{5};
  const auto x = random_tensor({2, 5, 3}, random);
  for (std::int64_t size = 1; size <= 12; ++size) {
    const auto expected = tabulate(x.dims, [&](const shape& p) {
      double sum = 0;
      for (auto c = p[1] - (size - 1) / 2; c <= p[1] + size / 2; ++c) {
        sum += c >= 0 && c < 5 ? std::pow(at(x, {p[0], c, p[2]}), 2) : 0;
      }
      return at(x, {p[0], p[1], p[2]}) / std::pow(2 + 0.5 / static_cast<double>(size) * sum, 0.75);
    });
    CAPTURE(size);
    CHECK(distance(run("local_response_norm", {{"size", size}, {"alpha", 0.5}, {"bias", 2.0}}, {x}), expected) < 1e-13);
  }
}

TEST_CASE("local_response_norm over all channels is one sum") {
  const auto op = standard().make_operation("local_response_norm", {{"size", 2000001}});
  CHECK(standard().body(op, types{type({2, 1000, 3})})->node_count() < 12);
}

TEST_CASE("lp_norm of zeros is zeros") {
  for (const int p : {1, 2}) {
    CHECK(run("lp_norm", {{"axis", 1}, {"p", p}}, {{{2, 2}, {0, 0, 0, 3}}}).data == std::vector<double>{0, 0, 0, 1});
  }
}

TEST_CASE("lp_norm and mean_variance_norm agree with loops") {
  unity::random_engine random{6};
  const auto x = random_tensor({2, 3, 4}, random);
  for (const int p : {1, 2}) {
    const auto expected = tabulate(x.dims, [&](const shape& at_) {
      double sum = 0;
      for (std::int64_t i = 0; i < 3; ++i) {
        sum += std::pow(std::abs(at(x, {at_[0], i, at_[2]})), p);
      }
      return at(x, {at_[0], at_[1], at_[2]}) / std::pow(sum, 1.0 / p);
    });
    CHECK(distance(run("lp_norm", {{"axis", 1}, {"p", p}}, {x}), expected) < 1e-13);
  }
  const auto expected = tabulate(x.dims, [&](const shape& p) {
    double mean = 0;
    double square = 0;
    for (std::int64_t i = 0; i < 8; ++i) {
      const auto v = at(x, {i / 4, p[1], i % 4});
      mean += v / 8;
      square += v * v / 8;
    }
    return (at(x, {p[0], p[1], p[2]}) - mean) / (std::sqrt(square - mean * mean) + 1e-9);
  });
  CHECK(distance(run("mean_variance_norm", {{"axes", {0, 2}}}, {x}), expected) < 1e-13);
}

TEST_CASE("feature normalizations refuse invalid attributes and operands") {
  CHECK(refusal_of("log_softmax", {{"axis", 2}}, {type({2, 3})}) == "an axis within the rank");
  CHECK(refusal_of("group_norm", {{"groups", 2}}, {type({2, 3}), type({3}), type({3})}) ==
        "channels that are a multiple of groups in operand 0");
  CHECK(refusal_of("group_norm", {{"groups", 2}}, {type({2, 4}), type({4}), type({2})}) ==
        "as many values as of the scale in operand 2");
  CHECK(refusal_of("instance_norm", {}, {type({2, 4}), type({3}), type({4})}) ==
        "one value per channel or group in operand 1");
  CHECK(refusal_of("rms_norm", {{"axis", 1}}, {type({2, 4}), type({2, 4})}) ==
        "what broadcasts to the normalized dimensions in operand 1");
  CHECK(refusal_of("lp_norm", {{"axis", 0}, {"p", 3}}, {type({2})}) == "a norm of 1 or 2");
  CHECK(refusal_of("local_response_norm", {{"size", 0}}, {type({2, 2})}) == "a positive number of channels");
  CHECK(refusal_of("mean_variance_norm", {{"axes", {}}}, {type({2, 2})}) == "at least one axis");
}

}  // namespace tests_of_feature_normalization
