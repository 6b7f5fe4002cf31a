#include <unity/tensor/operators/reduction.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>

#include "../testing.hpp"

namespace tests_of_composite_reduction {

using namespace unity::tensor;
using namespace unity::tensor::test;

namespace {

// f of the elements of x[3, 4, 5] along the first and last axis.
dense<double> along_ends(const dense<double>& x, const std::function<double(const std::vector<double>&)>& f) {
  return tabulate({4}, [&](const shape& p) {
    std::vector<double> all;
    for (std::int64_t i = 0; i < 3; ++i) {
      for (std::int64_t k = 0; k < 5; ++k) {
        all.push_back(at(x, {i, p[0], k}));
      }
    }
    return f(all);
  });
}

double total(const std::vector<double>& all, const std::function<double(double)>& f) {
  double sum = 0;
  for (const auto x : all) {
    sum += f(x);
  }
  return sum;
}

}  // namespace

TEST_CASE("composite reductions agree with loops") {
  unity::random_engine random{1};
  auto x = random_tensor({3, 4, 5}, random);
  const auto check = [&](const char* name, const std::function<double(const std::vector<double>&)>& f) {
    CAPTURE(name);
    const auto expected = along_ends(x, f);
    CHECK(distance(run(name, {{"axes", {0, 2}}, {"keep_dims", 0}}, {x}), expected) < 1e-13);
    auto kept = expected;
    kept.dims = {1, 4, 1};
    CHECK(distance(run(name, {{"axes", {0, 2}}}, {x}), kept) < 1e-13);
  };
  check("reduce_min", [](const auto& all) { return *std::min_element(all.begin(), all.end()); });
  check("reduce_prod", [](const auto& all) {
    double product = 1;
    for (const auto v : all) {
      product *= v;
    }
    return product;
  });
  check("reduce_l1", [](const auto& all) { return total(all, [](double v) { return std::abs(v); }); });
  check("reduce_l2", [](const auto& all) { return std::sqrt(total(all, [](double v) { return v * v; })); });
  check("reduce_sum_square", [](const auto& all) { return total(all, [](double v) { return v * v; }); });
  check("reduce_log_sum_exp",
        [](const auto& all) { return std::log(total(all, [](double v) { return std::exp(v); })); });
  for (auto& v : x.data) {
    v = std::abs(v);
  }
  check("reduce_log_sum", [](const auto& all) { return std::log(total(all, [](double v) { return v; })); });
}

TEST_CASE("reduce_log_sum_exp does not overflow") {
  constexpr auto infinity = std::numeric_limits<double>::infinity();
  CHECK(
      run("reduce_log_sum_exp", {{"axes", {1}}}, {{{3, 2}, {-infinity, -infinity, 1, -infinity, infinity, 1}}}).data ==
      std::vector{-infinity, 1.0, infinity});
  CHECK(run("reduce_log_sum_exp", {{"axes", {0}}}, {{{2}, {10000, 10000}}}).data[0] == Approx(10000 + std::log(2.0)));
}

TEST_CASE("reduce_prod and reduce_min of 1 to 9 integers are exact") {
  for (std::int64_t n = 1; n <= 9; ++n) {
    dense<double> x{{n}};
    double product = 1;
    for (std::int64_t i = 0; i < n; ++i) {
      x.data[static_cast<std::size_t>(i)] = static_cast<double>((i * 5) % 9 - 4) == 0 ? 7 : static_cast<double>(i + 1);
      product *= x.data[static_cast<std::size_t>(i)];
    }
    const types t{type({n}, dtype::int32)};
    const auto with = [&](const char* name) {
      return evaluate<double>(standard(), standard().make_operation(name, {{"axes", {0}}}), std::vector{x}, t)[0]
          .data[0];
    };
    CAPTURE(n);
    CHECK(with("reduce_prod") == product);
    CHECK(with("reduce_min") == *std::min_element(x.data.begin(), x.data.end()));
  }
}

TEST_CASE("composite reductions refuse invalid axes and element types") {
  CHECK(refusal_of("reduce_min", {{"axes", {}}}, {type({3, 4})}) == "at least one axis");
  CHECK(refusal_of("reduce_prod", {{"axes", {1, 0}}}, {type({3, 4})}) == "ascending axes within the rank");
  CHECK(refusal_of("reduce_l2", {{"axes", {0}}}, {type({3}, dtype::int64)}) == "floating-point elements");
  CHECK(refusal_of("reduce_prod", {{"axes", {0}}}, {type({3}, dtype::boolean)}) == "numeric elements");
  CHECK(refusal_of("reduce_l1", {{"axes", {0}}}, {type({3}, dtype::int64)}).empty());
}

}  // namespace tests_of_composite_reduction
