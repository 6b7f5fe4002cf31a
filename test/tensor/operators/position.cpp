#include <unity/tensor/operators/selection.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>

#include "../testing.hpp"

namespace tests_of_position {

using namespace unity::tensor;
using namespace unity::tensor::test;

TEST_CASE("arg_max and arg_min give the first or last extreme along an axis") {
  unity::random_engine random{1};
  dense<double> x{{3, 4, 5}};
  for (auto& v : x.data) {
    v = static_cast<double>(random.between(-2, 2));
  }
  for (const bool largest : {false, true}) {
    for (const bool last : {false, true}) {
      const auto expected = tabulate({3, 1, 5}, [&](const shape& p) {
        std::int64_t best = 0;
        for (std::int64_t i = 1; i < 4; ++i) {
          const auto v = at(x, {p[0], i, p[2]});
          const auto b = at(x, {p[0], best, p[2]});
          best = (largest ? v > b : v < b) || (last && v == b) ? i : best;
        }
        return static_cast<double>(best);
      });
      const auto* name = largest ? "arg_max" : "arg_min";
      CAPTURE(name, last);
      CHECK(run(name, {{"axis", 1}, {"last", last ? 1 : 0}}, {x}) == expected);
      auto dropped = expected;
      dropped.dims = {3, 5};
      CHECK(run(name, {{"axis", 1}, {"keep_dims", 0}, {"last", last ? 1 : 0}}, {x}) == dropped);
    }
  }
  CHECK((*standard().infer(standard().make_operation("arg_max", {{"axis", 0}}), types{type({3})}))[0].element ==
        dtype::int64);
}

TEST_CASE("arg_max of NaN gives a position within the tensor") {
  const auto nothing = std::numeric_limits<double>::quiet_NaN();
  CHECK(run("arg_max", {{"axis", 0}}, {{{2}, {nothing, nothing}}}).data[0] == 1);
  CHECK(run("arg_max", {{"axis", 0}, {"last", 1}}, {{{2}, {nothing, nothing}}}).data[0] == 0);
}

TEST_CASE("hardmax is 1 at the first of the largest elements") {
  const dense<double> x{{2, 3}, {1, 3, 3, 2, 2, 1}};
  CHECK(run("hardmax", {{"axis", 1}}, {x}) == dense<double>{{2, 3}, {0, 1, 0, 1, 0, 0}});
  CHECK(run("hardmax", {{"axis", 0}}, {x}) == dense<double>{{2, 3}, {0, 1, 1, 1, 0, 0}});
}

TEST_CASE("is_position marks the indexed position and nothing for invalid indices") {
  const types t{type({2, 2}, dtype::int64)};
  const dense<double> places{{2, 2}, {0, 2, -1, 3}};
  for (std::int64_t axis = 0; axis < 3; ++axis) {
    const auto op = standard().make_operation("is_position", {{"axis", axis}, {"size", 3}, {"element", "float32"}});
    const auto found = evaluate<double>(standard(), op, std::vector{places}, t)[0];
    auto dims = shape{2, 2};
    dims.insert(dims.begin() + axis, 3);
    CHECK(found == tabulate(dims, [&](const shape& p) {
            auto rest = p;
            rest.erase(rest.begin() + axis);
            return at(places, {rest[0], rest[1]}) == static_cast<double>(p[static_cast<std::size_t>(axis)]) ? 1.0 : 0.0;
          }));
  }
}

TEST_CASE("cumulative_sum agrees with loops in both directions and exclusive form") {
  unity::random_engine random{2};
  for (std::int64_t n = 1; n <= 9; ++n) {
    const auto x = random_tensor({2, n, 3}, random);
    for (int form = 0; form < 4; ++form) {
      const bool exclusive = form % 2 != 0;
      const bool reverse = form / 2 != 0;
      const auto expected = tabulate(x.dims, [&](const shape& p) {
        double sum = 0;
        for (std::int64_t i = 0; i < n; ++i) {
          const bool before = reverse ? i > p[1] : i < p[1];
          sum += before || (!exclusive && i == p[1]) ? at(x, {p[0], i, p[2]}) : 0;
        }
        return sum;
      });
      CAPTURE(n, exclusive, reverse);
      CHECK(distance(run("cumulative_sum", {{"axis", 1}, {"exclusive", form % 2}, {"reverse", form / 2}}, {x}),
                     expected) < 1e-14);
    }
  }
}

TEST_CASE("work of cumulative_sum is one addition per element") {
  const types t{type({4, 100})};
  const auto op = standard().make_operation("cumulative_sum", {{"axis", 1}});
  CHECK(standard().work(op, t, *standard().infer(op, t)).operations.count() == 400);
}

TEST_CASE("position operators refuse invalid attributes and element types") {
  CHECK(refusal_of("arg_max", {{"axis", 2}}, {type({3, 4})}) == "an axis within the rank");
  CHECK(refusal_of("arg_max", {{"axis", 0}}, {type({3}, dtype::boolean)}) == "numeric elements");
  CHECK(refusal_of("hardmax", {{"axis", 0}}, {type({3}, dtype::int64)}) == "floating-point elements");
  CHECK(refusal_of("cumulative_sum", {{"axis", -1}}, {type({3})}) == "an axis within the rank");
  CHECK(refusal_of("is_position", {{"axis", 0}, {"size", 0}, {"element", "float32"}}, {type({3}, dtype::int32)}) ==
        "a positive number of positions");
  CHECK(refusal_of("is_position", {{"axis", 2}, {"size", 2}, {"element", "float32"}}, {type({3}, dtype::int32)}) ==
        "an axis of the result");
}

}  // namespace tests_of_position
