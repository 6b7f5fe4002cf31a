#include <unity/backend/executor.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/backend/host_values.hpp>
#include <unity/backend/reference.hpp>
#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/zoo.hpp>

#include "../support/message_of.hpp"
#include "../support/operators.hpp"
#include "observed_backend.hpp"

namespace tests_of_executor {

namespace {

using namespace unity::backend;
using unity::bytes;
using unity::random_engine;
using unity::value_id;
using unity::backend::test::observed_backend;
using unity::tensor::builder;
using unity::tensor::dense;
using unity::tensor::dtype;
using unity::tensor::evaluate;
using unity::tensor::shape;
using unity::tensor::tensor_graph;
using unity::test::message_of;
using unity::test::standard::operators;
namespace zoo = unity::tensor::zoo;

// The largest error of an output of a run against the double reference; `seed` determines the sources.
template <class Backend>
double error_of_run(executor<Backend>& e, const tensor_graph& g, std::uint64_t seed) {
  e.run();
  const auto expected = evaluate<double>(operators(), g, seed);
  REQUIRE(e.output_count() == expected.size());
  double error = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    error = std::max(error, relative_error(e.output(i), expected[i]));
  }
  return error;
}

double error_on(const tensor_graph& g, std::uint64_t seed, const executor_options& options = {}) {
  observed_backend b{operators()};
  auto with_seed = options;
  with_seed.seed = seed;
  executor e{b, operators(), g, with_seed};
  return error_of_run(e, g, seed);
}

// A random graph of operators; many move or relabel data, some have constant operands only.
tensor_graph random_graph(random_engine& random) {
  builder b{operators()};
  std::vector<value_id> values{b.input("x", {4, 6}), b.weight("w", {6, 6}), b.input("y", {4, 6}),
                               b.weight("v", {4, 6})};
  const auto apply = [&](std::string_view name, std::initializer_list<value_id> in) { return b.apply(name, in)[0]; };
  for (auto left = random.between(1, 25); left > 0; --left) {
    const auto x = values[random.below(values.size())];
    const auto same = [&] {
      std::vector<value_id> alike;
      std::copy_if(values.begin(), values.end(), std::back_inserter(alike),
                   [&](value_id v) { return b.dims(v) == b.dims(x); });
      return alike[random.below(alike.size())];
    };
    const auto dims = b.dims(x);
    switch (random.below(14)) {
      case 0: values.push_back(b.tanh(x)); break;
      case 1: values.push_back(b.sigmoid(x)); break;
      case 2: values.push_back(b.add(x, same())); break;
      case 3: values.push_back(b.tanh(b.mul(x, same()))); break;
      case 4: values.push_back(apply("identity", {x})); break;
      case 5: values.push_back(b.reshape(x, shape{dims[1], dims[0]})); break;
      case 6: values.push_back(b.transpose(x, {1, 0})); break;
      case 7: values.push_back(b.reshape(b.reshape(x, {dims[0] * dims[1]}), dims)); break;
      case 8: {
        const auto parts = b.split(x, 0, {dims[0] / 2, dims[0] - dims[0] / 2});
        values.push_back(b.concat(0, std::array{parts[1], parts[0]}));
        break;
      }
      case 9: values.push_back(dims[1] == 6 ? b.tanh(b.matmul(x, values[1])) : b.softmax(x, 1)); break;
      case 10: values.push_back(b.apply("dropout", {x}, {{"rate", 0.5}})[0]); break;
      case 11: values.push_back(b.sub(x, b.slice(same(), {0}, {0}, {1}))); break;
      case 12: values.push_back(b.mul(x, b.fill(0.5, dims))); break;
      default: values.push_back(b.relu(x)); break;
    }
  }
  std::vector<value_id> outputs;
  for (auto count = random.between(1, 4); count > 0; --count) {
    outputs.push_back(values[random.below(3) == 0 ? values.size() - 1 : random.below(values.size())]);
  }
  return std::move(b).finish(outputs);
}

// `layers` of x = relu(x w), each with its own weights or all sharing one.
tensor_graph perceptron(int layers, bool one_weight, std::int64_t hidden = 32) {
  builder b{operators()};
  auto x = b.input("x", {8, hidden});
  const auto shared = b.weight("w", {hidden, hidden});
  for (int i = 0; i < layers; ++i) {
    const auto w = one_weight ? shared : b.weight("w" + std::to_string(i), {hidden, hidden});
    x = b.softmax(b.matmul(x, w), 1);
  }
  return std::move(b).finish({x});
}

}  // namespace

TEST_CASE("the executor runs random graphs as the double reference evaluates them", "[executor]") {
  std::size_t aliases = 0;
  std::size_t chains = 0;
  std::size_t precomputed = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    const auto g = random_graph(random);
    observed_backend b{operators()};
    executor e{b, operators(), g, {.seed = seed, .fuse = seed % 2 == 0, .record = seed % 3 == 0}};
    CHECK(error_of_run(e, g, seed) < 1e-5);
    CHECK(error_of_run(e, g, seed) < 1e-5);  // a second run
    CHECK(e.counts().arena <= e.counts().unshared + bytes{64 * static_cast<std::int64_t>(3 * g.value_count() + 1)});
    aliases += e.counts().aliases;
    chains += e.counts().chains;
    precomputed += e.counts().precomputed;
  }
  CHECK(aliases > 100);
  CHECK(chains > 30);
  CHECK(precomputed > 50);
}

TEST_CASE("the executor runs zoo models as the double reference evaluates them", "[executor]") {
  for (const char* text :
       {"zoo:bert?layers=2&hidden=8&heads=2&seq=4&vocab=9", "zoo:bert?form=taso&layers=2&hidden=8&heads=2&seq=4",
        "zoo:nasrnn?hidden=4&seq=3", "zoo:mlp?layers=3&hidden=6&batch=2", "zoo:mlp?form=fig1&hidden=6&batch=2",
        "zoo:squeezenet1_1?image=25"}) {
    CAPTURE(text);
    CHECK(error_on(zoo::build(operators(), text), 1) < 1e-5);
    CHECK(error_on(zoo::build(operators(), text), 2, {.fuse = false, .record = false}) < 1e-5);
  }
}

TEST_CASE("the executor runs a model on a backend without optional capabilities", "[executor]") {
  const auto g = zoo::build(operators(), "zoo:bert?layers=1&hidden=8&heads=2&seq=4&vocab=9");
  reference_backend b{operators()};
  executor e{b, operators(), g, {.seed = 3}};
  CHECK(error_of_run(e, g, 3) < 1e-5);
  CHECK(e.counts().packed == 0);
}

TEST_CASE("executor runs allocate no device memory and prepare no kernels", "[executor]") {
  observed_backend b{operators()};
  executor e{b, operators(), perceptron(6, false)};
  const auto allocations = b.allocations;
  const auto prepared = b.prepared;
  CHECK(allocations > 0);
  for (int i = 0; i < 5; ++i) {
    e.run();
  }
  e.wait();
  CHECK(b.allocations == allocations);
  CHECK(b.prepared == prepared);
  CHECK(b.runs == 6 * 12);  // one run before recording
}

TEST_CASE("the executor's arena reuses memory in deep models", "[executor]") {
  for (const auto& [text, times] :
       {std::pair{"zoo:bert?layers=6&hidden=16&heads=2&seq=8&vocab=9", 6}, std::pair{"zoo:squeezenet1_1?image=49", 3},
        std::pair{"zoo:mlp?layers=12&hidden=64&batch=4", 4}}) {
    CAPTURE(text);
    reference_backend b{operators()};
    const executor e{b, operators(), zoo::build(operators(), text), {.fuse = false}};
    CHECK(e.counts().arena.count() > 0);
    CHECK(times * e.counts().arena.count() < e.counts().unshared.count());
  }
}

TEST_CASE("the executor computes constant subgraphs once and frees their operands", "[executor]") {
  builder b{operators()};
  const auto x = b.input("x", {4, 32, 32});
  auto w = b.weight("w", {1, 32, 32});
  for (int i = 0; i < 5; ++i) {
    w = b.tanh(b.add(w, b.fill(0.125, {1, 32, 32})));
  }
  const auto g = std::move(b).finish({b.mul(x, w)});
  observed_backend device{operators()};
  executor e{device, operators(), g, {.seed = 7, .record = false}};
  CHECK(e.counts().precomputed == 10);
  CHECK(e.counts().launches == 1);
  CHECK(e.counts().constants == bytes{32 * 32 * 4});
  CHECK(device.runs == 10);
  CHECK(error_of_run(e, g, 7) < 1e-5);
  CHECK(device.runs == 11);
}

TEST_CASE("constant graph outputs are loaded without kernel launches", "[executor]") {
  builder b{operators()};
  const auto w = b.weight("w", {3, 2});
  const auto g = std::move(b).finish({w, b.transpose(w, {1, 0}), b.reshape(w, {6}), b.fill(2, {2})});
  observed_backend device{operators()};
  executor e{device, operators(), g, {.seed = 5}};
  CHECK(e.counts().launches == 0);
  CHECK(error_of_run(e, g, 5) < 1e-6);
}

TEST_CASE("the executor aliases relabelled values instead of computing them", "[executor]") {
  builder b{operators()};
  const auto x = b.input("x", {2, 1, 6});
  const auto dropped = b.apply("dropout", {x}, {{"rate", 0.5}})[0];
  const auto flat = b.reshape(b.apply("identity", {dropped})[0], {12});
  const auto squeezed = b.apply("squeeze", {x}, {{"axes", {1}}})[0];
  const auto back = b.apply("unsqueeze", {squeezed}, {{"axes", {0}}})[0];
  const auto moved = b.transpose(x, {1, 0, 2});           // moves only a dimension of size 1
  const auto whole = b.slice(squeezed, {1}, {0}, {6});    // the slice is the whole
  const auto turned = b.transpose(squeezed, {1, 0});      // moves data
  const auto g = std::move(b).finish({flat, back, moved, whole, turned, x});
  reference_backend device{operators()};
  executor e{device, operators(), g, {.seed = 9}};
  CHECK(e.counts().aliases == 7);
  CHECK(e.counts().launches == 1);
  CHECK(error_of_run(e, g, 9) < 1e-6);
}

TEST_CASE("the executor aliases a value of another layout only if no data moves", "[executor]") {
  builder b{operators()};
  const auto x = b.input("x", {4, 6});
  auto product = operators().make_operation("matmul", {});
  product.order = unity::tensor::layout::column_major;
  const auto y = b.apply(product, std::array{x, b.weight("w", {6, 5})})[0];
  const auto plain = b.apply("identity", {y})[0];                    // to row-major: moves data
  const auto flat = b.reshape(y, {20});                              // of column-major: moves data
  auto kept = operators().make_operation("identity", {});
  kept.order = unity::tensor::layout::column_major;
  const auto same = b.apply(kept, std::array{y})[0];                 // no data moves
  const auto turned = b.transpose(y, {1, 0});                        // column-major to row-major: no data moves
  const auto g = std::move(b).finish({y, plain, flat, same, turned});
  observed_backend device{operators()};
  executor e{device, operators(), g, {.seed = 4}};
  CHECK(e.counts().aliases == 2);
  CHECK(e.counts().launches == 3);
  CHECK(error_of_run(e, g, 4) < 1e-6);
}

TEST_CASE("fused chains match single operators with fewer launches", "[executor]") {
  const auto g = zoo::build(operators(), "zoo:nasrnn?hidden=8&seq=3");
  observed_backend b{operators()};
  executor fused{b, operators(), g, {.seed = 2}};
  executor single{b, operators(), g, {.seed = 2, .fuse = false}};
  CHECK(error_of_run(fused, g, 2) < 1e-5);
  CHECK(error_of_run(single, g, 2) < 1e-5);
  CHECK(fused.counts().chains > 0);
  CHECK(single.counts().chains == 0);
  CHECK(fused.counts().launches < single.counts().launches);
  CHECK(fused.counts().unshared < single.counts().unshared);
}

TEST_CASE("the executor packs a constant once for equal nodes and keeps only the packed form", "[executor]") {
  observed_backend b{operators()};
  executor one{b, operators(), perceptron(5, true), {.seed = 1}};
  CHECK(b.packs == 1);
  CHECK(one.counts().packed == 1);
  CHECK(one.counts().kernels == 2);  // matmul and softmax
  CHECK(one.counts().constants.count() < 2 * 32 * 32 * 4);  // only the packed form is kept
  b.packs = 0;
  executor many{b, operators(), perceptron(5, false), {.seed = 1}};
  CHECK(b.packs == 5);
  CHECK(many.counts().kernels == 2);
  CHECK(error_of_run(one, perceptron(5, true), 1) < 1e-5);
  CHECK(error_of_run(many, perceptron(5, false), 1) < 1e-5);
}

TEST_CASE("a constant read both packed and plain is correct in both forms", "[executor]") {
  builder b{operators()};
  const auto x = b.input("x", {6, 6});
  const auto w = b.weight("w", {6, 6});
  const auto g = std::move(b).finish({b.matmul(x, w), w, b.relu(b.reshape(w, {36}))});
  CHECK(error_on(g, 8) < 1e-6);
}

TEST_CASE("the executor replays a recording only if recording is enabled", "[executor]") {
  const auto g = perceptron(3, false);
  observed_backend b{operators()};
  executor recorded{b, operators(), g, {.seed = 6}};
  CHECK(b.runs == 6);  // one run before recording; recording runs nothing
  CHECK(error_of_run(recorded, g, 6) < 1e-5);
  CHECK(b.replays == 1);
  executor plain{b, operators(), g, {.seed = 6, .record = false}};
  CHECK(error_of_run(plain, g, 6) < 1e-5);
  CHECK(b.replays == 1);
  auto moved = std::move(recorded);
  CHECK(error_of_run(moved, g, 6) < 1e-5);
  CHECK(b.replays == 2);
}

TEST_CASE("executor inputs are set by name and keep their values between runs", "[executor]") {
  builder b{operators()};
  const auto x = b.input("x", {2, 2});
  const auto ids = b.input("ids", {3}, dtype::int64);
  const auto unused = b.input("unused", {2});
  static_cast<void>(b.relu(unused));
  const auto g = std::move(b).finish({b.relu(x), b.embedding(x, ids)});
  reference_backend device{operators()};
  executor e{device, operators(), g};
  e.set("x", dense<float>{{2, 2}, {-1, 2, 3, -4}});
  const std::array<std::int64_t, 3> rows{1, 0, 5};
  e.set("ids", std::as_bytes(std::span{rows}));
  e.set("unused", dense<float>{{2}, {1, 2}});
  for (int i = 0; i < 2; ++i) {
    e.run();
    CHECK(e.output(0) == dense<float>{{2, 2}, {0, 2, 3, 0}});
    CHECK(e.output(1) == dense<float>{{3, 2}, {3, -4, -1, 2, 0, 0}});
  }
  e.set("ids", dense<float>{{3}, {0, 0, 1}});
  e.run();
  CHECK(e.output(1) == dense<float>{{3, 2}, {-1, 2, -1, 2, 3, -4}});
  CHECK(e.output_type(1).dims == shape{3, 2});
  CHECK(e.output_bytes(0).size() == 16);
}

TEST_CASE("the executor takes source values by name from given data and checks their size", "[executor]") {
  builder b{operators()};
  const auto x = b.input("x", {2});
  const auto g = std::move(b).finish({b.add(b.add(x, b.weight("w", {2})), b.constant("c", {2}))});
  const auto data = [](std::string_view name) -> std::optional<dense<double>> {
    return name == "w"   ? std::optional{dense<double>{{2}, {10, 20}}}
           : name == "c" ? std::optional{dense<double>{{2}, {100, 200}}}
           : name == "x" ? std::optional{dense<double>{{2}, {1, 2}}}
                         : std::nullopt;
  };
  reference_backend device{operators()};
  executor e{device, operators(), g, {.data = data}};
  e.run();
  CHECK(e.output(0) == dense<float>{{2}, {111, 222}});
  const auto wrong = [](std::string_view name) {
    return name == "w" ? std::optional{dense<double>{{3}}} : std::nullopt;
  };
  CHECK(message_of([&] { executor{device, operators(), g, {.data = wrong}}; }) ==
        "source w: a value of another size; expected float32[2]");
}

TEST_CASE("the executor's outputs are read as double without a rounding to float", "[executor]") {
  builder b{operators()};
  const auto g = std::move(b).finish({b.input("x", {2}, dtype::int64)});
  const dense<double> x{{2}, {16777217, 3}};
  reference_backend device{operators()};
  executor e{device, operators(), g, {.data = [&](std::string_view) { return std::optional{x}; }}};
  e.run();
  CHECK(e.output<double>(0) == x);
}

TEST_CASE("the relative error of two graphs uses equal values for equally named sources", "[executor]") {
  const auto graph = [](bool apart, double factor) {
    builder b{operators()};
    const auto x = b.input("x", {4, 6});
    const auto y = b.input("y", {4, 6});
    const auto w = b.weight("w", {6, 3});
    auto sum = apart ? b.add(b.matmul(x, w), b.matmul(y, w)) : b.matmul(b.add(x, y), w);
    if (factor != 1) {
      sum = b.scalar_multiply(sum, b.fill(factor));
    }
    return std::move(b).finish({sum});
  };
  observed_backend b{operators()};
  CHECK(max_relative_error(b, operators(), graph(false, 1), graph(true, 1)) < 1e-6);
  CHECK(max_relative_error(b, operators(), graph(false, 1), graph(true, 1.25)) == Approx(0.25).epsilon(1e-4));
  CHECK(message_of([&] {
          static_cast<void>(max_relative_error(b, operators(), graph(false, 1), perceptron(1, true)));
        }) == "output 0 of the second graph: float32[8,32]; expected float32[4,3] as in the first");
}

TEST_CASE("executor errors are one line that names the operator or memory or input", "[executor]") {
  observed_backend device{operators()};
  const auto run = [&](const tensor_graph& g) { return message_of([&] { executor{device, operators(), g}; }); };
  {
    builder b{operators()};
    const auto x = b.input("x", {2, 3});
    const auto y = b.apply("opaque", {x}, {{"name", "m"}, {"signature", "s"}, {"elements", {0}}, {"dims", {1, 4}}})[0];
    CHECK(run(std::move(b).finish({y})) ==
          "node 1 (opaque): reference kernel of opaque: operands float32[2,3]; expected an operator with a known "
          "meaning");
  }
  const auto g = perceptron(2, true);
  device.limit = 2000;
  CHECK(run(g) == "memory for constants: 4160 bytes wanted: device: no 4160 bytes; expected at most 2000");
  device.limit = 4200;
  CHECK(run(perceptron(2, true, 31)).empty());
  device.limit = static_cast<std::size_t>(-1);
  executor e{device, operators(), g};
  CHECK(message_of([&] { e.set("z", dense<float>{}); }) == "input z: no such input; expected one of x");
  CHECK(message_of([&] { e.set("x", dense<float>{{8, 31}}); }) ==
        "input x: a value of another size; expected float32[8,32]");
  CHECK(message_of([&] { e.set("x", std::span<const std::byte>{}); }) == "input x: 0 bytes; expected float32[8,32]");
}

}  // namespace tests_of_executor
