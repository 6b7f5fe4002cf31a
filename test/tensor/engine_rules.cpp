#include <unity/tensor/engine_rules.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <catch2/catch.hpp>

#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/search/everywhere.hpp>
#include <unity/search/rewrite_space.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/cost.hpp>
#include <unity/tensor/equivalence.hpp>
#include <unity/tensor/rule_test.hpp>

#include "testing.hpp"

namespace tests_of_engine_rules {

using namespace unity;
using namespace unity::tensor;
using unity::tensor::test::standard;

namespace {

const rule_set& rules() {
  static const auto all = compile_rules(standard(), parse_rules(engine_rules, "engine_rules"));
  return all;
}

// A block of a vision model: a wide, a depthwise and a pointwise convolution, a pool, and a grouped convolution.
tensor_graph convolutions(std::int64_t channels, std::int64_t groups, std::int64_t width) {
  builder b{standard()};
  const auto conv = [&](value_id x, const std::string& name, std::int64_t out, std::int64_t in, std::int64_t kernel,
                        std::int64_t g) {
    const auto w = b.weight(name, {out, in, kernel, kernel});
    return b.conv2d(x, w, b.weight(name + "_bias", {out}), {.padding = "same", .groups = g, .activation = "relu"});
  };
  auto y = conv(b.input("x", {2, 3, 6, 6}), "wide", channels, 3, 1, 1);
  y = conv(y, "deep", channels, 1, 3, channels);
  y = conv(y, "narrow", groups * width, channels, 1, 1);
  return std::move(b).finish({conv(y, "grouped", groups * width, width, 3, groups)});
}

struct rewritten {
  tensor_graph graph;
  std::size_t moves = 0;
};

rewritten everywhere(const std::string& name, const tensor_graph& g) {
  rule_set one;
  for (const auto& r : rules()) {
    if (r.name == name) {
      one.push_back(r);
    }
  }
  REQUIRE(one.size() == 1);
  rewrite_space space{standard(), flop_cost{standard(), mode::inference}, std::move(one), g};
  const auto found = rewrite_everywhere(space, 100);
  return {space.graph(found.state), found.moves};
}

void check_same(const tensor_graph& before, const tensor_graph& after) {
  const auto report = check_equivalence(standard(), before, after, {.seed = 7});
  INFO(report.problem);
  CHECK(report.passed);
}

}  // namespace

TEST_CASE("engine rules other than depthwise_of_16_channels pass rule tests on random shapes") {
  for (const auto& r : rules()) {
    if (r.name == "depthwise_of_16_channels") {
      continue;  // no random shapes fit; tested below
    }
    INFO(r.name);
    const auto report = test_rule(standard(), r);
    INFO(report.because);
    CHECK(report.found == rule_report::verdict::passes);
    CHECK(report.instances >= 10);
  }
}

TEST_CASE("engine rules join convolution groups of few channels to groups of 16 or 8") {
  const auto g = convolutions(32, 8, 4);
  for (const auto& [name, groups] : {std::pair{"groups_of_16_channels", 2}, {"groups_of_8_channels", 4}}) {
    const auto found = everywhere(name, g);
    INFO(name);
    CHECK(found.moves == 1);
    std::size_t joined = 0;
    for (const auto n : node_ids(found.graph)) {
      const auto& op = found.graph.operation(n);
      joined +=
          standard().signature(op.kind).name == "conv2d" && standard().read(op).integer("groups") == groups ? 1 : 0;
    }
    CHECK(joined == 1);
    check_same(g, found.graph);
  }
  CHECK(everywhere("groups_of_16_channels", convolutions(32, 3, 4)).moves == 0);
}

TEST_CASE("an engine rule pads depthwise convolutions to a multiple of 16 channels") {
  const auto g = convolutions(20, 1, 4);
  const auto found = everywhere("depthwise_of_16_channels", g);
  CHECK(found.moves == 1);
  check_same(g, found.graph);
  CHECK(everywhere("depthwise_of_16_channels", convolutions(32, 1, 4)).moves == 0);
}

TEST_CASE("an engine rule flattens each sum before a layer norm exactly once") {
  builder b{standard()};
  const auto x = b.input("x", {2, 3, 4});
  const auto g = b.weight("g", {4});
  auto y = x;
  for (int i = 0; i < 3; ++i) {
    y = b.layer_norm(b.add(b.relu(y), x), g, g, 2);
  }
  const auto before = std::move(b).finish({y});
  const auto found = everywhere("norm_of_flat_sum", before);
  CHECK(found.moves == 3);
  check_same(before, found.graph);
}

}  // namespace tests_of_engine_rules
