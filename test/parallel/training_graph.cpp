#include <unity/parallel/training_graph.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <utility>
#include <vector>

#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>

namespace tests_of_training_graph {

using namespace unity;

TEST_CASE("cotangents are computed between weights and outputs, and of nothing else") {
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
  REQUIRE(t.edges().size() == 3);  // early to h, h to dead, h to the product, whose operands are one value
  CHECK(t.edges()[2].operands.size() == 2);
  CHECK(t.edges_of(g.producer(h)).size() == 3);
  REQUIRE(t.weights().size() == 1);
  CHECK(t.weights()[0].is_trained);
  CHECK(t.weights()[0].uses.size() == 1);
  CHECK(t.weights_of(g.producer(h)).size() == 1);
}

TEST_CASE("running statistics are read, and not trained") {
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

}  // namespace tests_of_training_graph
