#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>

namespace tests_of_random {

using unity::random_engine;

static_assert(std::uniform_random_bit_generator<random_engine>);

TEST_CASE("random_engine produces the reference stream of splitmix64") {
  random_engine random{1234567};
  CHECK(random() == 6457827717110365317U);
  CHECK(random() == 3203168211198807973U);
  CHECK(random() == 9817491932198370423U);
}

TEST_CASE("a random_engine made from a saved state continues the stream") {
  random_engine random{5};
  for (int i = 0; i < 10; ++i) {
    random();
  }
  random_engine resumed{random.state()};
  for (int i = 0; i < 10; ++i) {
    CHECK(resumed() == random());
  }
}

TEST_CASE("random_engine::below(n) is uniform over 0 .. n-1") {
  const auto seed = GENERATE(std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{3});
  CAPTURE(seed);
  random_engine random{seed};
  std::array<int, 7> counts{};
  constexpr int draws = 70000;
  for (int i = 0; i < draws; ++i) {
    const auto drawn = random.below(counts.size());
    REQUIRE(drawn < counts.size());
    ++counts[drawn];
  }
  double chi_squared = 0;
  for (const auto count : counts) {
    chi_squared += std::pow(count - draws / 7.0, 2) / (draws / 7.0);
  }
  CHECK(chi_squared < 22.5);  // 6 degrees of freedom: passed by chance 999 times in 1000
}

TEST_CASE("random_engine::below(n) works for the smallest and the largest n") {
  random_engine random{1};
  CHECK(random.below(1) == 0);
  constexpr auto huge = std::numeric_limits<std::uint64_t>::max();
  bool upper_half = false;
  for (int i = 0; i < 64; ++i) {
    upper_half = upper_half || random.below(huge) > huge / 2;
  }
  CHECK(upper_half);
}

TEST_CASE("random_engine::between returns both bounds and the values in between") {
  random_engine random{1};
  std::array<bool, 6> seen{};
  for (int i = 0; i < 1000; ++i) {
    const auto drawn = random.between(-3, 2);
    REQUIRE(drawn >= -3);
    REQUIRE(drawn <= 2);
    seen[static_cast<std::size_t>(drawn + 3)] = true;
  }
  CHECK(seen == std::array{true, true, true, true, true, true});
  CHECK(random.between(9, 9) == 9);
}

TEST_CASE("random_engine::between works for the widest intervals") {
  constexpr auto least = std::numeric_limits<std::int64_t>::min();
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  random_engine random{1};
  bool negative = false;
  bool positive = false;
  for (int i = 0; i < 100; ++i) {
    const auto any = random.between(least, most);
    negative = negative || any < 0;
    positive = positive || any > 0;
    REQUIRE(random.between(least, most - 1) < most);
    REQUIRE(random.between(least + 1, most) > least);
    REQUIRE(random.between(least, -1) < 0);
  }
  CHECK(negative);
  CHECK(positive);
}

TEST_CASE("random_engine::unit is in the half-open unit interval with mean 0.5") {
  random_engine random{1};
  double sum = 0;
  std::array<int, 10> tenths{};
  constexpr int draws = 100000;
  for (int i = 0; i < draws; ++i) {
    const auto drawn = random.unit();
    REQUIRE(drawn >= 0);
    REQUIRE(drawn < 1);
    sum += drawn;
    ++tenths[static_cast<std::size_t>(drawn * 10)];
  }
  CHECK(sum / draws == Approx(0.5).margin(0.004));  // over four standard deviations
  for (const auto count : tenths) {  // mean 10000, standard deviation 95
    CHECK(count > 9500);
    CHECK(count < 10500);
  }
}

}  // namespace tests_of_random
