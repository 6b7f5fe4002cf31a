// A new operator needs its definition and one line about ONNX, as docs/tutorial.md says. This file adds one with no
// more than that, and checks the rest of the library on it.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/hardware/presets.hpp>
#include <unity/io/onnx_export.hpp>
#include <unity/io/onnx_import.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/shape.hpp>

#include "../parallel/rank_runs.hpp"

namespace tests_of_new_operator {

namespace io = unity::io;
namespace parallel = unity::parallel;
namespace tensor = unity::tensor;
using tensor::dense;

namespace {

// d[i, j] = sum over k of scale * (x[i, k] - y[j, k])^2
tensor::definition scaled_distance() {
  const auto iteration = [](tensor::space& s, const tensor::attribute_reader&) {
    if (s.require_floating()) {
      const auto i = s.parallel("i"), j = s.parallel("j"), k = s.reduced("k");
      s.read({i, k});
      s.read({j, k});
      s.write({i, j});
    }
  };
  const auto kernel = [](const tensor::attribute_reader& a, std::span<const tensor::tensor_type>) {
    const auto difference = tensor::kernels::x(0) - tensor::kernels::x(1);
    return tensor::kernels::sum(tensor::kernels::literal(a.real("scale")) * difference * difference);
  };
  return tensor::define("scaled_distance", 2, 1, {tensor::real_field("scale", 1.0)},
                        tensor::primitive{iteration, kernel});
}

const std::vector<io::onnx_operator> in_onnx{{"scaled_distance", "ScaledDistance", "com.example"}};

const tensor::algebra& operators() {
  static const auto all = [] {
    auto a = tensor::training_algebra();
    a.add(scaled_distance());
    return a;
  }();
  return all;
}

constexpr double scale = 0.5;
constexpr std::int64_t points = 8;
constexpr std::int64_t centers = 4;
constexpr std::int64_t features = 6;

// relu(1 - distances of points from centers, which are trained)
tensor::tensor_graph model() {
  tensor::builder b{operators()};
  const auto x = b.input("points", {points, features});
  const auto y = b.weight("centers", {centers, features});
  const auto distance = b.apply("scaled_distance", {x, y}, {{"scale", scale}})[0];
  const auto one = b.fill(1);
  const auto near = b.apply("sub", {one, distance})[0];
  return std::move(b).finish({b.relu(near), distance});
}

double number(std::int64_t row, std::int64_t column, double size) {
  return size * static_cast<double>((row * 7 + column * 3) % 5 - 2);
}

dense<double> filled(std::int64_t rows, double size) {
  dense<double> t{{rows, features}};
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t k = 0; k < features; ++k) {
      t.data[static_cast<std::size_t>(i * features + k)] = number(i, k, size);
    }
  }
  return t;
}

// Values of inputs and weights, and cotangents of the outputs: 1 for the distances, 0 for the other output.
std::optional<dense<double>> source(const tensor::operation& op, const tensor::tensor_type& type) {
  const auto& kind = operators().signature(op.kind).name;
  if (kind != "input" && kind != "weight") {
    return std::nullopt;
  }
  const auto name = operators().read(op).word("name");
  if (name == "points" || name == "centers") {
    return filled(name == "points" ? points : centers, name == "points" ? 0.25 : 0.5);
  }
  dense<double> cotangent{type.dims};
  for (auto& c : cotangent.data) {
    c = name == "cotangent1" ? 1 : 0;
  }
  return cotangent;
}

io::import_options reads_own() {
  io::import_options options;
  options.operators = in_onnx;
  return options;
}

}  // namespace

TEST_CASE("shape inference and work of a new operator follow from its definition") {
  const auto g = model();
  CHECK(g.type(g.outputs()[1]).dims == tensor::shape{points, centers});
  const auto op = operators().make_operation("scaled_distance", {{"scale", scale}});
  const std::array<tensor::tensor_type, 2> types{tensor::tensor_type{.dims = {2, 3}},
                                                 tensor::tensor_type{.dims = {4, 5}}};
  CHECK(operators().why_not(op, types) == "agreement with the size of k in operand 1");
  const std::array<tensor::tensor_type, 2> good{types[0], tensor::tensor_type{.dims = {4, 3}}};
  const std::array result{tensor::tensor_type{.dims = {2, 4}}};
  const auto work = operators().work(op, good, result);
  CHECK(work.operations.count() == 2 * 4 * 3 * 5);  // two subtractions, two products and a sum at every point
  CHECK(work.moved.count() == (2 * 3 + 4 * 3 + 2 * 4) * 4);
}

TEST_CASE("a new operator is evaluated and differentiated from its definition") {
  const auto d = tensor::differentiate(operators(), model());
  const auto found = tensor::evaluate<double>(operators(), d.graph, source);
  REQUIRE(found.size() == 3);  // two outputs, and the gradient of the centers
  const auto x = filled(points, 0.25);
  const auto y = filled(centers, 0.5);
  const auto at = [](const dense<double>& t, std::int64_t row, std::int64_t column) {
    return t.data[static_cast<std::size_t>(row * t.dims[1] + column)];
  };
  for (std::int64_t j = 0; j < centers; ++j) {
    for (std::int64_t i = 0; i < points; ++i) {
      double sum = 0;
      for (std::int64_t k = 0; k < features; ++k) {
        sum += scale * (at(x, i, k) - at(y, j, k)) * (at(x, i, k) - at(y, j, k));
      }
      CHECK(at(found[1], i, j) == Approx(sum));
      CHECK(at(found[0], i, j) == Approx(std::max(0.0, 1 - sum)));
    }
    for (std::int64_t k = 0; k < features; ++k) {
      double sum = 0;
      for (std::int64_t i = 0; i < points; ++i) {
        sum -= 2 * scale * (at(x, i, k) - at(y, j, k));
      }
      CHECK(at(found[2], j, k) == Approx(sum));
    }
  }
}

TEST_CASE("a new operator is divided among devices from its definition") {
  parallel::plan p;
  p.graph = [] {
    tensor::builder b{operators()};
    const auto x = b.input("points", {points, features});
    const auto y = b.weight("centers", {centers, features});
    const auto distance = b.apply("scaled_distance", {x, y}, {{"scale", scale}})[0];
    return std::move(b).finish({b.relu(distance)});
  }();
  p.machine = unity::hardware::preset("dgx_a100:1x8");
  const parallel::graph_dimensions all{operators(), p.graph};
  const unity::node_id distance{2U};
  const unity::node_id relu{3U};
  const auto& dimensions = all[distance];
  REQUIRE(dimensions.divisible.size() == 2);
  CHECK(dimensions.divisible[0].kind == parallel::parallelism::sample);
  CHECK(dimensions.divisible[1].kind == parallel::parallelism::parameter);
  CHECK(dimensions.reductions.empty());  // only linear operators pass partial sums on

  // The distances are divided in four parts of the points by two of the centers, the relu the other way around.
  p.configurations.resize(p.graph.node_count());
  p.configurations[distance.index()] = {{4, 2}, {}, {}, {}, 1};
  p.configurations[relu.index()] = {{2, 4}, {}, {}, {}, 1};
  for (const auto n : {distance, relu}) {
    for (unsigned d = 0; d < 8; ++d) {
      p.configurations[n.index()].devices.push_back(unity::hardware::device_id{d});
    }
  }
  parallel::check(operators(), p);
  CHECK(parallel::test::error_on_ranks(operators(), p, 3) < 1e-9);  // outputs and gradients
}

TEST_CASE("with its onnx_operator entry a new operator survives an ONNX round trip") {
  auto m = io::make_model(model(), "near");
  m.operators = in_onnx;
  const auto bytes = io::serialize_onnx(operators(), m);
  const auto copy = io::parse_onnx(operators(), bytes, "near.onnx", {}, reads_own());
  CHECK(copy.graph == m.graph);
  CHECK(copy.opaque_operators.empty());
  CHECK(tensor::evaluate<double>(operators(), copy.graph, source) ==
        tensor::evaluate<double>(operators(), m.graph, source));
  CHECK(io::serialize_onnx(operators(), copy) == io::serialize_onnx(operators(), m));  // the line came with the model

  onnx::ModelProto written;
  REQUIRE(written.ParseFromString(bytes));
  const auto& node = *std::find_if(written.graph().node().begin(), written.graph().node().end(),
                                   [](const auto& n) { return n.domain() == "com.example"; });
  CHECK(node.op_type() == "ScaledDistance");
  REQUIRE(node.attribute_size() == 1);
  CHECK(node.attribute(0).name() == "scale");
  CHECK(node.attribute(0).f() == 0.5F);
}

TEST_CASE("without its onnx_operator entry a new operator is opaque on import and not exported") {
  auto m = io::make_model(model(), "near");
  CHECK_THROWS_WITH(io::serialize_onnx(operators(), m), Catch::Contains("(scaled_distance): no form in ONNX"));
  m.operators = in_onnx;
  const auto bytes = io::serialize_onnx(operators(), m);
  const auto copy = io::parse_onnx(tensor::standard_algebra(), bytes, "near.onnx", {});
  CHECK(copy.opaque_operators == decltype(copy.opaque_operators){{"com.example.ScaledDistance", 1}});
}

}  // namespace tests_of_new_operator
