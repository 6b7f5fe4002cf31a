// The loss of a classifier against its formula; its gradient against finite differences and the closed form.
#include <unity/tensor/operators/loss.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/index_structure.hpp>

#include "../../support/operators.hpp"
#include "../testing.hpp"

namespace tests_of_cross_entropy {

using namespace unity::tensor;
using namespace unity::tensor::test;

namespace {

constexpr auto& training = unity::test::training::operators;

const operation& cross_entropy() {
  static const auto op = training().make_operation("cross_entropy");
  return op;
}

struct labelled {
  dense<double> logits{};
  dense<double> labels{};

  [[nodiscard]] types inputs() const { return {type(logits.dims), type(labels.dims, dtype::int32)}; }
  [[nodiscard]] std::vector<dense<double>> values() const { return {logits, labels}; }
  [[nodiscard]] std::size_t classes() const { return static_cast<std::size_t>(logits.dims[logits.dims.size() - 1]); }
};

// Random logits of magnitude up to `size`, and random labels.
labelled draw_labelled(shape rows, std::int64_t classes, double size, unity::random_engine& random) {
  auto dims = rows;
  dims.push_back(classes);
  labelled x{random_tensor(dims, random), dense<double>{rows}};
  for (auto& v : x.logits.data) {
    v *= size;
  }
  for (auto& v : x.labels.data) {
    v = static_cast<double>(random.below(static_cast<std::uint64_t>(classes)));
  }
  return x;
}

// The softmax of one row, in long double and with the largest logit subtracted.
std::vector<double> softmax_row(const labelled& x, std::size_t row) {
  const auto* logits = x.logits.data.data() + row * x.classes();
  const auto largest = *std::max_element(logits, logits + x.classes());
  long double sum = 0;
  for (std::size_t c = 0; c < x.classes(); ++c) {
    sum += std::exp(static_cast<long double>(logits[c]) - largest);
  }
  std::vector<double> p;
  for (std::size_t c = 0; c < x.classes(); ++c) {
    p.push_back(static_cast<double>(std::exp(static_cast<long double>(logits[c]) - largest) / sum));
  }
  return p;
}
dense<double> expected_losses(const labelled& x) {
  dense<double> losses{x.labels.dims};
  for (std::size_t row = 0; row < losses.data.size(); ++row) {
    const auto* logits = x.logits.data.data() + row * x.classes();
    const auto largest = *std::max_element(logits, logits + x.classes());
    long double sum = 0;
    for (std::size_t c = 0; c < x.classes(); ++c) {
      sum += std::exp(static_cast<long double>(logits[c]) - largest);
    }
    const auto label = static_cast<std::size_t>(x.labels.data[row]);
    losses.data[row] = static_cast<double>(std::log(sum) + largest - logits[label]);
  }
  return losses;
}

// The largest absolute difference.
double apart(const dense<double>& a, const dense<double>& b) {
  REQUIRE(a.dims == b.dims);
  double most = 0;
  for (std::size_t i = 0; i < a.data.size(); ++i) {
    most = std::max(most, std::abs(a.data[i] - b.data[i]));
  }
  return most;
}

dense<double> losses_of(const labelled& x) {
  return evaluate<double>(training(), cross_entropy(), x.values(), x.inputs())[0];
}

// The cotangent of the logits.
dense<double> gradient_of(const labelled& x, const dense<double>& cotangent) {
  const auto adjoint = adjoint_of(training(), cross_entropy(), x.inputs());
  REQUIRE(adjoint.operands == std::vector<std::size_t>{0});
  const auto losses = losses_of(x);
  const std::vector<const double*> given{x.logits.data.data(), x.labels.data.data(), losses.data.data(),
                                         cotangent.data.data()};
  return detail::evaluate_body<double>(training(), adjoint.graph, std::span<const double* const>{given})[0];
}

std::string why_not(const char* name, const types& inputs) {
  return training().why_not(training().make_operation(name), inputs);
}

}  // namespace

TEST_CASE("cross entropy is the negative log-softmax at the label") {
  unity::random_engine random{1};
  for (const auto& rows : {shape{}, shape{6}, shape{3, 4}}) {
    for (const double size : {1.0, 30.0}) {
      const auto x = draw_labelled(rows, 7, size, random);
      // A loss is a difference of logits, so its error is their rounding error.
      CHECK(apart(losses_of(x), expected_losses(x)) < 1e-15 * size);
      const std::vector<dense<float>> single{{x.logits.dims, {x.logits.data.begin(), x.logits.data.end()}},
                                             {x.labels.dims, {x.labels.data.begin(), x.labels.data.end()}}};
      const auto found = evaluate<float>(training(), cross_entropy(), single, x.inputs())[0];
      CHECK(apart({found.dims, {found.data.begin(), found.data.end()}}, expected_losses(x)) < 5e-7 * size);
    }
  }
}

TEST_CASE("cross entropy and its gradient are correct where exponentials overflow") {
  const labelled x{{{3, 3}, {1e4, 0, -1e4, 1e4, 0, -1e4, 1e30, 1e30, -1e30}}, {{3}, {0, 2, 1}}};
  const auto losses = losses_of(x);
  CHECK(losses.data[0] == 0);
  CHECK(losses.data[1] == 2e4);
  CHECK(losses.data[2] == Approx(std::log(2.0)).epsilon(1e-15));
  const auto gradient = gradient_of(x, {{3}, {1, 2, 4}});
  CHECK(gradient.data == std::vector<double>{0, 0, 0, 2, 0, -2, 2, -2, 0});
}

TEST_CASE("the gradient of cross entropy is softmax minus one-hot times the cotangent") {
  unity::random_engine random{2};
  const auto x = draw_labelled({2, 3}, 5, 3, random);
  const auto cotangent = random_tensor({2, 3}, random);
  const auto gradient = gradient_of(x, cotangent);
  for (std::size_t row = 0; row < 6; ++row) {
    const auto p = softmax_row(x, row);
    for (std::size_t c = 0; c < 5; ++c) {
      const auto hot = static_cast<double>(c) == x.labels.data[row] ? 1.0 : 0.0;
      CHECK(gradient.data[row * 5 + c] == Approx(cotangent.data[row] * (p[c] - hot)).margin(1e-14));
    }
  }
  constexpr double h = 1e-6;
  for (std::size_t i = 0; i < x.logits.data.size(); ++i) {
    auto above = x;
    auto below = x;
    above.logits.data[i] += h;
    below.logits.data[i] -= h;
    const auto row = i / 5;
    const auto slope = (losses_of(above).data[row] - losses_of(below).data[row]) / (2 * h);
    CHECK(gradient.data[i] == Approx(cotangent.data[row] * slope).margin(1e-8));
  }
}

TEST_CASE("cross entropy of a label outside the classes has zero loss and gradient") {
  const labelled x{{{3, 2}, {1, 2, 3, 4, 5, 7}}, {{3}, {-1, 2, 0}}};
  const auto losses = losses_of(x);
  CHECK(losses.data[0] == 0);
  CHECK(losses.data[1] == 0);
  CHECK(losses.data[2] == Approx(std::log1p(std::exp(2.0))));
  const auto gradient = gradient_of(x, {{3}, {1, 1, 1}});
  CHECK(std::all_of(gradient.data.begin(), gradient.data.begin() + 4, [](double g) { return g == 0; }));
  CHECK(gradient.data[4] == Approx(-1 / (1 + std::exp(-2.0))));
}

TEST_CASE("cross entropy refuses invalid labels / logits / cotangents") {
  const auto logits = type({4, 3});
  CHECK(why_not("cross_entropy", {logits, type({4}, dtype::int64)}).empty());
  CHECK(why_not("cross_entropy", {logits, type({4})}) == "integers in operand 1");
  CHECK(why_not("cross_entropy", {logits, type({3}, dtype::int32)}) ==
        "a label per row of the logits in operand 1");
  CHECK(why_not("cross_entropy", {type({}), type({}, dtype::int32)}) == "rank 1 or more in operand 0");
  CHECK(why_not("cross_entropy", {type({4, 3}, dtype::int32), type({4}, dtype::int32)}) ==
        "floating-point elements in operand 0");
  CHECK(why_not("cross_entropy_gradient", {logits, type({4}, dtype::int32), type({3})}) ==
        "a cotangent per row of the logits in operand 2");
  CHECK(why_not("cross_entropy_gradient", {logits, type({4}, dtype::int32), type({4}, dtype::float64)}) ==
        "the element type of the logits in operand 2");
}

TEST_CASE("one_hot sets the element of each valid label") {
  const auto op = training().make_operation("one_hot", {{"classes", 3}, {"element", "float64"}});
  const types inputs{type({2, 2}, dtype::int64)};
  CHECK(*training().infer(op, inputs) == types{type({2, 2, 3}, dtype::float64)});
  const std::vector<dense<double>> labels{{{2, 2}, {2, 0, -1, 3}}};
  CHECK(evaluate<double>(training(), op, labels, inputs)[0].data ==
        std::vector<double>{0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0});
  CHECK(training().why_not(training().make_operation("one_hot", {{"classes", 0}}), inputs) ==
        "a positive number of classes");
  CHECK(training().why_not(op, types{type({2})}) == "integers in operand 0");
}

TEST_CASE("cross entropy has parallel row dimensions and a whole class dimension") {
  const types inputs{type({8, 5, 12}), type({8, 5}, dtype::int32)};
  const auto s = dimension_indices(training(), cross_entropy(), inputs);
  REQUIRE(s.has_value());
  REQUIRE(s->results[0].size() == 2);
  for (std::size_t d = 0; d < 2; ++d) {
    CHECK(s->results[0][d] == s->operands[0][d]);
    CHECK(s->results[0][d] == s->operands[1][d]);
    CHECK(s->indices[s->results[0][d].indices.at(0)].kind == index_kind::parallel);
  }
  CHECK(s->indices[s->operands[0][2].indices.at(0)].kind == index_kind::whole);
}

}  // namespace tests_of_cross_entropy
