// Training iterations as memory graphs, compared with the differentiated graph.

#include <unity/placement/training_memory.hpp>

#include <catch2/catch.hpp>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/placement/find_memory_plan.hpp>
#include <unity/placement/memory_graph.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/zoo.hpp>

namespace tests_of_training_memory {

using namespace unity;
using namespace unity::placement;

namespace {

// "name: tensors read -> tensors written"
std::vector<std::string> lines_of(const memory_graph& g) {
  std::vector<std::string> lines;
  for (std::size_t o = 0; o < g.operator_count(); ++o) {
    const auto& what = g.operation(operator_id{o});
    std::string line = what.name + ":";
    for (const auto t : what.reads) {
      line += " " + g.tensor(t).name + ",";
    }
    line += " ->";
    for (const auto t : what.writes) {
      line += " " + g.tensor(t).name + ",";
    }
    lines.push_back(line);
  }
  return lines;
}

// The memory graph's name of a value; a reshape's result has its operand's name.
std::string name_of(const tensor::algebra& a, const tensor::tensor_graph& g, value_id v) {
  const auto n = g.producer(v);
  const std::string kind{a.signature(g.operation(n).kind).name};
  if (kind == "reshape") {
    return name_of(a, g, g.operands(n)[0]);
  }
  if (kind == "input" || kind == "weight") {
    return a.read(g.operation(n)).word("name");
  }
  const auto results = g.results(n);
  for (std::size_t r = 0; r < results.size() && results.size() > 1; ++r) {
    if (results[r] == v) {
      return fmt::format("{} {}, {}", kind, n, r);
    }
  }
  return fmt::format("{} {}", kind, n);
}

}  // namespace

TEST_CASE("a training memory graph has a forward and a backward operator per node") {
  const auto a = tensor::training_algebra();
  tensor::builder b{a};
  const auto x = b.input("x", {4, 8});
  const auto w = b.weight("w", {8, 8});
  const auto h = b.relu(b.matmul(x, w));
  const auto wide = b.reshape(b.add(h, b.matmul(h, b.weight("u", {8, 8}))), {2, 16});
  const auto g = std::move(b).finish({wide});
  const auto m = training_memory(a, g);
  CHECK(lines_of(m) ==
        std::vector<std::string>{
            "matmul 2: x, w, -> matmul 2,", "relu 3: matmul 2, -> relu 3,", "matmul 5: relu 3, u, -> matmul 5,",
            "add 6: relu 3, matmul 5, -> add 6,",
            "loss: add 6, -> gradient of reshape 7,",  // the gradient of an addition is that of both operands
            "matmul 5 backward: relu 3, u, gradient of reshape 7, -> gradient of relu 3, gradient of u,",
            "sum of gradient of relu 3 (2): gradient of reshape 7, gradient of relu 3, -> gradient of relu 3 (2),",
            "relu 3 backward: relu 3, gradient of relu 3 (2), -> gradient of matmul 2,",
            "matmul 2 backward: x, gradient of matmul 2, -> gradient of w,"});
  std::size_t results = 0;
  for (std::size_t t = 0; t < m.tensor_count(); ++t) {
    results += m.tensor(tensor_id{t}).is_result ? 1U : 0U;
    const std::string_view name = m.tensor(tensor_id{t}).name;
    CHECK(m.tensor(tensor_id{t}).is_result == (name == "gradient of w" || name == "gradient of u"));
  }
  CHECK(results == 2);
  CHECK(m.tensor(tensor_id{0U}).size == bytes{4 * 4 * 8});
  CHECK(input_bytes(m) == bytes{4 * (32 + 64 + 64)});
}

TEST_CASE("training memory treats outputs without weights as results without a backward pass") {
  const auto a = tensor::training_algebra();
  tensor::builder b{a};
  const auto x = b.input("x", {4, 8});
  const auto g = std::move(b).finish({b.relu(x)});
  const auto m = training_memory(a, g);
  CHECK(lines_of(m) == std::vector<std::string>{"relu 1: x, -> relu 1,"});
  CHECK(m.tensor(tensor_id{1U}).is_result);
}

TEST_CASE("training memory's backward reads match the differentiated graph for zoo models") {
  const auto a = tensor::training_algebra();
  for (const auto* const name : {"zoo:lenet", "zoo:mlp", "zoo:alexnet", "zoo:squeezenet1_1", "zoo:resnet50", "zoo:bert",
                                 "zoo:candle_uno", "zoo:ncf", "zoo:rnntc"}) {
    INFO(name);
    const auto g = tensor::zoo::build(a, name);
    const auto d = tensor::differentiate(a, g);
    std::set<std::string> expected;
    for (auto n = d.forward_nodes; n < d.graph.node_count(); ++n) {
      const std::string_view kind = a.signature(d.graph.operation(node_id{n}).kind).name;
      for (const auto v : d.graph.operands(node_id{n})) {
        if (d.graph.producer(v).index() < d.forward_nodes && kind != "reshape") {
          expected.insert(name_of(a, g, v));
        }
        const auto from = d.graph.producer(v);  // a reshape in the adjoint stands for its operand
        if (from.index() >= d.forward_nodes && d.graph.operation(from).kind == a.kind("reshape") &&
            d.graph.producer(d.graph.operands(from)[0]).index() < d.forward_nodes) {
          expected.insert(name_of(a, g, d.graph.operands(from)[0]));
        }
      }
    }
    const auto m = training_memory(a, g);
    std::set<std::string> found;
    for (std::size_t o = 0; o < m.operator_count(); ++o) {
      const auto& what = m.operation(operator_id{o});
      for (const auto t : what.reads) {
        if (what.name.ends_with("backward") && !m.tensor(t).name.starts_with("gradient of ")) {
          found.insert(m.tensor(t).name);
        }
      }
    }
    CHECK(found == expected);
    std::size_t gradients = 0;
    for (std::size_t t = 0; t < m.tensor_count(); ++t) {
      gradients += m.tensor(tensor_id{t}).is_result ? 1U : 0U;
    }
    CHECK(gradients == d.gradients.size());
  }
}

TEST_CASE("a LeNet plan in 2 MB is proved optimal and a larger capacity loads inputs once") {
  const auto a = tensor::training_algebra();
  const auto m = training_memory(a, tensor::zoo::build(a, "zoo:lenet?batch=32"));
  const auto found = find_memory_plan(m, bytes{2'000'000});
  CHECK(found.is_of_program);
  CHECK(found.is_best());
  CHECK(found.traffic.peak <= bytes{2'000'000});
  CHECK(found.traffic.loaded >= input_bytes(m));
  CHECK(find_memory_plan(m, bytes{100'000'000}).traffic.loaded == input_bytes(m));
}

}  // namespace tests_of_training_memory
