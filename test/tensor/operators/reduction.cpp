#include <unity/tensor/operators/reduction.hpp>

#include <cmath>
#include <cstdint>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>

#include "../testing.hpp"

namespace tests_of_reduction {

using namespace unity::tensor;
using namespace unity::tensor::test;

TEST_CASE("reduce_sum / reduce_mean / reduce_max agree with nested loops") {
  unity::random_engine random{1};
  const auto x = random_tensor({3, 4, 5}, random);
  const auto middle = [&](auto f, double start, double scale) {
    return tabulate({3, 1, 5}, [&](const shape& p) {
      double r = start;
      for (std::int64_t i = 0; i < 4; ++i) {
        r = f(r, at(x, {p[0], i, p[2]}));
      }
      return r * scale;
    });
  };
  const auto sum = [](double a, double b) { return a + b; };
  const auto largest = [](double a, double b) { return a > b ? a : b; };
  CHECK(distance(run("reduce_sum", {{"axes", {1}}}, {x}), middle(sum, 0, 1)) < 1e-15);
  CHECK(distance(run("reduce_mean", {{"axes", {1}}}, {x}), middle(sum, 0, 0.25)) < 1e-15);
  CHECK(run("reduce_max", {{"axes", {1}}}, {x}) == middle(largest, -HUGE_VAL, 1));

  const auto ends = tabulate({4}, [&](const shape& p) {
    double r = 0;
    for (std::int64_t i = 0; i < 3; ++i) {
      for (std::int64_t j = 0; j < 5; ++j) {
        r += at(x, {i, p[0], j});
      }
    }
    return r;
  });
  CHECK(distance(run("reduce_sum", {{"axes", {0, 2}}, {"keep_dims", 0}}, {x}), ends) < 1e-14);
  double all = 0;
  for (const auto v : x.data) {
    all += v;
  }
  CHECK(std::abs(run("reduce_mean", {{"axes", {0, 1, 2}}, {"keep_dims", 0}}, {x}).data[0] - all / 60) < 1e-15);
}

TEST_CASE("reductions keep or drop the reduced axes") {
  CHECK(shapes("reduce_sum", {{"axes", {0, 2}}}, {type({3, 4, 5})})[0] == shape{1, 4, 1});
  CHECK(shapes("reduce_sum", {{"axes", {0, 2}}, {"keep_dims", 0}}, {type({3, 4, 5})})[0] == shape{4});
  CHECK(shapes("reduce_max", {{"axes", {0}}, {"keep_dims", 0}}, {type({3})})[0] == shape{});
}

TEST_CASE("reduce_sum and reduce_mean refuse invalid axes and element types") {
  CHECK(refusal_of("reduce_sum", {{"axes", {}}}, {type({3, 4})}) == "at least one axis");
  for (const auto& bad : {shape{2}, shape{-1}, shape{1, 0}, shape{0, 0}, shape{0, INT64_MAX}}) {
    CHECK(refusal_of("reduce_sum", {{"axes", bad}}, {type({3, 4})}) == "ascending axes within the rank");
  }
  CHECK(refusal_of("reduce_mean", {{"axes", {0}}}, {type({3}, dtype::int64)}) == "floating-point elements");
  CHECK(refusal_of("reduce_sum", {{"axes", {0}}}, {type({3}, dtype::int64)}).empty());
}

}  // namespace tests_of_reduction
