#include <unity/core/row_major.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/core/small_vector.hpp>

namespace tests_of_row_major {

using unity::for_each_position;
using unity::offset_of;
using unity::position_of;
using sizes = unity::small_vector<std::int64_t, 3>;

static_assert(offset_of(std::array{2, 3}, std::array{1, 2}) == 5);
static_assert(position_of(5, std::array{2, 3}) == std::array{1, 2});
static_assert(position_of(6, std::array{2, 3}) == std::array{0, 0});

TEST_CASE("for_each_position visits positions once each in row-major order") {
  const std::uint64_t seed = 20261121;
  CAPTURE(seed);
  unity::random_engine random{seed};
  for (int round = 0; round < 200; ++round) {
    sizes all;
    std::int64_t count = 1;
    for (auto rank = random.below(5); rank > 0; --rank) {
      all.push_back(random.between(1, 4));
      count *= all.back();
    }
    CAPTURE(round, all.size(), count);
    std::size_t next = 0;
    for_each_position(all, [&](const sizes& at) {
      REQUIRE(offset_of(all, at) == next);
      REQUIRE(position_of(next, all) == at);
      ++next;
    });
    REQUIRE(next == static_cast<std::size_t>(count));
  }
}

TEST_CASE("for_each_position varies the last dimension fastest") {
  std::vector<std::vector<std::size_t>> seen;
  for_each_position(std::vector<std::size_t>{2, 2}, [&](const auto& at) { seen.push_back(at); });
  CHECK(seen == std::vector<std::vector<std::size_t>>{{0, 0}, {0, 1}, {1, 0}, {1, 1}});
}

TEST_CASE("for_each_position visits a box from its begin up to but excluding its end") {
  std::vector<sizes> seen;
  for_each_position(sizes{1, 5}, sizes{3, 7}, [&](const sizes& at) { seen.push_back(at); });
  CHECK(seen == std::vector<sizes>{{1, 5}, {1, 6}, {2, 5}, {2, 6}});
}

TEST_CASE("for_each_position visits one position without dimensions and none of an empty box") {
  int visits = 0;
  const auto count = [&](const sizes&) { ++visits; };
  for_each_position(sizes{}, count);
  CHECK(visits == 1);
  for_each_position(sizes{3, 0}, count);
  for_each_position(sizes{4, 2}, sizes{5, 2}, count);
  CHECK(visits == 1);
  CHECK(offset_of(sizes{}, sizes{}) == 0);
}

}  // namespace tests_of_row_major
