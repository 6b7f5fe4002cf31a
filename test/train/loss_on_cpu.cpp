// A training step's forward and backward pass on the cpu backend, against the reference backend.
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/backend/cpu.hpp>
#include <unity/backend/executor.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/backend/reference.hpp>
#include <unity/core/id.hpp>
#include <unity/parallel/box.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/loss.hpp>
#include <unity/tensor/zoo/model.hpp>
#include <unity/train/data.hpp>
#include <unity/train/initial_weights.hpp>

#include "../support/operators.hpp"

namespace tests_of_loss_on_cpu {

using namespace unity;
using tensor::dtype;
using tensor::loss;
using unity::test::training::operators;

namespace {

// Embedded words, dropout, batch norm with batch statistics, and a classifier per position.
tensor::tensor_graph training_step(loss what, dtype element) {
  tensor::builder b{operators()};
  const auto ids = b.input("ids", {4, 6}, dtype::int64);
  auto x = b.embedding(b.weight("table", {20, 8}, element), ids);
  x = b.apply("dropout", {x}, {{"rate", 0.25}, {"seed", 3}})[0];
  x = b.matmul(b.reshape(x, {24, 8}), b.weight("w1", {8, 12}, element));
  x = b.reshape(x, {4, 3, 6, 4});
  const auto [mean, variance] = tensor::zoo::channel_statistics(b, x);
  const auto scale = b.weight("scale", {3}, element);
  x = b.relu(b.batch_norm(x, scale, b.weight("shift", {3}, element), mean, variance));
  x = b.matmul(b.reshape(x, {4, 6, 12}), b.weight("w2", {12, 7}, element));
  const auto form = tensor::training_form(operators(), std::move(b).finish({x}));
  const auto g = tensor::with_loss(operators(), form.graph, what);
  return tensor::differentiate(operators(), g, {g.outputs()[0], {}}).graph;
}

// Loss and gradients at step 0.
template <class Backend>
std::vector<tensor::dense<double>> run(Backend& device, const tensor::tensor_graph& g) {
  const train::synthetic_data data{operators(), g, 1};
  const train::initial_weights weights{operators(), g, 1};
  backend::executor_options options;
  options.data = [&](std::string_view name) -> std::optional<tensor::dense<double>> {
    for (const auto n : node_ids(g)) {
      const auto& op = g.operation(n);
      if (operators().definition_of(op.kind).source == tensor::source_kind::none ||
          operators().read(op).word("name") != name) {
        continue;
      }
      const auto& t = g.type(g.results(n)[0]);
      std::vector<std::byte> stored(backend::byte_count(t));
      if (op.kind == operators().kind("weight")) {
        weights.fill(name, t, parallel::whole(t.dims), stored);
      } else {
        data.fill(name, t, parallel::whole(t.dims), 0, stored);
      }
      return backend::decode<double>(stored.data(), t);
    }
    return std::nullopt;
  };
  backend::executor all{device, operators(), g, options};
  all.run();
  std::vector<tensor::dense<double>> outputs;
  for (std::size_t o = 0; o < g.outputs().size(); ++o) {
    const auto found = all.output(o);
    outputs.push_back({found.dims, {found.data.begin(), found.data.end()}});
  }
  return outputs;
}

}  // namespace

TEST_CASE("a training step on the cpu matches the reference backend") {
  const auto what = GENERATE(loss::cross_entropy, loss::mean_square);
  const auto element = GENERATE(dtype::float32, dtype::float64);
  CAPTURE(static_cast<int>(what), tensor::name_of(element));
  const auto g = training_step(what, element);
  backend::reference_backend reference{operators()};
  const auto expected = run(reference, g);
  for (const int threads : {1, 3}) {
    backend::cpu_backend cpu{operators(), {threads}};
    const auto found = run(cpu, g);
    REQUIRE(found.size() == expected.size());
    for (std::size_t o = 0; o < found.size(); ++o) {
      CAPTURE(o);
      CHECK(backend::relative_error(found[o], expected[o]) < 2e-5);
    }
  }
}

}  // namespace tests_of_loss_on_cpu
