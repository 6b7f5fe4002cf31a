#include <unity/core/random.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

namespace tests_of_index_permutation {

static_assert(unity::index_permutation{1, 7}(0) == 0);

TEST_CASE("index_permutation is a bijection") {
  const auto key = GENERATE(0U, 1U, 99U);
  for (std::uint64_t size = 1; size < 300; ++size) {
    CAPTURE(key, size);
    const unity::index_permutation order{size, key};
    std::vector<bool> seen(static_cast<std::size_t>(size), false);
    for (std::uint64_t i = 0; i < size; ++i) {
      const auto to = order(i);
      REQUIRE(to < size);
      REQUIRE_FALSE(seen[static_cast<std::size_t>(to)]);
      seen[static_cast<std::size_t>(to)] = true;
    }
  }
}

TEST_CASE("index_permutation gives distinct orders per key and uniform positions over keys") {
  constexpr std::uint64_t size = 50;
  constexpr std::uint64_t keys = 20000;
  std::vector<double> count(size * size, 0);
  std::set<std::vector<std::uint64_t>> orders;
  for (std::uint64_t key = 0; key < keys; ++key) {
    const unity::index_permutation order{size, key};
    std::vector<std::uint64_t> all;
    for (std::uint64_t i = 0; i < size; ++i) {
      all.push_back(order(i));
      ++count[static_cast<std::size_t>(i * size + all.back())];
    }
    orders.insert(all);
  }
  CHECK(orders.size() == keys);
  // Each count is binomial: mean 400, standard deviation 20. One of 2500 counts at six deviations means a bug.
  const auto [least, most] = std::minmax_element(count.begin(), count.end());
  CHECK(*least > 400 - 120);
  CHECK(*most < 400 + 120);
}

TEST_CASE("index_permutation accepts a size of more than 62 bits") {
  const std::uint64_t size = (std::uint64_t{1} << 62U) + 12345;
  const unity::index_permutation order{size, 3};
  std::set<std::uint64_t> met;
  int upper_half = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const auto to = order(size - 1 - i * (size / 1000));
    REQUIRE(to < size);
    REQUIRE(met.insert(to).second);
    upper_half += to >= size / 2 ? 1 : 0;
  }
  CHECK(upper_half > 400);  // mean 500, standard deviation 16
  CHECK(upper_half < 600);
}

}  // namespace tests_of_index_permutation
