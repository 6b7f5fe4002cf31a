#include <unity/tensor/operators/movement.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>

#include "../testing.hpp"

namespace tests_of_movement {

using namespace unity::tensor;
using namespace unity::tensor::test;

TEST_CASE("concat joins parts of unequal sizes") {
  unity::random_engine random{1};
  const auto a = random_tensor({2, 3, 4}, random);
  const auto b = random_tensor({2, 1, 4}, random);
  const auto c = random_tensor({2, 2, 4}, random);
  const auto expected = tabulate({2, 6, 4}, [&](const shape& p) {
    return p[1] < 3   ? at(a, {p[0], p[1], p[2]})
           : p[1] < 4 ? at(b, {p[0], p[1] - 3, p[2]})
                      : at(c, {p[0], p[1] - 4, p[2]});
  });
  CHECK(run("concat", {{"axis", 1}}, {a, b, c}) == expected);
  CHECK(run("concat", {{"axis", 2}}, {a}) == a);
}

TEST_CASE("split undoes concat") {
  unity::random_engine random{2};
  const auto a = random_tensor({3, 2}, random);
  const auto b = random_tensor({1, 2}, random);
  const auto parts = run_all("split", {{"axis", 0}, {"sizes", {3, 1}}}, {run("concat", {{"axis", 0}}, {a, b})});
  REQUIRE(parts.size() == 2);
  CHECK(parts[0] == a);
  CHECK(parts[1] == b);
}

TEST_CASE("concat refuses uncountable sizes and slice accepts steps beyond the end") {
  constexpr std::int64_t most = unity::tensor::max_elements;
  const std::vector<tensor_type> many(40000, type({most}));
  CHECK_FALSE(standard().infer(standard().make_operation("concat", {{"axis", 0}}), many));
  const std::vector<tensor_type> one{type({2, most / 2})};
  const auto slice = standard().make_operation(
      "slice", {{"axes", {0}}, {"starts", {1}}, {"ends", {2}}, {"steps", {most}}});
  const auto part = standard().infer(slice, one);
  REQUIRE(part);
  CHECK((*part)[0].dims == unity::tensor::shape{1, most / 2});
  CHECK(standard().work(slice, one, *part).moved.count() >= 0);
}

TEST_CASE("concat and split refuse invalid axes and sizes") {
  CHECK(refusal_of("concat", {{"axis", 0}}, {}) == "1 or more operand(s)");
  CHECK(refusal_of("concat", {{"axis", 2}}, {type({2, 3})}) == "an axis within the rank");
  CHECK(refusal_of("concat", {{"axis", -1}}, {type({2, 3})}) == "an axis within the rank");
  CHECK(refusal_of("concat", {{"axis", 0}}, {type({2, 3}), type({2, 4})}) ==
        "sizes that agree outside of the axis in operand 1");
  CHECK(refusal_of("concat", {{"axis", 0}}, {type({2, 3}), type({2, 3, 1})}) ==
        "sizes that agree outside of the axis in operand 1");
  for (const auto& bad : {shape{2, 2}, shape{3}, shape{6, -1}, shape{5, 0}, shape{INT64_MAX, INT64_MAX, 7}}) {
    CHECK(refusal_of("split", {{"axis", 1}, {"sizes", bad}}, {type({2, 5})}) ==
          "sizes that sum to the size of the axis");
  }
  CHECK(refusal_of("split", {{"axis", 1}, {"sizes", {}}}, {type({2, 5})}) == "at least one size");
  for (const std::int64_t axis : {std::int64_t{-1}, std::int64_t{-2}, std::int64_t{2}, INT64_MIN, INT64_MAX}) {
    CHECK(refusal_of("split", {{"axis", axis}, {"sizes", {2, 3}}}, {type({2, 5})}) ==
          "an axis within the rank");
    CHECK(refusal_of("concat", {{"axis", axis}}, {type({2, 5}), type({2, 5})}) == "an axis within the rank");
  }
}

TEST_CASE("concat and split refuse scalars") {
  for (const std::int64_t axis : {-1, 0, 1}) {
    CHECK(refusal_of("split", {{"axis", axis}, {"sizes", {1}}}, {type({})}) == "an axis within the rank");
    CHECK(refusal_of("concat", {{"axis", axis}}, {type({}), type({})}) == "an axis within the rank");
  }
  CHECK(refusal_of("concat", {{"axis", 0}}, {type({2}), type({})}) ==
        "sizes that agree outside of the axis in operand 1");
}

TEST_CASE("slice takes every step-th element from start to before end") {
  unity::random_engine random{3};
  const auto x = random_tensor({5, 3, 7}, random);
  const auto found = run("slice", {{"axes", {0, 2}}, {"starts", {1, 0}}, {"ends", {4, 7}}, {"steps", {1, 3}}}, {x});
  CHECK(found == tabulate({3, 3, 3}, [&](const shape& p) { return at(x, {p[0] + 1, p[1], p[2] * 3}); }));
}

TEST_CASE("slice refuses invalid ranges") {
  const auto refused = [](shape axes, shape starts, shape ends, shape steps) {
    return refusal_of("slice", {{"axes", axes}, {"starts", starts}, {"ends", ends}, {"steps", steps}}, {type({2, 5})});
  };
  CHECK(refused({1}, {0}, {5}, {1}).empty());
  CHECK(refused({1}, {2}, {2}, {1}) == "0 <= start < end <= size and step >= 1");
  CHECK(refused({1}, {-1}, {2}, {1}) == "0 <= start < end <= size and step >= 1");
  CHECK(refused({1}, {0}, {6}, {1}) == "0 <= start < end <= size and step >= 1");
  CHECK(refused({1}, {0}, {5}, {0}) == "0 <= start < end <= size and step >= 1");
  CHECK(refused({1}, {0, 1}, {5}, {1}) == "one start, end and step per axis");
  CHECK(refused({2}, {0}, {5}, {1}) == "ascending axes within the rank");
}

TEST_CASE("pad surrounds with a value and enlarge surrounds a kernel with zeros") {
  unity::random_engine random{4};
  const auto x = random_tensor({2, 3}, random);
  const auto inside = [&](const shape& p) { return p[0] >= 1 && p[0] < 3 && p[1] < 3; };
  CHECK(run("pad", {{"pads", {1, 0, 0, 2}}, {"value", -7.0}}, {x}) == tabulate({3, 5}, [&](const shape& p) {
          return inside(p) ? at(x, {p[0] - 1, p[1]}) : -7;
        }));

  const auto w = random_tensor({2, 1, 1, 3}, random);
  CHECK(run("enlarge", {{"kernel", {3, 5}}}, {w}) == tabulate({2, 1, 3, 5}, [&](const shape& p) {
          return p[2] == 1 && p[3] >= 1 && p[3] < 4 ? at(w, {p[0], p[1], 0, p[3] - 1}) : 0;
        }));
}

TEST_CASE("an enlarged kernel gives the same convolution") {
  unity::random_engine random{5};
  const auto x = random_tensor({1, 2, 6, 6}, random);
  const auto w = random_tensor({3, 2, 1, 3}, random);
  const auto enlarged = run("enlarge", {{"kernel", {3, 3}}}, {w});
  CHECK(distance(run("conv2d", {{"padding", "same"}}, {x, enlarged}), run("conv2d", {{"padding", "same"}}, {x, w})) <
        1e-14);
}

TEST_CASE("pad and enlarge refuse invalid attributes") {
  CHECK(refusal_of("pad", {{"pads", {1, 1}}}, {type({2, 3})}) == "two pads per dimension");
  CHECK(refusal_of("pad", {{"pads", {1, 1, -1, 0}}}, {type({2, 3})}) == "non-negative pads of sensible size");
  CHECK(refusal_of("pad", {{"pads", {1, 1, INT64_MAX, 0}}}, {type({2, 3})}) ==
        "non-negative pads of sensible size");
  CHECK(refusal_of("enlarge", {{"kernel", {3, 2}}}, {type({2, 2, 1, 3})}) ==
        "a kernel larger by an even number");
  CHECK(refusal_of("enlarge", {{"kernel", {2, 3}}}, {type({2, 2, 1, 3})}) ==
        "a kernel larger by an even number");
  CHECK(refusal_of("enlarge", {{"kernel", {3, 3}}}, {type({2, 1, 3})}) == "rank 4 in operand 0");
}

TEST_CASE("transpose permutes axes") {
  unity::random_engine random{6};
  const auto x = random_tensor({2, 3, 4}, random);
  CHECK(run("transpose", {{"permutation", {2, 0, 1}}}, {x}) == tabulate({4, 2, 3}, [&](const shape& p) {
          return at(x, {p[1], p[2], p[0]});
        }));
  for (const auto& bad : {shape{0, 1}, shape{0, 1, 1}, shape{0, 1, 3}, shape{0, 1, -1}}) {
    CHECK_FALSE(refusal_of("transpose", {{"permutation", bad}}, {type({2, 3, 4})}).empty());
  }
}

TEST_CASE("expand repeats along dimensions of size 1 and new ones") {
  unity::random_engine random{7};
  const auto x = random_tensor({3, 1}, random);
  CHECK(run("expand", {{"dims", {2, 3, 4}}}, {x}) == tabulate({2, 3, 4}, [&](const shape& p) {
          return at(x, {p[1], 0});
        }));
  CHECK(shapes("expand", {{"dims", {4}}}, {type({3, 1})})[0] == shape{3, 4});
  CHECK(refusal_of("expand", {{"dims", {2, 4}}}, {type({3, 1})}) == "dimensions that broadcast");
  CHECK_FALSE(refusal_of("expand", {{"dims", {-1, 4}}}, {type({1, 1})}).empty());
}

TEST_CASE("reshape / squeeze / unsqueeze keep the order of elements") {
  unity::random_engine random{8};
  const auto x = random_tensor({2, 1, 6}, random);
  const auto reshaped = run("reshape", {{"dims", {3, 4}}}, {x});
  CHECK(reshaped.dims == shape{3, 4});
  CHECK(reshaped.data == x.data);
  CHECK(run("squeeze", {{"axes", {1}}}, {x}) == dense<double>{{2, 6}, x.data});
  CHECK(run("unsqueeze", {{"axes", {0, 4}}}, {x}) == dense<double>{{1, 2, 1, 6, 1}, x.data});
}

TEST_CASE("reshape / squeeze / unsqueeze refuse invalid attributes") {
  for (const auto& bad : {shape{5}, shape{-3, -4}, shape{0}, shape{INT64_MAX, 2}}) {
    CHECK(refusal_of("reshape", {{"dims", bad}}, {type({3, 4})}) == "the same number of elements");
  }
  CHECK(refusal_of("squeeze", {{"axes", {0}}}, {type({3, 1})}) == "axes of size 1");
  CHECK(refusal_of("squeeze", {{"axes", {2}}}, {type({3, 1})}) == "ascending axes within the rank");
  CHECK(refusal_of("unsqueeze", {{"axes", {4}}}, {type({3, 1})}) == "ascending axes within the rank");
}

TEST_CASE("transpose and concat accept bool and integer elements of one type") {
  CHECK(refusal_of("transpose", {{"permutation", {1, 0}}}, {type({2, 3}, dtype::boolean)}).empty());
  CHECK(refusal_of("concat", {{"axis", 0}}, {type({2}, dtype::uint8), type({3}, dtype::uint8)}).empty());
  CHECK(refusal_of("concat", {{"axis", 0}}, {type({2}, dtype::uint8), type({3}, dtype::int8)}) ==
        "operands of one element type");
}

}  // namespace tests_of_movement
