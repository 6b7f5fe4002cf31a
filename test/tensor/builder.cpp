#include <unity/tensor/builder.hpp>

#include <catch2/catch.hpp>

#include <array>
#include <string>
#include <utility>

#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/tensor/statistics.hpp>

#include "../support/message_of.hpp"
#include "../support/operators.hpp"

namespace tests_of_builder {

namespace {

using unity::node_id;
using unity::tensor::builder;
using unity::tensor::dtype;
using unity::tensor::shape;
using unity::test::message_of;
using unity::test::standard::operators;

}  // namespace

TEST_CASE("builder infers the types of added nodes", "[builder]") {
  builder b{operators()};
  const auto x = b.input("x", {64, 784});
  const auto w = b.weight("w", {784, 512});
  const auto y = b.relu(b.matmul(x, w));

  CHECK(b.dims(y) == shape{64, 512});
  CHECK_FALSE(b.type(y).constant);
  CHECK(b.type(w).constant);

  const auto g = std::move(b).finish({y});
  CHECK(g.node_count() == 4);
  CHECK(g.edge_count() == 3);
  REQUIRE(g.outputs().size() == 1);
  CHECK(g.outputs()[0] == y);
}

TEST_CASE("builder marks values computed from weights alone as constant", "[builder]") {
  builder b{operators()};
  const auto w = b.weight("w", {8, 8});
  const auto sum = b.add(w, b.identity_matrix(8));
  CHECK(b.type(sum).constant);
  CHECK_FALSE(b.type(b.matmul(b.input("x", {2, 8}), sum)).constant);
}

TEST_CASE("builder passes conv2d options to the operator", "[builder]") {
  builder b{operators()};
  const auto x = b.input("x", {2, 8, 15, 15});
  const auto w = b.weight("w", {16, 2, 3, 3});
  CHECK(b.dims(b.conv2d(x, w, {.stride = {2, 2}, .padding = "same", .groups = 4})) == shape{2, 16, 8, 8});
  CHECK(b.dims(b.conv2d(x, w, {.pads = {0, 1, 0, 1}, .dilation = {2, 1}, .groups = 4})) == shape{2, 16, 11, 15});
  CHECK(b.dims(b.conv2d(x, w, b.weight("b", {16}), {.groups = 4, .activation = "relu"})) == shape{2, 16, 13, 13});
}

TEST_CASE("builder returns all results of a split", "[builder]") {
  builder b{operators()};
  const auto parts = b.split(b.input("x", {2, 10}), -1, {3, 7});
  REQUIRE(parts.size() == 2);
  CHECK(b.dims(parts[0]) == shape{2, 3});
  CHECK(b.dims(parts[1]) == shape{2, 7});
  CHECK(b.dims(b.concat(-1, std::array{parts[1], parts[0]})) == shape{2, 10});
}

TEST_CASE("builder counts a negative axis from the last dimension", "[builder]") {
  builder b{operators()};
  const auto x = b.input("x", {2, 3, 4});
  const auto& g = b.graph();
  const auto last = b.softmax(x, -1);
  const auto two = b.softmax(x, 2);
  CHECK(g.operation(g.producer(last)) == g.operation(g.producer(two)));
}

TEST_CASE("builder.apply adds an operator by name", "[builder]") {
  builder b{operators()};
  const auto x = b.input("x", {2, 3});
  const auto y = b.apply("reduce_sum", {x}, {{"axes", {1}}, {"keep_dims", 0}});
  REQUIRE(y.size() == 1);
  CHECK(b.dims(y[0]) == shape{2});
}

TEST_CASE("builder errors give the node with operator and operand types and the reason", "[builder]") {
  builder b{operators()};
  const auto x = b.input("x", {64, 1024});
  const auto w = b.weight("w", {512, 10});
  const auto reason = operators().why_not(operators().make_operation("matmul", {}), std::array{b.type(x), b.type(w)});
  REQUIRE_FALSE(reason.empty());
  CHECK(message_of([&] { b.matmul(x, w); }) ==
        "node 2 (matmul): operands float32[64,1024], float32[512,10]; expected " + reason);

  const auto ids = b.input("ids", {4}, dtype::int64);
  CHECK_THAT(message_of([&] { b.add(x, ids); }),
             Catch::StartsWith("node 3 (add): operands float32[64,1024], int64[4]; "));
}

TEST_CASE("builder is unchanged after a refused node", "[builder]") {
  builder b{operators()};
  const auto x = b.input("x", {2, 3});
  const auto before = b.graph();
  CHECK_THROWS_AS(b.matmul(x, x), unity::error);
  CHECK_THROWS_AS(b.input("x", {1}), unity::error);
  CHECK_THROWS_AS(b.weight("w", {0}), unity::error);
  CHECK(b.graph() == before);
  CHECK_NOTHROW(b.weight("w", {1}));
}

TEST_CASE("builder refuses sources with empty or duplicate names or non-positive sizes", "[builder]") {
  builder b{operators()};
  b.input("x", {2});
  CHECK(message_of([&] { b.weight("x", {2}); }) ==
        "node 1 (weight): name \"x\"; expected a name that no other source has");
  CHECK(message_of([&] { b.weight("", {2}); }) ==
        "node 1 (weight): name \"\"; expected a name that no other source has");
  CHECK(message_of([&] { b.input("y", {2, -3}); }) ==
        "node 1 (input): \"y\" of float32[2,-3]; expected positive sizes and a countable number of elements");
}

TEST_CASE("builder adds a new node for each repeated call", "[builder]") {
  builder b{operators()};
  const auto x = b.input("x", {2, 3});
  CHECK(b.relu(x) != b.relu(x));
  CHECK(b.graph().node_count() == 3);
}

TEST_CASE("count separates sources from operators and batch-norm statistics from parameters", "[builder]") {
  builder b{operators()};
  const auto x = b.input("x", {1, 4, 2, 2});
  const std::array p{b.weight("scale", {4}), b.weight("bias", {4}), b.weight("mean", {4}), b.weight("variance", {4})};
  const auto y = b.batch_norm(x, p[0], p[1], p[2], p[3]);
  const auto g = std::move(b).finish({b.scalar_multiply(y, b.fill(2.0))});

  const auto c = unity::tensor::count(operators(), g);
  CHECK(c.operators == 2);
  CHECK(c.sources == 6);
  CHECK(c.edges == 7);
  CHECK(c.parameters == 8);
  CHECK(c.statistics == 8);
  CHECK(unity::tensor::parameter_count(operators(), g) == 8);
}

TEST_CASE("count takes a mean that another operator reads and a weight that nothing reads as parameters", "[builder]") {
  builder b{operators()};
  const auto x = b.input("x", {1, 4, 2, 2});
  const std::array p{b.weight("scale", {4}), b.weight("bias", {4}), b.weight("mean", {4}), b.weight("variance", {4})};
  b.weight("unread", {5});
  const auto y = b.batch_norm(x, p[0], p[1], p[2], p[3]);
  const auto g = std::move(b).finish({y, b.relu(p[2])});
  const auto c = unity::tensor::count(operators(), g);
  CHECK(c.parameters == 4 + 4 + 4 + 5);
  CHECK(c.statistics == 4);
  CHECK(c.sources == 6);
}

}  // namespace tests_of_builder
