#include <unity/rewrite/generation/term_store.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>

namespace tests_of_variable_map {

using namespace unity;

namespace {

variable_map random_permutation(random_engine& random, std::size_t count) {
  std::array<std::size_t, variable_map::most> names{};
  std::iota(names.begin(), names.end(), std::size_t{0});
  for (auto i = count; i > 1; --i) {
    std::swap(names[i - 1], names[random.below(i)]);
  }
  variable_map m;
  for (std::size_t i = 0; i < count; ++i) {
    m.set(i, names[i]);
  }
  return m;
}

}  // namespace

static_assert(sizeof(variable_map) == 4);
static_assert(variable_map::identity()[5] == 5);

TEST_CASE("variable_map renamings form a group") {
  const auto seed = std::uint64_t{4};
  CAPTURE(seed);
  random_engine random{seed};
  for (std::size_t count = 0; count <= variable_map::most; ++count) {
    CAPTURE(count);
    const auto one = variable_map::identity().cut(count);
    for (int round = 0; round < 100; ++round) {
      const auto a = random_permutation(random, count);
      const auto b = random_permutation(random, count);
      const auto c = random_permutation(random, count);
      CHECK(a.then(b, count).then(c, count) == a.then(b.then(c, count), count));
      CHECK(a.then(one, count) == a);
      CHECK(one.then(a, count) == a);
      CHECK(a.then(a.inverse(count), count) == one);
      CHECK(a.inverse(count).then(a, count) == one);
      CHECK(a.inverse(count).inverse(count) == a);
      for (std::size_t i = 0; i < count; ++i) {
        CHECK(a.then(b, count)[i] == b[a[i]]);
      }
    }
  }
}

TEST_CASE("variable_map stores entries below 16 and cut clears later entries") {
  variable_map m;
  for (std::size_t i = 0; i < variable_map::most; ++i) {
    m.set(i, 15 - i);
  }
  CHECK(m[0] == 15);
  CHECK(m[7] == 8);
  m.set(3, 2);
  CHECK(m[3] == 2);
  CHECK(m[2] == 13);
  CHECK(m.cut(8) == m);
  CHECK(m.cut(2)[1] == 14);
  CHECK(m.cut(2)[2] == 0);
  CHECK(m.cut(0) == variable_map{});
  CHECK(variable_map::from_bits(m.bits()) == m);
}

}  // namespace tests_of_variable_map
