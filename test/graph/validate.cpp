// Validation reports the first defect of a graph, its place and the expected state.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/graph/validate.hpp>

#include "random_graph.hpp"

namespace tests_of_validate {

using namespace unity;

namespace {

// 0 -> 1 -> 2, where node 1 has two results; the second is an output.
test::loose_graph chain() {
  test::loose_graph g;
  g.nodes = {
      {0, {}, {value_id{0U}}}, {1, {value_id{0U}}, {value_id{1U}, value_id{2U}}}, {2, {value_id{1U}}, {value_id{3U}}}};
  g.producers = {node_id{0U}, node_id{1U}, node_id{1U}, node_id{2U}};
  g.types = {0, 0, 0, 0};
  g.output_values = {value_id{2U}, value_id{3U}};
  return g;
}

std::string defect_after(const std::function<void(test::loose_graph&)>& damage, std::string_view where = "m.onnx") {
  auto g = chain();
  damage(g);
  const auto defect = find_defect(g, where);
  if (!defect) {
    return "sound";
  }
  REQUIRE_THROWS_AS(validate(g, where), error);
  REQUIRE_THROWS_WITH(validate(g, where), defect->what());
  return defect->what();
}

}  // namespace

TEST_CASE("validate accepts random graphs in each representation") {
  const std::uint64_t seed = GENERATE(range<std::uint64_t>(0, 100));
  CAPTURE(seed);
  random_engine rng{seed};
  const auto g = test::random_graph(rng, test::random_shape(rng, 20));
  test::in_every_form(g, rng, [](const auto& form) {
    REQUIRE(!find_defect(form).has_value());
    REQUIRE_NOTHROW(validate(form));
  });
}

TEST_CASE("validate names the node and position of a dangling operand") {
  CHECK(defect_after([](auto& g) { g.nodes[2].operands[0] = value_id{9U}; }) ==
        "m.onnx: node 2, operand 0: value 9; expected one of the 4 values");
  CHECK(defect_after([](auto& g) { g.nodes[2].operands[0] = value_id{}; }) ==
        "m.onnx: node 2, operand 0: the null value; expected one of the 4 values");
}

TEST_CASE("validate names the position of a dangling output") {
  CHECK(defect_after([](auto& g) { g.output_values[1] = value_id{4U}; }) ==
        "m.onnx: output 1: value 4; expected one of the 4 values");
}

TEST_CASE("validate reports results and producers that disagree") {
  CHECK(defect_after([](auto& g) { g.nodes[2].results[0] = value_id{7U}; }) ==
        "m.onnx: node 2, result 0: value 7; expected one of the 4 values");
  CHECK(defect_after([](auto& g) { g.nodes[2].results[0] = value_id{1U}; }) ==
        "m.onnx: node 2, result 0: value 1, which node 1 defines; expected a value that one node defines, once");
  CHECK(defect_after([](auto& g) {
          g.nodes[1].results = {value_id{1U}, value_id{1U}};
        }) == "m.onnx: node 1, result 1: value 1, which node 1 defines; expected a value that one node defines, once");
  CHECK(defect_after([](auto& g) { g.producers[3] = node_id{5U}; }) ==
        "m.onnx: value 3: producer node 5; expected one of the 3 nodes");
  CHECK(defect_after([](auto& g) { g.producers[3] = node_id{}; }) ==
        "m.onnx: value 3: no producer; expected one of the 3 nodes");
  CHECK(defect_after([](auto& g) { g.producers[3] = node_id{1U}; }) ==
        "m.onnx: value 3: producer node 1, which does not list it; expected a node among whose results it is");
  CHECK(defect_after([](auto& g) { g.nodes[2].results.clear(); }) ==
        "m.onnx: value 3: producer node 2, which does not list it; expected a node among whose results it is");
}

TEST_CASE("validate names the nodes of a cycle and abbreviates a long cycle") {
  CHECK(defect_after([](auto& g) { g.nodes[0].operands = {value_id{3U}}; }) ==
        "m.onnx: node 0: a cycle of 3: 0 -> 1 -> 2 -> 0; expected no node that depends on itself");
  CHECK(defect_after([](auto& g) { g.nodes[1].operands[0] = value_id{2U}; }) ==
        "m.onnx: node 1: a cycle of 1: 1 -> 1; expected no node that depends on itself");
  test::loose_graph ring;
  for (std::uint32_t n = 0; n < 100; ++n) {
    ring.nodes.push_back({0, {value_id{(n + 99) % 100}}, {value_id{n}}});
    ring.producers.push_back(node_id{n});
    ring.types.push_back(0);
  }
  const auto defect = find_defect(ring, "");
  REQUIRE(defect.has_value());
  CHECK(std::string{defect->what()} ==
        "node 0: a cycle of 100: 0 -> 1 -> 2 -> 3 -> 4 -> 5 -> 6 -> 7 -> ...; expected no node that depends on itself");
}

}  // namespace tests_of_validate
