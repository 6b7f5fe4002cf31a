#include <unity/tensor/scalar.hpp>

#include <cmath>
#include <concepts>
#include <cstdint>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/tensor/kernel.hpp>

namespace tests_of_modular {

using unity::tensor::modular61;
using unity::tensor::scalar_op;
using traits = unity::tensor::scalar_traits<modular61>;

static_assert(std::regular<modular61>);
static_assert(modular61{-1}.residue() == modular61::modulus - 1);
static_assert(modular61{-1} + modular61{1} == modular61{});
static_assert(modular61::of_residue(modular61::modulus) == modular61{});

TEST_CASE("modular61 arithmetic satisfies field laws") {
  const auto seed = std::uint64_t{1};
  CAPTURE(seed);
  unity::random_engine random{seed};
  const auto draw = [&] { return modular61::of_residue(random()); };
  for (int round = 0; round < 1000; ++round) {
    const auto a = draw();
    const auto b = draw();
    const auto c = draw();
    CHECK(a * (b + c) == a * b + a * c);
    CHECK((a * b) * c == a * (b * c));
    CHECK(a - a == modular61{});
    CHECK(a + (-a) == modular61{});
    CHECK(a / b * b == a);
    CHECK(a.residue() < modular61::modulus);
    CHECK(a * b == modular61::of_wide(static_cast<modular61::wide>(a.residue()) * b.residue()));
  }
  CHECK(modular61{3} / modular61{} == modular61{});
}

TEST_CASE("modular61 reduces the extremes of 64-bit and 128-bit integers") {
  CHECK(modular61{INT64_MIN}.as_signed() == -4);  // 2^63 = 4 * 2^61
  CHECK(modular61{INT64_MAX}.as_signed() == 3);
  const auto all = ~modular61::wide{0};  // 2^128 - 1, and 2^128 = 2^(2 * 61 + 6)
  CHECK(modular61::of_wide(all) == modular61{63});
}

TEST_CASE("modular61 represents real numbers as exact fractions") {
  CHECK(modular61::of_real(0) == modular61{});
  CHECK(modular61::of_real(-3) == modular61{-3});
  CHECK(modular61::of_real(0.25) * modular61{4} == modular61{1});
  CHECK(modular61::of_real(0x1p70) == modular61{1 << 9});
  CHECK(modular61::of_real(0.1) + modular61::of_real(0.2) != modular61::of_real(0.3));
  CHECK(modular61::of_real(HUGE_VAL) != modular61::of_real(-HUGE_VAL));
}

TEST_CASE("modular61 orders residues by their representatives closest to zero") {
  CHECK(traits::apply(scalar_op::relu, modular61{-5}) == modular61{});
  CHECK(traits::apply(scalar_op::relu, modular61{5}) == modular61{5});
  CHECK(traits::apply(scalar_op::abs, modular61{-5}) == modular61{5});
  CHECK(traits::apply(scalar_op::maximum, modular61{-5}, modular61{2}) == modular61{2});
  CHECK(traits::apply(scalar_op::minimum, modular61{-5}, modular61{2}) == modular61{-5});
  CHECK(traits::apply(scalar_op::maximum, traits::lowest(), modular61{-5}) == modular61{-5});
}

TEST_CASE("modular61 maps non-polynomial functions to fixed distinct values") {
  const modular61 x{17};
  CHECK(traits::apply(scalar_op::exp, x) == traits::apply(scalar_op::exp, modular61{17}));
  CHECK(traits::apply(scalar_op::exp, x) != traits::apply(scalar_op::tanh, x));
  CHECK(traits::apply(scalar_op::exp, x) != traits::apply(scalar_op::exp, modular61{18}));
}

TEST_CASE("modular61 powers of small integers are products and power 0.5 is sqrt") {
  const modular61 x{17};
  CHECK(traits::apply(scalar_op::pow, x, modular61{3}) == x * x * x);
  CHECK(traits::apply(scalar_op::pow, x, modular61{-1}) == modular61{1} / x);
  CHECK(traits::apply(scalar_op::pow, x, modular61{}) == modular61{1});
  CHECK(traits::apply(scalar_op::pow, x, modular61::of_real(0.5)) == traits::apply(scalar_op::sqrt, x));
}

TEST_CASE("modular61 gelu equals its definition by erf") {
  const modular61 x{17};
  const auto erf = traits::apply(scalar_op::erf, x / modular61::of_real(std::sqrt(2.0)));
  CHECK(traits::apply(scalar_op::gelu, x) == x * modular61::of_real(0.5) * (modular61{1} + erf));
}

}  // namespace tests_of_modular
