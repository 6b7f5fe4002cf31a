#include <unity/io/fold_constants.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/io/onnx_export.hpp>
#include <unity/io/onnx_import.hpp>
#include <unity/io/tensor_data.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/equivalence.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/shape.hpp>

#include "../support/message_of.hpp"
#include "../support/onnx_text.hpp"
#include "onnx_samples.hpp"

namespace tests_of_onnx_folding {

namespace io = unity::io;
namespace tensor = unity::tensor;
using tensor::dtype;
using unity::io::test::again;
using unity::io::test::check_close;
using unity::io::test::data_of;
using unity::io::test::standard;
using unity::test::message_of;

TEST_CASE("ONNX export with folding removes operators on weights only and keeps the values") {
  tensor::builder b{standard()};
  const auto x = b.input("x", {2, 3});
  const auto w = b.matmul(b.weight("w1", {3, 4}), b.transpose(b.weight("w2", {5, 4}), {1, 0}));
  const auto parts = b.split(w, 1, {2, 3});
  const auto y = b.matmul(x, parts[1]);
  auto m = io::make_model(std::move(b).finish({y}), "fold");
  m.data = data_of(m.graph);
  io::export_options options;
  options.fold_constants = true;
  const auto folded = again(m, options);
  CHECK(folded.graph.node_count() == 3);
  check_close(m, folded);
  SECTION("operators on weights without data are not folded") {
    m.data.erase("w1");
    CHECK(again(m, options).graph.node_count() == 6);  // the transpose is folded
  }
  SECTION("tensors above the size limit are not folded") {
    options.most_folded_elements = 14;
    CHECK(again(m, options).graph.node_count() == m.graph.node_count());
  }
}

TEST_CASE("constant folding rounds like a loop over floats") {
  // The buckets of T5's relative positions.
  std::string positions;
  for (int i = 8; i < 512; ++i) {
    positions += (positions.empty() ? "" : ", ") + std::to_string(i);
  }
  std::size_t others = 0;
  for (const auto& [exact, range, buckets] :
       {std::tuple{8.0F, 16.0F, 8.0F}, {16.0F, 8.0F, 16.0F}, {8.0F, 7.0F, 24.0F}}) {
    auto proto = unity::test::onnx_model_of(R"(<ir_version: 8, opset_import: [ "" : 17 ]>
      g (int64[504] x) => (int64[504] y) <int64[504] p = {)" +
                                            positions + R"(}> {
        f = Cast <to = 1> (p) exact = Constant <value_float = 1.0> () d = Div(f, exact) l = Log(d)
        range = Constant <value_float = 1.0> () q = Div(l, range) buckets = Constant <value_float = 1.0> ()
        m = Mul(q, buckets) c = Cast <to = 7> (m) y = Add(x, c) })");
    const float numbers[] = {exact, std::log(range), buckets};
    const int nodes[] = {1, 4, 6};
    for (int i = 0; i < 3; ++i) {
      proto.mutable_graph()->mutable_node(nodes[i])->mutable_attribute(0)->set_f(numbers[i]);
    }
    const auto m = io::parse_onnx(standard(), proto.SerializeAsString(), "t5", {});
    io::export_options options;
    options.fold_constants = true;
    const auto folded = again(m, options);
    REQUIRE(folded.data.size() == 1);
    const auto found = io::elements_of<double>(folded.data.begin()->second);
    REQUIRE(found.size() == 504);
    const auto same = [&](const io::onnx_model& other) {
      const tensor::source_data data = [&](std::string_view name) -> std::optional<tensor::dense<double>> {
        const auto& table = other.data.contains(name) ? other.data : m.data;
        const auto at = table.find(name);
        return at == table.end()
                   ? std::nullopt
                   : std::optional{tensor::dense<double>{at->second.dims, io::elements_of<double>(at->second)}};
      };
      return tensor::check_own_sizes(standard(), m.graph, other.graph,
                                     {.numbers = tensor::arithmetic::rounded, .data = data})
          ->problem;
    };
    CHECK(same(folded).empty());
    auto in_doubles = found;
    for (int i = 0; i < 504; ++i) {
      const auto position = static_cast<float>(i + 8);
      const float bucket = std::log(position / exact) / numbers[1] * buckets;
      CHECK(found[static_cast<std::size_t>(i)] == static_cast<double>(static_cast<std::int64_t>(bucket)));
      const double in_double = std::log(static_cast<double>(position) / static_cast<double>(exact)) /
                               static_cast<double>(numbers[1]) * static_cast<double>(buckets);
      others += static_cast<std::int64_t>(in_double) != static_cast<std::int64_t>(bucket) ? 1 : 0;
      in_doubles[static_cast<std::size_t>(i)] = static_cast<double>(static_cast<std::int64_t>(in_double));
    }
    auto wrong = folded;
    auto& data = wrong.data.begin()->second;
    data = io::make_data(data.element, data.dims, in_doubles);
    CHECK(same(wrong) == (in_doubles == found ? "" : "output 0 differs in the arithmetic of int64"));
  }
  CHECK(others > 0);
}

TEST_CASE("constant folding turns equal values into a fill and reports NaN with its node") {
  tensor::builder b{standard()};
  const auto x = b.input("x", {2});
  const auto w = b.weight("w", {2});
  const auto y = b.add(x, b.apply("sqrt", {w})[0]);
  auto m = io::make_model(std::move(b).finish({y}), "fold");
  io::export_options options;
  options.fold_constants = true;
  m.data.emplace("w", io::make_data(dtype::float32, {2}, std::vector<double>{4, 4}));
  CHECK(again(m, options).data.empty());
  m.data["w"] = io::make_data(dtype::float32, {2}, std::vector<double>{4, -4});
  CHECK_THAT(message_of([&] { (void)io::serialize_onnx(standard(), m, options); }),
             Catch::Contains("(sqrt): computes NaN from weights alone"));
}

}  // namespace tests_of_onnx_folding
