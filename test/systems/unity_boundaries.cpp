// Unity's search where rewriting changes which values cross the boundary of a segment.
#include <unity/systems/unity.hpp>

#include <catch2/catch.hpp>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/units.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

#include "../support/cases.hpp"
#include "../support/operators.hpp"
#include "plan_checks.hpp"
#include "shipped_rules.hpp"

namespace tests_of_unity_boundaries {

namespace {

using namespace unity;
using unity::test::training::operators;

// A recommender as PyTorch exports it: rows of tables and a perceptron's result are stacked; another perceptron reads
// their pairwise products and the rows.
tensor::tensor_graph stacked_recommender() {
  constexpr std::int64_t batch = 64;
  constexpr std::int64_t width = 64;
  constexpr auto tables = unity::test::all_or<std::int64_t>(8, 2);
  tensor::builder b{operators()};
  const auto layer = [&](const char* name, value_id x, std::int64_t size) {
    const auto weight = b.weight(name, {b.dims(x)[1], size});
    return b.matmul(x, weight);
  };
  auto x = b.input("dense", {batch, 13});
  x = b.relu(layer("bottom0", x, 512));
  x = b.relu(layer("bottom1", x, 256));
  x = b.relu(layer("bottom2", x, width));
  std::vector<value_id> rows{b.reshape(x, {batch, 1, width})};
  for (std::int64_t i = 0; i < tables; ++i) {
    const auto table = b.weight(fmt::format("table{}", i), {100'000, width});
    const auto ids = b.input(fmt::format("ids{}", i), {batch}, tensor::dtype::int64);
    rows.push_back(b.reshape(b.embedding(table, ids), {batch, 1, width}));
  }
  const auto stack = b.concat(1, rows);
  const auto turned = b.transpose(stack, {0, 2, 1});
  const auto pairs = b.reshape(b.matmul(stack, turned), {batch, (tables + 1) * (tables + 1)});
  const auto flat = b.reshape(stack, {batch, (tables + 1) * width});
  auto y = b.concat(1, std::vector{pairs, flat});
  y = b.relu(layer("top0", y, 1024));
  y = b.relu(layer("top1", y, 256));
  const auto last = layer("top2", y, 1);
  return std::move(b).finish({b.sigmoid(last)});
}

// Each layer reads another value of a chain of integer operators that depends on no input, like T5's relative
// positions.
tensor::tensor_graph layers_with_positions() {
  constexpr std::int64_t size = 64;
  tensor::builder b{operators()};
  auto x = b.input("x", {size, size});
  auto positions = b.constant("positions", {size}, tensor::dtype::int64);
  for (std::int64_t i = 0; i < 15; ++i) {
    positions = b.apply("abs", {positions})[0];
    const auto shift = b.apply("cast", {positions}, {{"element", name_of(tensor::dtype::float32)}})[0];
    x = b.relu(b.matmul(b.add(x, shift), b.weight(fmt::format("w{}", i), {size, size})));
    x = b.tanh(b.mul(x, x));
  }
  return std::move(b).finish({x});
}

}  // namespace

TEST_CASE("constant values may cross segment boundaries in Unity's search") {
  const auto g = layers_with_positions();
  const auto m = hardware::preset("p100:1x4");
  systems::unity_options o;
  o.uses = parallel::index_uses{1} << static_cast<unsigned>(parallel::index_use::data);
  o.limits.expansions = 10;
  o.proposals = 0;
  const auto r =
      systems::unity(operators(), test::joint_rules(), g, m, parallel::analytic_durations(operators(), m), o);
  test::check_graph(g, r);
  for (const auto n : node_ids(r.graph)) {
    std::vector<tensor::tensor_type> operands;
    std::vector<tensor::tensor_type> results;
    for (const auto v : r.graph.operands(n)) {
      operands.push_back(r.graph.type(v));
    }
    for (const auto v : r.graph.results(n)) {
      results.push_back(r.graph.type(v));
    }
    CAPTURE(n.index());
    CHECK(operators().infer(r.graph.operation(n), operands) == std::optional{results});
  }
}

TEST_CASE("rewrites next to a segment boundary keep the graph equivalent") {
  const auto g = stacked_recommender();
  const auto m = hardware::preset("dgx_a100:1x8");
  systems::unity_options o;
  o.limits.expansions = unity::test::all_or<std::uint64_t>(50, 10);
  o.proposals = unity::test::all_or<std::uint64_t>(100, 10);
  const auto r =
      systems::unity(operators(), test::joint_rules(), g, m, parallel::analytic_durations(operators(), m), o);
  CHECK(r.report.iteration > picoseconds{});
  CHECK(r.segments > 1);
  CHECK_FALSE(r.rules.empty());
  test::check_graph(g, r);
}

}  // namespace tests_of_unity_boundaries
