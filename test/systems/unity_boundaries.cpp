// Unity's search where rewriting changes what runs beside the boundary of a segment.
#include <unity/systems/unity.hpp>

#include <catch2/catch.hpp>

#include <cstdint>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/units.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

#include "../support/operators.hpp"
#include "plan_checks.hpp"
#include "shipped_rules.hpp"

namespace tests_of_unity_boundaries {

namespace {

using namespace unity;
using unity::test::training::operators;

// A recommender as PyTorch writes it: rows of tables and the result of a perceptron, stacked; their products by pairs,
// and a perceptron of these and of the rows.
tensor::tensor_graph stacked_recommender() {
  constexpr std::int64_t batch = 64;
  constexpr std::int64_t width = 64;
  constexpr std::int64_t tables = 8;
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

}  // namespace

TEST_CASE("a rewrite may change what runs beside the boundary of a segment") {
  const auto g = stacked_recommender();
  const auto m = hardware::preset("dgx_a100:1x8");
  systems::unity_options o;
  o.limits.expansions = 50;
  o.proposals = 100;
  const auto r =
      systems::unity(operators(), test::joint_rules(), g, m, parallel::analytic_durations(operators(), m), o);
  CHECK(r.report.iteration > picoseconds{});
  test::check_graph(g, r);
}

}  // namespace tests_of_unity_boundaries
