#include <unity/backend/cpu/region.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
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
#include <unity/graph/topological_order.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/convert.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/loss.hpp>
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

// A region whose inputs named "x..." are divided into rows, and with them all values that depend on them.
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
  region_types t{{}, backend::types_of(g, g.outputs())};
  for (const auto n : node_ids(g)) {
    if (g.operation(n).kind == operators().kind("input")) {
      t.inputs.push_back(g.type(g.results(n)[0]));
    }
  }
  return t;
}

// Random reals, positive where the models' operators need it; for integers, row numbers.
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

// Compares with the evaluator, and the bytes on 1, 2 and 3 threads with each other. Returns false without comparing if
// results are not finite (the gradient of a maximum that equals no element).
bool check(const kernel_region& region, std::uint64_t seed, double tolerance = 2e-5) {
  CAPTURE(seed);
  random_engine random{seed};
  const auto types = types_of(region.graph);
  const auto operands = random_operands(types.inputs, random);
  const auto expected = expected_of(region.graph, operands);
  if (!backend::test::all_finite(expected)) {
    return false;
  }
  std::vector<std::vector<std::byte>> first;
  // Slices of one row, of a few small rows, and of all rows if they are small.
  const std::size_t slice = std::array<std::size_t, 3>{1, 4096, 512 << 10}[seed % 3];
  for (const int threads : {1, 2, 3}) {
    CAPTURE(threads, slice);
    cpu_backend device{operators(), {.threads = threads, .slice_bytes = slice}};
    const auto found = run_kernel(device, device.prepare_region(region), types.inputs, types.outputs, operands.bytes);
    if (threads == 1) {
      backend::test::check_results(found, types.outputs, expected, tolerance);
      first = found;
    }
    CHECK(found == first);
  }
  return true;
}

// Checks with slices of every size.
void check_slices(const kernel_region& region, std::uint64_t seed) {
  for (std::uint64_t i = 0; i < 3; ++i) {
    CHECK(check(region, 3 * seed + i));
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

// A model's training iteration (loss and gradients) in simple operators.
struct iteration {
  tensor_graph graph;
  fusion::row_labels labels;
  std::int64_t rows;
};
iteration training_of(const char* text, std::int64_t rows) {
  const auto model = tensor::zoo::build(operators(), text);
  const auto g = tensor::with_loss(operators(), model, tensor::loss::mean_square);
  iteration t{tensor::spelled_out(operators(), tensor::differentiate(operators(), g, {.loss = g.outputs()[0]}).graph),
              {},
              rows};
  std::vector<value_id> inputs;
  for (const auto n : node_ids(t.graph)) {
    const auto v = t.graph.results(n)[0];
    if (t.graph.operation(n).kind == operators().kind("input") && fusion::divides(t.graph.type(v), rows)) {
      inputs.push_back(v);
    }
  }
  t.labels = fusion::row_roles(operators(), t.graph, inputs, rows);
  return t;
}

// Grows a region of up to `most` nodes from one node. Adds neighbours that are computed by rows, as long as the region
// stays convex and no node inside reads a sum over rows.
class random_region {
 public:
  random_region(const iteration& t, random_engine& random) : t_{t}, random_{random}, uses_{t.graph} {}

  std::optional<kernel_region> grow(node_id seed, std::size_t most) {
    inside_.assign(t_.graph.node_count(), false);
    if (!fits(seed)) {
      return std::nullopt;
    }
    inside_[seed.index()] = true;
    std::vector<node_id> border{seed};
    for (std::size_t size = 1; size < most && !border.empty();) {
      const auto at = random_.below(border.size());
      const auto next = neighbour(border[at]);
      if (!next) {
        border.erase(border.begin() + static_cast<std::ptrdiff_t>(at));
        continue;
      }
      inside_[next->index()] = true;
      if (!is_convex()) {
        inside_[next->index()] = false;
        refused_.push_back(*next);
        continue;
      }
      border.push_back(*next);
      ++size;
    }
    return cut();
  }

 private:
  bool fits(node_id n) const {
    const auto role = t_.labels.roles[n.index()];
    return role == row_role::local || role == row_role::folding;
  }
  bool folds(node_id n) const { return t_.labels.roles[n.index()] == row_role::folding; }
  std::optional<node_id> neighbour(node_id n) const {
    const auto is_new = [&](node_id m) {
      return fits(m) && !inside_[m.index()] && std::find(refused_.begin(), refused_.end(), m) == refused_.end();
    };
    for (const auto v : t_.graph.operands(n)) {
      if (const auto m = t_.graph.producer(v); is_new(m) && !folds(m)) {
        return m;
      }
    }
    for (const auto v : folds(n) ? std::span<const value_id>{} : t_.graph.results(n)) {
      for (const auto& use : uses_[v]) {
        if (is_new(use.user)) {
          return use.user;
        }
      }
    }
    return std::nullopt;
  }
  // Whether no path leaves the region and returns, and no node inside reads a sum over rows.
  bool is_convex() const {
    std::vector<bool> behind(t_.graph.node_count());  // outside the region and downstream of it
    bool fine = true;
    for (const auto n : node_ids(t_.graph)) {
      for (const auto v : t_.graph.operands(n)) {
        const auto from = t_.graph.producer(v);
        const bool reads = inside_[from.index()] && inside_[n.index()] && folds(from);
        fine = fine && !reads && !(inside_[n.index()] && behind[from.index()]);
        behind[n.index()] =
            behind[n.index()] || (!inside_[n.index()] && (inside_[from.index()] || behind[from.index()]));
      }
    }
    return fine;
  }
  kernel_region cut() const {
    kernel_region region{{}, {}, t_.rows};
    const auto& g = t_.graph;
    std::vector<value_id> now(g.value_count());
    const auto mark = [&](value_id v) { region.is_divided.push_back(t_.labels.is_divided[v.index()]); };
    for (const auto n : node_ids(g)) {
      for (const auto v : inside_[n.index()] ? g.operands(n) : std::span<const value_id>{}) {
        if (!inside_[g.producer(v).index()] && !now[v.index()].valid()) {
          auto t = g.type(v);
          t.constant = false;
          const auto name = fmt::format("{}", v.index());
          auto op = operators().make_operation(
              "input", {{"name", name}, {"element", tensor::name_of(t.element)}, {"dims", t.dims}});
          now[v.index()] = region.graph.results(region.graph.add_node(std::move(op), {}, {&t, 1}))[0];
          mark(v);
        }
      }
    }
    std::vector<value_id> outputs;
    for (const auto n : node_ids(g)) {
      if (!inside_[n.index()]) {
        continue;
      }
      std::vector<value_id> operands;
      for (const auto v : g.operands(n)) {
        operands.push_back(now[v.index()]);
      }
      const auto made = region.graph.add_node(g.operation(n), operands, backend::types_of(g, g.results(n)));
      for (std::size_t r = 0; r < g.results(n).size(); ++r) {
        const auto v = g.results(n)[r];
        now[v.index()] = region.graph.results(made)[r];
        mark(v);
        const bool leaves = uses_[v].empty() || std::any_of(uses_[v].begin(), uses_[v].end(),
                                                            [&](const use& u) { return !inside_[u.user.index()]; });
        if (leaves || std::find(g.outputs().begin(), g.outputs().end(), v) != g.outputs().end()) {
          outputs.push_back(now[v.index()]);
        }
      }
    }
    region.graph.set_outputs(outputs);
    return region;
  }

  const iteration& t_;
  random_engine& random_;
  users uses_;
  std::vector<bool> inside_;
  std::vector<node_id> refused_;
};

}  // namespace

TEST_CASE("cpu kernels of random regions of training iterations match the evaluator", "[cpu_regions]") {
  struct subject {
    const char* text;
    std::int64_t rows;
  };
  constexpr std::uint64_t first_seed = 1;
  std::size_t ran = 0;
  std::size_t nodes = 0;
  std::size_t folding = 0;
  for (const auto& [text, rows] :
       {subject{"zoo:bert?layers=1&hidden=24&heads=3&seq=10&vocab=11&batch=6", 6},
        subject{"zoo:gpt?layers=1&hidden=16&heads=2&seq=7&vocab=9&batch=4", 4},
        subject{"zoo:mlp?layers=3&hidden=40&batch=24", 24}, subject{"zoo:lenet?batch=4", 4},
        subject{"zoo:resnet50?batch=2&hidden=8&image=32", 2}, subject{"zoo:rnnlm?seq=2&batch=8&hidden=12&vocab=10", 8},
        subject{"zoo:squeezenet1_1?batch=3&image=33", 3}, subject{"zoo:nasrnn?hidden=16&seq=3&batch=5", 5}}) {
    CAPTURE(text);
    const auto t = training_of(text, rows);
    for (std::uint64_t i = 0; i < 25; ++i) {
      const auto seed = hash_combine(hash_combine(first_seed, std::hash<std::string_view>{}(text)), i);
      CAPTURE(seed);
      random_engine random{seed};
      const node_id start{random.below(t.graph.node_count())};
      const auto region = random_region{t, random}.grow(start, 1 + random.below(24));
      if (region && check(*region, seed, 1e-3)) {
        ++ran;
        nodes += region->graph.node_count();
        for (const auto v : region->graph.outputs()) {
          folding += region->is_divided[v.index()] ? 0 : 1;
        }
      }
    }
  }
  std::cout << fmt::format("seed {}: {} regions of {} nodes, {} sums over rows\n", first_seed, ran, nodes, folding);
  CHECK(ran >= 60);
  CHECK(nodes >= 10 * ran);
  CHECK(folding >= 10);
}

TEST_CASE("a softmax as one cpu region kernel is correct", "[cpu_regions]") {
  for (const auto& dims : {shape{7, 5}, shape{64, 37, 33}, shape{1000, 257}}) {
    tensor::builder b{operators()};
    const auto x = b.input("x", dims);
    auto g = std::move(b).finish({softmax(b, x, static_cast<std::int64_t>(dims.size()) - 1)});
    check_slices(divided(std::move(g), dims[0]), dims.size());
  }
}

TEST_CASE("a normalization with its sums over rows as one cpu region kernel is correct", "[cpu_regions]") {
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
    check_slices(divided(std::move(g), batch), static_cast<std::uint64_t>(batch));
  }
}

TEST_CASE("matrix products with their epilogues as one cpu region kernel are correct", "[cpu_regions]") {
  tensor::builder b{operators()};
  const auto x = b.input("x", {96, 64});
  const auto h = b.gelu(b.add(b.matmul(x, b.input("w", {64, 80})), b.input("bias", {80})));
  const auto y = b.mul(b.matmul(h, b.transpose(b.input("v", {48, 80}), {1, 0})), b.fill(0.01));
  auto g = std::move(b).finish({h, softmax(b, y, 1), reduced(b, "reduce_sum", y, {0})});
  check_slices(divided(std::move(g), 96), 1);
}

TEST_CASE("attention as one cpu region kernel is correct", "[cpu_regions]") {
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
  check_slices(divided(std::move(g), 6), 2);
}

TEST_CASE("convolutions with epilogues and sums as one cpu region kernel are correct", "[cpu_regions]") {
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
  check_slices(divided(std::move(g), 6), 3);
}

TEST_CASE("data movement within rows in a cpu region kernel is correct", "[cpu_regions]") {
  tensor::builder b{operators()};
  const auto x = b.input("x", {12, 6, 10});
  const auto y = b.input("x2", {12, 4, 10});
  const auto all = b.concat(1, std::array{b.relu(x), y});
  const auto parts = b.split(b.transpose(all, {0, 2, 1}), 2, {7, 3});
  const auto zeros = b.fill(0.5, {12, 10, 3});
  auto g = std::move(b).finish({parts[0], b.add(parts[1], zeros), b.reshape(all, {120, 10}), x});
  check_slices(divided(std::move(g), 12), 4);
}

TEST_CASE("a slice of a constant computed before all rows is correct in a cpu region kernel", "[cpu_regions]") {
  tensor::builder b{operators()};
  const auto x = b.input("x", {16, 8});
  const auto part = b.slice(b.fill(0.25, {32, 8}), {0}, {0}, {16});
  auto g = std::move(b).finish({b.mul(x, part)});
  check_slices(divided(std::move(g), 16), 6);
}

TEST_CASE("a cpu region kernel without divided rows is correct", "[cpu_regions]") {
  tensor::builder b{operators()};
  const auto x = b.input("a", {12, 16});
  const auto y = b.transpose(b.matmul(x, b.input("w", {16, 12})), {1, 0});
  auto g = std::move(b).finish({softmax(b, b.relu(y), 0), reduced(b, "reduce_sum", x, {0}), b.fill(3, {5})});
  check_slices(divided(std::move(g), 1), 5);
}

TEST_CASE("a region operator that mixes rows or reads a sum over rows is refused by name", "[cpu_regions]") {
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

TEST_CASE("a region without outputs is refused", "[cpu_regions]") {
  cpu_backend device{operators()};
  tensor::builder b{operators()};
  const auto x = b.input("x", {8, 8});
  static_cast<void>(b.relu(x));
  CHECK_THROWS_WITH(device.prepare_region({std::move(b).finish({}), {true, true}, 8}), Catch::Contains("no outputs"));
}

}  // namespace tests_of_cpu_regions
