#include <unity/tensor/operators/elementwise.hpp>

#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>

#include "../testing.hpp"

namespace tests_of_elementwise {

using namespace unity::tensor;
using namespace unity::tensor::test;

TEST_CASE("unary operators apply their function to every element") {
  const std::map<std::string, std::function<double(double)>> functions{
      {"relu", [](double x) { return x > 0 ? x : 0; }},
      {"gelu", [](double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }},
      {"tanh", [](double x) { return std::tanh(x); }},
      {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }},
      {"exp", [](double x) { return std::exp(x); }},
      {"log", [](double x) { return std::log(x); }},
      {"erf", [](double x) { return std::erf(x); }},
      {"sqrt", [](double x) { return std::sqrt(x); }},
      {"reciprocal", [](double x) { return 1 / x; }},
      {"negate", [](double x) { return -x; }},
      {"abs", [](double x) { return std::fabs(x); }},
      {"identity", [](double x) { return x; }}};
  unity::random_engine random{1};
  for (const auto& [name, f] : functions) {
    CAPTURE(name);
    auto x = random_tensor({3, 5, 40}, random);
    for (auto& v : x.data) {
      v = name == "log" || name == "sqrt" ? v + 1.5 : v;
    }
    CHECK(distance(run(name, {}, {x}), tabulate(x.dims, [&](const shape& p) {
                     return f(at(x, {p[0], p[1], p[2]}));
                   })) < 1e-15);
  }
}

TEST_CASE("binary operators apply their function with broadcasting") {
  const std::map<std::string, std::function<double(double, double)>> functions{
      {"add", [](double x, double y) { return x + y; }},
      {"sub", [](double x, double y) { return x - y; }},
      {"mul", [](double x, double y) { return x * y; }},
      {"div", [](double x, double y) { return x / y; }},
      {"pow", [](double x, double y) { return std::pow(x, y); }},
      {"maximum", [](double x, double y) { return x > y ? x : y; }},
      {"minimum", [](double x, double y) { return x < y ? x : y; }}};
  unity::random_engine random{2};
  const auto a = random_tensor({3, 1, 5}, random);
  const auto b = random_tensor({4, 1}, random);
  auto positive = a;
  for (auto& x : positive.data) {
    x = std::fabs(x) + 0.5;
  }
  for (const auto& [name, f] : functions) {
    CAPTURE(name);
    const auto& left = name == "pow" ? positive : a;
    const auto expected = tabulate({3, 4, 5}, [&](const shape& p) {
      return f(at(left, {p[0], 0, p[2]}), at(b, {p[1], 0}));
    });
    CHECK(distance(run(name, {}, {left, b}), expected) < 1e-15);
    const auto turned = tabulate({3, 4, 5}, [&](const shape& p) {
      return f(at(b, {p[1], 0}), at(a, {p[0], 0, p[2]}));
    });
    if (name != "pow") {
      CHECK(distance(run(name, {}, {b, a}), turned) < 1e-15);
    }
  }
}

TEST_CASE("binary operators refuse incompatible shapes and element types") {
  CHECK(shapes("add", {}, {type({2, 3}), type({})})[0] == shape{2, 3});
  CHECK(shapes("add", {}, {type({1, 3}), type({2, 1, 1})})[0] == shape{2, 1, 3});
  CHECK(refusal_of("add", {}, {type({2, 3}), type({2})}) == "operands that broadcast");
  CHECK(refusal_of("add", {}, {type({2}), type({2}, dtype::float16)}) == "operands of one element type");
  CHECK(refusal_of("add", {}, {type({2}, dtype::boolean), type({2}, dtype::boolean)}) == "numeric elements");
  CHECK(refusal_of("div", {}, {type({2}, dtype::int32), type({2}, dtype::int32)}) ==
        "floating-point elements");
  CHECK(refusal_of("add", {}, {type({2}, dtype::int32), type({2}, dtype::int32)}).empty());
}

TEST_CASE("the commutative flag is set exactly for binary operators that commute") {
  unity::random_engine random{3};
  const auto a = random_tensor({6}, random);
  const auto b = random_tensor({6}, random);
  for (const std::string name : {"add", "sub", "mul", "div", "maximum", "minimum"}) {
    CAPTURE(name);
    const bool commutes = run(name, {}, {a, b}) == run(name, {}, {b, a});
    CHECK(standard().signature(standard().kind(name)).commutative == commutes);
  }
  CHECK_FALSE(standard().signature(standard().kind("matmul")).commutative);
}

TEST_CASE("scalar_multiply scales by a tensor of rank 0") {
  const dense<double> x{{2, 2}, {1, -2, 3, 4}};
  CHECK(run("scalar_multiply", {}, {x, {{}, {-2}}}).data == std::vector<double>{-2, 4, -6, -8});
  CHECK(refusal_of("scalar_multiply", {}, {type({2}), type({1})}) == "rank 0 in operand 1");
}

TEST_CASE("cast truncates to integers and maps nonzero to true") {
  const dense<double> x{{4}, {-1.5, 0, 0.25, 2}};
  const auto cast = [&](const char* to, dtype from) {
    const auto op = standard().make_operation("cast", {{"element", to}});
    const types t{type({4}, from)};
    CHECK(standard().infer(op, t)->at(0).element == *find_dtype(to));
    return evaluate<double>(standard(), op, std::vector{x}, t)[0].data;
  };
  CHECK(cast("int32", dtype::float32) == std::vector<double>{-1, 0, 0, 2});
  CHECK(cast("bool", dtype::float32) == std::vector<double>{1, 0, 1, 1});
  CHECK(cast("float16", dtype::float32) == x.data);
  CHECK(cast("float32", dtype::int64) == x.data);
}

TEST_CASE("dropout evaluates as the identity and refuses a rate of 1 or NaN") {
  unity::random_engine random{4};
  const auto x = random_tensor({3, 4}, random);
  CHECK(run("dropout", {{"rate", 0.5}}, {x}) == x);
  CHECK(refusal_of("dropout", {{"rate", 1.0}}, {type({2})}) == "a rate in [0, 1)");
  CHECK_FALSE(refusal_of("dropout", {{"rate", std::nan("")}}, {type({2})}).empty());
}

}  // namespace tests_of_elementwise
