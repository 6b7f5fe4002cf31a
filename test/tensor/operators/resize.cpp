#include <unity/tensor/operators/resize.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>

#include "../testing.hpp"

namespace tests_of_resize {

using namespace unity::tensor;
using namespace unity::tensor::test;

namespace {

// The formulas of ONNX, implemented a second time.
double position(const std::string& coordinates, std::int64_t at, std::int64_t from, std::int64_t to) {
  const auto x = static_cast<double>(at);
  const auto n = static_cast<double>(from);
  const auto m = static_cast<double>(to);
  if (coordinates == "align_corners") {
    return to == 1 ? 0 : x * (n - 1) / (m - 1);
  }
  if (coordinates == "asymmetric") {
    return x * n / m;
  }
  return coordinates == "pytorch_half_pixel" && to == 1 ? 0 : (x + 0.5) * n / m - 0.5;
}

double clamped(double x, std::int64_t n) { return std::clamp(x, 0.0, static_cast<double>(n - 1)); }

}  // namespace

TEST_CASE("nearest resize matches ONNX's formulas for all coordinate and rounding modes") {
  unity::random_engine random{1};
  for (const std::string coordinates : {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"}) {
    for (const std::string rounding : {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}) {
      for (const std::int64_t to : {1, 2, 3, 4, 8, 12}) {
        const auto x = random_tensor({2, 4}, random);
        CAPTURE(coordinates, rounding, to);
        CHECK(run("resize", {{"coordinates", coordinates}, {"rounding", rounding}, {"dims", {2, to}}}, {x}) ==
              tabulate({2, to}, [&](const shape& p) {
                const auto at = position(coordinates, p[1], 4, to);
                const auto down = std::floor(at);
                const bool is_up = at - down > 0.5 || (at - down == 0.5 && rounding == "round_prefer_ceil");
                const auto nearest = rounding == "floor"  ? down
                                     : rounding == "ceil" ? std::ceil(at)
                                     : is_up              ? down + 1
                                                          : down;
                return x.data[static_cast<std::size_t>(p[0] * 4 + static_cast<std::int64_t>(clamped(nearest, 4)))];
              }));
      }
    }
  }
}

TEST_CASE("linear resize matches ONNX's formulas along each dimension") {
  unity::random_engine random{2};
  for (const std::string coordinates : {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"}) {
    for (const std::int64_t to : {1, 2, 5, 8}) {
      const auto x = random_tensor({2, 4, 3}, random);
      const auto value = [&](std::int64_t n, double row, double column) {
        double sum = 0;
        for (std::int64_t i = 0; i < 4; ++i) {
          for (std::int64_t j = 0; j < 3; ++j) {
            const auto weight = std::max(0.0, 1 - std::abs(row - static_cast<double>(i))) *
                                std::max(0.0, 1 - std::abs(column - static_cast<double>(j)));
            sum += weight * at(x, {n, i, j});
          }
        }
        return sum;
      };
      CAPTURE(coordinates, to);
      const auto expected = tabulate({2, to, 6}, [&](const shape& p) {
        return value(p[0], clamped(position(coordinates, p[1], 4, to), 4),
                     clamped(position(coordinates, p[2], 3, 6), 3));
      });
      const auto found = run("resize", {{"mode", "linear"}, {"coordinates", coordinates}, {"dims", {2, to, 6}}}, {x});
      CHECK(distance(found, expected) < 1e-12);
    }
  }
}

}  // namespace tests_of_resize
