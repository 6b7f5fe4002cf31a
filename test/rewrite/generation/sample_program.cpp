#include <unity/rewrite/generation/language.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>

namespace tests_of_sample_program {

using namespace unity;

namespace {

using ref = sample_program::ref;
using function = sample_program::function;

std::vector<residue> run(const sample_program& p, const std::vector<residue>& a, const std::vector<residue>& b) {
  std::vector<residue> scratch(p.temporaries());
  std::vector<residue> out(p.output_count());
  p.run({a.data(), b.data()}, scratch.data(), out.data());
  return out;
}
std::vector<residue> random_values(random_engine& random, std::size_t count) {
  std::vector<residue> values;
  for (std::size_t i = 0; i < count; ++i) {
    values.push_back(residue::of(random()));
  }
  return values;
}
// Steps read elements, constants and earlier steps; all steps, one element and one constant are outputs.
sample_program random_program(random_engine& random, std::size_t elements, std::size_t steps) {
  sample_program p;
  std::vector<ref> known{p.constant(residue::of(1)), p.constant(residue::of(7))};
  for (std::size_t e = 0; e < elements; ++e) {
    known.push_back(sample_program::element(0, e));
    known.push_back(sample_program::element(1, e));
  }
  const auto any = [&] { return known[random.below(known.size())]; };
  p.add_output(known[0]);
  p.add_output(known[2]);
  for (std::size_t s = 0; s < steps; ++s) {
    static constexpr std::array functions{function::maximum,    function::minimum,  function::relu,
                                          function::difference, function::quotient, function::arbitrary};
    if (random.below(2) == 0) {
      std::vector<std::pair<ref, ref>> products;
      for (auto count = random.below(4); count > 0; --count) {
        products.emplace_back(any(), any());
      }
      known.push_back(p.dot(products));
    } else {
      known.push_back(p.apply(functions[random.below(functions.size())], any(), any(), 3));
    }
    p.add_output(known.back());
  }
  return p;
}

}  // namespace

TEST_CASE("a sample_program evaluates each kind of step") {
  sample_program p;
  const auto a0 = sample_program::element(0, 0);
  const auto b1 = sample_program::element(1, 1);
  const auto five = p.constant(residue::of(5));
  CHECK(p.constant(residue::of(5)) == five);
  const auto sum = p.dot(std::vector<std::pair<ref, ref>>{{a0, b1}, {five, five}});
  p.add_output(sum);
  p.add_output(p.apply(function::maximum, a0, b1));
  p.add_output(p.apply(function::minimum, a0, b1));
  p.add_output(p.apply(function::relu, a0, five));
  p.add_output(p.apply(function::difference, a0, b1));
  p.add_output(p.apply(function::quotient, a0, b1));
  p.add_output(p.apply(function::arbitrary, a0, b1, 1));
  p.add_output(p.apply(function::arbitrary, a0, b1, 2));
  p.add_output(p.apply(function::arbitrary, b1, a0, 1));
  const auto out = run(p, {residue::of_integer(-6)}, {residue{}, residue::of(3)});
  CHECK(out[0].as_signed() == 7);
  CHECK(out[1].as_signed() == 3);
  CHECK(out[2].as_signed() == -6);
  CHECK(out[3].as_signed() == 0);
  CHECK(out[4].as_signed() == -9);
  CHECK(out[5].as_signed() == -2);
  CHECK(out[6] != out[7]);
  CHECK(out[6] != out[8]);
}

TEST_CASE("sums of many large products in a sample_program do not overflow") {
  sample_program p;
  std::vector<std::pair<ref, ref>> products(100000, {sample_program::element(0, 0), sample_program::element(1, 0)});
  p.add_output(p.dot(products));
  const auto large = residue::of_integer(-1);
  CHECK(run(p, {large}, {large})[0] == residue::of(100000));
}

TEST_CASE("a sample_program restricted to some outputs computes these outputs") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    const auto p = random_program(random, 5, 20);
    const auto a = random_values(random, 5);
    const auto b = random_values(random, 5);
    const auto all = run(p, a, b);
    std::vector<std::size_t> chosen;
    for (auto count = random.below(6); count > 0; --count) {
      chosen.push_back(random.below(p.output_count()));
    }
    const auto few = p.restricted(chosen);
    REQUIRE(few.output_count() == chosen.size());
    const auto out = run(few, a, b);
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      CHECK(out[i] == all[chosen[i]]);
    }
    CHECK(few.temporaries() <= p.temporaries());
  }
  random_engine random{1};
  const auto p = random_program(random, 5, 20);
  CHECK(p.restricted(std::vector<std::size_t>{0, 1}).temporaries() == 0);
}

TEST_CASE("sample_program outputs do not depend on unmarked elements") {
  std::size_t unmarked = 0;
  std::size_t changed = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    const auto p = random_program(random, 4, 12);
    const auto a = random_values(random, 4);
    const auto b = random_values(random, 4);
    const auto before = run(p, a, b);
    const std::array<std::uint8_t, 4> of_a{1, 2, 4, 8};
    const std::array<std::uint8_t, 4> of_b{16, 32, 64, 128};
    std::vector<std::uint8_t> scratch(p.temporaries());
    std::vector<std::uint8_t> marks(p.output_count());
    p.collect_marks({of_a.data(), of_b.data()}, scratch.data(), marks.data());
    CHECK(marks[0] == 0);         // a constant
    CHECK(marks[1] == of_a[0]);   // an element
    for (std::size_t e = 0; e < 8; ++e) {
      auto other_a = a;
      auto other_b = b;
      (e < 4 ? other_a[e] : other_b[e - 4]) = residue::of(random());
      const auto after = run(p, other_a, other_b);
      for (std::size_t o = 0; o < after.size(); ++o) {
        const bool marked = (marks[o] >> e & 1U) != 0;
        CHECK((marked || after[o] == before[o]));
        unmarked += marked ? 0U : 1U;
        changed += after[o] == before[o] ? 0U : 1U;
      }
    }
  }
  CHECK(unmarked > 1000);
  CHECK(changed > 1000);
}

}  // namespace tests_of_sample_program
