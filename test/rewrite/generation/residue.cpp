#include <unity/rewrite/generation/language.hpp>

#include <concepts>
#include <cstdint>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>

namespace tests_of_residue {

using unity::residue;

static_assert(std::regular<residue>);
static_assert(residue::of_integer(-1).value() == residue::modulus - 1);
static_assert(residue::of(residue::modulus) == residue{});
static_assert(residue::of_integer(-7).as_signed() == -7);
static_assert(sizeof(residue) == 4);

TEST_CASE("residues modulo 2147483647 satisfy the field axioms") {
  const auto seed = std::uint64_t{2};
  CAPTURE(seed);
  unity::random_engine random{seed};
  const auto draw = [&] { return residue::of(random()); };
  for (int round = 0; round < 1000; ++round) {
    const auto a = draw();
    const auto b = draw();
    const auto c = draw();
    CHECK(a + b == b + a);
    CHECK((a + b) + c == a + (b + c));
    CHECK(a * b == b * a);
    CHECK((a * b) * c == a * (b * c));
    CHECK(a * (b + c) == a * b + a * c);
    CHECK(a - a == residue{});
    CHECK(a + (-a) == residue{});
    CHECK(a * residue::of(1) == a);
    CHECK((b == residue{} || a / b * b == a));
    CHECK(a.value() < residue::modulus);
    CHECK(residue::of_integer(a.as_signed()) == a);
  }
  CHECK(residue::of(3) / residue{} == residue{});
}

TEST_CASE("64-bit integers reduce correctly modulo 2147483647") {
  CHECK(residue::of(UINT64_MAX) == residue::of(3));           // 2^64 = 4 * 2^62
  CHECK(residue::of_integer(INT64_MAX) == residue::of(1));    // 2^63 = 2 * 2^62
  CHECK(residue::of_integer(INT64_MIN).as_signed() == -2);
  unity::random_engine random{9};
  for (int round = 0; round < 1000; ++round) {
    const auto n = random();
    CHECK(residue::of(n).value() == n % residue::modulus);
  }
}

TEST_CASE("residue powers equal repeated products") {
  const auto x = residue::of(123456789);
  CHECK(residue::power(x, 0) == residue::of(1));
  CHECK(residue::power(x, 5) == x * x * x * x * x);
  CHECK(residue::power(x, residue::modulus - 1) == residue::of(1));
}

}  // namespace tests_of_residue
