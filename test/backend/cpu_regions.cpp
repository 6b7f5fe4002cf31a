#include <unity/backend/cpu/region.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/backend/cpu.hpp>
#include <unity/core/error.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/fusion/kernel_region.hpp>
#include <unity/fusion/row_roles.hpp>
#include <unity/graph/users.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/loss.hpp>
#include <unity/tensor/spelled_out.hpp>
#include <unity/tensor/zoo.hpp>

#include "kernel_run.hpp"

namespace tests_of_cpu_regions {

namespace {

using namespace unity;
using backend::cpu_backend;
using backend::test::run_kernel;
using backend::test::suite_operands;
using fusion::kernel_region;
using fusion::row_role;
using tensor::shape;
using tensor::tensor_graph;
using tensor::tensor_type;

const tensor::algebra& operators() {
  static const auto all = tensor::training_algebra();
  return all;
}

// A graph whose inputs with a name that begins with "x" are divided, with all that follows of them.
kernel_region divided(tensor_graph g, std::int64_t rows) {
  std::vector<value_id> inputs;
  for (const auto n : node_ids(g)) {
    const auto& op = g.operation(n);
    if (op.kind == operators().kind("input") && operators().read(op).word("name").starts_with("x")) {
      inputs.push_back(g.results(n)[0]);
    }
  }
  auto labels = fusion::row_roles(operators(), g, inputs, rows);
  return {std::move(g), std::move(labels.is_divided), rows};
}

struct region_types {
  std::vector<tensor_type> inputs;
  std::vector<tensor_type> outputs;
};
region_types types_of(const tensor_graph& g) {
  region_types t{{}, backend::detail::types_of(g, g.outputs())};
  for (const auto n : node_ids(g)) {
    if (g.operation(n).kind == operators().kind("input")) {
      t.inputs.push_back(g.type(g.results(n)[0]));
    }
  }
  return t;
}

// Reals, positive where the operators of models need it; numbers of rows for integers.
suite_operands random_operands(std::span<const tensor_type> types, random_engine& random) {
  suite_operands operands;
  for (const auto& t : types) {
    tensor::dense<double> values{t.dims};
    for (auto& x : values.data) {
      x = tensor::is_floating(t.element) ? 0.25 + random.unit() : static_cast<double>(random.below(2));
    }
    operands.add(std::move(values), t);
  }
  return operands;
}

std::vector<tensor::dense<double>> expected_of(const tensor_graph& g, const suite_operands& operands) {
  std::size_t next = 0;
  const auto given = [&](const tensor::operation& op, const tensor_type&) {
    return op.kind == operators().kind("input") ? std::optional{operands.numbers[next++]} : std::nullopt;
  };
  return tensor::evaluate<double>(operators(), g, given);
}

// As the evaluator computes it, and the same bytes on 1, 2 and 3 threads.
void check(const kernel_region& region, std::uint64_t seed, double tolerance = 2e-5) {
  CAPTURE(seed);
  random_engine random{seed};
  const auto types = types_of(region.graph);
  const auto operands = random_operands(types.inputs, random);
  const auto expected = expected_of(region.graph, operands);
  std::vector<std::vector<std::byte>> first;
  for (const int threads : {1, 2, 3}) {
    CAPTURE(threads);
    cpu_backend device{operators(), {.threads = threads}};
    const auto found = run_kernel(device, device.prepare_region(region), types.inputs, types.outputs, operands.bytes);
    if (threads == 1) {
      backend::test::check_results(found, types.outputs, expected, tolerance);
      first = found;
    }
    CHECK(found == first);
  }
}

value_id apply(tensor::builder& b, std::string_view name, std::vector<value_id> in,
               std::initializer_list<tensor::named_attribute> attributes = {}) {
  return b.apply(name, in, attributes)[0];
}
value_id reduced(tensor::builder& b, std::string_view name, value_id x, const shape& axes, bool keep = true) {
  return apply(b, name, {x}, {{"axes", axes}, {"keep_dims", keep ? 1 : 0}});
}
value_id softmax(tensor::builder& b, value_id x, std::int64_t axis) {
  const auto powers = apply(b, "exp", {b.sub(x, reduced(b, "reduce_max", x, {axis}))});
  return b.div(powers, reduced(b, "reduce_sum", powers, {axis}));
}

}  // namespace

TEST_CASE("a softmax is one kernel", "[cpu_regions]") {
  for (const auto& dims : {shape{7, 5}, shape{64, 37, 33}, shape{1000, 257}}) {
    tensor::builder b{operators()};
    const auto x = b.input("x", dims);
    auto g = std::move(b).finish({softmax(b, x, static_cast<std::int64_t>(dims.size()) - 1)});
    check(divided(std::move(g), dims[0]), dims.size());
  }
}

TEST_CASE("a normalization and its sums over rows are one kernel", "[cpu_regions]") {
  for (const std::int64_t batch : {4, 12, 97}) {
    tensor::builder b{operators()};
    const auto x = b.input("x", {batch, 19, 96});
    const auto dy = b.input("x gradient", {batch, 19, 96});
    const auto scale = b.input("scale", {96});
    const auto shift = b.input("shift", {96});
    const auto centred = b.sub(x, reduced(b, "reduce_mean", x, {2}));
    const auto variance = reduced(b, "reduce_mean", b.mul(centred, centred), {2});
    const auto unit = b.div(centred, apply(b, "sqrt", {b.add(variance, b.fill(1e-5))}));
    const auto y = b.add(b.mul(unit, scale), shift);
    const auto of_scale = reduced(b, "reduce_sum", b.mul(dy, unit), {0, 1}, false);
    const auto of_shift = reduced(b, "reduce_sum", dy, {0, 1}, false);
    const auto largest = reduced(b, "reduce_max", y, {0, 1}, false);
    const auto mean = reduced(b, "reduce_mean", y, {0, 1});
    auto g = std::move(b).finish({y, of_scale, of_shift, largest, mean});
    check(divided(std::move(g), batch), static_cast<std::uint64_t>(batch));
  }
}

TEST_CASE("what follows products is in their kernel", "[cpu_regions]") {
  tensor::builder b{operators()};
  const auto x = b.input("x", {96, 64});
  const auto h = b.gelu(b.add(b.matmul(x, b.input("w", {64, 80})), b.input("bias", {80})));
  const auto y = b.mul(b.matmul(h, b.transpose(b.input("v", {48, 80}), {1, 0})), b.fill(0.01));
  auto g = std::move(b).finish({h, softmax(b, y, 1), reduced(b, "reduce_sum", y, {0})});
  check(divided(std::move(g), 96), 1);
}

TEST_CASE("attention is one kernel", "[cpu_regions]") {
  tensor::builder b{operators()};
  const auto heads = [&](const char* name, const shape& order) {
    return b.transpose(b.reshape(b.input(name, {6, 10, 32}), {6, 10, 4, 8}), order);
  };
  const auto q = heads("xq", {0, 2, 1, 3});
  const auto k = heads("xk", {0, 2, 3, 1});
  const auto v = heads("xv", {0, 2, 1, 3});
  const auto p = softmax(b, b.add(b.matmul(q, k), b.input("mask", {10, 10})), 3);
  const auto y = b.reshape(b.transpose(b.matmul(p, v), {0, 2, 1, 3}), {60, 32});
  auto g = std::move(b).finish({y, p});
  check(divided(std::move(g), 6), 2);
}

TEST_CASE("convolutions with what follows them, and sums over their samples, are one kernel", "[cpu_regions]") {
  tensor::builder b{operators()};
  const auto x = b.input("x", {6, 8, 9, 9});
  const auto dy = b.input("x gradient", {6, 16, 9, 9});
  const auto w = b.input("w", {16, 8, 3, 3});
  const auto y = b.conv2d(x, w, {.pads = {1, 1, 1, 1}});
  const auto mean = reduced(b, "reduce_mean", y, {0, 2, 3});
  const auto squares = reduced(b, "reduce_mean", b.mul(y, y), {0, 2, 3});
  const auto gradient = apply(b, "conv2d_weight_gradient", {x, dy}, {{"pads", {1, 1, 1, 1}}, {"dims", {16, 8, 3, 3}}});
  const auto back = apply(b, "conv2d_input_gradient", {dy, w}, {{"pads", {1, 1, 1, 1}}, {"dims", {6, 8, 9, 9}}});
  auto g = std::move(b).finish({b.relu(y), mean, squares, gradient, b.mul(back, x)});
  check(divided(std::move(g), 6), 3);
}

TEST_CASE("what is moved within rows is in their kernel", "[cpu_regions]") {
  tensor::builder b{operators()};
  const auto x = b.input("x", {12, 6, 10});
  const auto y = b.input("x2", {12, 4, 10});
  const auto all = b.concat(1, std::array{b.relu(x), y});
  const auto parts = b.split(b.transpose(all, {0, 2, 1}), 2, {7, 3});
  const auto zeros = b.fill(0.5, {12, 10, 3});
  auto g = std::move(b).finish({parts[0], b.add(parts[1], zeros), b.reshape(all, {120, 10}), x});
  check(divided(std::move(g), 12), 4);
}

TEST_CASE("without rows operators run one after another", "[cpu_regions]") {
  tensor::builder b{operators()};
  const auto x = b.input("a", {12, 16});
  const auto y = b.transpose(b.matmul(x, b.input("w", {16, 12})), {1, 0});
  auto g = std::move(b).finish({softmax(b, b.relu(y), 0), reduced(b, "reduce_sum", x, {0}), b.fill(3, {5})});
  check(divided(std::move(g), 1), 5);
}

TEST_CASE("what mixes rows, and what reads their sum, is refused by name", "[cpu_regions]") {
  cpu_backend device{operators()};
  {
    tensor::builder b{operators()};
    const auto x = b.input("x", {8, 8});
    const kernel_region region{std::move(b).finish({b.transpose(x, {1, 0})}), {true, false}, 8};
    CHECK_THROWS_WITH(device.prepare_region(region), Catch::Contains("transpose"));
  }
  tensor::builder b{operators()};
  const auto x = b.input("x", {8, 8});
  const auto g = std::move(b).finish({b.sub(x, reduced(b, "reduce_sum", x, {0}))});
  CHECK_THROWS_WITH(device.prepare_region({g, {true, false, true}, 8}), Catch::Contains("sub"));
}

}  // namespace tests_of_cpu_regions
