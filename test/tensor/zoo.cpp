#include <unity/tensor/zoo.hpp>

#include <catch2/catch.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/statistics.hpp>

#include "../support/message_of.hpp"
#include "../support/operators.hpp"

namespace tests_of_zoo {

namespace {

using unity::node_id;
using unity::tensor::count;
using unity::tensor::shape;
using unity::tensor::tensor_graph;
using unity::test::standard::operators;
namespace zoo = unity::tensor::zoo;

tensor_graph build(const std::string& text) { return zoo::build(operators(), text); }

std::vector<std::string> every_form() {
  std::vector<std::string> names;
  for (const auto& m : zoo::models) {
    for (const auto& f : m.forms) {
      names.push_back("zoo:" + std::string{m.name} + "?form=" + std::string{f.name});
    }
  }
  return names;
}

std::int64_t nodes_of_kind(const tensor_graph& g, const char* name) {
  const auto kind = operators().kind(name);
  std::int64_t n = 0;
  for (const auto i : node_ids(g)) {
    n += g.operation(i).kind == kind ? 1 : 0;
  }
  return n;
}

// The results of the nodes of one kind, in order.
std::vector<shape> shapes_of_kind(const tensor_graph& g, const char* name) {
  const auto kind = operators().kind(name);
  std::vector<shape> dims;
  for (const auto i : node_ids(g)) {
    if (g.operation(i).kind == kind) {
      dims.push_back(g.type(g.results(i)[0]).dims);
    }
  }
  return dims;
}

std::string message_of(const std::string& text) {
  return unity::test::message_of([&] { static_cast<void>(build(text)); });
}

}  // namespace

// A compiler may evaluate arguments of a call in any order: two of them must not both add nodes.
TEST_CASE("zoo graphs match a recorded digest of operators and operands", "[zoo]") {
  std::uint64_t digest = 14695981039346656037U;  // FNV-1a
  const auto add = [&](const std::string& text) {
    for (const char c : text) {
      digest = (digest ^ static_cast<unsigned char>(c)) * 1099511628211U;
    }
  };
  for (const auto& name : every_form()) {
    const auto g = build(name);
    add(name);
    for (const auto n : node_ids(g)) {
      add(operators().signature(g.operation(n).kind).name);
      for (const auto v : g.operands(n)) {
        add(" " + std::to_string(v.index()));
      }
    }
  }
  CHECK(digest == 8853730083984786121U);
}

TEST_CASE("zoo models have the expected numbers of operators of each kind", "[zoo]") {
  const auto resnext = build("zoo:resnext50?form=ae");
  CHECK(nodes_of_kind(resnext, "conv2d") == 49);
  CHECK(nodes_of_kind(resnext, "add") == 0);
  CHECK(nodes_of_kind(build("zoo:resnext50?branches=1"), "conv2d") == 37 + 16 * 32);

  const auto inception = build("zoo:inception_v3?form=ae");
  CHECK(nodes_of_kind(inception, "conv2d") == 94);
  CHECK(nodes_of_kind(inception, "max_pool") + nodes_of_kind(inception, "average_pool") == 14);
  CHECK(nodes_of_kind(inception, "concat") == 11);

  const auto resnet = build("zoo:resnet50");
  CHECK(nodes_of_kind(resnet, "conv2d") == 53);
  CHECK(nodes_of_kind(resnet, "batch_norm") == 53);
  CHECK(nodes_of_kind(resnet, "relu") == 49);

  const auto densenet = build("zoo:densenet121");
  CHECK(nodes_of_kind(densenet, "conv2d") + nodes_of_kind(densenet, "linear") == 121);
  CHECK(nodes_of_kind(densenet, "batch_norm") == 121);
  CHECK(nodes_of_kind(densenet, "relu") == 121);
  CHECK(nodes_of_kind(densenet, "concat") == 58);
  CHECK(nodes_of_kind(densenet, "average_pool") == 3);

  const auto squeezenet = build("zoo:squeezenet1_1");
  CHECK(nodes_of_kind(squeezenet, "conv2d") == 26);
  CHECK(nodes_of_kind(squeezenet, "concat") == 8);
  CHECK(nodes_of_kind(squeezenet, "max_pool") == 3);
  CHECK(nodes_of_kind(squeezenet, "linear") == 0);

  const auto dlrm = build("zoo:dlrm?form=ae");
  CHECK(nodes_of_kind(dlrm, "embedding_bag") == 4);
  CHECK(nodes_of_kind(dlrm, "matmul") == 4);
  CHECK(shapes_of_kind(dlrm, "concat") == std::vector<shape>{{64, 320}});
  const auto xdl = build("zoo:xdl");
  CHECK(nodes_of_kind(xdl, "embedding_bag") == 26);
  CHECK(nodes_of_kind(xdl, "matmul") == 3);
  CHECK(shapes_of_kind(xdl, "concat") == std::vector<shape>{{1024, 1664}});
  CHECK(shapes_of_kind(build("zoo:xdl?form=ae"), "concat") == std::vector<shape>{{64, 256}});
  CHECK(shapes_of_kind(build("zoo:candle_uno?form=ae"), "concat") == std::vector<shape>{{64, 20962}});

  const auto bert = build("zoo:bert");
  CHECK(nodes_of_kind(bert, "layer_norm") == 25);
  CHECK(nodes_of_kind(bert, "softmax") == 12);
  CHECK(nodes_of_kind(bert, "matmul") == 12 * 8);
}

TEST_CASE("zoo models end in the expected output shapes", "[zoo]") {
  struct row {
    const char* text;
    shape output;
  };
  const auto r = GENERATE(values<row>({
      {"zoo:resnet50?batch=2", {2, 1000}},
      {"zoo:resnet50?image=32&hidden=4", {1, 1000}},
      {"zoo:resnet50?form=taso", {1, 2048, 7, 7}},
      {"zoo:resnext50?form=ae", {16, 1000}},
      {"zoo:resnext50?form=taso&branches=1", {1, 2048, 7, 7}},
      {"zoo:nasnet_a?batch=3", {3, 1000}},
      {"zoo:nasnet_a?form=taso", {1, 5120, 7, 7}},
      {"zoo:nasrnn?batch=4", {4, 512}},
      {"zoo:bert?seq=32", {1, 32, 768}},
      {"zoo:bert?seq=600&layers=1", {1, 600, 768}},
      {"zoo:bert?form=taso&seq=48", {48, 1024}},
      {"zoo:bert_large?form=ae", {8, 512, 1}},
      {"zoo:gpt?layers=1&batch=2&seq=16", {2, 16, 50257}},
      {"zoo:gpt?attention=flash&layers=1&batch=2&seq=16", {2, 16, 50257}},
      {"zoo:densenet121?batch=2", {2, 1000}},
      {"zoo:densenet121?image=29", {1, 1000}},
      {"zoo:inception_v3", {64, 1000}},
      {"zoo:inception_v3?form=ae&image=75&batch=2", {2, 10}},
      {"zoo:inception_v3?form=ae", {64, 10}},
      {"zoo:squeezenet1_1?batch=5", {5, 1000}},
      {"zoo:squeezenet1_1?image=25", {1, 1000}},
      {"zoo:vgg16", {1, 1000}},
      {"zoo:mlp?form=fig1", {64, 10}},
      {"zoo:alexnet", {256, 1000}},
      {"zoo:lenet", {64, 10}},
      {"zoo:resnet101", {64, 1000}},
      {"zoo:rnntc", {64, 2}},
      {"zoo:rnnlm?seq=3", {64, 10000}},
      {"zoo:nmt?seq=3", {64, 32000}},
      {"zoo:dlrm", {1024, 1}},
      {"zoo:dlrm?form=ae", {64, 2}},
      {"zoo:xdl", {1024, 2}},
      {"zoo:xdl?form=ae&seq=7", {64, 2}},
      {"zoo:embedding_bag?batch=3", {3, 64}},
      {"zoo:ncf", {1024, 1}},
      {"zoo:candle_uno", {256, 1}},
      {"zoo:candle_uno?form=ae", {64, 1}},
  }));
  CAPTURE(r.text);
  const auto g = build(r.text);
  CHECK(g.type(g.outputs()[0]).dims == r.output);
}

TEST_CASE("inception_v3 has the published 35x35 grid in its faithful form and 36x36 in form ae", "[zoo]") {
  CHECK(shapes_of_kind(build("zoo:inception_v3?batch=1"), "concat").at(0) == shape{1, 256, 35, 35});
  CHECK(shapes_of_kind(build("zoo:inception_v3?form=ae&batch=1"), "concat").at(0) == shape{1, 256, 36, 36});
}

TEST_CASE("densenet121 transitions halve channels and grids", "[zoo]") {
  using grids = std::vector<shape>;
  const auto g = build("zoo:densenet121");
  CHECK(shapes_of_kind(g, "max_pool") == grids{{1, 64, 56, 56}});
  CHECK(shapes_of_kind(g, "average_pool") == grids{{1, 128, 28, 28}, {1, 256, 14, 14}, {1, 512, 7, 7}});
  CHECK(shapes_of_kind(g, "concat").at(5) == shape{1, 256, 56, 56});
  CHECK(shapes_of_kind(g, "concat").at(57) == shape{1, 1024, 7, 7});
  CHECK(shapes_of_kind(build("zoo:densenet121?image=29"), "average_pool") ==
        grids{{1, 128, 4, 4}, {1, 256, 2, 2}, {1, 512, 1, 1}});
}

TEST_CASE("squeezenet1_1 pools round up", "[zoo]") {
  using grids = std::vector<shape>;
  CHECK(shapes_of_kind(build("zoo:squeezenet1_1"), "max_pool") ==
        grids{{1, 64, 55, 55}, {1, 128, 27, 27}, {1, 256, 13, 13}});
  CHECK(shapes_of_kind(build("zoo:squeezenet1_1?image=227"), "max_pool") ==
        grids{{1, 64, 56, 56}, {1, 128, 28, 28}, {1, 256, 14, 14}});
}

TEST_CASE("every operator of a zoo model contributes to an output", "[zoo]") {
  for (const auto& text : every_form()) {
    CAPTURE(text);
    const auto g = build(text);
    std::vector<bool> live(g.value_count());
    for (const auto v : g.outputs()) {
      live[v.index()] = true;
    }
    for (std::size_t i = g.node_count(); i-- > 0;) {
      const node_id n{i};
      bool used = false;
      for (const auto v : g.results(n)) {
        used = used || live[v.index()];
      }
      CHECK(used);
      for (const auto v : g.operands(n)) {
        live[v.index()] = true;
      }
    }
  }
}

TEST_CASE("the batch size changes neither operators nor parameters of zoo models", "[zoo]") {
  for (const char* text :
       {"zoo:resnet50?batch=", "zoo:nasnet_a?form=taso&batch=", "zoo:inception_v3?batch=", "zoo:bert?layers=1&batch=",
        "zoo:vgg16?batch=", "zoo:densenet121?batch=", "zoo:squeezenet1_1?batch=", "zoo:alexnet?batch=",
        "zoo:lenet?batch=", "zoo:nmt?seq=2&batch=", "zoo:dlrm?batch=", "zoo:dlrm?form=ae&batch=", "zoo:xdl?batch=",
        "zoo:xdl?form=ae&batch=", "zoo:candle_uno?batch=", "zoo:candle_uno?form=ae&batch=", "zoo:embedding_bag?batch=",
        "zoo:ncf?batch="}) {
    CAPTURE(text);
    CHECK(count(operators(), build(text + std::string{"1"})) == count(operators(), build(text + std::string{"5"})));
  }
}

TEST_CASE("the bag length changes neither operators nor parameters of zoo models", "[zoo]") {
  for (const char* text : {"zoo:dlrm?form=ae&seq=", "zoo:xdl?seq=", "zoo:xdl?form=ae&seq=", "zoo:embedding_bag?seq="}) {
    CAPTURE(text);
    CHECK(count(operators(), build(text + std::string{"1"})) == count(operators(), build(text + std::string{"9"})));
  }
}

TEST_CASE("the GPT-3 graph is built in less than a second with its number of parameters", "[zoo]") {
  const auto start = std::chrono::steady_clock::now();
  const auto g = build("zoo:gpt?layers=96&hidden=12288&heads=96&seq=2048&vocab=51200");
  const auto took = std::chrono::steady_clock::now() - start;
  CHECK(count(operators(), g).parameters ==
        (51200 + 2048) * 12288LL + 96 * (12 * 12288LL * 12288 + 13 * 12288LL) + 2 * 12288);
  CHECK(took < std::chrono::seconds{1});
}

TEST_CASE("the image size changes neither operators nor parameters of zoo models", "[zoo]") {
  for (const char* text :
       {"zoo:densenet121?image=", "zoo:squeezenet1_1?image=", "zoo:resnet50?image=", "zoo:resnext50?form=ae&image=",
        "zoo:inception_v3?image=", "zoo:inception_v3?form=ae&image="}) {
    CAPTURE(text);
    CHECK(count(operators(), build(text + std::string{"75"})) == count(operators(), build(text + std::string{"224"})));
  }
}

TEST_CASE("building a zoo model twice gives the same graph", "[zoo]") {
  for (const auto& text : every_form()) {
    CAPTURE(text);
    CHECK(build(text) == build(text));
  }
}

TEST_CASE("a zoo name is parsed to a model with its form and sizes", "[zoo]") {
  const auto r = zoo::parse("zoo:bert_large?seq=128&form=faithful&layers=2");
  CHECK(r.model == "bert_large");
  CHECK(r.chosen->name == "faithful");
  CHECK(r.values.seq == 128);
  CHECK(r.values.layers == 2);
  CHECK(r.values.batch == 4);
  CHECK(r.values.branches == zoo::sizes::absent);
  CHECK(r.values.image == zoo::sizes::absent);
  CHECK(zoo::parse("zoo:densenet121?batch=2").values ==
        zoo::sizes{.batch = 2, .image = 224, .statistics = zoo::given_statistics});
  CHECK(zoo::parse("zoo:resnet50?statistics=given").values == zoo::parse("zoo:resnet50").values);
  CHECK(zoo::parse("zoo:resnet50?statistics=batch").values.statistics == zoo::statistics_of_batch);
  CHECK(zoo::parse("zoo:gpt?attention=products").values == zoo::parse("zoo:gpt").values);
  CHECK(zoo::parse("zoo:gpt?form=training&attention=flash").values.attention == zoo::flash_attention);
  CHECK(zoo::parse("zoo:squeezenet1_1?image=227").values == zoo::sizes{.batch = 1, .image = 227});
  CHECK(zoo::is_name("zoo:anything"));
  CHECK_FALSE(zoo::is_name("model.onnx"));
}

TEST_CASE("an invalid zoo name or key gives a one-line error with what was expected", "[zoo]") {
  struct row {
    const char* text;
    const char* message;
  };
  const auto r = GENERATE(values<row>({
      {"bert", "model: \"bert\"; expected zoo:NAME[?key=value&...]"},
      {"zoo:alexnett",
       "zoo: model \"alexnett\"; expected one of alexnet, bert, bert_large, candle_uno, densenet121, dlrm, "
       "embedding_bag, gpt, inception_v3, lenet, mlp, nasnet_a, nasrnn, ncf, nmt, reformer, "
       "resnet101, resnet50, resnext50, rnnlm, rnntc, squeezenet1_1, transformer, vgg16, vgg19, xdl"},
      {"zoo:",
       "zoo: model \"\"; expected one of alexnet, bert, bert_large, candle_uno, densenet121, dlrm, "
       "embedding_bag, gpt, inception_v3, lenet, mlp, nasnet_a, nasrnn, ncf, nmt, reformer, "
       "resnet101, resnet50, resnext50, rnnlm, rnntc, squeezenet1_1, transformer, vgg16, vgg19, xdl"},
      {"zoo:bert\nx",
       "zoo: model \"bert x\"; expected one of alexnet, bert, bert_large, candle_uno, densenet121, dlrm, "
       "embedding_bag, gpt, inception_v3, lenet, mlp, nasnet_a, nasrnn, ncf, nmt, reformer, "
       "resnet101, resnet50, resnext50, rnnlm, rnntc, squeezenet1_1, transformer, vgg16, vgg19, xdl"},
      {"zoo:vgg16?heads=4", "zoo:vgg16: key \"heads\"; expected a key of form=faithful: form, batch"},
      {"zoo:bert?form=taso&batch=4",
       "zoo:bert: key \"batch\"; expected a key of form=taso: form, layers, hidden, heads, seq"},
      {"zoo:bert?form=fast", "zoo:bert: form=\"fast\"; expected one of faithful, taso, ae"},
      {"zoo:bert?form=taso&form=taso", "zoo:bert: form is given twice; expected each key once"},
      {"zoo:bert?layers=twelve", "zoo:bert: layers=\"twelve\"; expected an integer from 1 to 4096"},
      {"zoo:bert?layers=12x", "zoo:bert: layers=\"12x\"; expected an integer from 1 to 4096"},
      {"zoo:bert?layers=", "zoo:bert: layers=\"\"; expected an integer from 1 to 4096"},
      {"zoo:bert?layers=0", "zoo:bert: layers=\"0\"; expected an integer from 1 to 4096"},
      {"zoo:bert?layers=99999999999999999999",
       "zoo:bert: layers=\"99999999999999999999\"; expected an integer from 1 to 4096"},
      {"zoo:bert?layers=2&layers=2", "zoo:bert: layers is given twice; expected each key once"},
      {"zoo:bert?layers", "zoo:bert: \"layers\"; expected key=value"},
      {"zoo:bert?=3", "zoo:bert: \"=3\"; expected key=value"},
      {"zoo:bert?layers=2&&seq=8", "zoo:bert: \"\"; expected key=value"},
      {"zoo:resnext50?branches=2", "zoo:resnext50: branches=\"2\"; expected an integer from 0 to 1"},
      {"zoo:vgg16?image=224", "zoo:vgg16: key \"image\"; expected a key of form=faithful: form, batch"},
      {"zoo:densenet121?layers=6",
       "zoo:densenet121: key \"layers\"; expected a key of form=faithful: form, batch, image, statistics"},
      {"zoo:resnet50?statistics=running", "zoo:resnet50: statistics=\"running\"; expected one of given, batch"},
      {"zoo:resnet50?statistics=1", "zoo:resnet50: statistics=\"1\"; expected one of given, batch"},
      {"zoo:gpt?attention=fast", "zoo:gpt: attention=\"fast\"; expected one of products, flash"},
      {"zoo:transformer?attention=flash",
       "zoo:transformer: key \"attention\"; expected a key of form=faithful: form, batch, layers, hidden, heads, seq, "
       "vocab"},
      {"zoo:resnet50?form=taso&statistics=batch",
       "zoo:resnet50: key \"statistics\"; expected a key of form=taso: form, batch"},
      {"zoo:densenet121?image=0", "zoo:densenet121: image=\"0\"; expected an integer from 1 to 16384"},
      {"zoo:densenet121?image=16385", "zoo:densenet121: image=\"16385\"; expected an integer from 1 to 16384"},
      {"zoo:densenet121?image=28", "zoo: image=28; expected at least 29 pixels a side for DenseNet-121"},
      {"zoo:squeezenet1_1?image=24", "zoo: image=24; expected at least 25 pixels a side for SqueezeNet 1.1"},
      {"zoo:resnet50?image=31", "zoo: image=31; expected at least 32 pixels a side for ResNet"},
      {"zoo:resnet50?hidden=6", "zoo: hidden=6; expected a multiple of 4, the channels of the stem"},
      {"zoo:resnext50?hidden=40", "zoo: hidden=40; expected a multiple of 16, the channels of the stem"},
      {"zoo:inception_v3?form=ae&image=74", "zoo: image=74; expected at least 75 pixels a side for Inception-v3"},
      {"zoo:squeezenet1_1?form=taso", "zoo:squeezenet1_1: form=\"taso\"; expected one of faithful"},
      {"zoo:nmt?seq=5000", "zoo: seq=5000; expected at most 4096 steps"},
      {"zoo:nasrnn?seq=5000", "zoo: seq=5000; expected at most 4096 steps of NasRNN"},
      {"zoo:bert?hidden=1048576&heads=1&vocab=1073741824",
       "node 2 (weight): \"embeddings.word\" of float32[1073741824,1048576]; expected positive sizes and a countable "
       "number of elements"},
      {"zoo:bert?hidden=770", "zoo: hidden=770 and heads=12; expected a hidden size that the number of heads divides"},
  }));
  CHECK(message_of(r.text) == r.message);
}

}  // namespace tests_of_zoo
