#include <unity/fusion/row_roles.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/parallel/tasks/task_share.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/convert.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/loss.hpp>
#include <unity/tensor/zoo.hpp>

namespace tests_of_row_roles {

namespace {

using namespace unity;
using fusion::operator_class;
using fusion::row_role;
using tensor::dense;
using tensor::reduction;
using tensor::shape;
using tensor::tensor_graph;
using tensor::tensor_type;

const tensor::algebra& operators() {
  static const auto all = tensor::training_algebra();
  return all;
}

using values = std::vector<dense<double>>;

values evaluate(const tensor::operation& op, std::span<const tensor_type> types, const values& operands) {
  tensor_graph g;
  std::vector<value_id> inputs;
  for (auto t : types) {
    t.constant = false;
    inputs.push_back(g.results(g.add_node(
        operators().make_operation(
            "input",
            {{"name", fmt::format("{}", inputs.size())}, {"element", tensor::name_of(t.element)}, {"dims", t.dims}}),
        {}, {&t, 1}))[0]);
  }
  const auto n = g.add_node(op, inputs, *operators().infer(op, types));
  g.set_outputs(g.results(n));
  std::size_t next = 0;
  return tensor::evaluate<double>(operators(), g, [&](const tensor::operation&, const tensor_type&) {
    return next < operands.size() ? std::optional{operands[next++]} : std::nullopt;
  });
}

// An operator of a graph, on operands with pseudo-random values.
struct example {
  parallel::part_of_operation whole;
  fusion::node_rows rows_of;
  std::int64_t rows;
  values operands{};
  values results{};
};

dense<double> rows_between(const dense<double>& x, const tensor_type& t, std::int64_t rows, std::int64_t begin,
                           std::int64_t end) {
  const auto row = static_cast<std::ptrdiff_t>(x.data.size()) / rows;
  return {fusion::shape_of_rows(t, rows, end - begin), {x.data.begin() + row * begin, x.data.begin() + row * end}};
}

bool near(double a, double b, double scale) { return std::abs(a - b) <= 1e-9 * (1 + scale); }

// The results of the rows [begin, end) alone, with sums multiplied by their share.
values results_on(const example& e, std::int64_t begin, std::int64_t end) {
  auto part = e.whole;
  tensor::resizing sizes{e.whole.op, e.whole.inputs, e.whole.outputs, {}, {}, {}, {}};
  values operands;
  for (std::size_t x = 0; x < e.operands.size(); ++x) {
    operands.push_back(e.rows_of.by_rows[x] ? rows_between(e.operands[x], e.whole.inputs[x], e.rows, begin, end)
                                            : e.operands[x]);
    part.inputs[x].dims = operands.back().dims;
    sizes.new_inputs.push_back(operands.back().dims);
  }
  for (std::size_t r = 0; r < part.outputs.size(); ++r) {
    auto& t = part.outputs[r];
    t.dims = e.rows_of.folds[r] == reduction::none ? fusion::shape_of_rows(t, e.rows, end - begin) : t.dims;
    sizes.new_outputs.push_back(t.dims);
  }
  part.op = tensor::resized_part(operators(), sizes);
  REQUIRE(operators().infer(part.op, part.inputs).has_value());
  auto results = evaluate(part.op, part.inputs, operands);
  const auto shares =
      parallel::scaled_results(operators(), e.whole, part, std::vector<parallel::scaled_value>(operands.size()));
  for (std::size_t r = 0; r < results.size(); ++r) {
    REQUIRE((e.rows_of.folds[r] != reduction::sum || shares.has_value()));
    for (auto& v : results[r].data) {
      v *= e.rows_of.folds[r] == reduction::sum ? (*shares)[r].ratio() : 1;
    }
  }
  return results;
}

// Checks the law: results divided by rows are the operator's results on those rows; the other results are the sums over
// two parts.
void check_law(const example& e) {
  const auto half = e.rows / 2;
  const auto first = results_on(e, 0, half);
  const auto second = results_on(e, half, e.rows);
  for (std::size_t r = 0; r < e.results.size(); ++r) {
    const auto& expected = e.results[r].data;
    const auto& a = first[r].data;
    const auto& b = second[r].data;
    double scale = 0;
    for (const auto v : expected) {
      scale = std::max(scale, std::abs(v));
    }
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto found = e.rows_of.folds[r] == reduction::none      ? (i < a.size() ? a[i] : b[i - a.size()])
                         : e.rows_of.folds[r] == reduction::largest ? std::max(a[i], b[i])
                                                                    : a[i] + b[i];
      wrong += near(found, expected[i], scale) || !std::isfinite(expected[i]) ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
}

values random_operands(std::span<const tensor_type> types, random_engine& random) {
  values all;
  for (const auto& t : types) {
    all.emplace_back(t.dims);
    for (auto& v : all.back().data) {
      v = tensor::is_floating(t.element) ? 0.25 + random.unit() : static_cast<double>(random.below(2));
    }
  }
  return all;
}

struct counts {
  std::map<std::pair<std::string_view, row_role>, int> of;
  int operator[](row_role role) const {
    int n = 0;
    for (const auto& [key, count] : of) {
      n += key.second == role ? count : 0;
    }
    return n;
  }
};

// Divides every input into rows that can be.
void check_graph(const tensor_graph& g, std::int64_t rows, counts& seen, random_engine& random) {
  std::vector<value_id> inputs;
  for (const auto n : node_ids(g)) {
    if (g.operation(n).kind == operators().kind("input") && fusion::divides(g.type(g.results(n)[0]), rows)) {
      inputs.push_back(g.results(n)[0]);
    }
  }
  const auto labels = fusion::row_roles(operators(), g, inputs, rows);
  for (const auto n : node_ids(g)) {
    const auto role = labels.roles[n.index()];
    const std::string_view name = operators().signature(g.operation(n).kind).name;
    CAPTURE(name, rows);
    if (++seen.of[{name, role}] > 8 || (role != row_role::local && role != row_role::folding)) {
      continue;
    }
    example e{{g.operation(n), {}, {}}, {}, rows};
    std::vector<bool> is_divided;
    for (const auto v : g.operands(n)) {
      e.whole.inputs.push_back(g.type(v));
      is_divided.push_back(labels.is_divided[v.index()]);
    }
    for (const auto v : g.results(n)) {
      e.whole.outputs.push_back(g.type(v));
      CHECK(labels.is_divided[v.index()] == (labels.folds[v.index()] == reduction::none));
    }
    e.rows_of = fusion::rows_of(operators(), e.whole.op, e.whole.inputs, is_divided, rows);
    CHECK(e.rows_of.role == role);
    const auto elements = [](const tensor_type& t) { return tensor::element_count(t.dims); };
    if (std::any_of(e.whole.inputs.begin(), e.whole.inputs.end(), [&](const auto& t) { return elements(t) > 50000; })) {
      continue;
    }
    e.operands = random_operands(e.whole.inputs, random);
    e.results = evaluate(e.whole.op, e.whole.inputs, e.operands);
    check_law(e);
  }
}

}  // namespace

TEST_CASE("operators of training iterations act on rows as their row roles say", "[row_roles]") {
  constexpr std::uint64_t seed = 1;
  random_engine random{seed};
  counts seen;
  for (const auto& [text, rows] :
       {std::pair{"zoo:bert?layers=1&hidden=6&heads=3&seq=4&vocab=7&batch=6", 6}, std::pair{"zoo:lenet?batch=2", 2},
        std::pair{"zoo:gpt?layers=1&hidden=4&heads=2&seq=3&vocab=5&batch=4", 2},
        std::pair{"zoo:squeezenet1_1?batch=2&image=25", 2}, std::pair{"zoo:resnet50?batch=2&hidden=4&image=32", 2},
        std::pair{"zoo:rnnlm?seq=2&batch=4&hidden=4&vocab=5", 4}}) {
    CAPTURE(text, seed);
    const auto model = tensor::zoo::build(operators(), text);
    const auto g = tensor::with_loss(operators(), model, tensor::loss::mean_square);
    const auto all = tensor::differentiate(operators(), g, {.loss = g.outputs()[0]}).graph;
    check_graph(all, rows, seen, random);
    check_graph(tensor::spelled_out(operators(), all), rows, seen, random);
  }
  std::cout << fmt::format("seed {}: {} local, {} folding, {} mixing, {} whole\n", seed, seen[row_role::local],
                           seen[row_role::folding], seen[row_role::mixing], seen[row_role::whole]);
  for (const auto& [key, count] : seen.of) {
    if (key.second == row_role::mixing) {
      std::cout << fmt::format("  mixing: {} {}\n", key.first, count);
    }
  }
  CHECK(seen[row_role::local] > 500);
  CHECK(seen[row_role::folding] > 50);
}

TEST_CASE("row roles of operators follow from their indices", "[row_roles]") {
  tensor::builder b{operators()};
  const auto x = b.input("x", {6, 4});
  const auto w = b.input("w", {4, 6});
  const auto square = b.input("square", {6, 6});
  const auto reduce = [&](std::string_view name, std::int64_t axis) {
    return b.apply(name, std::array{x}, {{"axes", {axis}}})[0];
  };
  const std::vector<std::pair<value_id, row_role>> expected{
      {b.matmul(x, w), row_role::local},
      {b.matmul(w, x), row_role::mixing},  // sums over rows that are not the outermost dimension
      {b.matmul(square, x), row_role::mixing},
      {b.transpose(x, {1, 0}), row_role::mixing},
      {b.softmax(x, 1), row_role::local},
      {b.softmax(x, 0), row_role::mixing},
      {reduce("reduce_mean", 1), row_role::local},
      {reduce("reduce_mean", 0), row_role::folding},
      {reduce("reduce_max", 0), row_role::folding},
      {b.apply("slice", std::array{x}, {{"axes", {1}}, {"starts", {1}}, {"ends", {3}}, {"steps", {1}}})[0],
       row_role::local},
      {b.apply("slice", std::array{x}, {{"axes", {0}}, {"starts", {1}}, {"ends", {3}}, {"steps", {1}}})[0],
       row_role::mixing},
      {b.concat(1, std::array{x, x}), row_role::local},
      {b.concat(0, std::array{x, x}), row_role::mixing},
      {b.reshape(x, {3, 2, 4}), row_role::local},
      {b.reshape(x, {24}), row_role::local},
      {b.add(x, b.fill(1, {6, 4})), row_role::local},  // the fill is read by rows although it is not divided
      {b.add(x, b.fill(1, {4})), row_role::local},
      {b.relu(w), row_role::whole},
      {b.add(b.reshape(x, {1, 6, 4}), b.input("more", {5, 6, 4})), row_role::mixing}};
  std::vector<value_id> outputs;
  for (const auto& [v, role] : expected) {
    outputs.push_back(v);
  }
  const auto g = std::move(b).finish(outputs);
  const auto labels = fusion::row_roles(operators(), g, std::array{x}, 6);
  for (const auto& [v, role] : expected) {
    CAPTURE(v.index(), operators().signature(g.operation(g.producer(v)).kind).name);
    CHECK(labels.roles[g.producer(v).index()] == role);
    CHECK(labels.is_divided[v.index()] == (role == row_role::local));
  }
}

TEST_CASE("rows are counted in the order of elements in memory", "[row_roles]") {
  const auto type = [](const shape& dims, tensor::layout order = tensor::layout::row_major) {
    return tensor_type{tensor::dtype::float32, order, false, dims};
  };
  CHECK(fusion::divides(type({4, 6}), 2));
  CHECK(fusion::divides(type({4, 6}), 8));
  CHECK_FALSE(fusion::divides(type({4, 6}), 3));
  CHECK_FALSE(fusion::divides(type({4, 6}), 48));
  CHECK(fusion::shape_of_rows(type({4, 6, 5}), 24, 7) == shape{1, 7, 5});
  CHECK(fusion::shape_of_rows(type({4, 6}), 2, 1) == shape{2, 6});
  CHECK(fusion::shape_of_rows(type({1, 4, 6}), 8, 3) == shape{1, 1, 9});
  CHECK(fusion::shape_of_rows(type({4, 6}, tensor::layout::column_major), 6, 2) == shape{4, 2});
}

TEST_CASE("operator classes follow from the operators' definitions", "[row_roles]") {
  tensor::builder b{operators()};
  const auto x = b.input("x", {4, 6});
  const auto image = b.input("image", {2, 3, 8, 8});
  std::vector<std::pair<value_id, operator_class>> expected{
      {b.relu(x), operator_class::elementwise},
      {b.add(x, x), operator_class::elementwise},
      {b.add(x, b.input("bias", {6})), operator_class::broadcast},
      {b.matmul(x, b.input("w", {6, 3})), operator_class::product},
      {b.linear(x, b.input("v", {6, 3}), b.input("c", {3})), operator_class::product},
      {b.conv2d(image, b.input("k", {4, 3, 3, 3})), operator_class::convolution},
      {b.apply("conv2d_weight_gradient", std::array{image, image}, {{"dims", {3, 3, 1, 1}}})[0],
       operator_class::convolution},
      {b.transpose(x, {1, 0}), operator_class::movement},
      {b.reshape(x, {24}), operator_class::movement},
      {b.concat(0, std::array{x, x}), operator_class::movement},
      {b.apply("reduce_mean", std::array{x}, {{"axes", {1}}})[0], operator_class::reduction},
      {b.apply("reduce_max", std::array{x}, {{"axes", {0}}})[0], operator_class::reduction},
      {b.max_pool(image, {.kernel = {2, 2}}), operator_class::other},
      {b.softmax(x, 1), operator_class::other},
      {b.apply("embedding", std::array{x, b.input("ids", {5}, tensor::dtype::int32)})[0], operator_class::other}};
  std::vector<value_id> outputs;
  for (const auto& [v, what] : expected) {
    outputs.push_back(v);
  }
  const auto g = std::move(b).finish(outputs);
  for (const auto& [v, what] : expected) {
    const auto& op = g.operation(g.producer(v));
    CAPTURE(operators().signature(op.kind).name);
    std::vector<tensor_type> inputs;
    for (const auto o : g.operands(g.producer(v))) {
      inputs.push_back(g.type(o));
    }
    CHECK(fusion::class_of(operators(), op, inputs, {&g.type(v), 1}) == what);
  }
}

}  // namespace tests_of_row_roles
