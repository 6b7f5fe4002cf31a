#include <unity/tensor/work.hpp>

#include <cstdint>
#include <limits>
#include <ostream>
#include <string_view>

#include <catch2/catch.hpp>

#include <unity/tensor/algebra.hpp>
#include <unity/tensor/cost.hpp>
#include <unity/tensor/operators/elementwise.hpp>
#include <unity/tensor/operators/movement.hpp>

#include "testing.hpp"

namespace tests_of_work {

using namespace unity::tensor;
using namespace unity::tensor::test;

namespace {

struct numbers {
  std::int64_t flops;
  std::int64_t bytes;
  friend bool operator==(const numbers&, const numbers&) = default;
};

std::ostream& operator<<(std::ostream& out, const numbers& n) {
  return out << n.flops << " operations, " << n.bytes << " bytes";
}

numbers work_of(std::string_view name, attributes a, const types& inputs, layout order = layout::row_major) {
  auto op = standard().make_operation(name, a);
  op.order = order;
  const auto w = standard().work(op, inputs, *standard().infer(op, inputs));
  return {w.operations.count(), w.moved.count()};
}

}  // namespace

TEST_CASE("work of matmul / linear / conv2d is two operations per term") {
  CHECK(work_of("matmul", {}, {type({8, 64, 32}), type({32, 16})}) ==
        numbers{2 * 8 * 64 * 32 * 16, 4 * (8 * 64 * 32 + 32 * 16 + 8 * 64 * 16)});
  CHECK(work_of("linear", {{"activation", "relu"}}, {type({64, 32}), type({32, 16}), type({16})}) ==
        numbers{2 * 64 * 32 * 16 + 2 * 64 * 16, 4 * (64 * 32 + 32 * 16 + 16 + 64 * 16)});
  CHECK(work_of("conv2d", {{"padding", "same"}, {"stride", {2, 2}}}, {type({1, 3, 224, 224}), type({64, 3, 7, 7})})
            .flops == std::int64_t{2} * 64 * 112 * 112 * 3 * 7 * 7);
  CHECK(work_of("conv2d", {{"padding", "same"}, {"groups", 32}}, {type({1, 64, 8, 8}), type({64, 2, 3, 3})}).flops ==
        2 * 64 * 8 * 8 * 2 * 3 * 3);
}

TEST_CASE("work in bytes follows the element size") {
  CHECK(work_of("relu", {}, {type({10, 10})}) == numbers{100, 800});
  CHECK(work_of("relu", {}, {type({10, 10}, dtype::float16)}) == numbers{100, 400});
  CHECK(work_of("cast", {{"element", "float64"}}, {type({10})}) == numbers{0, 120});
}

TEST_CASE("work of softmax is the operations of its body and the bytes of its operand and result") {
  // maximum, subtraction, exponential, sum, division
  CHECK(work_of("softmax", {{"axis", 1}}, {type({6, 7})}) == numbers{5 * 42, 2 * 4 * 42});
}

TEST_CASE("work of a weight and of an identity_matrix is zero") {
  CHECK(work_of("weight", {{"name", "w"}, {"dims", {100}}}, {}) == numbers{0, 0});
  CHECK(work_of("identity_matrix", {{"size", 100}}, {}) == numbers{0, 0});
}

TEST_CASE("work of views is the bytes read and written or zero if memory stays as it is") {
  const auto m = type({4, 6});
  CHECK(work_of("reshape", {{"dims", {24}}}, {m}) == numbers{0, 0});
  CHECK(work_of("squeeze", {{"axes", {0}}}, {type({1, 6})}) == numbers{0, 0});
  CHECK(work_of("transpose", {{"permutation", {1, 0}}}, {m}) == numbers{0, 2 * 96});
  CHECK(work_of("transpose", {{"permutation", {1, 0}}}, {m}, layout::column_major) == numbers{0, 0});
  CHECK(work_of("transpose", {{"permutation", {0, 1}}}, {m}, layout::column_major) == numbers{0, 2 * 96});
  CHECK(work_of("concat", {{"axis", 0}}, {m, m}) == numbers{0, 4 * 96});
  CHECK(work_of("split", {{"axis", 0}, {"sizes", {1, 3}}}, {m}) == numbers{0, 2 * 96});
  CHECK(work_of("slice", {{"axes", {0}}, {"starts", {1}}, {"ends", {2}}, {"steps", {1}}}, {m}) == numbers{0, 2 * 24});
  CHECK(work_of("slice", {{"axes", {0}}, {"starts", {0}}, {"ends", {1}}, {"steps", {1}}}, {m}) == numbers{0, 0});
  CHECK(work_of("expand", {{"dims", {10, 4, 6}}}, {m}) == numbers{0, 11 * 96});
  auto column = m;
  column.order = layout::column_major;
  CHECK(work_of("reshape", {{"dims", {24}}}, {column}) == numbers{0, 2 * 96});
  CHECK(work_of("transpose", {{"permutation", {1, 0}}}, {column}) == numbers{0, 0});
}

TEST_CASE("work of embedding depends on the returned rows rather than the table") {
  CHECK(work_of("embedding", {}, {type({30000, 8}), type({5}, dtype::int64)}) == numbers{0, 4 * 40 + 8 * 5 + 4 * 40});
  CHECK(work_of("embedding", {}, {type({2, 8}), type({5}, dtype::int64)}) == numbers{0, 4 * 16 + 8 * 5 + 4 * 40});
}

TEST_CASE("work of embedding_bag is one addition per row element; a bag of one is an embedding") {
  CHECK(work_of("embedding_bag", {}, {type({30000, 8}), type({5, 6}, dtype::int64)}) ==
        numbers{240, 4 * 240 + 8 * 30 + 4 * 40});
  CHECK(work_of("embedding_bag", {}, {type({2, 8}), type({5, 6}, dtype::int64)}) ==
        numbers{240, 4 * 16 + 8 * 30 + 4 * 40});
  CHECK(work_of("embedding_bag", {}, {type({30000, 8}), type({5, 1}, dtype::int64)}) ==
        numbers{0, 4 * 40 + 8 * 5 + 4 * 40});
}

TEST_CASE("work saturates at the largest int64") {
  const auto big = std::int64_t{1} << 24;
  CHECK(work_of("matmul", {}, {type({big, big}), type({big, big})}).flops == std::numeric_limits<std::int64_t>::max());
  CHECK(saturating_multiply(std::int64_t{1} << 40, std::int64_t{1} << 40) == std::numeric_limits<std::int64_t>::max());
  CHECK(saturating_add(std::numeric_limits<std::int64_t>::max(), 1) == std::numeric_limits<std::int64_t>::max());
}

TEST_CASE("operators that only relabel cost nothing under any name") {
  using namespace unity::tensor;
  algebra a;
  for (auto d : {operators::squeeze(), operators::dropout()}) {
    d.signature.name = d.signature.name == "squeeze" ? "drop_ones" : "thin_out";
    a.add(std::move(d));
  }
  const tensor_type t{dtype::float32, layout::row_major, false, {1, 3}};
  const flop_cost inference{a};
  const memory_cost training{a, mode::training};
  const auto squeezed = a.make_operation("drop_ones", {{"axes", {0}}});
  const auto thinned = a.make_operation("thin_out", {{"rate", 0.5}});
  CHECK(training.node_cost(squeezed, {&t, 1}, a.infer(squeezed, {&t, 1}).value()) == unity::bytes{});
  CHECK(inference.node_cost(thinned, {&t, 1}, {&t, 1}) == unity::flops{});
  CHECK(training.node_cost(thinned, {&t, 1}, {&t, 1}) == unity::bytes{12});
}

}  // namespace tests_of_work
