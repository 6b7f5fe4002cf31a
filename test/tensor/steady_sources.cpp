#include <unity/tensor/steady_sources.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <string>

#include <unity/tensor/builder.hpp>
#include <unity/tensor/evaluate.hpp>

#include "testing.hpp"

namespace unity::tensor {
namespace {

using test::standard;

double size_of_signal(const dense<double>& t) {
  double squares = 0;
  for (const auto x : t.data) {
    squares += x * x;
  }
  return std::sqrt(squares / static_cast<double>(t.data.size()));
}
dense<double> evaluate_steadily(const tensor_graph& g, std::uint64_t seed) {
  const steady_sources sources{standard(), g, seed};
  return evaluate<double>(standard(), g, [&](const operation& op, const tensor_type&) {
    return op.attributes.empty() ? std::nullopt : sources(standard().read(op).word("name"));
  })[0];
}
bool within(const dense<double>& t, double low, double high) {
  return std::all_of(t.data.begin(), t.data.end(), [&](double x) { return x >= low && x < high; });
}

TEST_CASE("signals of deep networks keep their size, where arbitrary values make them grow without end") {
  const auto seed = GENERATE(1U, 2U, 3U);
  CAPTURE(seed);
  const bool image = GENERATE(false, true);
  builder b{standard()};
  auto x = image ? b.input("x", {1, 16, 6, 6}) : b.input("x", {8, 64});
  for (int layer = 0; layer < 25; ++layer) {
    const auto name = "w" + std::to_string(layer);
    x = image ? b.conv2d(x, b.weight(name, {16, 16, 3, 3}), {.pads = {1, 1, 1, 1}}) : b.matmul(x, b.weight(name, {64, 64}));
    x = b.relu(x);
  }
  const auto g = std::move(b).finish({x});
  const auto steady = size_of_signal(evaluate_steadily(g, seed));
  CHECK(steady > 1e-3);
  CHECK(steady < 1e3);
  CHECK(size_of_signal(evaluate<double>(standard(), g, std::uint64_t{seed})[0]) > 1e20);
}

TEST_CASE("values fit what reads them") {
  builder b{standard()};
  const auto x = b.input("x", {2, 3, 4, 4});
  const auto normal = b.batch_norm(x, b.weight("gain", {3}), b.weight("offset", {3}), b.weight("mean", {3}), b.weight("variance", {3}));
  const auto rows = b.embedding(b.weight("table", {20, 8}), b.input("rows", {50}, dtype::int64));
  const auto g = std::move(b).finish({normal, rows});
  const steady_sources sources{standard(), g};
  CHECK(within(*sources("x"), -1, 1));
  CHECK(within(*sources("gain"), 0.5, 1.5));
  CHECK(within(*sources("offset"), -0.25, 0.25));
  CHECK(within(*sources("variance"), 0.125, 1.125));
  CHECK(within(*sources("rows"), 0, 20));
  const auto numbers = sources("rows")->data;
  CHECK(*std::max_element(numbers.begin(), numbers.end()) > 3);
  CHECK(std::all_of(numbers.begin(), numbers.end(), [](double v) { return v == std::floor(v); }));
  CHECK(sources("rows")->dims == shape{50});
  CHECK_FALSE(sources("nobody"));
}

TEST_CASE("values are the same for the same name and seed, and others else") {
  builder b{standard()};
  const auto g = std::move(b).finish({b.matmul(b.input("x", {4, 4}), b.weight("w", {4, 4}))});
  CHECK(steady_sources{standard(), g, 1}("w") == steady_sources{standard(), g, 1}("w"));
  CHECK(steady_sources{standard(), g, 1}("w") != steady_sources{standard(), g, 2}("w"));
}

}  // namespace
}  // namespace unity::tensor
