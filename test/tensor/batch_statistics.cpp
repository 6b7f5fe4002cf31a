// Batch normalization with the mean and variance of the current batch.
#include <unity/tensor/statistics.hpp>
#include <unity/tensor/zoo/model.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/loss.hpp>
#include <unity/tensor/zoo.hpp>

#include "../support/operators.hpp"
#include "testing.hpp"

namespace tests_of_batch_statistics {

using namespace unity::tensor;
using namespace unity::tensor::test;

namespace {

constexpr auto& training = unity::test::training::operators;

constexpr double epsilon = 1e-3;

// A batch normalization of a product with a weight, so that gradients pass through the statistics.
tensor_graph normalized(const shape& dims) {
  builder b{training()};
  const auto x = b.input("x", dims);
  const auto scaled = b.mul(x, b.weight("w", {dims[1], 1, 1}));
  return std::move(b).finish({zoo::batch_norm(b, "bn", scaled, epsilon, zoo::statistics_of_batch)});
}

// A reference implementation: channel by channel, in two passes.
dense<double> expected_values(const named_values& v, const shape& dims) {
  const auto& x = v.at("x");
  const auto count = static_cast<double>(dims[0] * dims[2] * dims[3]);
  const auto each = [&](std::int64_t c, auto f) {
    for (std::int64_t n = 0; n < dims[0]; ++n) {
      for (std::int64_t i = 0; i < dims[2] * dims[3]; ++i) {
        f(static_cast<std::size_t>((n * dims[1] + c) * dims[2] * dims[3] + i));
      }
    }
  };
  dense<double> out{dims};
  for (std::int64_t c = 0; c < dims[1]; ++c) {
    const auto k = static_cast<std::size_t>(c);
    const auto w = v.at("w").data[k];
    double mean = 0;
    double variance = 0;
    each(c, [&](std::size_t i) { mean += w * x.data[i] / count; });
    each(c, [&](std::size_t i) { variance += std::pow(w * x.data[i] - mean, 2) / count; });
    each(c, [&](std::size_t i) {
      const auto unit = (w * x.data[i] - mean) / std::sqrt(variance + epsilon);
      out.data[i] = unit * v.at("bn.weight").data[k] + v.at("bn.bias").data[k];
    });
  }
  return out;
}

}  // namespace

TEST_CASE("batch norm with statistics of the batch normalizes each channel over samples and pixels") {
  unity::random_engine random{1};
  const shape dims{3, 2, 4, 5};
  named_values v{{"x", random_tensor(dims, random)}, {"w", random_tensor({2, 1, 1}, random)}};
  v["bn.weight"] = random_tensor({2}, random);
  v["bn.bias"] = random_tensor({2}, random);
  CHECK(distance(run_on(training(), normalized(dims), v)[0], expected_values(v, dims)) < 1e-13);
}

TEST_CASE("gradients through batch statistics agree with central differences") {
  unity::random_engine random{2};
  const shape dims{2, 2, 3, 2};
  named_values v{{"x", random_tensor(dims, random)}, {"w", random_tensor({2, 1, 1}, random)}};
  v["bn.weight"] = random_tensor({2}, random);
  v["bn.bias"] = random_tensor({2}, random);
  v["target of 0"] = random_tensor(dims, random);
  const auto g = with_loss(training(), normalized(dims), loss::mean_square);
  const auto d = differentiate(training(), g, {g.outputs()[0], {}});
  REQUIRE(d.sources.size() == 3);  // no running statistics
  const auto found = run_on(training(), d.graph, v);
  const std::vector<std::string> names{"w", "bn.weight", "bn.bias"};
  constexpr double h = 1e-6;
  for (std::size_t k = 0; k < names.size(); ++k) {
    CAPTURE(names[k]);
    for (std::size_t i = 0; i < 2; ++i) {
      auto above = v;
      auto below = v;
      above[names[k]].data[i] += h;
      below[names[k]].data[i] -= h;
      const auto slope = (run_on(training(), g, above)[0].data[0] - run_on(training(), g, below)[0].data[0]) / (2 * h);
      CHECK(found[1 + k].data[i] == Approx(slope).margin(1e-8));
    }
  }
}

TEST_CASE("batch statistics add seven operators per batch norm and keep the weights of densenet121") {
  const auto given = zoo::build(training(), "zoo:densenet121?image=32&batch=2");
  const auto batch = zoo::build(training(), "zoo:densenet121?image=32&batch=2&statistics=batch");
  CHECK(trained_weights(training(), given).size() == trained_weights(training(), batch).size());
  CHECK(given.type(given.outputs()[0]) == batch.type(batch.outputs()[0]));
  CHECK(count(training(), batch).operators == count(training(), given).operators + 7 * 121);
}

}  // namespace tests_of_batch_statistics
