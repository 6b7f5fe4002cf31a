#include <unity/parallel/training_graph.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/shape.hpp>

namespace tests_of_training_graph {

using namespace unity;

TEST_CASE("training_graph has backward passes only between weights and outputs") {
  const auto a = tensor::training_algebra();
  tensor::builder b{a};
  const auto x = b.input("x", {4, 8});
  const auto early = b.relu(x);
  const auto w = b.weight("w", {8, 8});
  const auto h = b.matmul(early, w);
  const auto dead = b.relu(h);
  const auto g = std::move(b).finish({b.mul(h, h)});
  const parallel::training_graph t{a, g};
  CHECK_FALSE(t.has_backward(g.producer(early)));
  CHECK_FALSE(t.has_backward(g.producer(dead)));
  CHECK(t.wanted(g.producer(h)) == std::vector<bool>{false, true});
  CHECK(t.wanted(g.producer(g.outputs()[0])) == std::vector<bool>{true, true});
  CHECK(t.has_backward(g.producer(h)));
  CHECK(t.has_backward(g.producer(g.outputs()[0])));
  REQUIRE(t.edges().size() == 3);  // early to h, h to dead, h to the product (whose operands are one value)
  using numbers = std::vector<std::uint32_t>;
  const auto check_edge = [&](std::size_t e, value_id value, node_id to, const numbers& operands) {
    CAPTURE(e);
    CHECK(t.edges()[e].value == value);
    CHECK(t.edges()[e].from == g.producer(value));
    CHECK(t.edges()[e].to == to);
    CHECK(t.edges()[e].operands == operands);
  };
  check_edge(0, early, g.producer(h), {0});
  check_edge(1, h, g.producer(dead), {0});
  check_edge(2, h, g.producer(g.outputs()[0]), {0, 1});
  const auto edges_of = [&](value_id v) {
    const auto all = t.edges_of(g.producer(v));
    return numbers(all.begin(), all.end());
  };
  CHECK(edges_of(early) == numbers{0});
  CHECK(edges_of(h) == numbers{0, 1, 2});
  CHECK(edges_of(dead) == numbers{1});
  CHECK(edges_of(g.outputs()[0]) == numbers{2});
  REQUIRE(t.weights().size() == 1);
  CHECK(t.weights()[0].value == w);
  CHECK(t.weights()[0].is_trained);
  REQUIRE(t.weights()[0].uses.size() == 1);
  CHECK(t.weights()[0].uses[0].node == g.producer(h));
  CHECK(t.weights()[0].uses[0].operand == 1);
  REQUIRE(t.weights_of(g.producer(h)).size() == 1);
  CHECK(t.weights_of(g.producer(h))[0] == 0);
  CHECK(t.weights_of(g.producer(early)).empty());
}

TEST_CASE("batch-norm running statistics are weights that are not trained") {
  const auto a = tensor::training_algebra();
  tensor::builder b{a};
  const auto x = b.input("x", {4, 8, 2, 2});
  const auto scale = b.weight("scale", {8});
  const auto shift = b.weight("shift", {8});
  const auto mean = b.weight("mean", {8});
  const auto variance = b.weight("variance", {8});
  const auto g = std::move(b).finish({b.batch_norm(x, scale, shift, mean, variance, 1e-5)});
  const parallel::training_graph t{a, g};
  CHECK(t.wanted(g.producer(g.outputs()[0])) == std::vector<bool>{false, true, true, false, false});
  REQUIRE(t.weights().size() == 4);
  CHECK(t.weights()[1].is_trained);
  CHECK_FALSE(t.weights()[3].is_trained);
}

TEST_CASE("an operator without derivative is rejected only where a weight gradient passes") {
  const auto a = tensor::training_algebra();
  tensor::builder b{a};
  const auto unknown = [&](value_id v, tensor::dtype element) {
    const auto number = static_cast<std::int64_t>(element);
    return b.apply("opaque", {v},
                   {{"name", "Mystery"}, {"signature", "m"}, {"elements", {number}}, {"dims", {2, 4, 8}}})[0];
  };
  const auto x = b.input("x", {4, 8});
  const auto h = b.mul(x, b.weight("w", {4, 8}));
  const auto of_inputs = unknown(x, tensor::dtype::float32);
  const auto of_integers = unknown(h, tensor::dtype::int64);
  const auto real = b.apply("cast", {of_integers}, {{"element", "float32"}})[0];
  const auto unread = unknown(h, tensor::dtype::float32);
  const auto sum = b.add(b.add(h, of_inputs), real);
  auto g = std::move(b).finish({sum});
  CHECK_NOTHROW(parallel::expect_derivatives(a, g, {a, g}));
  const value_id outputs[] = {sum, unread};
  g.set_outputs(outputs);
  CHECK_THROWS_WITH(parallel::expect_derivatives(a, g, {a, g}),
                    fmt::format("node {} (Mystery): no derivative, and gradients of weights go through it; "
                                "expected an operator with a known meaning",
                                g.producer(unread).index()));
  CHECK_THROWS_WITH(parallel::expect_derivatives(a, g, {a, g}, [](node_id) { return std::string{"the node"}; }),
                    Catch::StartsWith("the node: no derivative"));
}

}  // namespace tests_of_training_graph
