#include <unity/tensor/operators/functions.hpp>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/scalar.hpp>

#include "../../support/operators.hpp"
#include "../testing.hpp"

namespace tests_of_logic {

using namespace unity::tensor;
using namespace unity::tensor::test;

namespace {

constexpr auto infinity = std::numeric_limits<double>::infinity();
const auto nan = std::nan("");

dense<double> of(const std::string& name, attributes a, const std::vector<dense<double>>& inputs,
                 const std::vector<dtype>& elements) {
  types t;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    t.push_back(type(inputs[i].dims, elements[i]));
  }
  const auto op = standard().make_operation(name, a);
  const auto result = standard().infer(op, t);
  REQUIRE(result.has_value());
  CHECK(result->at(0).element == (name == "where" ? elements[1] : dtype::boolean));
  return evaluate<double>(standard(), op, inputs, t)[0];
}

}  // namespace

TEST_CASE("comparison operators match C++ including infinities and NaN", "[logic]") {
  const std::map<std::string, std::function<bool(double, double)>> functions{
      {"equal", [](double x, double y) { return x == y; }},
      {"less", [](double x, double y) { return x < y; }},
      {"less_or_equal", [](double x, double y) { return x <= y; }},
      {"greater", [](double x, double y) { return x > y; }},
      {"greater_or_equal", [](double x, double y) { return x >= y; }}};
  const dense<double> a{{6, 1}, {-infinity, -1, 0, 1e-320, infinity, nan}};
  const dense<double> b{{7}, {-infinity, -1, -0.0, 0, 1e-320, infinity, nan}};
  for (const auto& [name, f] : functions) {
    CAPTURE(name);
    CHECK(of(name, {}, {a, b}, {dtype::float64, dtype::float64}) ==
          tabulate({6, 7}, [&](const shape& p) { return f(at(a, {p[0], 0}), at(b, {p[1]})) ? 1.0 : 0.0; }));
  }
  CHECK(refusal_of("less", {}, {type({2}, dtype::boolean), type({2}, dtype::boolean)}) == "numeric elements");
  CHECK(refusal_of("equal", {}, {type({2}, dtype::boolean), type({2}, dtype::boolean)}).empty());
  CHECK(refusal_of("equal", {}, {type({2}), type({2}, dtype::int32)}) == "operands of one element type");
}

TEST_CASE("logical operators have the expected truth tables", "[logic]") {
  const dense<double> a{{2, 1}, {0, 1}};
  const dense<double> b{{2}, {0, 1}};
  const std::vector<dtype> both{dtype::boolean, dtype::boolean};
  CHECK(of("logical_and", {}, {a, b}, both).data == std::vector<double>{0, 0, 0, 1});
  CHECK(of("logical_or", {}, {a, b}, both).data == std::vector<double>{0, 1, 1, 1});
  CHECK(of("logical_xor", {}, {a, b}, both).data == std::vector<double>{0, 1, 1, 0});
  CHECK(of("logical_not", {}, {b}, both).data == std::vector<double>{1, 0});
  CHECK(refusal_of("logical_and", {}, {type({2}), type({2})}) == "boolean elements");
}

TEST_CASE("is_nan finds NaN and is_inf finds infinities of the requested signs", "[logic]") {
  const dense<double> x{{4}, {-infinity, infinity, nan, 1}};
  CHECK(of("is_nan", {}, {x}, {dtype::float32}).data == std::vector<double>{0, 0, 1, 0});
  CHECK(of("is_inf", {}, {x}, {dtype::float32}).data == std::vector<double>{1, 1, 0, 0});
  CHECK(of("is_inf", {{"negative", 0}}, {x}, {dtype::float32}).data == std::vector<double>{0, 1, 0, 0});
  CHECK(of("is_inf", {{"positive", 0}}, {x}, {dtype::float32}).data == std::vector<double>{1, 0, 0, 0});
  CHECK(of("is_inf", {{"positive", 0}, {"negative", 0}}, {x}, {dtype::float32}).data ==
        std::vector<double>{0, 0, 0, 0});
}

TEST_CASE("where broadcasts three operands and ignores NaN and infinity that it does not select", "[logic]") {
  unity::random_engine random{2};
  const dense<double> c{{2, 1, 1}, {1, 0}};
  const auto x = random_tensor({3, 1}, random);
  const auto y = random_tensor({4}, random);
  CHECK(of("where", {}, {c, x, y}, {dtype::boolean, dtype::float32, dtype::float32}) ==
        tabulate({2, 3, 4}, [&](const shape& p) { return p[0] == 0 ? at(x, {p[1], 0}) : at(y, {p[2]}); }));
  const dense<double> masked{{3}, {-infinity, nan, infinity}};
  const dense<double> numbers{{3}, {1, 2, 3}};
  for (const double chosen : {0.0, 1.0}) {
    const dense<double> all{{}, {chosen}};
    CHECK(of("where", {}, {all, chosen == 1 ? numbers : masked, chosen == 1 ? masked : numbers},
             {dtype::boolean, dtype::float32, dtype::float32}) == numbers);
  }
  CHECK(of("where", {}, {c, {{}, {0}}, {{}, {1}}}, {dtype::boolean, dtype::boolean, dtype::boolean}).data ==
        std::vector<double>{0, 1});
  const auto whole = type({2}, dtype::int64);
  CHECK(refusal_of("where", {}, {whole, whole, whole}) == "boolean elements");
  CHECK(refusal_of("where", {}, {type({2}, dtype::boolean), whole, type({2})}) ==
        "operands of one element type");
}

TEST_CASE("the adjoint of where passes the cotangent to the selected operand", "[logic]") {
  const auto& training = unity::test::training::operators();
  const types inputs{type({4, 1}, dtype::boolean), type({4, 5}), type({5})};
  const auto op = training.make_operation("where", {});
  const auto adjoint = adjoint_of(training, op, inputs);
  CHECK(adjoint.operands == std::vector<std::size_t>{1, 2});
  unity::random_engine random{3};
  const dense<double> c{{4, 1}, {1, 0, 1, 0}};
  const auto x = random_tensor({4, 5}, random);
  const auto y = random_tensor({5}, random);
  const auto z = evaluate<double>(training, op, std::vector{c, x, y}, inputs)[0];
  const auto g = random_tensor({4, 5}, random);
  const double* given[] = {c.data.data(), x.data.data(), y.data.data(), z.data.data(), g.data.data()};
  const auto found =
      unity::tensor::detail::evaluate_body<double>(training, adjoint.graph, std::span<const double* const>{given});
  CHECK(found[0] == tabulate({4, 5}, [&](const shape& p) { return p[0] % 2 == 0 ? at(g, {p[0], p[1]}) : 0; }));
  CHECK(distance(found[1], tabulate({5}, [&](const shape& p) { return at(g, {1, p[0]}) + at(g, {3, p[0]}); })) < 1e-15);
}

TEST_CASE("where selects correctly modulo a prime", "[logic]") {
  const auto whole = [](std::int64_t n) { return dense<modular61>{{1}, {modular61{n}}}; };
  const types inputs{type({1}, dtype::boolean), type({1}), type({1})};
  const auto op = standard().make_operation("where", {});
  for (const std::int64_t c : {0, 1}) {
    const auto found = evaluate<modular61>(standard(), op, std::vector{whole(c), whole(7), whole(9)}, inputs)[0];
    CHECK(found.data[0] == modular61{c == 1 ? 7 : 9});
  }
}

}  // namespace tests_of_logic
