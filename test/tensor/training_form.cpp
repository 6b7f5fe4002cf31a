#include <unity/tensor/loss.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/id.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/zoo.hpp>

#include "../support/operators.hpp"
#include "testing.hpp"

namespace tests_of_training_form {

using namespace unity::tensor;
using namespace unity::tensor::test;

namespace {

using unity::node_id;
using unity::value_id;

constexpr auto& training = unity::test::training::operators;

value_id dropped(builder& b, value_id x, double rate, std::int64_t seed) {
  return b.apply("dropout", {x}, {{"rate", rate}, {"seed", seed}})[0];
}

// Evaluates with all sources 1; the masks drop every other element.
std::vector<dense<double>> run_halved(const tensor_graph& g) {
  return evaluate<double>(training(), g, [](const operation& op, const tensor_type& t) -> std::optional<dense<double>> {
    if (training().definition_of(op.kind).source == source_kind::none) {
      return std::nullopt;
    }
    dense<double> values{t.dims};
    const auto rule = rule_of_mask(training().read(op).word("name"));
    for (std::size_t i = 0; i < values.data.size(); ++i) {
      values.data[i] = !rule ? 1 : i % 2 == 0 ? 0 : 1 / (1 - rule->rate);
    }
    return values;
  });
}

}  // namespace

TEST_CASE("training_form replaces dropouts by products with masks in both passes") {
  builder b{training()};
  const auto x = b.input("x", {2, 3});
  const auto w = b.weight("w", {2, 3});
  const auto y = dropped(b, b.mul(x, w), 0.25, 7);
  const auto z = dropped(b, b.add(y, y), 0.5, 7);
  const auto g = std::move(b).finish({z});
  const auto form = training_form(training(), g);

  REQUIRE(form.masks.size() == 2);
  CHECK(form.masks[0].rule == dropout_rule{0.25, 7});
  CHECK(form.masks[1].rule == dropout_rule{0.5, 7});
  CHECK(form.masks[0].name != form.masks[1].name);
  for (const auto& m : form.masks) {
    CHECK(form.graph.operation(m.node).kind == training().kind("input"));
    CHECK(training().read(form.graph.operation(m.node)).word("name") == m.name);
    CHECK(form.graph.type(form.graph.results(m.node)[0]) == type({2, 3}));
    CHECK(rule_of_mask(m.name) == m.rule);
  }
  REQUIRE(form.nodes.size() == g.node_count());
  CHECK(form.graph.node_count() == g.node_count() + 2);
  for (const auto n : node_ids(g)) {
    const bool drops = g.operation(n).kind == training().kind("dropout");
    const auto& now = form.graph.operation(form.nodes[n.index()]);
    CHECK((drops ? now == training().make_operation("mul") : now == g.operation(n)));
  }

  const std::vector<double> halved{0, 16.0 / 3, 0, 16.0 / 3, 0, 16.0 / 3};
  const auto trained = run_halved(differentiate(training(), form.graph).graph);
  REQUIRE(trained.size() == 2);
  for (std::size_t i = 0; i < 6; ++i) {
    CHECK(trained[0].data[i] == Approx(halved[i]));
    CHECK(trained[1].data[i] == Approx(halved[i]));
  }
}

TEST_CASE("training_form infers types anew after masking a weight") {
  builder b{training()};
  const auto y = b.relu(dropped(b, b.weight("w", {4}), 0.5, 1));
  const auto g = std::move(b).finish({y});
  CHECK(g.type(g.outputs()[0]).constant);
  const auto form = training_form(training(), g);
  for (const auto v : value_ids(form.graph)) {
    const auto n = form.graph.producer(v);
    std::vector<tensor_type> inputs;
    for (const auto o : form.graph.operands(n)) {
      inputs.push_back(form.graph.type(o));
    }
    CHECK(training().infer(form.graph.operation(n), inputs)->at(0) == form.graph.type(v));
  }
}

TEST_CASE("training_form returns a graph without dropout unchanged") {
  const auto g = zoo::build(training(), "zoo:bert?layers=1&hidden=12&heads=3&seq=4&vocab=9");
  const auto form = training_form(training(), g);
  CHECK(form.graph == g);
  CHECK(form.masks.empty());
}

TEST_CASE("mask names encode their dropout rule and other names encode none") {
  for (const auto& rule : {dropout_rule{0.1, -3}, dropout_rule{0, 0}, dropout_rule{1.0 / 3, std::int64_t{1} << 62}}) {
    CHECK(rule_of_mask(mask_name(12, rule)) == rule);
  }
  for (const char* name : {"", "mask", "mask 1", "mask 1 rate 0.5", "mask 1 rate 0.5 seed", "mask x rate 0.5 seed 1",
                           "mask 1 rate 1.5 seed 1", "mask 1 rate nan seed 1", "mask 1 rate 0.5 seed 1 ", "x"}) {
    CAPTURE(name);
    CHECK_FALSE(rule_of_mask(name).has_value());
  }
}

}  // namespace tests_of_training_form
