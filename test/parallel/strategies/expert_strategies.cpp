#include <unity/hardware/device_mesh.hpp>
#include <unity/parallel/configuration_grid.hpp>
#include <unity/parallel/strategies/expert_strategies.hpp>
#include <unity/parallel/strategies/strategy.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <unity/hardware/presets.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/strategies/figure_strategies.hpp>
#include <unity/parallel/strategies/megatron.hpp>
#include <unity/parallel/strategies/repeated_parameters.hpp>
#include <unity/parallel/strategies/strategy_report.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/convert.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/zoo.hpp>

#include "../operators.hpp"

namespace tests_of_expert_strategies {

using namespace unity;
using namespace unity::parallel;
using unity::parallel::test::operators;

namespace {

struct subject {
  tensor::tensor_graph graph;
  unity::hardware::machine machine;
  lowering lower;

  subject(std::string_view model, std::string_view on)
      : graph{with_delivered_outputs(operators(), tensor::zoo::build(operators(), model))},
        machine{hardware::preset(on)},
        lower{operators(), graph, machine} {}
  subject(const subject&) = delete;
  subject& operator=(const subject&) = delete;

  [[nodiscard]] const graph_dimensions& dimensions() const { return lower.dimensions(); }
  [[nodiscard]] std::vector<strategy> experts() const {
    return expert_strategies(operators(), graph, dimensions(), machine.network);
  }
  [[nodiscard]] strategy_report report(const strategy& s) { return report_on(lower, graph, machine, s); }
  // The operator of that kind after `skip` others.
  [[nodiscard]] node_id find(std::string_view kind, std::size_t skip = 0) const {
    for (const auto n : node_ids(graph)) {
      if (graph.operation(n).kind == operators().kind(kind) && skip-- == 0) {
        return n;
      }
    }
    FAIL("no such operator");
    return {};
  }
  // The divided indices of a configuration, by name.
  [[nodiscard]] std::string divided(const strategy& s, node_id n) const {
    const auto& o = dimensions()[n];
    const auto g = grid_of(o, s[n.index()]);
    std::string text;
    for (std::size_t i = 0; i < g.indices.size(); ++i) {
      text += g.indices[i] == 1 ? "" : o.structure.indices[i].name + std::to_string(g.indices[i]) + " ";
    }
    return text + (g.copies == 1 ? "" : "copies" + std::to_string(g.copies) + " ");
  }
};

// The index over heads, the outer one of the columns of the query weights.
std::size_t heads_of(const subject& x, node_id attention) {
  return x.dimensions()[attention].structure.operands[3][1].indices[0];
}

}  // namespace

TEST_CASE("Megatron's expert strategy divides layers by columns then rows and attention by heads") {
  subject x{"zoo:bert?form=ae&layers=1&hidden=64&heads=4&seq=16", "dgx_a100:1x4"};
  const auto all = x.experts();
  REQUIRE(all.size() == 3);
  const auto& s = all.back();
  const auto attention = x.find("attention");
  CHECK(grid_of(x.dimensions()[attention], s[attention.index()]).indices[heads_of(x, attention)] == 4);
  CHECK(x.divided(s, x.find("matmul", 0)) == "n4 ");
  CHECK(x.divided(s, x.find("matmul", 1)) == "k4 ");
  CHECK(x.divided(s, x.find("matmul", 2)) == "m4 ");  // the operator has one column, so positions are divided
  CHECK(x.divided(all[0], x.find("matmul", 1)) == "i4 ");
  CHECK(x.divided(all[1], x.find("matmul", 1)).find("k2") != std::string::npos);
}

TEST_CASE("each layer of Megatron's expert strategy has two all-reduces per pass") {
  for (const auto* const model :
       {"zoo:bert?form=ae&layers=3&hidden=64&heads=4&seq=16", "zoo:gpt?layers=3&hidden=64&heads=4&seq=16&vocab=64"}) {
    const std::string name{model};
    const auto of = [&](int layers) {
      auto text = name;
      text.replace(text.find("layers=3"), 8, "layers=" + std::to_string(layers));
      subject x{text, "dgx_a100:1x4"};
      return x.report(x.experts().back()).communicated_elements;
    };
    const bool is_gpt = name.find("gpt") != std::string::npos;
    const auto batch = is_gpt ? 1 : 8;
    // The backward pass reduces where the forward pass replicates, in front of column-parallel products. Values in
    // between are terms, so the gradients of two norms and of two biases after row-parallel products are also reduced.
    const auto weights = is_gpt ? 6 * 64 : 0;
    CAPTURE(model);
    CHECK(of(3) - of(2) == 2 * 3 * (4 * batch * 16 * 64 + weights));
  }
}

TEST_CASE("the expert strategy of an exported encoder divides attention by heads") {
  subject x{"zoo:bert?layers=1&hidden=64&heads=4&seq=16&vocab=128&batch=2", "dgx_a100:1x4"};
  const auto s = x.experts().back();
  CHECK(x.divided(s, x.find("embedding")) == "v4 ");
  CHECK(x.divided(s, x.find("softmax")).find('4') != std::string::npos);
  CHECK(x.divided(s, x.find("softmax")) != "copies4 ");
  CHECK(x.divided(s, x.find("layer_norm")) == "copies4 ");
  CHECK(x.divided(s, x.find("gelu")) != "copies4 ");
  CHECK(x.report(s).excess.empty());
}

TEST_CASE("Megatron's expert strategy does not divide the rows of a table of booleans") {
  tensor::builder b{operators()};
  const auto flags =
      b.embedding(b.weight("flags", {64, 4}, tensor::dtype::boolean), b.input("ids", {4, 8}, tensor::dtype::int64));
  const auto g = std::move(b).finish({flags});
  const auto m = hardware::preset("p100:1x4");
  const graph_dimensions all{operators(), g};
  CHECK_FALSE(megatron(operators(), g, all, m.network).empty());
}

TEST_CASE("a number of heads that no degree divides leaves one expert strategy") {
  subject x{"zoo:bert?form=ae&layers=1&hidden=60&heads=3&seq=16", "dgx_a100:1x4"};
  CHECK(x.experts().size() == 1);
}

TEST_CASE("an indivisible vocabulary has divided logits and a replicated embedding") {
  subject x{"zoo:gpt?layers=1&hidden=64&heads=4&seq=16&vocab=61", "dgx_a100:1x4"};
  const auto s = x.experts().back();
  CHECK(x.divided(s, x.find("embedding")) == "copies4 ");
  const auto last = x.graph.producer(x.graph.operands(x.graph.producer(x.graph.outputs()[0]))[0]);
  CHECK(x.divided(s, last).find('4') != std::string::npos);
  CHECK(x.divided(s, last) != "copies4 ");
}

TEST_CASE("the expert strategy of dlrm keeps embedding tables whole and balanced") {
  subject x{"zoo:dlrm?batch=64", "dgx_a100:1x4"};
  const auto all = x.experts();
  REQUIRE(all.size() == 1);
  std::vector<std::int64_t> rows(4);
  for (std::size_t i = 0; i < 26; ++i) {
    const auto n = x.find("embedding", i);
    REQUIRE(all[0][n.index()].devices.size() == 1);
    rows[all[0][n.index()].devices[0].index()] += x.dimensions()[n].inputs[0].dims[0];
  }
  CHECK(*std::min_element(rows.begin(), rows.end()) > 1'400'000);
  CHECK(*std::max_element(rows.begin(), rows.end()) < 2'200'000);
  CHECK(x.divided(all[0], x.find("concat")).find('4') != std::string::npos);
  // The tables' gradients are not communicated.
  CHECK(x.report(all[0]).communicated < x.report(data_parallel(x.dimensions(), x.machine.network)).communicated);
}

TEST_CASE("rnnlm and lenet have the simple expert strategy only") {
  for (const auto* const model : {"zoo:rnnlm?seq=2&hidden=64&vocab=100", "zoo:lenet"}) {
    subject x{model, "p100:1x4"};
    CHECK(x.experts() == std::vector<strategy>{expert(operators(), x.graph, x.dimensions(), x.machine.network)});
  }
}

TEST_CASE("expert strategies of zoo models run on machines of one to eight devices") {
  const auto* const model =
      GENERATE("zoo:bert?layers=1&batch=8", "zoo:bert?form=taso&layers=1", "zoo:bert?form=ae&layers=2",
               "zoo:gpt?layers=2&seq=64&batch=8", "zoo:xdl?form=ae", "zoo:embedding_bag", "zoo:dlrm?form=ae",
               "zoo:candle_uno?batch=16", "zoo:nmt?seq=2");
  const auto* const on = GENERATE("host:1x1", "p100:1x2", "p100:2x4", "summit:1x6");
  CAPTURE(model, on);
  subject x{model, on};
  const std::string_view name{model};
  const auto& t = x.machine.network;
  if (name.starts_with("zoo:nmt")) {
    CHECK(x.experts() == std::vector<strategy>{expert_recurrent(operators(), x.graph, x.dimensions(), t)});
  } else if (name.starts_with("zoo:embedding_bag")) {
    REQUIRE(x.experts().size() == 1);
    CHECK(x.experts()[0][x.find("embedding_bag").index()].devices.size() == 1);  // a whole table
  } else if (name.starts_with("zoo:candle_uno")) {
    CHECK(x.experts() == std::vector<strategy>{expert_convolutional(operators(), x.graph, x.dimensions(), t)});
  } else if (name.starts_with("zoo:bert") || name.starts_with("zoo:gpt")) {
    CHECK(x.experts() == megatron(operators(), x.graph, x.dimensions(), t));
  }
  for (const auto& s : x.experts()) {
    CHECK(x.report(s).iteration > picoseconds{});
  }
}

TEST_CASE("with_repeated_parameters replicates operators on weights and sends only gradients") {
  subject x{"zoo:gpt?layers=1&hidden=64&heads=4&seq=16&vocab=61&batch=4", "dgx_a100:1x4"};
  const auto data = data_parallel(x.dimensions(), x.machine.network);
  const auto repeated = with_repeated_parameters(x.graph, x.dimensions(), x.machine.network, data);
  const auto logits = x.graph.producer(x.graph.operands(x.graph.producer(x.graph.outputs()[0]))[0]);
  CHECK(x.divided(repeated, x.graph.producer(x.graph.operands(logits)[1])) == "copies4 ");
  // Only gradients are communicated, each element twice per further device.
  std::int64_t weights = 0;
  for (const auto& w : x.lower.training().weights()) {
    weights += w.is_trained ? tensor::element_count(x.graph.type(w.value).dims) : 0;
  }
  CHECK(x.report(repeated).communicated_elements == 2 * 3 * weights);
  CHECK(x.report(data).communicated_elements > 2 * 3 * weights);
  subject lenet{"zoo:lenet", "p100:1x4"};
  const auto plain = data_parallel(lenet.dimensions(), lenet.machine.network);
  CHECK(with_repeated_parameters(lenet.graph, lenet.dimensions(), lenet.machine.network, plain) == plain);
}

TEST_CASE("strategies of figure 2 communicate as many elements as the figure") {
  const auto graph = tensor::zoo::build(operators(), "zoo:mlp?form=fig1");
  const auto machine = hardware::preset("dgx_a100:1x2");
  lowering lower{operators(), graph, machine};
  const auto moved = [&](const std::optional<strategy>& s) {
    return report_on(lower, graph, machine, s.value()).communicated_elements;
  };
  CHECK(moved(figure_2a_strategy(operators(), graph, lower.dimensions(), machine.network)) == 813'056);
  CHECK(moved(figure_2b_strategy(operators(), graph, lower.dimensions(), machine.network)) == 131'072);
}

TEST_CASE("strategies of figure 2 exist only for divisible perceptrons of two layers") {
  subject four{"zoo:mlp?form=fig1", "dgx_a100:1x4"};
  CHECK(figure_2a_strategy(operators(), four.graph, four.dimensions(), four.machine.network));
  CHECK_FALSE(figure_2b_strategy(operators(), four.graph, four.dimensions(), four.machine.network));  // 10 columns
  for (const auto* const model :
       {"zoo:lenet", "zoo:embedding_bag", "zoo:mlp?layers=3&hidden=64", "zoo:bert?form=ae&layers=1"}) {
    subject x{model, "dgx_a100:1x2"};
    CHECK_FALSE(figure_2a_strategy(operators(), x.graph, x.dimensions(), x.machine.network));
  }
  tensor::builder b{operators()};
  const auto apart = b.matmul(b.input("x", {8, 8}), b.weight("w", {8, 8}));
  const auto beside = b.matmul(b.input("y", {8, 8}), b.weight("v", {8, 8}));
  const auto two_outputs = std::move(b).finish({apart, beside});
  CHECK_FALSE(figure_2b_strategy(operators(), two_outputs, {operators(), two_outputs}, four.machine.network));
  subject two{"zoo:mlp?layers=2&hidden=64", "dgx_a100:1x2"};
  CHECK(figure_2b_strategy(operators(), two.graph, two.dimensions(), two.machine.network));
}

}  // namespace tests_of_expert_strategies
