#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/rewrite/substitution.hpp>

namespace tests_of_expression {

using namespace unity;

namespace {

using result = std::optional<attribute>;
constexpr auto least = std::numeric_limits<std::int64_t>::min();
constexpr auto most = std::numeric_limits<std::int64_t>::max();

result f(rule_function code, std::vector<attribute> arguments) { return evaluate_function(code, arguments); }
result list(std::initializer_list<std::int64_t> items) { return attribute{items}; }

// Two attribute variables, a measure that returns the arguments of its call, and `count` repetitions.
struct environment {
  std::vector<attribute> attributes{{7}, {1, 2, 3}};
  std::size_t count = 3;

  const attribute& attribute_at(std::size_t slot) const { return attributes[slot]; }
  std::size_t repetitions() const { return count; }
  result measure(int m, std::size_t slot, std::size_t index, const attribute& arguments) const {
    attribute answer{m, static_cast<std::int64_t>(slot), static_cast<std::int64_t>(index)};
    answer.append(arguments.begin(), arguments.end());
    return arguments.size() < 3 ? result{answer} : std::nullopt;
  }
};

compiled_expression literal(std::initializer_list<std::int64_t> items) {
  compiled_expression e;
  e.literal = attribute{items};
  return e;
}
compiled_expression of(compiled_expression::form kind, std::vector<compiled_expression> arguments,
                       std::size_t slot = 0) {
  compiled_expression e;
  e.kind = kind;
  e.slot = slot;
  e.arguments = std::move(arguments);
  return e;
}

}  // namespace

TEST_CASE("expression arithmetic is elementwise with scalar broadcasting") {
  CHECK(f(rule_function::add, {{1, 2}, {10, 20}}) == list({11, 22}));
  CHECK(f(rule_function::subtract, {{5}, {1, 2}}) == list({4, 3}));
  CHECK(f(rule_function::multiply, {{1, 2}, {3}}) == list({3, 6}));
  CHECK(f(rule_function::divide, {{7, -7}, {2}}) == list({3, -3}));
  CHECK(f(rule_function::remainder, {{7, -7}, {2}}) == list({1, -1}));
  CHECK(f(rule_function::negate, {{3, -4}}) == list({-3, 4}));
  CHECK(f(rule_function::minimum, {{1, 5}, {3, 3}}) == list({1, 3}));
  CHECK(f(rule_function::maximum, {{1, 5}, {3}}) == list({3, 5}));
  CHECK(f(rule_function::less, {{1, 3}, {2}}) == list({1, 0}));
  CHECK(f(rule_function::greater_equal, {{2}, {2}}) == list({1}));
  CHECK(f(rule_function::add, {attribute{}, {3}}) == list({}));
}

TEST_CASE("expression functions of lists of different lengths have no value") {
  CHECK_FALSE(f(rule_function::add, {{1, 2}, {1, 2, 3}}));
  CHECK_FALSE(f(rule_function::less, {attribute{}, {1, 2}}));
}

TEST_CASE("overflow and division by zero in expressions give no value") {
  CHECK_FALSE(f(rule_function::add, {{most}, {1}}));
  CHECK_FALSE(f(rule_function::subtract, {{least}, {1}}));
  CHECK_FALSE(f(rule_function::multiply, {{most}, {2}}));
  CHECK_FALSE(f(rule_function::negate, {{least}}));
  CHECK_FALSE(f(rule_function::divide, {{1}, {0}}));
  CHECK_FALSE(f(rule_function::remainder, {{1}, {0}}));
  CHECK_FALSE(f(rule_function::divide, {{least}, {-1}}));
  CHECK_FALSE(f(rule_function::remainder, {{least}, {-1}}));
  CHECK_FALSE(f(rule_function::sum, {{most, 1}}));
  CHECK_FALSE(f(rule_function::product, {{most, 2}}));
}

TEST_CASE("expression equality compares whole lists and truth tests all elements") {
  CHECK(f(rule_function::equal, {{1, 2}, {1, 2}}) == list({1}));
  CHECK(f(rule_function::equal, {{1, 1}, {1}}) == list({0}));
  CHECK(f(rule_function::unequal, {{1, 1}, {1}}) == list({1}));
  CHECK(f(rule_function::logical_and, {{1, 2}, {3}}) == list({1}));
  CHECK(f(rule_function::logical_and, {{1, 0}, {3}}) == list({0}));
  CHECK(f(rule_function::logical_or, {{1, 0}, {3}}) == list({1}));
  CHECK(f(rule_function::logical_not, {{1, 0}}) == list({1}));
}

TEST_CASE("expression list functions build lists and take them apart") {
  CHECK(f(rule_function::at, {{4, 5, 6}, {1}}) == list({5}));
  CHECK(f(rule_function::length, {{4, 5, 6}}) == list({3}));
  CHECK(f(rule_function::sum, {{4, 5, 6}}) == list({15}));
  CHECK(f(rule_function::sum, {attribute{}}) == list({0}));
  CHECK(f(rule_function::product, {{4, 5, 6}}) == list({120}));
  CHECK(f(rule_function::product, {attribute{}}) == list({1}));
  CHECK(f(rule_function::concat, {{4}, {5, 6}}) == list({4, 5, 6}));
  CHECK(f(rule_function::prefix, {{4, 5, 6}, {2}}) == list({4, 5}));
  CHECK(f(rule_function::prefix, {{4, 5, 6}, {3}}) == list({4, 5, 6}));
  CHECK(f(rule_function::suffix, {{4, 5, 6}, {1}}) == list({5, 6}));
  CHECK(f(rule_function::suffix, {{4, 5, 6}, {3}}) == list({}));
  CHECK(f(rule_function::insert, {{4, 5}, {2}, {9}}) == list({4, 5, 9}));
  CHECK(f(rule_function::insert, {{4, 5}, {0}, {9}}) == list({9, 4, 5}));
  CHECK(f(rule_function::remove, {{4, 5}, {0}}) == list({5}));
  CHECK(f(rule_function::replace, {{4, 5}, {1}, {9}}) == list({4, 9}));
  CHECK(f(rule_function::iota, {{3}}) == list({0, 1, 2}));
  CHECK(f(rule_function::repeat, {{7}, {2}}) == list({7, 7}));
  CHECK(f(rule_function::insert, {{1, 2, 3, 4}, {2}, {9}}) == list({1, 2, 9, 3, 4}));  // inline storage to heap
}

TEST_CASE("expression list functions give no value for invalid positions") {
  for (const auto index : {std::int64_t{-1}, std::int64_t{2}, most, least}) {
    CAPTURE(index);
    CHECK_FALSE(f(rule_function::at, {{4, 5}, {index}}));
    CHECK_FALSE(f(rule_function::remove, {{4, 5}, {index}}));
    CHECK_FALSE(f(rule_function::replace, {{4, 5}, {index}, {1}}));
  }
  CHECK_FALSE(f(rule_function::prefix, {{4, 5}, {3}}));
  CHECK_FALSE(f(rule_function::suffix, {{4, 5}, {3}}));
  CHECK_FALSE(f(rule_function::insert, {{4, 5}, {3}, {1}}));
  CHECK_FALSE(f(rule_function::at, {{4, 5}, {0, 1}}));
  CHECK_FALSE(f(rule_function::insert, {{4, 5}, {0}, {1, 2}}));
  CHECK_FALSE(f(rule_function::iota, {{-1}}));
  CHECK_FALSE(f(rule_function::iota, {{most}}));
  CHECK_FALSE(f(rule_function::repeat, {{1, 2}, {2}}));
}

TEST_CASE("expression bit functions give the expected values or none") {
  CHECK(f(rule_function::log2, {{1, 2, 3, 1024, most}}) == list({0, 1, 1, 10, 62}));
  CHECK_FALSE(f(rule_function::log2, {{0}}));
  CHECK_FALSE(f(rule_function::log2, {{least}}));
  CHECK(f(rule_function::shift_left, {{3, -3}, {4}}) == list({48, -48}));
  CHECK(f(rule_function::shift_left, {{1, -2}, {62}}) == list({std::int64_t{1} << 62, least}));
  CHECK_FALSE(f(rule_function::shift_left, {{2}, {62}}));
  CHECK_FALSE(f(rule_function::shift_left, {{1}, {63}}));
  CHECK_FALSE(f(rule_function::shift_left, {{1}, {-1}}));
  CHECK(f(rule_function::shift_right, {{48, -1, -8, 7}, {2}}) == list({12, -1, -2, 1}));
  CHECK_FALSE(f(rule_function::shift_right, {{1}, {64}}));
  CHECK(f(rule_function::bit_and, {{12, -1}, {10}}) == list({8, 10}));
  CHECK(f(rule_function::bit_or, {{12}, {10, 1}}) == list({14, 13}));
  CHECK(f(rule_function::bit_xor, {{12}, {10}}) == list({6}));
  CHECK(f(rule_function::bit_count, {{0, 7, 8, most}}) == list({0, 3, 1, 63}));
  CHECK_FALSE(f(rule_function::bit_count, {{-1}}));
}

TEST_CASE("expression shifts multiply or divide by powers of two and log2 inverts them", "[law]") {
  const auto seed = GENERATE(range(0U, 200U));
  CAPTURE(seed);
  random_engine random{seed};
  const auto x = random.between(-1'000'000, 1'000'000);
  const auto n = random.between(0, 40);
  const auto power = std::int64_t{1} << n;
  CHECK(f(rule_function::shift_left, {{x}, {n}}) == f(rule_function::multiply, {{x}, {power}}));
  const auto rest = ((x % power) + power) % power;
  CHECK(f(rule_function::shift_right, {{x}, {n}}) == list({(x - rest) / power}));
  CHECK(f(rule_function::log2, {{power + random.between(0, power - 1)}}) == list({n}));
  CHECK(f(rule_function::bit_xor, {{x}, {n}}) ==
        f(rule_function::subtract, {*f(rule_function::bit_or, {{x}, {n}}), *f(rule_function::bit_and, {{x}, {n}})}));
}

TEST_CASE("expression compose and inverse work on permutations and refuse others", "[law]") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    const auto n = static_cast<std::int64_t>(random.below(7));
    const auto permutation = [&] {
      auto p = *evaluate_function(rule_function::iota, std::vector<attribute>{{n}});
      for (std::size_t i = p.size(); i > 1; --i) {
        std::swap(p[i - 1], p[random.below(i)]);
      }
      return p;
    };
    const auto p = permutation();
    const auto q = permutation();
    const auto pq = f(rule_function::compose, {p, q});
    REQUIRE(pq);
    for (std::size_t i = 0; i < p.size(); ++i) {
      REQUIRE((*pq)[i] == q[static_cast<std::size_t>(p[i])]);
    }
    const auto inverse = f(rule_function::inverse, {p});
    REQUIRE(inverse);
    REQUIRE(f(rule_function::compose, {p, *inverse}) == f(rule_function::iota, {{n}}));
    REQUIRE(f(rule_function::compose, {*inverse, p}) == f(rule_function::iota, {{n}}));
  }
  CHECK_FALSE(f(rule_function::inverse, {{0, 0}}));
  CHECK_FALSE(f(rule_function::inverse, {{1, 2}}));
  CHECK_FALSE(f(rule_function::compose, {{0, 1}, {0, 1, 2}}));
}

TEST_CASE("each expression function can be called with its declared number of arguments") {
  for (const auto& s : rule_functions) {
    CAPTURE(s.name);
    const std::vector<attribute> ones(s.arguments, attribute{0});
    CHECK_NOTHROW((void)evaluate_function(s.function, ones));
  }
}

TEST_CASE("an expression reads attribute variables and measures from its environment") {
  using form = compiled_expression::form;
  const environment env;
  CHECK(evaluate(literal({4, 5}), env) == list({4, 5}));
  CHECK(evaluate(of(form::attribute_variable, {}, 1), env) == list({1, 2, 3}));
  CHECK(evaluate(of(form::list, {literal({4, 5}), of(form::attribute_variable, {}, 0)}), env) == list({4, 5, 7}));
  auto sum = of(form::call, {literal({1}), of(form::attribute_variable, {}, 1)});
  CHECK(evaluate(sum, env) == list({2, 3, 4}));

  auto measure = of(form::measure, {literal({9})}, 5);
  measure.measure = 8;
  CHECK(evaluate(measure, env) == list({8, 5, 0, 9}));
  CHECK(evaluate(measure, env, 2) == list({8, 5, 2, 9}));
  CHECK_FALSE(evaluate(of(form::measure, {literal({1, 2, 3})}), env));
}

TEST_CASE("a pack in a list expression is expanded once per repetition") {
  using form = compiled_expression::form;
  const auto pack = of(form::list, {literal({-1}), of(form::pack, {of(form::measure, {}, 4)})});
  CHECK(evaluate(pack, environment{}) == list({-1, 0, 4, 0, 0, 4, 1, 0, 4, 2}));
  CHECK(evaluate(pack, environment{{}, 0}) == list({-1}));
}

TEST_CASE("an expression has no value if a part of it has none") {
  using form = compiled_expression::form;
  auto quotient = of(form::call, {literal({1}), literal({0})});
  quotient.callee = rule_function::divide;
  CHECK_FALSE(evaluate(quotient, environment{}));
  CHECK_FALSE(evaluate(of(form::list, {literal({1}), quotient}), environment{}));
  CHECK_FALSE(evaluate(of(form::list, {of(form::pack, {quotient})}), environment{}));
}

}  // namespace tests_of_expression
