#include <unity/tensor/measured_durations.hpp>

#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/search/backtracking.hpp>
#include <unity/search/rewrite_space.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/timing_cache.hpp>

#include "testing.hpp"

namespace tests_of_measured_durations {

using namespace unity;
using namespace unity::tensor;

namespace {

// A device on which an operator takes as many nanoseconds as it has operands, products ten times as many, and which
// has no tanh.
struct toy_timer {
  std::size_t asked = 0;
  measurement time(const operation& op, std::span<const tensor_type> inputs, std::span<const tensor_type>) {
    ++asked;
    const auto& name = tensor::test::standard().signature(op.kind).name;
    if (name == "tanh") {
      throw error{"tanh", "no kernel", "another operator"};
    }
    const picoseconds takes{static_cast<std::int64_t>(inputs.size()) * (name == "matmul" ? 10'000 : 1'000)};
    return name == "matmul" ? measurement{takes, takes - picoseconds{1'500}, takes + picoseconds{4'000}, 5}
                            : measurement{takes, takes, takes, 5};
  }
  [[nodiscard]] std::string description() const { return "toy"; }
};
using toy_durations = measured_durations<toy_timer>;
using toy_cost = time_cost<toy_durations>;
static_assert(duration_model<toy_durations, tensor::algebra>);
static_assert(!duration_model<toy_timer, tensor::algebra>);
static_assert(additive_cost_model<toy_cost, tensor::algebra>);
static_assert(staged_cost_model<toy_cost, tensor::algebra>);

struct priced {
  toy_timer timer{};
  timing_cache<toy_timer> cache{tensor::test::standard(), timer};
  toy_cost model{tensor::test::standard(), {tensor::test::standard(), cache}};
};

TEST_CASE("a graph takes the sum of its operator times and each operator is measured once") {
  builder b{tensor::test::standard()};
  const auto x = b.input("x", {4, 4});
  const auto w = b.weight("w", {4, 4});
  const auto g = std::move(b).finish({b.add(b.matmul(b.matmul(x, w), w), x)});
  priced p;
  CHECK(p.model.total(g).expected == picoseconds{20'000 + 20'000 + 2'000});
  CHECK(p.timer.asked == 2);
  rewrite_space space{tensor::test::standard(), p.model, {}, g};
  CHECK(picoseconds{space.cost(space.initial())} == p.model.total(g).expected);
  CHECK(p.timer.asked == 2);
}

TEST_CASE("a graph takes the sums of the lower and upper ends of measured intervals") {
  builder b{tensor::test::standard()};
  const auto x = b.input("x", {4, 4});
  const auto y = b.input("y", {4, 4});
  const auto g = std::move(b).finish({b.relu(b.matmul(x, y))});
  priced p;
  CHECK(p.model.total(g) == duration{picoseconds{21'000}, picoseconds{19'500}, picoseconds{25'000}});
}

TEST_CASE("measured_durations have one version per cache and others for the low and high ends") {
  priced p;
  const toy_durations one{tensor::test::standard(), p.cache};
  const toy_durations same{tensor::test::standard(), p.cache};
  CHECK(one.version() == same.version());
  CHECK(durations_at{one, &duration::low}.version() != one.version());
  CHECK(durations_at{one, &duration::low}.version() != durations_at{one, &duration::high}.version());
}

TEST_CASE("a split at whole cache lines costs nothing and another split is measured") {
  builder b{tensor::test::standard()};
  const auto x = b.relu(b.input("x", {1, 64}));
  const auto whole_lines = b.split(x, 1, {32, 32});
  const auto other = b.split(x, 1, {31, 33});
  const auto g = std::move(b).finish({b.tanh(whole_lines[0]), whole_lines[1], other[0], other[1]});
  priced p;
  const auto cost_of = [&](node_id n) {
    std::vector<tensor_type> inputs;
    std::vector<tensor_type> outputs;
    for (const auto v : g.operands(n)) {
      inputs.push_back(g.type(v));
    }
    for (const auto v : g.results(n)) {
      outputs.push_back(g.type(v));
    }
    return p.model.node_cost(g.operation(n), inputs, outputs);
  };
  CHECK(cost_of(g.producer(g.outputs()[1])) == picoseconds{});
  CHECK(cost_of(g.producer(g.outputs()[2])) == picoseconds{1'000});
}

TEST_CASE("weight-only operators and reshapes are neither priced nor measured for inference") {
  builder b{tensor::test::standard()};
  const auto x = b.input("x", {4, 4});
  const auto w = b.weight("w", {4, 4});
  const auto v = b.weight("v", {4, 4});
  const auto g = std::move(b).finish({b.matmul(b.reshape(b.reshape(x, {2, 8}), {4, 4}), b.add(w, v))});
  priced p;
  CHECK(p.model.total(g).expected == picoseconds{20'000});
  CHECK(p.timer.asked == 1);
  const toy_cost training{tensor::test::standard(), {tensor::test::standard(), p.cache}, mode::training};
  CHECK(training.total(g).expected == picoseconds{20'000 + 2'000});
}

TEST_CASE("an operator that cannot be timed fails the cost of a graph but only drops a search move") {
  builder b{tensor::test::standard()};
  const auto x = b.input("x", {4, 4});
  const auto g = std::move(b).finish({b.relu(b.sigmoid(x))});
  builder c{tensor::test::standard()};
  const auto y = c.input("x", {4, 4});
  const auto bad = std::move(c).finish({c.tanh(y)});
  priced p;
  CHECK_THROWS_WITH(p.model.total(bad), Catch::Contains("tanh"));
  const auto rules = compile_rules(tensor::test::standard(), parse_rules("rule shorter relu(sigmoid(?x)) => tanh(?x)\n"
                                                                         "rule none relu(sigmoid(?x)) => sigmoid(?x)"));
  rewrite_space space{tensor::test::standard(), p.model, rules, g};
  backtracking_options options;
  options.alpha = 1e9;
  const auto found = backtracking(space, options);
  CHECK(found.counts.candidates == 2);
  CHECK(space.cost(found.best) == 1'000);
  REQUIRE(found.path.size() == 1);
  CHECK(space.rule_of(found.path[0].first).name == "none");
}

}  // namespace

}  // namespace tests_of_measured_durations
