// The counts of models that docs/models.md derives.
#include <unity/tensor/algebra_inference.hpp>
#include <unity/tensor/zoo.hpp>

#include <catch2/catch.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/statistics.hpp>

#include "../support/operators.hpp"

namespace tests_of_zoo_counts {

namespace {

using unity::node_id;
using unity::tensor::count;
using unity::tensor::element_count;
using unity::tensor::tensor_graph;
using unity::tensor::tensor_type;
using unity::test::standard::operators;
namespace zoo = unity::tensor::zoo;

tensor_graph build(const std::string& text) { return zoo::build(operators(), text); }

// Of convolutions and linear layers: half of their operations, not counting additions of biases.
std::int64_t multiply_accumulates(const tensor_graph& g) {
  std::int64_t n = 0;
  for (const auto i : node_ids(g)) {
    const auto& op = g.operation(i);
    if (op.kind != operators().kind("conv2d") && op.kind != operators().kind("linear")) {
      continue;
    }
    std::vector<tensor_type> inputs;
    for (const auto v : g.operands(i)) {
      inputs.push_back(g.type(v));
    }
    const std::array results{g.type(g.results(i)[0])};
    const auto added = inputs.size() == 3 ? element_count(results[0].dims) : 0;
    n += (operators().work(op, inputs, results).operations.count() - added) / 2;
  }
  return n;
}

}  // namespace

TEST_CASE("zoo models have the documented numbers of operators / edges / parameters", "[zoo]") {
  struct row {
    const char* text;
    std::size_t operators;
    std::size_t edges;
    std::int64_t parameters;
    std::int64_t statistics;
  };
  const auto r = GENERATE(values<row>({
      {"zoo:resnet50", 175, 458, 25'557'032, 53'120},
      {"zoo:resnet50?hidden=16", 175, 458, 23'445'504 / 16 + (9'408 + 53'120) / 4 + 513'000, 53'120 / 4},
      {"zoo:resnet50?form=taso", 84, 152, 23'445'504, 0},
      {"zoo:resnext50", 175, 458, 25'028'904, 68'224},
      {"zoo:resnext50?branches=1", 703, 1978, 25'028'904, 68'224},
      {"zoo:resnet50?statistics=batch", 175 + 7 * 53, 458 + 11 * 53, 25'557'032, 0},
      {"zoo:resnext50?form=ae", 55, 155, 22'222'056, 0},
      {"zoo:resnext50?form=ae&branches=1", 583, 2171, 22'222'056, 0},
      {"zoo:resnext50?form=taso", 86, 155, 22'911'680, 0},
      {"zoo:resnext50?form=taso&branches=1", 614, 1675, 22'911'680, 0},
      {"zoo:nasnet_a", 911, 2193, 5'289'978, 36'738},
      {"zoo:nasnet_a?statistics=batch", 911 + 7 * 192, 2193 + 11 * 192, 5'289'978, 0},
      {"zoo:nasnet_a?form=taso", 383, 762, 39'838'528, 0},
      {"zoo:nasrnn", 230, 385, 20'972'032, 0},
      {"zoo:bert", 358, 618, 109'482'240, 0},
      {"zoo:bert?form=taso", 113, 161, 33'554'432, 0},
      {"zoo:bert?form=ae", 37, 134, 75'498'496, 0},
      {"zoo:bert_large", 706, 1218, 335'141'888, 0},
      {"zoo:bert_large?form=ae", 37, 134, 75'498'496, 0},
      {"zoo:gpt", 5 + 30 * 12, 10 + 52 * 12, 124'439'808, 0},
      {"zoo:gpt?form=training", 6 + 33 * 12, 11 + 55 * 12, 124'439'808, 0},
      {"zoo:gpt?attention=flash", 5 + 26 * 12, 10 + 46 * 12, 124'439'808, 0},
      {"zoo:gpt?form=training&attention=flash", 6 + 28 * 12, 11 + 48 * 12, 124'439'808, 0},
      {"zoo:transformer", 6 + 81 * 6, 11 + 138 * 6, 37'064 * 512 + 6 * (28 * 512 * 512 + 32 * 512), 0},
      {"zoo:reformer", 6 + 38 * 6, 12 + 62 * 6, 33'024 * 512 + 6 * (11 * 512 * 512 + 12 * 512) + 1024, 0},
      {"zoo:densenet121", 427, 1568, 7'978'856, 83'648},
      {"zoo:densenet121?statistics=batch", 427 + 7 * 121, 1568 + 11 * 121, 7'978'856, 0},
      {"zoo:inception_v3?statistics=batch", 309 + 7 * 94, 816 + 11 * 94, 23'834'568, 0},
      {"zoo:inception_v3", 309, 816, 23'834'568, 34'432},
      {"zoo:inception_v3?form=ae", 122, 347, 21'788'842, 0},
      {"zoo:squeezenet1_1", 65, 125, 1'235'496, 0},
      {"zoo:vgg16", 37, 69, 138'357'544, 0},
      {"zoo:vgg19", 43, 81, 143'667'240, 0},
      {"zoo:mlp", 31, 63, 1'073'872'896, 0},
      {"zoo:mlp?form=ae", 18, 35, 956'301'312, 0},
      {"zoo:mlp?form=fig1", 3, 5, 406'528, 0},
      {"zoo:alexnet", 20, 36, 61'100'840, 0},
      {"zoo:lenet", 13, 23, 61'706, 0},
      {"zoo:resnet101", 345, 900, 44'549'160, 105'344},
      {"zoo:rnntc", 202, 1044, 54'052'866, 0},
      {"zoo:rnnlm", 200, 720, 108'095'248, 0},
      {"zoo:nmt", 722, 1921, 135'052'544, 0},
      {"zoo:dlrm", 41, 107, 415'832'961, 0},
      {"zoo:dlrm?form=ae", 9, 21, 256'024'960, 0},
      {"zoo:xdl", 33, 87, 1'664'492'032, 0},
      {"zoo:xdl?form=ae", 8, 18, 256'131'584, 0},
      {"zoo:candle_uno", 38, 82, 32'599'001, 0},
      {"zoo:candle_uno?form=ae", 46, 97, 820'948'704, 0},
      {"zoo:embedding_bag", 2, 5, 64'004'160, 0},
      {"zoo:ncf", 15, 30, 31'832'577, 0},
      {"zoo:ncf?form=large", 15, 30, 128'608'257, 0},
      {"zoo:gpt?layers=96&hidden=12288&heads=96&seq=2048&vocab=51200", 5 + 30 * 96, 10 + 52 * 96, 174'615'846'912, 0},
  }));
  CAPTURE(r.text);
  const auto c = count(operators(), build(r.text));
  CHECK(c.operators == r.operators);
  CHECK(c.edges == r.edges);
  CHECK(c.parameters == r.parameters);
  CHECK(c.statistics == r.statistics);
}

// As published by torchvision, in units of 10^9 and with three decimals.
TEST_CASE("multiply-accumulates of zoo models match torchvision's published numbers", "[zoo]") {
  struct row {
    const char* text;
    double published;
  };
  const auto r = GENERATE(values<row>({
      {"zoo:alexnet?batch=1", 0.714},
      {"zoo:resnet50", 4.089},
      {"zoo:resnet101?batch=1", 7.801},
      {"zoo:resnext50?batch=1", 4.230},
      {"zoo:densenet121", 2.834},
      {"zoo:inception_v3?batch=1", 5.713},
      {"zoo:squeezenet1_1", 0.349},
      {"zoo:vgg16", 15.470},
      {"zoo:vgg19", 19.632},
  }));
  CAPTURE(r.text);
  CHECK(std::round(static_cast<double>(multiply_accumulates(build(r.text))) / 1e6) == std::round(r.published * 1e3));
}

TEST_CASE("multiply-accumulates of densenet121 and squeezenet1_1 follow formulas of the image size", "[zoo]") {
  CHECK(multiply_accumulates(build("zoo:densenet121")) == 2'834'161'664);
  CHECK(multiply_accumulates(build("zoo:densenet121?image=29&batch=2")) == 2 * 58'551'488);
  CHECK(multiply_accumulates(build("zoo:squeezenet1_1")) == 349'151'936);
  CHECK(multiply_accumulates(build("zoo:squeezenet1_1?image=227")) == 387'747'520);
  CHECK(multiply_accumulates(build("zoo:squeezenet1_1?image=25&batch=3")) == 3 * 3'056'640);
}

TEST_CASE("counts of zoo models follow the documented formulas of their keys", "[zoo]") {
  const auto n = GENERATE(1, 2, 7);
  const auto layers = static_cast<std::size_t>(n);
  const auto with = [&](const char* text) { return count(operators(), build(text + std::to_string(n))); };

  auto c = with("zoo:bert?hidden=24&heads=4&seq=6&vocab=50&layers=");
  CHECK(c.operators == 10 + 29 * layers);
  CHECK(c.edges == 18 + 50 * layers);
  CHECK(c.parameters == (50 + 516) * 24 + n * (12 * 24 * 24 + 13 * 24) + 24 * 24 + 24);

  c = with("zoo:gpt?hidden=24&heads=4&seq=6&vocab=50&layers=");
  CHECK(c.operators == 5 + 30 * layers);
  CHECK(c.edges == 10 + 52 * layers);
  CHECK(c.parameters == (50 + 6) * 24 + n * (12 * 24 * 24 + 13 * 24) + 2 * 24);

  c = with("zoo:bert?form=taso&hidden=24&heads=4&seq=6&layers=");
  CHECK(c.operators == 1 + 14 * layers);
  CHECK(c.edges == 1 + 20 * layers);
  CHECK(c.parameters == 4 * 24 * 24 * n);

  c = with("zoo:bert_large?form=ae&hidden=24&heads=4&seq=6&layers=");
  CHECK(c.operators == 1 + 3 * layers);
  CHECK(c.edges == 2 + 11 * layers);
  CHECK(c.parameters == 6 * 24 * 24 * n + 24);

  c = with("zoo:nasnet_a?layers=");
  CHECK(c.operators == 251 + 165 * layers);
  CHECK(c.edges == 573 + 405 * layers);

  c = with("zoo:nasnet_a?form=taso&layers=");
  CHECK(c.operators == 68 + 63 * layers);
  CHECK(c.edges == 132 + 126 * layers);

  c = with("zoo:nasrnn?hidden=8&batch=3&seq=");
  CHECK(c.operators == 46 * layers);
  CHECK(c.edges == 77 * layers);
  CHECK(c.parameters == 16 * 64 * n + 3 * 8);

  c = with("zoo:mlp?hidden=8&layers=");
  CHECK(c.operators == 2 * layers - 1);
  CHECK(c.edges == 4 * layers - 1);
  CHECK(c.parameters == n * (64 + 8));

  for (const std::int64_t steps : {1, 3}) {
    const auto tail = "&hidden=6&vocab=11&batch=2&seq=" + std::to_string(steps) + "&layers=" + std::to_string(n);
    const auto s = static_cast<std::size_t>(steps);
    const std::int64_t cells = n * (8 * 36 + 4 * 6);

    c = count(operators(), build("zoo:rnntc?form=faithful" + tail));
    CHECK(c.operators == s * (1 + layers) + 2);
    CHECK(c.edges == s * (2 + 6 * layers) + 4);
    CHECK(c.parameters == 11 * 6 + cells + 2 * 6 + 2);

    c = count(operators(), build("zoo:rnnlm?form=faithful" + tail));
    CHECK(c.operators == s * (3 + layers));
    CHECK(c.edges == s * (6 + 6 * layers));
    CHECK(c.parameters == 2 * 11 * 6 + 11 + cells);

    c = count(operators(), build("zoo:nmt?form=faithful" + tail));
    CHECK(c.operators == s * (14 + 2 * layers) + 2);
    CHECK(c.edges == s * (24 + 12 * layers) + 1);
    CHECK(c.parameters == 3 * 11 * 6 + 11 + 2 * cells + 3 * 36);
  }

  c = with("zoo:candle_uno?hidden=8&layers=");
  CHECK(c.operators == 12 * layers + 2);
  CHECK(c.edges == 24 * layers + 10);
  CHECK(c.parameters == 15578 * 8 + (5 * 8 + 2) * 8 + (n - 1) * 6 * 64 + 6 * n * 8 + 9);

  c = with("zoo:candle_uno?form=ae&hidden=8&layers=");
  CHECK(c.operators == 5 * layers + 6);
  CHECK(c.edges == 10 * layers + 17);
  CHECK(c.parameters == 15578 * 8 + 5 * (n - 1) * 64 + (5 * 8 + 2) * 8 + 3 * 64 + 8);

  c = with("zoo:xdl?hidden=8&vocab=11&seq=3&layers=");
  CHECK(c.operators == 26 + 1 + 2 * (layers + 1));
  CHECK(c.edges == 3 * 26 + 3 * (layers + 1));
  CHECK(c.parameters == 26 * 64 * (11 + 8) + (n - 1) * 64 + 2 * 8);

  c = with("zoo:xdl?form=ae&hidden=8&vocab=11&seq=3&layers=");
  CHECK(c.operators == 4 + 1 + layers + 1);
  CHECK(c.edges == 3 * 4 + 2 * (layers + 1));
  CHECK(c.parameters == 4 * 64 * (11 + 8) + (n - 1) * 64 + 2 * 8);

  c = with("zoo:dlrm?form=ae&vocab=11&seq=3&hidden=");
  CHECK(c.operators == 9);
  CHECK(c.edges == 21);
  CHECK(c.parameters == 4 * 11 * n + 4 * n + n * n + 5 * n * n + 2 * n);

  c = with("zoo:embedding_bag?vocab=11&seq=3&hidden=");
  CHECK(c.operators == 2);
  CHECK(c.edges == 5);
  CHECK(c.parameters == 11 * n + n * n + n);

  c = with("zoo:mlp?form=ae&hidden=8&layers=");
  CHECK(c.operators == 2 * layers + 2);
  CHECK(c.edges == 4 * layers + 3);
  CHECK(c.parameters == 2 * (1024 * 8 + (n - 1) * 64));
}

}  // namespace tests_of_zoo_counts
