#include <unity/tensor/verification/polynomial.hpp>

#include <concepts>
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/error.hpp>
#include <unity/core/random.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/verification/polynomial_pool.hpp>

#include "../testing.hpp"

namespace tests_of_polynomial {

using namespace unity;
using namespace unity::tensor;
using unity::tensor::test::standard;

namespace {

using traits = scalar_traits<polynomial>;

polynomial max(const polynomial& a, const polynomial& b) { return traits::apply(scalar_op::maximum, a, b); }
polynomial relu(const polynomial& a) { return traits::apply(scalar_op::relu, a); }

dense<polynomial> unknowns(polynomial_pool& pool, std::uint32_t source, shape dims) {
  dense<polynomial> t{std::move(dims)};
  for (std::uint32_t i = 0; i < t.data.size(); ++i) {
    t.data[i] = polynomial::unknown(pool, source, i);
  }
  return t;
}

static_assert(std::regular<rational> && std::regular<polynomial>);
static_assert(!std::copyable<polynomial_pool>);
static_assert(!std::convertible_to<std::int64_t, polynomial>);

}  // namespace

TEST_CASE("rational is in lowest terms and reads decimals exactly") {
  CHECK(rational{6, -4} == rational{-3, 2});
  CHECK(rational{1, 3} + rational{1, 6} == rational{1, 2});
  CHECK(rational{2, 3} / rational{4, 9} == rational{3, 2});
  CHECK(rational{-1, 2} < rational{-1, 3});
  CHECK(rational::of_decimal(0.1) == rational{1, 10});
  CHECK(rational::of_decimal(-2.5e-3) == rational{-1, 400});
  CHECK(rational::of_decimal(1500.0) == rational{1500});
  CHECK(rational::of_decimal(1e-5) == rational{1, 100000});
  CHECK(rational::of_decimal(0.0) == rational{});
  CHECK(to_string(rational{-3, 2}) == "-3/2");
}

TEST_CASE("rational refuses overflow and division by zero") {
  const rational big{std::int64_t{1} << 62};
  CHECK_THROWS_AS(big + big, error);
  CHECK_THROWS_AS(big * rational{4}, error);
  CHECK_THROWS_AS(rational{1} / rational{}, error);
  CHECK_THROWS_AS(rational::of_decimal(1e-30), error);
}

TEST_CASE("polynomials obey the laws of a commutative ring") {
  polynomial_pool pool;
  random_engine random{5};
  const auto any = [&] {
    polynomial p{random.between(-2, 2)};
    for (int i = 0; i < 3; ++i) {
      const auto x = polynomial::unknown(pool, 0, static_cast<std::uint32_t>(random.below(3)));
      const auto y = polynomial::unknown(pool, 1, static_cast<std::uint32_t>(random.below(3)));
      p += polynomial{rational{random.between(-3, 3), random.between(1, 3)}} * x * (random.between(0, 1) == 0 ? x : y);
    }
    return p;
  };
  for (int i = 0; i < 200; ++i) {
    const auto a = any();
    const auto b = any();
    const auto c = any();
    CAPTURE(i);
    CHECK(a + b == b + a);
    CHECK((a + b) + c == a + (b + c));
    CHECK(a * b == b * a);
    CHECK((a * b) * c == a * (b * c));
    CHECK(a * (b + c) == a * b + a * c);
    CHECK(a - a == polynomial{});
    CHECK(a * polynomial{1} == a);
  }
}

TEST_CASE("polynomials distinguish unknowns and functions of an unknown") {
  polynomial_pool pool;
  const auto x = polynomial::unknown(pool, 0, 0);
  const auto y = polynomial::unknown(pool, 0, 1);
  CHECK_FALSE(x == y);
  CHECK_FALSE(traits::apply(scalar_op::tanh, x) == traits::apply(scalar_op::sigmoid, x));
  CHECK(traits::apply(scalar_op::tanh, x + y) == traits::apply(scalar_op::tanh, y + x));
  CHECK_FALSE(relu(x + y) == relu(x) + relu(y));
}

TEST_CASE("polynomial maxima are canonical under reordering / nesting / shifting") {
  polynomial_pool pool;
  const auto x = polynomial::unknown(pool, 0, 0);
  const auto y = polynomial::unknown(pool, 0, 1);
  const auto z = polynomial::unknown(pool, 0, 2);
  CHECK(max(x, max(y, z)) == max(max(z, x), y));
  CHECK(max(x, x) == x);
  CHECK(max(polynomial::lowest(), x) == x);
  CHECK(max(polynomial{2}, polynomial{3}) == polynomial{3});
  CHECK(relu(relu(x)) == relu(x));
  CHECK(relu(max(x, y)) == max(relu(x), relu(y)));
  CHECK(max(x + z, y + z) == max(x, y) + z);
  CHECK(max(max(x + z, y + z), z) == max(x + z, max(y + z, z)));
  CHECK(traits::apply(scalar_op::minimum, x, y) == -max(-x, -y));
  CHECK(relu(x + relu(x)) == relu(x) + relu(x));
  CHECK(max(polynomial{3} * x, polynomial{3} * y) == polynomial{3} * max(x, y));
  CHECK_FALSE(max(polynomial{-1} * x, polynomial{-1} * y) == -max(x, y));
  CHECK_FALSE(max(x, y) == x);
}

TEST_CASE("without_squares reduces a squared maximum to its first power") {
  polynomial_pool pool;
  const auto x = polynomial::unknown(pool, 0, 0);
  const auto y = polynomial::unknown(pool, 0, 1);
  CHECK((relu(x) * relu(x)).without_squares() == (x * relu(x)).without_squares());
  const auto m = max(x, y);
  CHECK(((m - x) * (m - y)).without_squares() == polynomial{});
  CHECK_FALSE((m * m).without_squares() == (x * m).without_squares());
}

TEST_CASE("polynomial functions of 0 and 1 are fixed values and exp of 7 is refused") {
  polynomial_pool pool;
  const auto tanh_of_zero = traits::apply(scalar_op::tanh, polynomial{});
  const auto x = polynomial::unknown(pool, 0, 0);
  CHECK(traits::apply(scalar_op::tanh, x - x) == tanh_of_zero);
  CHECK_FALSE(traits::apply(scalar_op::tanh, polynomial{1}) == tanh_of_zero);
  CHECK_FALSE(traits::apply(scalar_op::sigmoid, polynomial{}) == tanh_of_zero);
  CHECK_THROWS_AS(traits::apply(scalar_op::exp, polynomial{7}), error);
}

TEST_CASE("evaluate computes polynomials for matmul and average_pool") {
  polynomial_pool pool;
  const std::vector operands{unknowns(pool, 0, {2, 3}), unknowns(pool, 1, {3, 2})};
  const std::vector types{tensor::test::type({2, 3}), tensor::test::type({3, 2})};
  const auto product = evaluate<polynomial>(standard(), standard().make_operation("matmul"), operands, types)[0];
  polynomial expected;
  for (std::size_t k = 0; k < 3; ++k) {
    expected += operands[0].data[3 + k] * operands[1].data[2 * k + 1];
  }
  CHECK(product.data[3] == expected);
  CHECK(product.data[0].terms().size() == 3);
  const auto pooled = evaluate<polynomial>(standard(), standard().make_operation("average_pool", {{"kernel", {3, 3}}}),
                                           std::vector{unknowns(pool, 0, {1, 1, 3, 3})},
                                           std::vector{tensor::test::type({1, 1, 3, 3})})[0];
  CHECK(pooled.data[0].terms()[0].coefficient == rational{1, 9});
}

}  // namespace tests_of_polynomial
