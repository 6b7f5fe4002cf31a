// How the operators that training adds to a graph can be divided: losses by rows, batch statistics as partial sums.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/core/row_major.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/pcg/interpreter.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/parallel/tasks/grid_tasks.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/loss.hpp>
#include <unity/tensor/zoo.hpp>

#include "../support/operators.hpp"
#include "../tensor/testing.hpp"

namespace tests_of_divided_training {

using namespace unity;
using parallel::operator_dimensions;
using tensor::dense;
using tensor::dtype;
using tensor::shape;
using tensor::tensor_type;
using tensor::test::type;
using unity::test::training::operators;

namespace {

operator_dimensions dimensions(const char* name, const std::vector<tensor_type>& inputs) {
  return parallel::dimensions_of(operators(), operators().make_operation(name), inputs).value();
}

// Divisible dimensions as "dimension:size", then sums as "sum:size".
std::string spell(const operator_dimensions& o) {
  std::string text;
  for (const auto& p : o.divisible) {
    text += std::to_string(p.dimension) + ":" + std::to_string(p.size) + " ";
  }
  for (const auto& p : o.reductions) {
    text += "sum:" + std::to_string(p.size) + " ";
  }
  return text;
}

// The results of all tasks, placed and summed.
dense<double> run_tasks(const operator_dimensions& o, const parallel::operator_grid& grid,
                        const std::vector<dense<double>>& operands) {
  dense<double> sum{o.outputs[0].dims};
  for (const auto& task : parallel::tasks_of(o, grid)) {
    std::vector<parallel::region<double>> held;
    for (std::size_t x = 0; x < operands.size(); ++x) {
      parallel::region<double> all{parallel::whole(o.inputs[x].dims)};
      all.data = operands[x];
      auto& own = held.emplace_back(parallel::operand_region(o, task, x));
      for_each_position(own.data.dims, [&](shape at) {
        for (std::size_t d = 0; d < at.size(); ++d) {
          at[d] += own.place.begin[d];
        }
        own[at] = all[at];
      });
    }
    const auto made = parallel::evaluate_task<double>(operators(), o, task, held);
    parallel::region<double> all{parallel::whole(o.outputs[0].dims)};
    for_each_position(made[0].data.dims, [&](shape at) {
      for (std::size_t d = 0; d < at.size(); ++d) {
        at[d] += made[0].place.begin[d];
      }
      sum.data[all.offset(at)] += made[0][at];
    });
  }
  return sum;
}

parallel::operator_grid along(const operator_dimensions& o, std::vector<std::size_t> indices, std::int64_t degree) {
  auto g = parallel::undivided_grid(o);
  for (const auto i : indices) {
    g.indices[i] = degree;
  }
  return g;
}

}  // namespace

TEST_CASE("losses and their gradients are divisible along rows and not along classes") {
  const auto logits = type({8, 6, 10});
  const auto labels = type({8, 6}, dtype::int32);
  const auto forward = dimensions("cross_entropy", {logits, labels});
  const auto backward = dimensions("cross_entropy_gradient", {logits, labels, type({8, 6})});
  CHECK(spell(forward) == "0:8 1:6 ");
  CHECK(spell(backward) == "0:8 1:6 ");

  random_engine random{1};
  const auto x = tensor::test::random_tensor({8, 6, 10}, random);
  dense<double> ids{{8, 6}};
  for (auto& v : ids.data) {
    v = static_cast<double>(random.below(10));
  }
  const auto cotangent = tensor::test::random_tensor({8, 6}, random);
  const std::vector values{x, ids};
  const std::vector all{x, ids, cotangent};
  for (const auto* o : {&forward, &backward}) {
    const auto& given = o == &forward ? values : all;
    const auto expected = tensor::evaluate<double>(operators(), o->op, given, o->inputs)[0];
    for (const auto& p : o->divisible) {
      CHECK(tensor::test::distance(run_tasks(*o, along(*o, p.indices, 2), given), expected) < 1e-15);
    }
  }
}

TEST_CASE("batch statistics are divisible as partial sums along samples and points") {
  const auto op = operators().make_operation("reduce_sum", {{"axes", {0, 2, 3}}, {"keep_dims", 0}});
  const auto o = parallel::dimensions_of(operators(), op, std::vector{type({8, 3, 4, 2})}).value();
  CHECK(spell(o) == "0:3 sum:8 sum:4 sum:2 ");
  random_engine random{2};
  const std::vector x{tensor::test::random_tensor({8, 3, 4, 2}, random)};
  const auto expected = tensor::evaluate<double>(operators(), op, x, o.inputs)[0];
  for (const auto& p : o.reductions) {
    CHECK(tensor::test::distance(run_tasks(o, along(o, p.indices, 2), x), expected) < 1e-14);
  }
}

TEST_CASE("batch statistics prevent micro-batches and given statistics allow them") {
  const auto parts = [](const char* model) {
    const auto g = tensor::zoo::build(operators(), model);
    return parallel::microbatch(operators(), g, parallel::graph_dimensions{operators(), g}, 2);
  };
  CHECK_FALSE(parts("zoo:resnet50?batch=4&statistics=batch").has_value());
  CHECK_FALSE(parts("zoo:densenet121?batch=4&image=32&statistics=batch").has_value());
  CHECK(parts("zoo:resnet50?batch=4").has_value());
}

TEST_CASE("a micro-batch loss is scaled by the number of samples in the batch") {
  const auto g = tensor::zoo::build(operators(), "zoo:mlp?form=fig1&batch=8&hidden=4");
  const auto part = parallel::microbatch(operators(), g, parallel::graph_dimensions{operators(), g}, 4).value();
  const auto of_part = tensor::with_loss(operators(), part, tensor::loss::cross_entropy, 4);
  const auto of_batch = tensor::with_loss(operators(), g, tensor::loss::cross_entropy);
  REQUIRE(of_part.node_count() == of_batch.node_count());
  const node_id scale{of_part.node_count() - 2};  // one over the number of samples in the batch
  CHECK(of_part.operation(scale).kind == operators().kind("fill"));
  CHECK(of_part.operation(scale) == of_batch.operation(scale));
}

TEST_CASE("a graph with a loss lowers under data parallelism") {
  const auto* const model =
      GENERATE("zoo:mlp?form=fig1&batch=8&hidden=4", "zoo:densenet121?batch=4&image=32&statistics=batch");
  const auto g = tensor::with_loss(operators(), tensor::zoo::build(operators(), model), tensor::loss::cross_entropy);
  const auto m = hardware::preset("host:1x2");
  parallel::lowering lower{operators(), g, m};
  const auto s = parallel::data_parallel(lower.dimensions(), m.network);
  CHECK(lower.run(s).fragment_count() > g.node_count() / 2);
}

}  // namespace tests_of_divided_training
