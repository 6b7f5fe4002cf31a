// The operators that tasks run on their parts compute those parts of the whole operator's results.

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/core/random.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/standard_operators.hpp>

#include "../divided_at_random.hpp"
#include "../operators.hpp"
#include "../part_values.hpp"
#include "../random_model.hpp"

namespace tests_of_task_operation {

namespace {

using namespace unity;
using namespace unity::parallel;
using parallel::test::compare;
using parallel::test::operators;
using values = tensor::dense<double>;

}  // namespace

TEST_CASE("tasks of random operators and divisions compute their parts of the whole result") {
  std::map<std::string, std::size_t> compared;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    random_engine random{seed};
    parallel::test::model_maker maker{random, operators()};
    maker.add(6);
    const auto g = std::move(maker).finish();
    const graph_dimensions all{operators(), g};
    std::vector<values> made(g.value_count());
    for (const auto node : node_ids(g)) {
      const auto& o = all[node];
      std::vector<values> operands;
      for (const auto v : g.operands(node)) {
        operands.push_back(made[v.index()]);
      }
      const auto results = tensor::evaluate<double>(operators(), o.op, operands, o.inputs, seed);
      for (std::size_t r = 0; r < results.size(); ++r) {
        made[g.results(node)[r].index()] = results[r];
      }
      const auto c = parallel::test::divided_at_random(o, 12, random, {true, true});
      if (c.task_count() < 2) {
        continue;
      }
      const auto& name = operators().signature(o.op.kind).name;
      CAPTURE(seed, node.index(), name, c.degrees.size(), c.task_count());
      if (name == "enlarge") {
        continue;  // a part of a kernel is not a kernel, so no task runs
      }
      CHECK(compare(o, c, operands, compared[name]) < 1e-9);
    }
  }
  for (const auto* name :
       {"conv2d", "max_pool", "average_pool", "matmul", "linear", "layer_norm", "softmax", "attention", "concat",
        "reshape", "transpose", "slice", "pad", "split", "embedding", "reduce_sum", "batch_norm"}) {
    CAPTURE(name);
    CHECK(compared[name] > 0);
  }
}

namespace {

// Adds operators that no table of names can contain.
tensor::algebra extended_operators() {
  auto a = tensor::training_algebra();
  const auto columns = [](tensor::space& s, const tensor::attribute_reader&) {
    const auto i = s.parallel("i");
    s.read({i, s.reduced("r")});
    s.write({i});
  };
  const auto along = [&](std::string name, tensor::scalar_kernel k) {
    a.add(tensor::define(std::move(name), 1, 1, {}, tensor::primitive{columns, [k](const auto&, auto) { return k; }}));
  };
  using namespace tensor::kernels;
  along("my_mean", sum(x(0)) / count());
  along("twice_the_mean", sum(x(0)) * (literal(2) / count()));
  along("unbiased_mean", sum(x(0)) / (count() - literal(1)));
  along("mean_by_root", sum(x(0)) / tensor::kernels::apply(tensor::scalar_op::sqrt, count()));
  along("weighted_by_position", sum(x(0) * coordinate(1)));
  a.add(tensor::define(
      "mean_of_squares_by", 2, 1, {},
      tensor::composite{[](tensor::body_builder& b, const tensor::attribute_reader&, std::span<const value_id> v) {
        return std::vector{b.add("reduce_mean", {b.add("mul", {v[0], v[1]})}, {{"axes", {1}}})};
      }}));
  return a;
}

configuration with_sum_of(const operator_dimensions& o, std::int64_t degree) {
  configuration c{degree_list(o.divisible.size(), 1), {}, degree_list(o.reductions.size(), 1), {}, 1};
  c.reductions[0] = degree;
  for (std::int64_t t = 0; t < degree; ++t) {
    c.devices.push_back(hardware::device_id{static_cast<std::size_t>(t)});
  }
  return c;
}

values random_values(tensor::shape dims, random_engine& random) {
  values x{std::move(dims)};
  for (auto& element : x.data) {
    element = static_cast<double>(random.below(1000)) / 500 - 1;
  }
  return x;
}

}  // namespace

TEST_CASE("parts of user-defined operators that divide by a count add up to the whole") {
  const auto a = extended_operators();
  const std::uint64_t seed = 20;
  CAPTURE(seed);
  random_engine random{seed};
  for (const auto* name : {"my_mean", "twice_the_mean", "unbiased_mean", "mean_by_root", "mean_of_squares_by"}) {
    CAPTURE(name);
    std::vector<tensor::tensor_type> types;
    std::vector<values> operands;
    for (auto x = a.signature(a.kind(name)).operands.most; x > 0; --x) {
      types.push_back(parallel::test::type({3, 8}));
      operands.push_back(random_values({3, 8}, random));
    }
    const auto o = dimensions_of(a, a.make_operation(name), types).value();
    REQUIRE(o.reductions.size() == 1);
    std::size_t tasks = 0;
    CHECK(compare(o, with_sum_of(o, 4), operands, tasks, a) < 1e-9);
    CHECK(tasks == 4);
  }
}

TEST_CASE("a divided sum over positions is refused") {
  const auto a = extended_operators();
  const auto o = dimensions_of(a, a.make_operation("weighted_by_position"), std::vector{parallel::test::type({3, 8})});
  REQUIRE(o->reductions.size() == 1);
  std::size_t tasks = 0;
  CHECK_THROWS_AS(compare(*o, with_sum_of(*o, 2), {values{{3, 8}}}, tasks, a), error);
}

TEST_CASE("renamed operators run on parts as under their own names") {
  tensor::algebra a;
  for (auto d : tensor::standard_operators()) {
    auto& name = d.signature.name;
    name = name == "pad" ? "frame" : name == "embedding" ? "rows_of" : name;
    a.add(std::move(d));
  }
  const std::uint64_t seed = 21;
  CAPTURE(seed);
  random_engine random{seed};
  std::size_t tasks = 0;

  const auto frame =
      dimensions_of(a, a.make_operation("frame", {{"pads", {0, 1, 0, 2}}}), std::vector{parallel::test::type({4, 3})});
  REQUIRE(frame->divisible.size() == 1);
  const configuration halves{{2}, {hardware::device_id{0U}, hardware::device_id{1U}}, {}, {}, 1};
  CHECK(compare(*frame, halves, {random_values({4, 3}, random)}, tasks, a) < 1e-9);

  auto ids = parallel::test::type({5});
  ids.element = tensor::dtype::int32;
  const auto rows = dimensions_of(a, a.make_operation("rows_of"), std::vector{parallel::test::type({6, 2}), ids});
  REQUIRE(rows->reductions.size() == 1);
  const std::vector<values> operands{random_values({6, 2}, random), {{5}, {0, 5, 2, 3, 1}}};
  CHECK(compare(*rows, with_sum_of(*rows, 3), operands, tasks, a) < 1e-9);
  CHECK(tasks == 5);
}

}  // namespace tests_of_task_operation
