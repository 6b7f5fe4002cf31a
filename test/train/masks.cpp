// Dropout: masks depend on positions in whole tensors, and therefore not on the strategy.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/loss.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/train/training_plan.hpp>

#include "runs.hpp"

namespace tests_of_masks {

namespace {

using namespace unity;
using train::test::operators;

value_id dropped(tensor::builder& b, value_id x, double rate, std::int64_t seed) {
  return b.apply("dropout", {x}, {{"rate", rate}, {"seed", seed}})[0];
}

// Two layers, each followed by a dropout, which does nothing at rate 0.
tensor::tensor_graph two_layers(double rate) {
  tensor::builder b{operators()};
  auto x = b.input("x", {8, 12}, tensor::dtype::float32);
  x = dropped(b, b.tanh(b.matmul(x, b.weight("w1", {12, 16}))), rate, 1);
  x = dropped(b, b.matmul(x, b.weight("w2", {16, 8})), rate, 2);
  return std::move(b).finish(std::vector{b.tanh(x)});
}

std::vector<double> losses_of(const parallel::plan& p, std::uint64_t steps) {
  std::vector<double> losses;
  train::test::on_threads(p, {parallel::optimizer::momentum, 0.05}, 3, {operators(), p.graph, 3},
                          [&](auto& rank, auto& world) {
                            for (std::uint64_t s = 0; s < steps; ++s) {
                              const auto loss = rank.step(s);
                              if (world.rank() == 0) {
                                losses.push_back(loss);
                              }
                            }
                          });
  return losses;
}

parallel::plan with_loss(parallel::plan p) {
  return train::with_loss(operators(), std::move(p), tensor::loss::mean_square);
}

void check_equal(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(std::abs(a[i] - b[i]) <= 1e-9 * std::abs(b[i]));
  }
}

}  // namespace

TEST_CASE("a model with dropout trains as on one device for several strategies and ranks") {
  const auto* parallelism = GENERATE("data", "model", "mixed");
  const auto devices = GENERATE(std::size_t{2}, std::size_t{4}, std::size_t{8});
  CAPTURE(parallelism, devices);
  const auto expected = losses_of(with_loss(train::test::plan_for(two_layers(0.25), 1, "data")), 5);
  check_equal(losses_of(with_loss(train::test::plan_for(two_layers(0.25), devices, parallelism)), 5), expected);
}

TEST_CASE("dropout changes the loss and its mask changes with the step") {
  const auto g = two_layers(0.5);
  const auto p = with_loss(train::test::plan_for(g, 1, "data"));
  const auto without = losses_of(with_loss(train::test::plan_for(two_layers(0), 1, "data")), 2);
  const auto with = losses_of(p, 2);
  CHECK(with[0] != without[0]);
  CHECK(tensor::training_form(operators(), g).masks.size() == 2);
  const train::batches data{operators(), p.graph, 3};
  const auto name = tensor::mask_name(0, {0.5, 1});
  const tensor::tensor_type t{tensor::dtype::float64, tensor::layout::row_major, false, {8, 16}};
  std::vector<std::vector<std::byte>> masks;
  for (std::uint64_t s = 0; s < 2; ++s) {
    masks.emplace_back(backend::byte_count(t));
    data.fill(name, t, parallel::whole(t.dims), s, masks.back());
    for (const auto x : backend::decode<double>(masks.back().data(), t).data) {
      CHECK((x == 0 || x == 2));
    }
  }
  CHECK(masks[0] != masks[1]);
}

TEST_CASE("dropout of partial sums masks all terms alike") {
  auto p = train::test::plan_for(two_layers(0.25), 2, "data");
  const auto expected = losses_of(with_loss(p), 4);
  const parallel::graph_dimensions all{operators(), p.graph};
  bool is_first = true;
  for (std::size_t n = 0; n < p.configurations.size(); ++n) {
    const auto& o = all[node_id{n}];
    const auto kind = operators().signature(p.graph.operation(node_id{n}).kind).name;
    auto& c = p.configurations[n];
    if (kind == "matmul" && !std::exchange(is_first, false)) {
      c.degrees = parallel::degree_list(o.divisible.size(), 1);
      c.reductions = parallel::degree_list(o.reductions.size(), 1);
      c.reductions[0] = 2;
    } else if (kind == "dropout" &&
               all[p.graph.producer(p.graph.operands(node_id{n})[0])].op.kind == operators().kind("matmul")) {
      c.degrees = parallel::degree_list(o.divisible.size(), 1);
      c.partials = parallel::degree_list(o.groups.size(), 1);
      c.partials[0] = 2;
    }
  }
  const auto masked = train::with_masks(operators(), p);
  std::int64_t most = 1;
  for (const auto& c : masked.configurations) {
    most = std::max(most, parallel::product(c.partials));
  }
  CHECK(most == 2);
  check_equal(losses_of(with_loss(p), 4), expected);
}

TEST_CASE("dropout of micro-batches equals dropout of the batch") {
  const auto whole = train::test::plan_for(two_layers(0.25), 1, "data");
  const auto expected = losses_of(with_loss(whole), 3);
  parallel::plan p = whole;
  p.graph =
      parallel::microbatch(operators(), whole.graph, parallel::graph_dimensions{operators(), whole.graph}, 4).value();
  p.pipeline.microbatches = 4;
  p.pipeline.stages.assign(p.machine.network.device_count(), 0);
  check_equal(losses_of(with_loss(p), 3), expected);
}

}  // namespace tests_of_masks
