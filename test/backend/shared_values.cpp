// Values that share memory with others: slices and splits that the executor does not run.
#include <catch2/catch.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <unity/backend/executor.hpp>
#include <unity/backend/reference.hpp>
#include <unity/core/random.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/evaluate.hpp>

#include "../support/operators.hpp"

namespace tests_of_shared_values {

namespace {

using namespace unity;
using namespace unity::backend;
using tensor::builder;
using unity::test::standard::operators;

double error_of(const tensor::tensor_graph& g, std::uint64_t seed) {
  reference_backend b{operators()};
  executor e{b, operators(), g, {.seed = seed}};
  e.run();
  e.wait();
  const auto expected = tensor::evaluate<double>(operators(), g, seed);
  double error = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    error = std::max(error, relative_error(e.output(i), expected[i]));
  }
  return error;
}

// Views of views that are read by kernels, by chains, and as outputs.
tensor::tensor_graph random_graph(random_engine& random) {
  builder b{operators()};
  std::vector<value_id> values{b.input("x", {4, 32}), b.weight("w", {4, 32}), b.relu(b.input("y", {4, 32}))};
  for (auto left = random.between(3, 20); left > 0; --left) {
    const auto x = values[random.below(values.size())];
    const auto rows = b.dims(x)[0];
    switch (random.below(6)) {
      case 0:
        if (rows > 1) {
          const auto parts = b.split(x, 0, {rows / 2, rows - rows / 2});
          values.insert(values.end(), parts.begin(), parts.end());
        }
        break;
      case 1: values.push_back(b.slice(x, {0}, {rows - 1}, {rows})); break;
      case 2: values.push_back(b.reshape(b.reshape(x, {32, rows}), {rows, 32})); break;
      case 3: values.push_back(b.tanh(x)); break;
      case 4: values.push_back(b.softmax(x, 1)); break;
      default: values.push_back(b.concat(0, std::array{x, values[random.below(values.size())]})); break;
    }
  }
  std::vector<value_id> outputs;
  for (int i = 0; i < 3; ++i) {
    outputs.push_back(values[values.size() - 1 - random.below(3)]);
  }
  return std::move(b).finish(outputs);
}

}  // namespace

TEST_CASE("graphs with views of views match the double reference", "[executor]") {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    CHECK(error_of(random_graph(random), seed) < 1e-6);
  }
}

TEST_CASE("aligned split results share the memory of their operand", "[executor]") {
  builder b{operators()};
  const auto y = b.matmul(b.input("x", {1, 64}), b.weight("w", {64, 128}));
  const auto parts = b.split(y, 1, {32, 32, 64});
  const auto long_lived = parts[1];
  const auto z = b.softmax(b.softmax(b.softmax(parts[0], 1), 1), 1);
  const auto g = std::move(b).finish({z, b.softmax(long_lived, 1), parts[2]});
  reference_backend backend{operators()};
  const executor e{backend, operators(), g};
  CHECK(e.counts().launches == 5);
  CHECK(e.counts().aliases == 1);
  CHECK(error_of(g, 7) < 1e-6);
}

TEST_CASE("split results that start inside a cache line are copied", "[executor]") {
  builder b{operators()};
  const auto parts = b.split(b.relu(b.input("x", {1, 10})), 1, {5, 5});
  const auto g = std::move(b).finish({b.softmax(parts[0], 1), b.softmax(parts[1], 1)});
  reference_backend backend{operators()};
  CHECK(executor{backend, operators(), g}.counts().launches == 4);
  CHECK(error_of(g, 7) < 1e-6);
}

}  // namespace tests_of_shared_values
