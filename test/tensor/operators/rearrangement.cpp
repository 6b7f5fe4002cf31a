#include <unity/tensor/operators/rearrangement.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>

#include "../testing.hpp"

namespace tests_of_rearrangement {

using namespace unity::tensor;
using namespace unity::tensor::test;

namespace {

std::vector<double> line(attributes a, std::string_view name, std::vector<double> x) {
  const auto n = static_cast<std::int64_t>(x.size());
  return run(name, a, {dense<double>{{n}, std::move(x)}}).data;
}

}  // namespace

TEST_CASE("tile repeats along each dimension") {
  unity::random_engine random{1};
  const auto x = random_tensor({2, 1, 3}, random);
  CHECK(run("tile", {{"repeats", {2, 3, 1}}}, {x}) ==
        tabulate({4, 3, 3}, [&](const shape& p) { return at(x, {p[0] % 2, 0, p[2]}); }));
  CHECK(run("tile", {{"repeats", {1, 1, 1}}}, {x}) == x);
  CHECK(refusal_of("tile", {{"repeats", {2, 0, 1}}}, {type({2, 1, 3})}) == "positive counts of sensible size");
}

TEST_CASE("strided_slice takes positive and negative steps") {
  unity::random_engine random{2};
  const auto x = random_tensor({5, 4}, random);
  CHECK(run("strided_slice", {{"axes", {0, 1}}, {"starts", {4, 1}}, {"counts", {3, 2}}, {"steps", {-2, 2}}}, {x}) ==
        tabulate({3, 2}, [&](const shape& p) { return at(x, {4 - 2 * p[0], 1 + 2 * p[1]}); }));
  CHECK(refusal_of("strided_slice", {{"axes", {0}}, {"starts", {3}}, {"counts", {3}}, {"steps", {-2}}}, {type({5})}) ==
        "elements that the operand has");
}

TEST_CASE("border_pad pads in every mode and cuts with negative pads") {
  using list = std::vector<double>;
  CHECK(line({{"mode", "reflect"}, {"pads", {2, 3}}}, "border_pad", {1, 2, 3, 4}) == list{3, 2, 1, 2, 3, 4, 3, 2, 1});
  CHECK(line({{"mode", "edge"}, {"pads", {2, 1}}}, "border_pad", {1, 2, 3}) == list{1, 1, 1, 2, 3, 3});
  CHECK(line({{"mode", "wrap"}, {"pads", {2, 3}}}, "border_pad", {1, 2, 3}) == list{2, 3, 1, 2, 3, 1, 2, 3});
  CHECK(line({{"mode", "constant"}, {"pads", {-1, 2}}, {"value", 7.0}}, "border_pad", {1, 2, 3}) == list{2, 3, 7, 7});
  CHECK(line({{"mode", "edge"}, {"pads", {-1, 1}}}, "border_pad", {1, 2, 3}) == list{2, 3, 3});
  CHECK(line({{"mode", "wrap"}, {"pads", {-2, 3}}}, "border_pad", {0, 1, 2, 3, 4}) == list{2, 3, 4, 2, 3, 4});
  CHECK(line({{"mode", "wrap"}, {"pads", {2, -3}}}, "border_pad", {0, 1, 2, 3, 4}) == list{0, 1, 0, 1});
  CHECK(line({{"mode", "reflect"}, {"pads", {-2, 2}}}, "border_pad", {0, 1, 2, 3, 4}) == list{2, 3, 4, 3, 2});
  unity::random_engine random{3};
  const auto x = random_tensor({2, 3, 3}, random);
  CHECK(run("border_pad", {{"mode", "reflect"}, {"pads", {0, 1, 2, 0, 1, 0}}}, {x}) ==
        tabulate({2, 5, 5}, [&](const shape& p) {
          const std::int64_t rows[] = {1, 0, 1, 2, 1};
          const std::int64_t columns[] = {2, 1, 0, 1, 2};
          return at(x, {p[0], rows[p[1]], columns[p[2]]});
        }));
  CHECK(refusal_of("border_pad", {{"mode", "reflect"}, {"pads", {3, 0}}}, {type({3})}) ==
        "pads within what the operand has");
  CHECK(refusal_of("border_pad", {{"mode", "wrap"}, {"pads", {-2, 2}}}, {type({3})}) ==
        "pads within what the operand has");
  CHECK(refusal_of("border_pad", {{"pads", {-1, -2}}}, {type({3})}) == "cuts that leave something");
}

TEST_CASE("depth_to_space spreads channels and space_to_depth undoes it") {
  unity::random_engine random{4};
  const auto x = random_tensor({2, 12, 2, 3}, random);
  for (const std::string order : {"dcr", "crd"}) {
    const auto y = run("depth_to_space", {{"block", 2}, {"order", order}}, {x});
    CHECK(y == tabulate({2, 3, 4, 6}, [&](const shape& p) {
            const auto block = p[2] % 2 * 2 + p[3] % 2;
            return at(x, {p[0], order == "dcr" ? block * 3 + p[1] : p[1] * 4 + block, p[2] / 2, p[3] / 2});
          }));
    if (order == "dcr") {
      CHECK(run("space_to_depth", {{"block", 2}}, {y}) == x);
    }
  }
}

TEST_CASE("trilu keeps a triangle and eye_like has ones on a diagonal") {
  unity::random_engine random{5};
  auto x = random_tensor({2, 3, 4}, random);
  for (auto& e : x.data) {
    e = random.below(2) == 0 ? -std::numeric_limits<double>::infinity() : e;  // masks are made so
  }
  for (std::int64_t k = -4; k <= 4; ++k) {
    for (const bool upper : {false, true}) {
      CAPTURE(k, upper);
      CHECK(run("trilu", {{"upper", upper ? 1 : 0}, {"k", k}}, {x}) == tabulate({2, 3, 4}, [&](const shape& p) {
              const bool stays = upper ? p[2] - p[1] >= k : p[2] - p[1] <= k;
              return stays ? at(x, {p[0], p[1], p[2]}) : 0;
            }));
    }
    CHECK(run("eye_like", {{"k", k}}, {dense<double>{{3, 4}}}) ==
          tabulate({3, 4}, [&](const shape& p) { return p[1] - p[0] == k ? 1 : 0; }));
  }
}

}  // namespace tests_of_rearrangement
