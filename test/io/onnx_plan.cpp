#include <unity/io/onnx_plan.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <unity/hardware/presets.hpp>
#include <unity/io/onnx_export.hpp>
#include <unity/io/onnx_import.hpp>
#include <unity/io/plan_json.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/tensor/builder.hpp>

#include "../parallel/random_plan.hpp"
#include "../parallel/replicated_plan.hpp"
#include "../support/cases.hpp"
#include "../support/message_of.hpp"
#include "../support/operators.hpp"
#include "onnx_devices.hpp"
#include "operators_of.hpp"

namespace tests_of_onnx_plan {

namespace {

using namespace unity;
using io::device_sharding;
using io::test::annotated_model;
using io::test::operators_of;
using unity::test::message_of;
using unity::test::training::operators;

using lines = std::vector<std::string>;
using groups = std::vector<std::vector<std::int64_t>>;

std::string written(const parallel::plan& p) {
  return io::serialize_onnx(operators(), io::make_model(p.graph, "plan"), io::onnx_plan_of(operators(), p).devices);
}

std::vector<std::string> unstated(const parallel::plan& p) { return io::onnx_plan_of(operators(), p).unstated; }

io::onnx_model read(const std::string& bytes) { return io::parse_onnx(operators(), bytes, "model", "."); }

annotated_model annotations(const parallel::plan& p) { return io::test::read_annotations(written(p)); }

// Two products, one after the other, with a hidden layer of 6 columns.
parallel::plan products(std::string_view machine) {
  tensor::builder b{operators()};
  const auto x = b.input("x", {8, 4});
  const auto h = b.matmul(x, b.weight("up", {4, 6}));
  parallel::plan p;
  p.graph = std::move(b).finish({b.matmul(h, b.weight("down", {6, 4}))});
  p.machine = hardware::preset(machine);
  p.configurations.resize(p.graph.node_count());
  return p;
}

parallel::configuration divided(parallel::degree_list degrees, std::int64_t sums, std::vector<std::size_t> devices) {
  parallel::configuration c;
  c.degrees = degrees;
  if (sums > 1) {
    c.reductions = {sums};
  }
  for (const auto d : devices) {
    c.devices.push_back(hardware::device_id{d});
  }
  return c;
}

void lay(parallel::plan& p, std::size_t number, parallel::configuration c) {
  p.configurations[operators_of(p.graph)[number].index()] = std::move(c);
}

}  // namespace

TEST_CASE("ONNX annotations state divided tensors in the device order of the tasks") {
  auto p = products("p100:1x4");
  lay(p, 0, divided({2, 2}, 1, {3, 2, 1, 0}));
  lay(p, 1, divided({4, 1}, 1, {0, 1, 2, 3}));
  const auto m = annotations(p);
  CHECK(m.version == 11);
  CHECK(m.name == p.machine.name);
  CHECK(m.count == 4);
  CHECK(m.devices == std::vector<std::string>{"n0/gpu0", "n0/gpu1", "n0/gpu2", "n0/gpu3"});
  REQUIRE(m.nodes.size() == 2);
  CHECK(m.nodes[0].configuration == m.name);
  CHECK(m.nodes[0].type == "MatMul");
  CHECK(!m.nodes[0].stage);
  const auto hidden = m.nodes[0].outputs[0];
  CHECK(m.nodes[0].tensors ==
        std::map<std::string, device_sharding>{{"x", {groups{{3, 2}, {1, 0}}, {{0, 8, 2}}}},
                                               {"up", {groups{{3, 1}, {2, 0}}, {{1, 6, 2}}}},
                                               {hidden, {groups{{3}, {2}, {1}, {0}}, {{0, 8, 2}, {1, 6, 2}}}}});
  CHECK(m.nodes[1].tensors ==
        std::map<std::string, device_sharding>{{hidden, {groups{{0}, {1}, {2}, {3}}, {{0, 8, 4}}}},
                                               {"down", {groups{{0, 1, 2, 3}}, {}}},
                                               {"output", {groups{{0}, {1}, {2}, {3}}, {{0, 8, 4}}}}});
}

TEST_CASE("ONNX annotations of partial sums follow the reader's layout or all summing devices") {
  auto p = products("p100:1x4");
  lay(p, 0, divided({1, 1}, 2, {0, 1}));
  lay(p, 1, divided({2, 1}, 1, {2, 3}));
  auto m = annotations(p);
  const device_sharding scattered{groups{{2}, {3}}, {{0, 8, 2}}};
  CHECK(m.nodes[0].tensors.at("x") == device_sharding{groups{{0}, {1}}, {{1, 4, 2}}});
  CHECK(m.nodes[0].tensors.at("up") == device_sharding{groups{{0}, {1}}, {{0, 4, 2}}});
  CHECK(m.nodes[0].tensors.at(m.nodes[0].outputs[0]) == scattered);
  CHECK(m.nodes[1].tensors.at(m.nodes[0].outputs[0]) == scattered);
  lay(p, 1, divided({2, 1}, 2, {0, 1, 2, 3}));
  m = annotations(p);
  CHECK(m.nodes[1].tensors.at("output") == device_sharding{groups{{0, 2}, {1, 3}}, {{0, 8, 2}}});
}

TEST_CASE("readers with different layouts get their own annotations of an all-reduced result") {
  tensor::builder b{operators()};
  const auto h = b.matmul(b.input("x", {8, 4}), b.weight("w", {4, 6}));
  const auto first = b.relu(h);
  const auto second = b.relu(h);
  parallel::plan p;
  p.graph = std::move(b).finish({first, second});
  p.machine = hardware::preset("p100:1x4");
  p.configurations.resize(p.graph.node_count());
  lay(p, 0, divided({1, 1}, 4, {0, 1, 2, 3}));
  lay(p, 1, divided({4, 1}, 1, {0, 1, 2, 3}));
  lay(p, 2, divided({1, 2}, 1, {0, 1}));
  const auto m = annotations(p);
  const auto name = m.nodes[0].outputs[0];
  CHECK(m.nodes[0].tensors.at(name) == device_sharding{groups{{0, 1, 2, 3}}, {}});
  CHECK(m.nodes[1].tensors.at(name) == device_sharding{groups{{0}, {1}, {2}, {3}}, {{0, 8, 4}}});
  CHECK(m.nodes[2].tensors.at(name) == device_sharding{groups{{0}, {1}}, {{1, 6, 2}}});
}

TEST_CASE("onnx_plan_of lists terms/double reads/halos that ONNX cannot state") {
  auto p = products("p100:1x4");
  lay(p, 0, divided({1, 1}, 2, {0, 1}));
  auto c = divided({1, 1}, 1, {1, 0});
  const auto of_second = parallel::graph_dimensions{operators(), p.graph}[operators_of(p.graph)[1]].groups.size();
  c.partials = parallel::degree_list(of_second, 1);
  c.partials[0] = 2;
  lay(p, 1, c);
  CHECK(unstated(p) == lines{"partial sums that are read before they are added up: 1 operator, the first is node 4 "
                             "(matmul)"});
  const device_sharding on_both{groups{{1, 0}}, {}};
  auto m = annotations(p);
  CHECK(m.nodes[0].tensors.at(m.nodes[0].outputs[0]) == on_both);
  CHECK(m.nodes[1].tensors.at(m.nodes[0].outputs[0]) == on_both);
  CHECK(m.nodes[1].tensors.at("output") == on_both);

  tensor::builder b{operators()};
  const auto x = b.input("x", {4, 4});
  p.graph = std::move(b).finish({b.matmul(x, x)});
  p.configurations = {{}, divided({2, 1}, 1, {0, 1})};
  CHECK(unstated(p) == lines{"one tensor that is read in two ways: 1 operator, the first is node 1 (matmul)"});
  m = annotations(p);
  CHECK(m.nodes[0].tensors == std::map<std::string, device_sharding>{{"output", {groups{{0}, {1}}, {{0, 4, 2}}}}});

  p = parallel::test::replicated_plan(operators(), "zoo:lenet?batch=8", "p100:1x2");
  const auto convolution = operators_of(p.graph)[0];
  p.configurations[convolution.index()].degrees[0] = 1;
  p.configurations[convolution.index()].degrees[2] = 2;  // rows of the image
  CHECK(unstated(p) == lines{"overlapping or unequal parts that are read: 1 operator, the first is node 3 (conv2d)"});
  m = annotations(p);
  CHECK(!m.nodes[0].tensors.contains("x"));
  CHECK(m.nodes[0].tensors.size() == 3);  // weights and the result
}

TEST_CASE("an ONNX node that reads one tensor with two shardings is refused in one line") {
  tensor::builder b{operators()};
  const auto x = b.input("x", {4, 4});
  const auto model = io::make_model(std::move(b).finish({b.matmul(x, x)}), "square");
  io::graph_devices devices{"two", {"a", "b"}, std::vector<io::operator_devices>(2)};
  devices.nodes[1].operands = {{groups{{0, 1}}, {}}, {groups{{0}, {1}}, {{0, 4, 2}}}};
  CHECK(message_of([&] { static_cast<void>(io::serialize_onnx(operators(), model, devices)); }) ==
        "node 0 (MatMul): reads 'x' in two ways; expected one division for each tensor");
}

TEST_CASE("ONNX annotations number pipeline stages even of interleaved schedules") {
  tensor::builder b{operators()};
  auto v = b.input("x", {8, 4});
  for (int i = 0; i < 4; ++i) {
    v = b.relu(v);
  }
  parallel::plan p;
  p.graph = std::move(b).finish({v});
  p.machine = hardware::preset("p100:1x2");
  p.configurations.resize(p.graph.node_count());
  p.pipeline.stages = {0, 1};
  p.pipeline.microbatches = 2;
  const auto stages = [&](std::vector<std::size_t> devices) {
    for (std::size_t i = 0; i < devices.size(); ++i) {
      lay(p, i, divided({1, 1}, 1, {devices[i]}));
    }
    std::vector<std::int64_t> found;
    for (const auto& n : annotations(p).nodes) {
      found.push_back(n.stage.value_or(-1));
    }
    return found;
  };
  CHECK(stages({0, 0, 1, 1}) == std::vector<std::int64_t>{0, 0, 1, 1});
  CHECK(unstated(p) == lines{"2 micro-batches (one_forward_one_backward)"});
  p.pipeline.schedule = parallel::pipeline_schedule::interleaved;
  p.pipeline.chunks = 2;
  CHECK(stages({0, 1, 0, 1}) == std::vector<std::int64_t>{0, 1, 2, 3});
  p.recomputed = parallel::recomputation(p.graph.node_count(), true);
  p.offloaded = parallel::offloading(p.graph.node_count(), true);
  p.synchronization.buckets = {"all"};
  CHECK(unstated(p) ==
        lines{"2 micro-batches (interleaved)", "synchronization of weights", "recomputation", "offloading"});
  p.pipeline = {};
  p.pipeline.microbatches = 4;
  p.recomputed = {};
  p.offloaded = {};
  p.synchronization = {};
  CHECK(unstated(p) == lines{"4 micro-batches"});
  p.pipeline = {};
  CHECK(unstated(p).empty());
}

TEST_CASE("ONNX annotations of random plans survive serialization and leave the graph unchanged", "[law]") {
  std::size_t stated = 0;
  const auto cases = unity::test::cases(200);
  for (std::uint64_t seed = 0; seed < cases; ++seed) {
    CAPTURE(seed);
    const auto p = parallel::test::plan_at_random(seed);
    if (!p) {
      continue;
    }
    io::graph_devices devices;
    std::string bytes;
    const auto model = io::make_model(p->graph, "plan");
    try {
      devices = io::onnx_plan_of(operators(), *p).devices;
      bytes = io::serialize_onnx(operators(), model, devices);
    } catch (const error&) {  // an operator that ONNX does not have
      continue;
    }
    const auto m = io::test::read_annotations(bytes);
    CHECK(m.devices == devices.devices);
    const auto plain = io::serialize_onnx(operators(), model);
    const auto again = read(bytes);
    CHECK(again.graph == read(plain).graph);
    // Each result is the output of one node.
    std::vector<device_sharding> found;
    for (const auto& n : m.nodes) {
      for (const auto& name : n.outputs) {
        if (const auto one = n.tensors.find(name); one != n.tensors.end()) {
          found.push_back(one->second);
        }
      }
    }
    std::vector<device_sharding> expected;
    for (const auto& n : devices.nodes) {
      expected.insert(expected.end(), n.results.begin(), n.results.end());
    }
    CHECK(std::is_permutation(found.begin(), found.end(), expected.begin(), expected.end()));
    stated += expected.size();
  }
  CHECK(stated > cases);
}

TEST_CASE("an annotated ONNX file is read as a plain one and loses annotations when rewritten") {
  for (const auto* name : {"zoo:lenet?batch=8", "zoo:gpt?layers=1&hidden=16&heads=2&seq=8&vocab=32&batch=2"}) {
    CAPTURE(name);
    const auto p = parallel::test::replicated_plan(operators(), name, "p100:1x4");
    const auto annotated = written(p);
    const auto m = io::test::read_annotations(annotated);
    CHECK(m.configurations == 1);
    CHECK(m.annotated() > 5);
    const auto model = io::make_model(p.graph, "plan");
    const auto plain = read(io::serialize_onnx(operators(), model));
    const auto again = read(annotated);
    CHECK(again.graph == plain.graph);
    const auto after = io::test::read_annotations(io::serialize_onnx(operators(), again));
    CHECK(after.configurations == 0);
    CHECK(after.annotated() == 0);
  }
}

TEST_CASE("the documented example plan gives the expected ONNX annotations") {
  const auto p = io::read_plan(operators(), std::string{UNITY_TEST_SOURCE_DIR} + "/examples/plans/mlp_p100_2x4.json");
  const auto m = annotations(p);
  REQUIRE(m.nodes.size() == 4);
  CHECK(m.annotated() == 4);
  CHECK(m.nodes[0].tensors.at("x") == device_sharding{groups{{0, 1, 2, 3}, {4, 5, 6, 7}}, {{0, 16, 2}}});
  CHECK(m.nodes[0].tensors.at("up.weight.T") == device_sharding{groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}, {{1, 64, 4}}});
}

}  // namespace tests_of_onnx_plan
