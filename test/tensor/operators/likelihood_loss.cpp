#include <unity/tensor/operators/loss.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>

#include "../testing.hpp"

namespace tests_of_likelihood_loss {

using namespace unity::tensor;
using namespace unity::tensor::test;

namespace {

constexpr std::int64_t classes = 4;

dense<double> evaluated(const char* name, attributes a, std::vector<dense<double>> x) {
  types t = types_of(x);
  t[1].element = dtype::int64;
  return evaluate<double>(standard(), standard().make_operation(name, a), x, t)[0];
}

}  // namespace

TEST_CASE("negative_log_likelihood and softmax_cross_entropy agree with loops") {
  unity::random_engine random{1};
  const auto scores = random_tensor({3, classes, 5}, random);
  const auto logarithms = run("log_softmax", {{"axis", 1}}, {scores});
  dense<double> labels{{3, 5}};
  for (auto& l : labels.data) {
    l = static_cast<double>(random.between(0, classes - 1));
  }
  auto weights = random_tensor({classes}, random);
  for (auto& w : weights.data) {
    w = std::abs(w) + 0.1;
  }
  for (const std::int64_t ignored : {-2, 1}) {
    for (const bool weighs : {false, true}) {
      if (ignored < 0) {
        labels.data[2] = static_cast<double>(ignored);
      }
      const auto weight = [&](std::int64_t n, std::int64_t i) {
        const auto label = static_cast<std::int64_t>(at(labels, {n, i}));
        return label == ignored || label < 0 ? 0 : weighs ? at(weights, {label}) : 1;
      };
      const auto each = tabulate({3, 5}, [&](const shape& p) {
        const auto label = std::max<std::int64_t>(static_cast<std::int64_t>(at(labels, {p[0], p[1]})), 0);
        return weight(p[0], p[1]) == 0 ? 0 : -weight(p[0], p[1]) * at(logarithms, {p[0], label, p[1]});
      });
      double sum = 0;
      double total = 0;
      for (std::int64_t n = 0; n < 3; ++n) {
        for (std::int64_t i = 0; i < 5; ++i) {
          sum += at(each, {n, i});
          total += weight(n, i);
        }
      }
      CAPTURE(ignored, weighs);
      for (const bool of_scores : {false, true}) {
        const auto* name = of_scores ? "softmax_cross_entropy" : "negative_log_likelihood";
        std::vector operands{of_scores ? scores : logarithms, labels};
        if (weighs) {
          operands.push_back(weights);
        }
        const auto with = [&](const char* reduction) {
          return evaluated(name, {{"reduction", reduction}, {"ignores", 1}, {"ignored", ignored}}, operands);
        };
        CHECK(distance(with("none"), each) < 1e-13);
        CHECK(with("sum").data[0] == Approx(sum));
        CHECK(with("mean").data[0] == Approx(sum / total));
        CHECK(with("mean").dims.empty());
      }
    }
  }
}

TEST_CASE("softmax_cross_entropy refuses invalid labels / weights / scores") {
  const auto refusal = [](const types& t) { return refusal_of("softmax_cross_entropy", {}, t); };
  CHECK(refusal({type({3, 4, 5}), type({3, 5}, dtype::int64)}).empty());
  CHECK(refusal({type({3, 4, 5}), type({3, 4}, dtype::int64)}) == "a label per row of classes in operand 1");
  CHECK(refusal({type({3, 4}), type({3})}) == "integers in operand 1");
  CHECK(refusal({type({3, 4}), type({3}, dtype::int32), type({3})}) == "a weight per class in operand 2");
  CHECK(refusal({type({3}), type({3}, dtype::int32)}) == "rank 2 or more in operand 0");
}

}  // namespace tests_of_likelihood_loss
