#include <unity/parallel/box.hpp>

#include <catch2/catch.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/core/row_major.hpp>
#include <unity/tensor/shape.hpp>

namespace tests_of_box_runs {

using namespace unity;
using parallel::box;
using parallel::for_each_run;
using tensor::shape;

namespace {

using runs = std::vector<std::array<std::int64_t, 3>>;

runs runs_of(const shape& dims, const box& b) {
  runs all;
  for_each_run(dims, b,
               [&](std::int64_t at, std::int64_t from, std::int64_t count) { all.push_back({at, from, count}); });
  return all;
}

}  // namespace

TEST_CASE("a contiguous run of a box spans the dimensions after the last divided one") {
  CHECK(runs_of({4, 3, 5}, {{1, 0, 0}, {3, 3, 5}}) == runs{{15, 0, 30}});
  CHECK(runs_of({4, 3, 5}, {{1, 1, 0}, {3, 3, 5}}) == runs{{20, 0, 10}, {35, 10, 10}});
  CHECK(runs_of({2, 2, 5}, {{0, 0, 1}, {2, 1, 3}}) == runs{{1, 0, 2}, {11, 2, 2}});
}

TEST_CASE("a scalar has one contiguous run; an empty box has none") {
  CHECK(runs_of({}, {}) == runs{{0, 0, 1}});
  CHECK(runs_of({4, 3}, {{1, 2}, {3, 2}}).empty());
}

TEST_CASE("contiguous runs of random boxes cover the elements in order with the fewest runs") {
  const std::uint64_t seed = 11;
  CAPTURE(seed);
  random_engine random{seed};
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    shape dims;
    box b;
    for (auto rank = random.below(5); rank > 0; --rank) {
      dims.push_back(random.between(1, 5));
      b.begin.push_back(random.between(0, dims.back() - 1));
      b.end.push_back(random.between(b.begin.back() + 1, dims.back()));
    }
    std::vector<std::size_t> expected;
    for_each_position(b.begin, b.end, [&](const shape& at) { expected.push_back(offset_of(dims, at)); });
    std::vector<std::size_t> found;
    for (const auto& [at, from, count] : runs_of(dims, b)) {
      REQUIRE(from == static_cast<std::int64_t>(found.size()));
      REQUIRE((found.empty() || static_cast<std::int64_t>(found.back()) + 1 < at));
      for (std::int64_t i = 0; i < count; ++i) {
        found.push_back(static_cast<std::size_t>(at + i));
      }
    }
    REQUIRE(found == expected);
  }
}

}  // namespace tests_of_box_runs
