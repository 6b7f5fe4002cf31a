#include <unity/tensor/operators/functions.hpp>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/error.hpp>
#include <unity/core/random.hpp>
#include <unity/tensor/differentiate.hpp>

#include "../../support/operators.hpp"
#include "../testing.hpp"

namespace tests_of_functions {

using namespace unity::tensor;
using namespace unity::tensor::test;

namespace {

constexpr auto infinity = std::numeric_limits<double>::infinity();

std::vector<double> values(const std::string& name, attributes a, std::vector<double> x,
                           dtype element = dtype::float32) {
  const auto n = static_cast<std::int64_t>(x.size());
  return evaluate<double>(standard(), standard().make_operation(name, a), std::vector{dense<double>{{n}, std::move(x)}},
                          types{type({n}, element)})[0]
      .data;
}

}  // namespace

// Expected values follow ONNX's documentation, not the kernels.
TEST_CASE("element-wise functions match ONNX's documented formulas", "[functions]") {
  struct subject {
    std::string name;
    std::vector<named_attribute> attributes;
    std::function<double(double)> value;
  };
  const auto softplus = [](double x) { return std::log1p(std::exp(x)); };
  const std::vector<subject> all{
      {"sin", {}, [](double x) { return std::sin(x); }},
      {"cos", {}, [](double x) { return std::cos(x); }},
      {"tan", {}, [](double x) { return std::tan(x); }},
      {"sign", {}, [](double x) { return x > 0   ? 1
                                         : x < 0 ? -1
                                                 : 0; }},
      {"floor", {}, [](double x) { return std::floor(x); }},
      {"ceil", {}, [](double x) { return std::ceil(x); }},
      {"round", {}, [](double x) { return std::nearbyint(x); }},
      {"clip", {{"low", -1.0}, {"high", 0.5}}, [](double x) { return x < -1    ? -1
                                                                     : x > 0.5 ? 0.5
                                                                               : x; }},
      {"clip", {{"low", 0.5}, {"high", infinity}}, [](double x) { return x < 0.5 ? 0.5 : x; }},
      {"leaky_relu", {{"alpha", 0.1}}, [](double x) { return x < 0 ? 0.1 * x : x; }},
      {"elu", {{"alpha", 0.7}}, [](double x) { return x < 0 ? 0.7 * std::expm1(x) : x; }},
      {"selu",
       {},
       [](double x) { return 1.05070102214813232421875 * (x <= 0 ? 1.67326319217681884765625 * std::expm1(x) : x); }},
      {"celu", {{"alpha", 2.0}}, [](double x) { return std::max(0.0, x) + std::min(0.0, 2 * std::expm1(x / 2)); }},
      {"thresholded_relu", {{"alpha", 0.4}}, [](double x) { return x > 0.4 ? x : 0; }},
      {"shrink",
       {{"bias", 0.1}, {"threshold", 0.3}},
       [](double x) { return x < -0.3  ? x + 0.1
                             : x > 0.3 ? x - 0.1
                                       : 0; }},
      {"hard_sigmoid",
       {{"alpha", 0.6}, {"beta", 0.25}},
       [](double x) { return std::max(0.0, std::min(1.0, 0.6 * x + 0.25)); }},
      {"hard_swish", {}, [](double x) { return x * std::max(0.0, std::min(1.0, x / 6 + 0.5)); }},
      {"softplus", {}, softplus},
      {"softsign", {}, [](double x) { return x / (1 + std::fabs(x)); }},
      {"mish", {}, [&](double x) { return x * std::tanh(softplus(x)); }},
      {"swish", {{"alpha", 1.5}}, [](double x) { return x / (1 + std::exp(-1.5 * x)); }},
      {"gelu_tanh", {}, [](double x) {
         return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * std::pow(x, 3))));
       }}};
  unity::random_engine random{1};
  for (const auto& s : all) {
    CAPTURE(s.name);
    auto x = random_tensor({3, 5, 40}, random);
    for (auto& v : x.data) {
      v *= 4;
    }
    const auto op = standard().make_operation(s.name, s.attributes);
    const auto found = evaluate<double>(standard(), op, std::vector{x}, types{type(x.dims)})[0];
    CHECK(distance(found, tabulate(x.dims, [&](const shape& p) { return s.value(at(x, {p[0], p[1], p[2]})); })) <
          1e-14);
  }
}

TEST_CASE("round goes half to even; ceil and sign give expected values", "[functions]") {
  CHECK(values("round", {}, {-2.5, -1.5, -0.5, 0.5, 1.5, 2.5}) == std::vector<double>{-2, -2, 0, 0, 2, 2});
  CHECK(values("ceil", {}, {-1.5, -1, 0.25, 2}) == std::vector<double>{-1, -1, 1, 2});
  CHECK(values("sign", {}, {-3, 0, 7}, dtype::int64) == std::vector<double>{-1, 0, 1});
}

TEST_CASE("activation functions do not overflow for large arguments", "[functions]") {
  for (const char* name : {"softplus", "mish", "elu", "selu", "celu", "leaky_relu", "thresholded_relu"}) {
    CAPTURE(name);
    const auto y = values(name, {}, {-2000, 2000, infinity, -infinity});
    CHECK(std::isfinite(y[0]));
    CHECK((y[1] >= 2000 && std::isfinite(y[1])));
    CHECK(y[2] == infinity);
  }
  CHECK(values("softplus", {}, {-2000, 2000}) == std::vector<double>{0, 2000});
  CHECK(values("thresholded_relu", {}, {-infinity}) == std::vector<double>{0});
}

TEST_CASE("clip with contradicting bounds gives the upper bound", "[functions]") {
  CHECK(values("clip", {{"low", 3.0}, {"high", 1.0}}, {0, 2, 5}) == std::vector<double>{1, 1, 1});
}

TEST_CASE("the slope of prelu broadcasts to its operand but not vice versa", "[functions]") {
  const dense<double> x{{2, 2}, {1, -2, -3, 4}};
  CHECK(run("prelu", {}, {x, {{2}, {0.5, 0.25}}}).data == std::vector<double>{1, -0.5, -1.5, 4});
  CHECK(refusal_of("prelu", {}, {type({2}), type({3, 2})}) == "a slope that broadcasts");
}

TEST_CASE("integer_div truncates and mod has the requested sign", "[functions]") {
  const std::vector<std::int64_t> sides{-7, -6, -1, 0, 1, 5, 7, (std::int64_t{1} << 52U) - 1};
  for (const auto a : sides) {
    for (const auto b : sides) {
      CAPTURE(a, b);
      const auto of = [&](const char* name, attributes with) {
        const dense<double> x{{}, {static_cast<double>(a)}};
        const dense<double> y{{}, {static_cast<double>(b)}};
        return evaluate<double>(standard(), standard().make_operation(name, with), std::vector{x, y},
                                types{type({}, dtype::int64), type({}, dtype::int64)})[0]
            .data[0];
      };
      CHECK(of("integer_div", {}) == static_cast<double>(b == 0 ? 0 : a / b));
      CHECK(of("mod", {{"truncated", 1}}) == static_cast<double>(b == 0 ? 0 : a % b));
      CHECK(of("mod", {}) == static_cast<double>(b == 0 ? 0 : (a % b + b) % b));
    }
  }
  CHECK(refusal_of("integer_div", {}, {type({2}), type({2})}) == "integer elements");
}

TEST_CASE("the adjoint of mod agrees with central differences", "[functions]") {
  const auto& training = unity::test::training::operators();
  const types inputs{type({2, 3}), type({3})};
  const dense<double> a{{2, 3}, {5.3, -2.2, 0.7, -4.4, 9.1, 3.3}};
  const dense<double> b{{3}, {1.5, 0.9, -2.1}};
  for (const int truncated : {0, 1}) {
    const auto op = training.make_operation("mod", {{"truncated", truncated}});
    const auto adjoint = adjoint_of(training, op, inputs);
    const auto y = evaluate<double>(training, op, std::vector{a, b}, inputs)[0];
    const dense<double> g{{2, 3}, {0.3, -1, 2, 0.5, 1.25, -0.75}};
    const double* given[] = {a.data.data(), b.data.data(), y.data.data(), g.data.data()};
    const auto found =
        unity::tensor::detail::evaluate_body<double>(training, adjoint.graph, std::span<const double* const>{given});
    REQUIRE(found.size() == 2);
    const auto sum = [&](const dense<double>& p, const dense<double>& q) {
      const auto z = evaluate<double>(training, op, std::vector{p, q}, inputs)[0];
      double s = 0;
      for (std::size_t i = 0; i < z.data.size(); ++i) {
        s += z.data[i] * g.data[i];
      }
      return s;
    };
    constexpr double h = 1e-6;
    for (std::size_t operand = 0; operand < 2; ++operand) {
      for (std::size_t e = 0; e < (operand == 0 ? a : b).data.size(); ++e) {
        auto more = std::vector{a, b};
        auto less = more;
        more[operand].data[e] += h;
        less[operand].data[e] -= h;
        CHECK(found[operand].data[e] ==
              Approx((sum(more[0], more[1]) - sum(less[0], less[1])) / (2 * h)).epsilon(1e-6).margin(1e-6));
      }
    }
  }
}

TEST_CASE("derivatives of smooth activations at zero have the expected values", "[functions]") {
  const auto& training = unity::test::training::operators();
  for (const auto& [name, slope] : std::map<std::string, double>{
           {"softplus", 0.5}, {"elu", 1}, {"celu", 1}, {"mish", std::tanh(std::log(2.0))}, {"softsign", 1}}) {
    CAPTURE(name);
    const auto op = training.make_operation(name, {});
    const types inputs{type({1})};
    const auto adjoint = adjoint_of(training, op, inputs);
    const dense<double> zero{{1}, {0}};
    const auto y = evaluate<double>(training, op, std::vector{zero}, inputs)[0];
    const dense<double> g{{1}, {1}};
    const double* given[] = {zero.data.data(), y.data.data(), g.data.data()};
    const auto found =
        unity::tensor::detail::evaluate_body<double>(training, adjoint.graph, std::span<const double* const>{given});
    CHECK(found[0].data[0] == Approx(slope));
  }
}

}  // namespace tests_of_functions
