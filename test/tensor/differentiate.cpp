#include <unity/tensor/differentiate.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/zoo.hpp>

#include "../support/message_of.hpp"
#include "../support/operators.hpp"

namespace tests_of_differentiate {

using namespace unity::tensor;

namespace {

constexpr auto& training = unity::test::training::operators;

using unity::node_id;
using unity::value_id;

// Uniform in [-1, 1), the same for the same name and seed.
dense<double> field(const std::string& name, const shape& dims, std::uint64_t seed) {
  unity::random_engine random{unity::hash_combine(seed, unity::hash_bytes(name))};
  dense<double> t{dims};
  for (auto& x : t.data) {
    x = 2 * random.unit() - 1;
  }
  return t;
}

constexpr std::uint64_t point_seed = 1;
constexpr std::uint64_t direction_seed = 2;

// Random values for floating-point inputs and weights; trained weights are moved by `step` along a random direction.
auto sources_moved_by(double step) {
  return [step](const operation& op, const tensor_type& type) -> std::optional<dense<double>> {
    const auto& kind = training().signature(op.kind).name;
    if (kind != "weight" && kind != "input") {
      return std::nullopt;
    }
    if (!is_floating(type.element)) {
      return std::nullopt;
    }
    const auto name = training().read(op).word("name");
    auto x = field(name, type.dims, point_seed);
    const auto direction = field(name, type.dims, direction_seed);
    const bool positive = name.find("running_var") != std::string::npos;
    for (std::size_t i = 0; i < x.data.size(); ++i) {
      x.data[i] = 0.6 * (positive ? 1.5 + x.data[i] : x.data[i]);
      x.data[i] += kind == "weight" && !positive && name.find("running_mean") == std::string::npos
                       ? step * direction.data[i]
                       : 0;
    }
    return x;
  };
}

double dot(const dense<double>& a, const dense<double>& b) {
  REQUIRE(a.dims == b.dims);
  double sum = 0;
  for (std::size_t i = 0; i < a.data.size(); ++i) {
    sum += a.data[i] * b.data[i];
  }
  return sum;
}

// The inner product of the outputs and random cotangents, with weights moved by `step`.
double objective(const tensor_graph& g, double step) {
  const auto outputs = evaluate<double>(training(), g, sources_moved_by(step));
  double sum = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    auto cotangent = field("cotangent" + std::to_string(i), outputs[i].dims, point_seed);
    for (auto& x : cotangent.data) {
      x *= 0.6;
    }
    sum += dot(outputs[i], cotangent);
  }
  return sum;
}

void check_gradients(const tensor_graph& g) {
  const auto d = differentiate(training(), g);
  REQUIRE(!d.sources.empty());
  REQUIRE(d.graph.outputs().size() == g.outputs().size() + d.sources.size());
  const auto found = evaluate<double>(training(), d.graph, sources_moved_by(0));
  double derived = 0;
  double scale = 0;
  for (std::size_t i = 0; i < d.sources.size(); ++i) {
    const auto name = training().read(g.operation(g.producer(d.sources[i]))).word("name");
    const auto& gradient = found[g.outputs().size() + i];
    const auto part = dot(gradient, field(name, gradient.dims, direction_seed));
    derived += part;
    scale += std::abs(part);
  }
  constexpr double h = 1e-6;
  const auto expected = (objective(g, h) - objective(g, -h)) / (2 * h);
  CHECK(std::abs(derived) > 0);
  CHECK(derived == Approx(expected).epsilon(1e-5).margin(1e-6 * scale));
}

std::size_t nodes_of_kind(const tensor_graph& g, const std::string& name) {
  std::size_t n = 0;
  for (const auto i : node_ids(g)) {
    n += g.operation(i).kind == training().kind(name) ? 1 : 0;
  }
  return n;
}

std::string message_of(const tensor_graph& g, const differentiation& what) {
  return unity::test::message_of([&] { static_cast<void>(differentiate(training(), g, what)); });
}

}  // namespace

TEST_CASE("gradients of small zoo models agree with central differences", "[differentiate]") {
  for (const char* text :
       {"zoo:mlp?layers=3&hidden=6&batch=2", "zoo:mlp?form=ae&layers=2&hidden=4&batch=2", "zoo:lenet?batch=2",
        "zoo:bert?layers=1&hidden=8&heads=2&seq=4&vocab=9", "zoo:bert?form=taso&layers=2&hidden=8&heads=2&seq=4",
        "zoo:bert?form=ae&layers=1&hidden=8&heads=2&seq=4&batch=2", "zoo:nasrnn?hidden=4&seq=3",
        "zoo:rnntc?layers=2&hidden=3&seq=3&vocab=5&batch=2", "zoo:rnnlm?layers=2&hidden=3&seq=3&vocab=5&batch=2",
        "zoo:nmt?layers=2&hidden=3&seq=3&vocab=5&batch=2", "zoo:candle_uno?hidden=3&batch=2"}) {
    CAPTURE(text);
    check_gradients(zoo::build(training(), text));
  }
}

TEST_CASE("gradients through convolution / norm / pooling / concat agree with central differences", "[differentiate]") {
  builder b{training()};
  const auto x = b.input("x", {2, 4, 9, 8});
  const auto y = zoo::convolution(b, "conv1", x, 6, {3, 3},
                                  {.stride = {2, 1}, .padding = "same", .groups = 2, .activation = "gelu"});
  const auto n = b.relu(zoo::batch_norm(b, "bn", y, 1e-3));
  const auto p = b.max_pool(n, {.kernel = {3, 2}, .stride = {1, 2}, .pads = {1, 0, 1, 0}});
  const auto q = b.average_pool(n, {.kernel = {3, 2}, .stride = {1, 2}, .pads = {1, 0, 1, 0}});
  const auto halves = b.split(b.concat(1, std::vector{p, q}), 1, {5, 7});
  const auto r =
      b.global_average_pool(zoo::convolution_with_bias(b, "conv2", halves[1], 3, {2, 2}, {.dilation = {2, 1}}));
  const auto s = zoo::flatten(b, b.global_max_pool(halves[0]));
  check_gradients(std::move(b).finish({b.softmax(b.concat(1, std::vector{zoo::flatten(b, r), s}), 1)}));
}

TEST_CASE("a weight read by several operators gets one summed gradient", "[differentiate]") {
  builder b{training()};
  const auto x = b.input("x", {2, 3});
  const auto w = b.weight("w", {3, 3});
  auto y = x;
  for (int i = 0; i < 4; ++i) {
    y = b.matmul(y, w);
  }
  const auto g = std::move(b).finish({y});
  check_gradients(g);
  const auto d = differentiate(training(), g);
  CHECK(d.sources == std::vector{w});
  CHECK(d.gradients.size() == 1);
  CHECK(nodes_of_kind(d.graph, "add") == 3);
}

TEST_CASE("differentiate keeps the nodes and the output of the given graph", "[differentiate]") {
  const auto g = zoo::build(training(), "zoo:lenet?batch=1");
  const auto d = differentiate(training(), g);
  CHECK(d.forward_nodes == g.node_count());
  for (const auto n : node_ids(g)) {
    CHECK(d.graph.operation(n) == g.operation(n));
    CHECK(std::vector(d.graph.operands(n).begin(), d.graph.operands(n).end()) ==
          std::vector(g.operands(n).begin(), g.operands(n).end()));
  }
  CHECK(d.graph.outputs()[0] == g.outputs()[0]);
}

TEST_CASE("differentiate names for each later node the node to whose adjoint it belongs", "[differentiate]") {
  builder b{training()};
  const auto x = b.input("x", {2, 3});
  const auto w = b.weight("w", {3, 4});
  const auto v = b.weight("v", {4, 5});
  const auto first = b.matmul(x, w);
  const auto clipped = b.relu(first);
  const auto second = b.matmul(clipped, v);
  const auto g = std::move(b).finish({second});
  const auto d = differentiate(training(), g);
  REQUIRE(d.sources == std::vector{w, v});
  REQUIRE(d.origins.size() == d.graph.node_count() - d.forward_nodes);
  const auto origin_of = [&](value_id of) { return d.origins[d.graph.producer(of).index() - d.forward_nodes]; };
  CHECK(origin_of(d.gradients[0]) == g.producer(first));
  CHECK(origin_of(d.gradients[1]) == g.producer(second));
  std::size_t previous = g.node_count();
  for (std::size_t i = 0; i < d.origins.size(); ++i) {
    CAPTURE(i);
    const auto kind = d.graph.operation(node_id{d.forward_nodes + i}).kind;
    if (kind == training().kind("input")) {  // the cotangent of the output
      CHECK_FALSE(d.origins[i].valid());
      continue;
    }
    REQUIRE(d.origins[i].valid());
    CHECK(d.origins[i].index() <= previous);  // from the last node to the first
    previous = d.origins[i].index();
    CHECK((kind != training().kind("relu_gradient") || d.origins[i] == g.producer(clipped)));
  }
  CHECK(nodes_of_kind(d.graph, "relu_gradient") > 0);
}

TEST_CASE("a sum of cotangents belongs to the adjoint that adds to it", "[differentiate]") {
  builder b{training()};
  const auto w = b.weight("w", {3, 3});
  auto x = b.input("x", {3, 3});
  for (int i = 0; i < 3; ++i) {
    x = b.matmul(x, w);
  }
  const auto g = std::move(b).finish({x});
  const auto d = differentiate(training(), g);
  std::vector<std::size_t> sums;
  for (std::size_t i = 0; i < d.origins.size(); ++i) {
    if (d.graph.operation(node_id{d.forward_nodes + i}).kind == training().kind("add")) {
      REQUIRE(d.origins[i].valid());
      sums.push_back(d.origins[i].index());
    }
  }
  // The last product's cotangent of w is the first; those of the two products before it are added.
  CHECK(sums == std::vector<std::size_t>{g.producer(x).index() - 1, g.producer(x).index() - 2});
}

TEST_CASE("differentiate builds only nodes that a gradient needs", "[differentiate]") {
  const auto g = zoo::build(training(), "zoo:lenet?batch=1");
  const auto all = differentiate(training(), g);
  // The input of the first convolution is data and needs no gradient.
  CHECK(nodes_of_kind(all.graph, "conv2d_input_gradient") == 1);
  CHECK(nodes_of_kind(all.graph, "conv2d_weight_gradient") == 2);
  std::vector<bool> live(all.graph.value_count());
  for (const auto v : all.graph.outputs()) {
    live[v.index()] = true;
  }
  for (auto i = all.graph.node_count(); i-- > 0;) {
    bool used = false;
    for (const auto v : all.graph.results(node_id{i})) {
      used = used || live[v.index()];
    }
    CAPTURE(i, training().signature(all.graph.operation(node_id{i}).kind).name);
    CHECK(used);
    for (const auto v : all.graph.operands(node_id{i})) {
      live[v.index()] = true;
    }
  }
  const auto weights = trained_weights(training(), g);
  const auto last = differentiate(training(), g, {.loss = {}, .sources = {weights.back()}});
  CHECK(last.graph.node_count() - last.forward_nodes == 3);  // cotangent, softmax, sum of the bias
}

TEST_CASE("differentiate takes a scalar of the graph as loss; unused weights get zero gradients", "[differentiate]") {
  builder b{training()};
  const auto x = b.input("x", {4, 3});
  const auto w = b.weight("w", {3, 2});
  const auto unused = b.weight("unused", {5});
  const auto y = b.tanh(b.matmul(x, w));
  const auto loss = b.apply("reduce_mean", {b.mul(y, y)}, {{"axes", {0, 1}}, {"keep_dims", 0}})[0];
  const auto g = std::move(b).finish({loss});
  const auto d = differentiate(training(), g, {.loss = loss, .sources = {w, x, unused}});
  const auto values = evaluate<double>(training(), d.graph, sources_moved_by(0));
  const auto moved = [&](double h) { return evaluate<double>(training(), g, sources_moved_by(h))[0].data[0]; };
  const auto expected = (moved(1e-6) - moved(-1e-6)) / 2e-6;
  CHECK(dot(values[1], field("w", {3, 2}, direction_seed)) == Approx(expected).epsilon(1e-6));
  CHECK(values[2].dims == shape{4, 3});
  CHECK(values[3] == dense<double>{shape{5}});  // nothing depends on it
}

TEST_CASE("trained_weights of resnet50 exclude running statistics", "[differentiate]") {
  const auto g = zoo::build(training(), "zoo:resnet50?batch=1");
  CHECK(trained_weights(training(), g).size() == 53 + 53 * 2 + 2);
}

TEST_CASE("differentiate refuses a graph that already has an input named cotangent0", "[differentiate]") {
  builder b{training()};
  const auto x = b.weight("x", {3});
  const auto once = differentiate(training(), std::move(b).finish({b.mul(x, x)})).graph;
  CHECK_THROWS_WITH(differentiate(training(), once),
                    "gradients of outputs: an input \"cotangent0\" in the graph; expected that name to be free");
}

TEST_CASE("differentiate reports missing adjoints / vector losses / integer sources", "[differentiate]") {
  builder b{training()};
  const auto x = b.input("x", {4});
  const auto w = b.weight("w", {4});
  const auto ids = b.input("ids", {4}, dtype::int64);
  const auto y = b.mul(x, w);
  const auto z = b.apply("opaque", {y}, {{"name", "m"}, {"signature", ""}, {"elements", {0}}, {"dims", {1, 4}}})[0];
  const auto beside =
      b.apply("opaque", {x}, {{"name", "m"}, {"signature", ""}, {"elements", {0}}, {"dims", {1, 4}}})[0];
  const auto sum = b.add(y, beside);
  auto g = std::move(b).finish({z, sum});
  CHECK(message_of(g, {}) ==
        "node 4 (m): no adjoint; expected operators with adjoints between the sources and the loss");
  CHECK(message_of(g, {.loss = y, .sources = {}}) == "node 3 (mul): a loss of float32[4]; expected one number");
  CHECK(message_of(g, {.loss = {}, .sources = {ids}}) ==
        "node 2 (input): a gradient of int64[4]; expected floating-point elements");
  // An operator without an adjoint is allowed where no gradient passes it.
  g.set_outputs(std::vector{sum});
  CHECK(differentiate(training(), g).gradients.size() == 1);
}

}  // namespace tests_of_differentiate
