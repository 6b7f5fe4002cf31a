#include <unity/tensor/unflatten.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include <catch2/catch.hpp>

#include <unity/graph/concepts.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/equivalence.hpp>

#include "../support/operators.hpp"

namespace tests_of_unflatten {

namespace {

using namespace unity;
using unity::test::training::operators;

constexpr std::int64_t words = 3;
constexpr std::int64_t samples = 4;
constexpr std::int64_t width = 5;
constexpr std::int64_t made = 6;

std::size_t count(const tensor::tensor_graph& g, std::string_view name) {
  std::size_t all = 0;
  for (const auto n : node_ids(g)) {
    all += operators().signature(g.operation(n).kind).name == name ? 1 : 0;
  }
  return all;
}

// back: the shape to which the product is reshaped.
tensor::tensor_graph layer(const char* product, const tensor::shape& back) {
  tensor::builder b{operators()};
  const auto x = b.tanh(b.input("x", {words, samples, width}));
  const auto rows = b.reshape(x, {words * samples, width});
  const auto y = b.apply(product, {rows, b.weight("w", {width, made})})[0];
  return std::move(b).finish({b.relu(b.reshape(y, back))});
}

}  // namespace

TEST_CASE("unflattened removes the reshapes around a product of a flattened operand") {
  for (const auto* product : {"linear", "matmul"}) {
    CAPTURE(product);
    const auto g = layer(product, {words, samples, made});
    const auto found = tensor::unflattened(operators(), g);
    CHECK(count(g, "reshape") == 2);
    CHECK(count(found, "reshape") == 0);
    CHECK(count(found, product) == 1);
    CHECK(found.type(found.outputs()[0]) == g.type(g.outputs()[0]));
    const auto same = tensor::check_equivalence(operators(), g, found);
    CAPTURE(same.problem);
    CHECK(same.passed);
  }
}

TEST_CASE("unflattened keeps a product whose result reshape changes the columns") {
  for (const auto& back : {tensor::shape{words * samples * made}, tensor::shape{words, samples, 2, made / 2}}) {
    const auto g = layer("linear", back);
    CHECK(tensor::unflattened(operators(), g) == g);
  }
}

TEST_CASE("unflattened moves a reshape to the operand if the rows are split differently") {
  const auto g = layer("linear", {samples, 3, 1, made});
  const auto found = tensor::unflattened(operators(), g);
  CHECK(count(found, "reshape") == 1);
  CHECK(count(found, "linear") == 1);
  CHECK(found.node_count() + 1 == g.node_count());
  const auto same = tensor::check_equivalence(operators(), g, found);
  CAPTURE(same.problem);
  CHECK(same.passed);
}

TEST_CASE("unflattened keeps flattened rows that have other readers") {
  tensor::builder b{operators()};
  const auto x = b.input("x", {words, samples, width});
  const auto rows = b.reshape(x, {words * samples, width});
  const auto y = b.apply("linear", {rows, b.weight("w", {width, made}), b.weight("b", {made})})[0];
  const auto g = std::move(b).finish({b.reshape(y, {words, samples, made}), b.relu(rows), b.tanh(y)});
  const auto found = tensor::unflattened(operators(), g);
  CHECK(count(found, "reshape") == 1);
  CHECK(count(found, "linear") == 2);
  CHECK(tensor::check_equivalence(operators(), g, found).passed);
}

}  // namespace tests_of_unflatten
