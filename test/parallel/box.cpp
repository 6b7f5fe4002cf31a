#include <unity/parallel/box.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "elements.hpp"

namespace tests_of_box {

using namespace unity;
using parallel::box;

TEST_CASE("volume and sizes of a box follow from its bounds; an empty box has volume 0") {
  const box b{{1, 2}, {4, 7}};
  CHECK(b.volume() == 15);
  CHECK(b.sizes() == tensor::shape{3, 5});
  CHECK_FALSE(b.empty());
  CHECK(box{{1, 2}, {1, 7}}.empty());
  CHECK(box{{1, 5}, {4, 2}}.volume() == 0);
  CHECK(box{}.volume() == 1);
  CHECK_FALSE(box{}.empty());
}

TEST_CASE("intersection and subtraction of boxes agree with those of sets of elements") {
  const std::uint64_t seed = 7;
  INFO("seed " << seed);
  random_engine random{seed};
  const tensor::shape dims{4, 3, 5};
  for (int i = 0; i < 500; ++i) {
    const auto a = parallel::test::random_box(random, dims);
    const auto b = parallel::test::random_box(random, dims);
    std::vector<box> rest;
    parallel::subtract(a, b, rest);
    const auto in_a = parallel::test::counts({a}, dims);
    const auto in_b = parallel::test::counts({b}, dims);
    const auto both = parallel::test::counts({intersection(a, b)}, dims);
    const auto left = parallel::test::counts(rest, dims);
    for (std::size_t e = 0; e < in_a.size(); ++e) {
      REQUIRE(both[e] == in_a[e] * in_b[e]);
      REQUIRE(left[e] == in_a[e] * (1 - in_b[e]));
    }
  }
}

}  // namespace tests_of_box
