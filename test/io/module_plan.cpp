#include <unity/io/module_plan.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <unity/graph/concepts.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/io/onnx_import.hpp>
#include <unity/parallel/offloading.hpp>
#include <unity/parallel/strategies/repeated_parameters.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/tensor/zoo.hpp>

#include "../parallel/replicated_plan.hpp"
#include "../support/message_of.hpp"
#include "../support/onnx_text.hpp"
#include "../support/operators.hpp"

namespace tests_of_module_plan {

namespace {

using namespace unity;
using parallel::axis_kind;
using parallel::axis_use;
using parallel::tensor_placement;
using unity::test::training::operators;

const axis_use whole{};
const axis_use sum{axis_kind::sum, 0};

axis_use split(std::size_t dimension) { return {axis_kind::split, dimension}; }

parallel::plan data_plan(const std::string& model, const std::string& machine) {
  return parallel::test::replicated_plan(operators(), model, machine);
}

// On four devices.
parallel::plan data_plan_of(const char* onnx_graph) {
  parallel::plan p;
  p.graph = io::parse_onnx(operators(), unity::test::onnx_bytes_of(onnx_graph, 17), "m", {}).graph;
  p.machine = hardware::preset("p100:1x4");
  p.configurations =
      parallel::replicated_data_parallel(parallel::graph_dimensions{operators(), p.graph}, p.machine.network);
  return p;
}

void follow_samples(parallel::plan& p) {
  const parallel::graph_dimensions all{operators(), p.graph};
  p.configurations = parallel::with_samples_followed(operators(), p.graph, all, p.machine.network, p.configurations);
}

io::module_plan modules_of(const parallel::plan& p) { return io::module_plan_of(operators(), p, {}); }

std::string complaint(const parallel::plan& p) {
  return unity::test::message_of([&] { static_cast<void>(modules_of(p)); });
}

}  // namespace

TEST_CASE("layout changes are counted as the collectives that perform them") {
  const auto counted = [](const tensor_placement& from, const tensor_placement& to) {
    io::collective_counts c;
    io::count_change(from, to, c);
    return c;
  };
  CHECK(counted({sum, sum}, {whole, split(1)}) == io::collective_counts{1, 0, 1, 0});
  CHECK(counted({split(0), split(1)}, {whole, split(2)}) == io::collective_counts{0, 1, 0, 1});
  CHECK(counted({whole, whole, split(0)}, {split(0), sum, split(0)}) == io::collective_counts{});
}

TEST_CASE("a data-parallel module plan replicates each weight and all-reduces its gradient") {
  const auto m = modules_of(data_plan("zoo:lenet?batch=8", "p100:1x4"));
  CHECK(m.mesh.sizes == hardware::mesh_sizes{4});
  REQUIRE(m.inputs.size() == 1);
  CHECK(m.inputs[0].layout == tensor_placement{split(0)});
  for (const auto& w : m.parameters) {
    CAPTURE(w.name);
    CHECK(w.layout == tensor_placement{whole});
    CHECK(w.replicas == std::vector<std::size_t>{0});
  }
  CHECK(m.modules.size() == 5);
  CHECK(m.modules.front().name == "c1");
  CHECK(m.forward == io::collective_counts{});
  CHECK(m.backward == io::collective_counts{m.parameters.size(), 0, 0, 0});
}

TEST_CASE("a module may read rows of constant numbers, and the gradient of its table is a sum over samples") {
  auto p = data_plan_of(R"(g (int64[8,3] t) => (float[8,3,2] y)
      <float[5,2] words_weight = {1,2,3,4,5,6,7,8,9,0}, float[3,2] places_weight = {1,2,3,4,5,6}, int64[3] p = {0,1,2}>
      { w = Gather(words_weight, t) x = Gather(places_weight, p) y = Add(w, x) })");
  for (const auto n : node_ids(p.graph)) {  // each device computes the rows of constant numbers
    if (auto& c = p.configurations[n.index()]; c.task_count() == 3) {
      c.degrees = {1, 1};
      c.copies = 4;
      c.devices.push_back(hardware::device_id{3U});
    }
  }
  const auto m = modules_of(p);
  REQUIRE(m.parameters.size() == 2);
  for (const auto& w : m.parameters) {
    CAPTURE(w.name);
    CHECK(w.layout == tensor_placement{whole});
    CHECK(w.replicas == std::vector<std::size_t>{0});
  }
  REQUIRE(m.modules.size() == 1);    // the other one has no activation
  CHECK(m.modules[0].name.empty());  // "words_weight" is a parameter of the whole model
  CHECK(m.backward == io::collective_counts{2, 0, 0, 0});
}

TEST_CASE("a parameter may be repeated for each sample, and its gradient is a sum over samples") {
  auto p = data_plan_of(R"(g (float[8,3,2] x) => (float[8,4,2] y)
      <float[1,1,2] token = {1,2}, int64[3] repeats = {8,1,1}>
      { t = Expand(token, repeats) y = Concat<axis = 1>(t, x) })");
  follow_samples(p);
  const auto m = modules_of(p);
  REQUIRE(m.parameters.size() == 1);
  CHECK(m.parameters[0].layout == tensor_placement{whole});
  CHECK(m.parameters[0].replicas == std::vector<std::size_t>{0});
  CHECK(m.modules.empty());
  CHECK(m.backward == io::collective_counts{1, 0, 0, 0});
}

TEST_CASE("what is computed from a repeated parameter passes on a sum over samples") {
  for (const auto* middle : {"u = Exp(t)", "u = Mul(t, two)", "u = Reshape(t, same)"}) {
    CAPTURE(middle);
    auto p = data_plan_of((R"(g (float[8,3,2] x) => (float[8,3,2] y)
        <float[1,3,2] shift_weight = {1,2,3,4,5,6}, int64[3] repeats = {8,1,1}, int64[3] same = {8,3,2},
         float two = {2}> { t = Expand(shift_weight, repeats) )" +
                           std::string{middle} + " y = Add(x, u) }")
                              .c_str());
    follow_samples(p);
    const auto m = modules_of(p);
    REQUIRE(m.parameters.size() == 1);
    CHECK(m.parameters[0].replicas == std::vector<std::size_t>{0});
    CHECK(m.parameters[0].sums == 1);
  }
}

TEST_CASE("operators on constants are none of a module plan") {
  const auto m = modules_of(data_plan_of(R"(g (float[8,2] x) => (float[8,2] y) <float[2] shift_weight = {1,2}>
      { c = Constant<value = float[2] {3, 4}>() d = Softmax(c) s = Add(x, shift_weight) y = Mul(s, d) })"));
  REQUIRE(m.parameters.size() == 1);
  CHECK(m.backward == io::collective_counts{1, 0, 0, 0});
}

TEST_CASE("a parameter of one element has no shares") {
  auto p = data_plan_of(
      "g (float[8,3] x) => (float[8,3] y) <float[1] gain_weight = {2}> { "
      "s = Squeeze(gain_weight) y = Mul(x, s) }");
  p.synchronization.weights.resize(1);
  p.synchronization.weights[0].parts[0].kind = parallel::sync_kind::sharded;
  CHECK(modules_of(p).forward == io::collective_counts{0, 1, 0, 0});
}

TEST_CASE("a module may compute from each element of a parameter, but not from several parameters or their sums") {
  const auto plan_with = [](const std::string& middle) {
    return data_plan_of((R"(g (float[8,4] x) => (float[8,4] y)
        <float[4] scale_weight = {1,2,3,4}, float[4] other_weight = {1,2,3,4}, int64[2] row = {1,4}>
        { )" + middle + " y = Mul(x, s) }")
                            .c_str());
  };
  for (const auto* middle : {"t = Neg(scale_weight) s = Exp(t)", "s = Reshape(scale_weight, row)"}) {
    CAPTURE(middle);
    const auto m = modules_of(plan_with(middle));
    REQUIRE(m.parameters.size() == 1);
    CHECK(m.parameters[0].layout == tensor_placement{whole});
    CHECK(m.parameters[0].replicas == std::vector<std::size_t>{0});
    CHECK(m.backward == io::collective_counts{1, 0, 0, 0});
  }
  for (const auto* other : {"s = Add(scale_weight, other_weight)", "s = ReduceSum(scale_weight)",
                            "s = Softmax(scale_weight)", "s = Mul(scale_weight, scale_weight)"}) {
    CAPTURE(other);
    CHECK_THAT(complaint(plan_with(other)), Catch::Contains("computes with scale_weight before a module reads it"));
  }
}

TEST_CASE("a parameter may be a table and a matrix, which belong to no module and gather its shares apart") {
  auto p = data_plan_of(R"(g (int64[8,3] t) => (float[8,3,5] y) <float[5,2] words_weight = {1,2,3,4,5,6,7,8,9,0}>
      { w = Gather(words_weight, t) m = Transpose<perm = [1,0]>(words_weight) y = MatMul(w, m) })");
  auto m = modules_of(p);
  REQUIRE(m.parameters.size() == 1);
  CHECK(m.parameters[0].name == "words_weight");
  CHECK(m.parameters[0].replicas == std::vector<std::size_t>{0});
  CHECK(m.modules.empty());
  CHECK(m.backward == io::collective_counts{1, 0, 0, 0});

  p.synchronization.weights.resize(1);
  p.synchronization.weights[0].parts[0].kind = parallel::sync_kind::sharded;
  p.synchronization.weights[0].parts[0].stage = 3;
  m = modules_of(p);
  CHECK(m.forward == io::collective_counts{0, 2, 0, 0});
  CHECK(m.backward == io::collective_counts{0, 1, 2, 0});  // the gradient of a table's rows needs no table
}

TEST_CASE("a module plan buckets all-reduces and gathers and scatters sharded weights") {
  auto p = data_plan("zoo:lenet?batch=8", "p100:1x4");
  const parallel::training_graph training{operators(), p.graph};
  p.synchronization.weights.resize(training.weights().size());
  p.synchronization.buckets = {"one"};
  p.synchronization.weights[0].parts[0].bucket = 0;
  p.synchronization.weights[1].parts[0].bucket = 0;
  p.synchronization.weights[2].parts[0].kind = parallel::sync_kind::sharded;
  const auto m = modules_of(p);
  CHECK(m.parameters[0].bucket == m.parameters[1].bucket);
  CHECK(m.parameters[2].is_sharded);
  CHECK(m.forward == io::collective_counts{0, 1, 0, 0});
  CHECK(m.backward == io::collective_counts{m.parameters.size() - 2, 0, 1, 0});
}

TEST_CASE("weights of ZeRO 3 that the backward pass reads are gathered again for it") {
  auto p = data_plan("zoo:mlp?layers=2&hidden=16&batch=8", "p100:1x4");
  p.synchronization.weights.resize(parallel::training_graph{operators(), p.graph}.weights().size());
  for (auto& w : p.synchronization.weights) {
    w.parts[0].kind = parallel::sync_kind::sharded;
    w.parts[0].stage = 3;
  }
  const auto m = modules_of(p);
  std::size_t again = 0;
  for (const auto& w : m.parameters) {  // neither biases nor what only the first layer's own gradient needs
    CHECK(w.is_gathered_again == (w.dims.size() == 2 && w.name != m.parameters.front().name));
    again += w.is_gathered_again ? 1 : 0;
  }
  CHECK(again > 0);
  CHECK(m.backward.all_gather == again);
  for (auto& w : p.synchronization.weights) {
    w.parts[0].is_resharded = false;
  }
  CHECK(modules_of(p).backward.all_gather == 0);
}

TEST_CASE("a module plan has the shapes of parameters and the ranks of arguments and results") {
  const auto m = modules_of(data_plan("zoo:lenet?batch=8", "p100:1x4"));
  for (const auto& one : m.modules) {
    CAPTURE(one.name);
    CHECK(one.input_rank == (one.name == "c1" || one.name == "c3" ? 4U : 2U));
    CHECK(one.output_rank == one.input_rank);
  }
  CHECK(m.parameters.front().dims.size() == 4);
}

TEST_CASE("a module plan refuses two inputs of one name") {
  auto p = data_plan("zoo:dlrm?batch=8", "p100:1x2");
  tensor::tensor_graph same;
  std::optional<tensor::operation> first;
  for (const auto n : node_ids(p.graph)) {
    auto op = p.graph.operation(n);
    if (op.kind == operators().kind("input") && p.graph.type(p.graph.results(n)[0]).dims.size() == 1) {
      op = first ? *first : op;
      first = op;
    }
    std::vector<tensor::tensor_type> types;
    for (const auto v : p.graph.results(n)) {
      types.push_back(p.graph.type(v));
    }
    same.add_node(op, p.graph.operands(n), types);
  }
  same.set_outputs(p.graph.outputs());
  p.graph = same;
  CHECK_THAT(complaint(p),
             Catch::StartsWith("input ") && Catch::EndsWith(": two inputs of this name; expected one of each name"));
}

TEST_CASE("micro-batches do not add gradient all-reduces to a module plan") {
  auto p = data_plan("zoo:mlp?layers=2&hidden=16&batch=8", "p100:1x4");
  const auto one = modules_of(p);
  p.pipeline = {4, {0, 0, 0, 0}};
  const auto four = modules_of(p);
  CHECK(four.microbatches == 4);
  CHECK(four.backward == one.backward);
}

TEST_CASE("a module plan refuses parameter servers and offloading with the reason") {
  auto p = data_plan("zoo:mlp?layers=2&hidden=16&batch=8", "p100:1x4");
  p.synchronization.weights.resize(parallel::training_graph{operators(), p.graph}.weights().size());
  p.synchronization.weights[0].parts[0].kind = parallel::sync_kind::parameter_server;
  const auto text = complaint(p);
  CHECK(text.find("synchronization of ") == 0);
  CHECK(text.find(": parameter_server; expected all_reduce, alone or in a bucket, or sharded") != std::string::npos);
  p.synchronization = {};
  p.offloaded = parallel::offloaded_results(operators(), p.graph, {}, true);
  CHECK(complaint(p) == "plan.offloaded: results that wait on the host; expected none: module plans cannot state it");
}

}  // namespace tests_of_module_plan
