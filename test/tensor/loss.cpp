#include <unity/tensor/loss.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/evaluate.hpp>

#include "../support/message_of.hpp"
#include "../support/operators.hpp"
#include "testing.hpp"

namespace tests_of_loss {

using namespace unity::tensor;
using namespace unity::tensor::test;

namespace {

constexpr auto& training = unity::test::training::operators;

using unity::node_id;

// x w, of `rows` samples.
tensor_graph linear_model(std::int64_t rows) {
  builder b{training()};
  const auto x = b.input("x", {rows, 5});
  return std::move(b).finish({b.matmul(x, b.weight("w", {5, 3}))});
}

std::map<std::string, tensor_type> inputs_of(const tensor_graph& g) {
  std::map<std::string, tensor_type> all;
  for (const auto n : node_ids(g)) {
    const auto& op = g.operation(n);
    if (op.kind == training().kind("input")) {
      all[training().read(op).word("name")] = g.type(g.results(n)[0]);
    }
  }
  return all;
}

double cross_entropy_of(const double* logits, std::size_t classes, std::size_t label) {
  double sum = 0;
  for (std::size_t c = 0; c < classes; ++c) {
    sum += std::exp(logits[c]);
  }
  return std::log(sum) - logits[label];
}

std::string message_of(const tensor_graph& g, loss what) {
  return unity::test::message_of([&] { static_cast<void>(with_loss(training(), g, what)); });
}

// Rows [begin, end) of dimension 0.
dense<double> rows_of(const dense<double>& t, std::int64_t begin, std::int64_t end) {
  auto dims = t.dims;
  const auto row = static_cast<std::ptrdiff_t>(element_count(dims) / dims[0]);
  dims[0] = end - begin;
  return {dims, {t.data.begin() + begin * row, t.data.begin() + end * row}};
}

}  // namespace

TEST_CASE("with_loss gives the scalar mean over rows or elements and typed target inputs") {
  unity::random_engine random{1};
  const auto g = linear_model(4);
  named_values values{{"x", random_tensor({4, 5}, random)}, {"w", random_tensor({5, 3}, random)}};
  const auto y = run_on(training(), g, values)[0];

  const auto entropy = with_loss(training(), g, loss::cross_entropy);
  CHECK(inputs_of(entropy).at("labels of 0") == type({4}, dtype::int32));
  values["labels of 0"] = {{4}, {2, 0, 1, 1}};
  double sum = 0;
  for (std::size_t row = 0; row < 4; ++row) {
    sum += cross_entropy_of(y.data.data() + row * 3, 3, static_cast<std::size_t>(values["labels of 0"].data[row]));
  }
  const auto found = run_on(training(), entropy, values);
  REQUIRE(found.size() == 1);
  CHECK(found[0].dims.empty());
  CHECK(found[0].data[0] == Approx(sum / 4).epsilon(1e-14));

  const auto squares = with_loss(training(), g, loss::mean_square);
  CHECK(inputs_of(squares).at("target of 0") == type({4, 3}));
  values["target of 0"] = random_tensor({4, 3}, random);
  sum = 0;
  for (std::size_t i = 0; i < 12; ++i) {
    sum += std::pow(y.data[i] - values["target of 0"].data[i], 2);
  }
  CHECK(run_on(training(), squares, values)[0].data[0] == Approx(sum / 12).epsilon(1e-14));
}

TEST_CASE("with_loss adds up the losses of several outputs and skips integer outputs") {
  builder b{training()};
  const auto x = b.input("x", {2, 3});
  const auto ids = b.input("ids", {2}, dtype::int64);
  const auto s = b.apply("reduce_sum", {x}, {{"axes", {0, 1}}, {"keep_dims", 0}})[0];
  const auto g = std::move(b).finish({x, ids, s});
  const auto with = with_loss(training(), g, loss::mean_square);
  CHECK(inputs_of(with).contains("target of 0"));
  CHECK_FALSE(inputs_of(with).contains("target of 1"));
  const named_values values{
      {"x", {{2, 3}, {1, 2, 3, 4, 5, 6}}}, {"target of 0", {{2, 3}, {0, 2, 3, 4, 5, 4}}}, {"target of 2", {{}, {20}}}};
  CHECK(run_on(training(), with, values)[0].data[0] == Approx(5.0 / 6 + 1));
  for (const auto n : node_ids(g)) {
    CHECK(with.operation(n) == g.operation(n));
  }
}

TEST_CASE("cross entropy of a softmax over classes is taken on its logits") {
  unity::random_engine random{2};
  const auto build = [](bool softmax, std::int64_t axis) {
    builder b{training()};
    const auto x = b.input("x", {4, 3});
    return std::move(b).finish({softmax ? b.softmax(x, axis) : x});
  };
  const named_values values{{"x", random_tensor({4, 3}, random)}, {"labels of 0", {{4}, {2, 0, 1, 1}}}};
  const auto loss_of = [&](const tensor_graph& g) {
    return run_on(training(), with_loss(training(), g, loss::cross_entropy), values)[0].data[0];
  };
  CHECK(loss_of(build(true, 1)) == loss_of(build(false, 0)));
  CHECK(loss_of(build(true, 0)) != loss_of(build(false, 0)));  // a softmax over samples is not one over classes
}

TEST_CASE("losses of an output of three dimensions are means over all rows and all elements") {
  unity::random_engine random{6};
  const auto build = [](std::int64_t axis) {
    builder b{training()};
    const auto x = b.input("x", {2, 3, 4});
    return std::move(b).finish({axis < 0 ? x : b.softmax(x, axis)});
  };
  named_values values{{"x", random_tensor({2, 3, 4}, random)}, {"labels of 0", {{2, 3}, {3, 0, 1, 2, 2, 0}}}};
  values["target of 0"] = random_tensor({2, 3, 4}, random);
  const auto loss_of = [&](std::int64_t axis, loss what, std::int64_t parts) {
    const auto with = with_loss(training(), build(axis), what, parts);
    if (what == loss::cross_entropy) {
      CHECK(inputs_of(with).at("labels of 0") == type({2, 3}, dtype::int32));
    }
    return run_on(training(), with, values)[0].data[0];
  };
  double entropy = 0;
  double squares = 0;
  for (std::size_t row = 0; row < 6; ++row) {
    const auto label = static_cast<std::size_t>(values["labels of 0"].data[row]);
    entropy += cross_entropy_of(values["x"].data.data() + row * 4, 4, label) / 6;
  }
  for (std::size_t i = 0; i < 24; ++i) {
    squares += std::pow(values["x"].data[i] - values["target of 0"].data[i], 2) / 24;
  }
  CHECK(loss_of(-1, loss::cross_entropy, 1) == Approx(entropy).epsilon(1e-14));
  CHECK(loss_of(-1, loss::cross_entropy, 5) == Approx(entropy / 5).epsilon(1e-14));
  CHECK(loss_of(2, loss::cross_entropy, 1) == Approx(entropy).epsilon(1e-14));
  CHECK(loss_of(1, loss::cross_entropy, 1) != Approx(entropy).epsilon(1e-9));
  CHECK(loss_of(-1, loss::mean_square, 1) == Approx(squares).epsilon(1e-14));
  CHECK(loss_of(-1, loss::mean_square, 5) == Approx(squares / 5).epsilon(1e-14));
}

TEST_CASE("losses and gradients of the parts of a batch add up to those of the batch") {
  unity::random_engine random{3};
  const auto what = GENERATE(loss::cross_entropy, loss::mean_square);
  named_values values{{"x", random_tensor({6, 5}, random)}, {"w", random_tensor({5, 3}, random)}};
  values["labels of 0"] = {{6}, {2, 0, 1, 1, 2, 0}};
  values["target of 0"] = random_tensor({6, 3}, random);
  const auto train = [](std::int64_t rows, loss which, std::int64_t parts) {
    const auto g = with_loss(training(), linear_model(rows), which, parts);
    return differentiate(training(), g, {g.outputs()[0], {}}).graph;
  };
  const auto whole = run_on(training(), train(6, what, 1), values);
  REQUIRE(whole.size() == 2);
  auto sum = whole;
  for (auto& t : sum) {
    t.data.assign(t.data.size(), 0);
  }
  for (std::int64_t part = 0; part < 3; ++part) {
    named_values own;
    for (const auto& [name, value] : values) {
      own[name] = name == "w" ? value : rows_of(value, 2 * part, 2 * part + 2);
    }
    const auto found = run_on(training(), train(2, what, 3), own);
    for (std::size_t o = 0; o < 2; ++o) {
      for (std::size_t i = 0; i < sum[o].data.size(); ++i) {
        sum[o].data[i] += found[o].data[i];
      }
    }
  }
  CHECK(distance(sum[0], whole[0]) < 1e-14);
  CHECK(distance(sum[1], whole[1]) < 1e-14);
}

TEST_CASE("gradients of cross entropy and mean square agree with central differences") {
  unity::random_engine random{4};
  const auto what = GENERATE(loss::cross_entropy, loss::mean_square);
  named_values values{{"x", random_tensor({4, 5}, random)}, {"w", random_tensor({5, 3}, random)}};
  values["labels of 0"] = {{4}, {2, 0, 1, 1}};
  values["target of 0"] = random_tensor({4, 3}, random);
  const auto g = with_loss(training(), linear_model(4), what);
  const auto gradient = run_on(training(), differentiate(training(), g, {g.outputs()[0], {}}).graph, values)[1];
  constexpr double h = 1e-6;
  for (std::size_t i = 0; i < gradient.data.size(); ++i) {
    auto above = values;
    auto below = values;
    above["w"].data[i] += h;
    below["w"].data[i] -= h;
    const auto slope = (run_on(training(), g, above)[0].data[0] - run_on(training(), g, below)[0].data[0]) / (2 * h);
    CHECK(gradient.data[i] == Approx(slope).margin(1e-9));
  }
}

TEST_CASE("with_loss reports unusable outputs and taken input names in one line") {
  builder b{training()};
  const auto ids = b.input("ids", {2}, dtype::int64);
  CHECK(message_of(std::move(b).finish({ids}), loss::mean_square) ==
        "loss: no output of real numbers; expected a graph that computes some");
  builder c{training()};
  const auto one = c.input("x", {});
  CHECK(message_of(std::move(c).finish({one}), loss::cross_entropy) ==
        "output 0: cross entropy of float32[]; expected a dimension of classes");
  builder d{training()};
  const auto y = d.input("labels of 0", {2, 3});
  CHECK(message_of(std::move(d).finish({y}), loss::cross_entropy) ==
        "loss: an input \"labels of 0\" in the graph; expected that name to be free");
  CHECK(find_loss("mean_square") == loss::mean_square);
  CHECK_FALSE(find_loss("hinge").has_value());
}

}  // namespace tests_of_loss
