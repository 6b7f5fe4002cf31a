#include <unity/io/onnx_export.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <onnx/checker.h>
#include <onnx/shape_inference/implementation.h>
#include <catch2/catch.hpp>

#include <unity/io/onnx_import.hpp>
#include <unity/io/tensor_data.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/shape.hpp>

#include "../support/message_of.hpp"
#include "onnx_samples.hpp"
#include "statistics_samples.hpp"

namespace tests_of_onnx_export {

namespace io = unity::io;
namespace tensor = unity::tensor;
using tensor::dtype;
using unity::node_id;
using unity::value_id;
using unity::io::test::again;
using unity::io::test::check_close;
using unity::io::test::data_of;
using unity::io::test::model_of;
using unity::io::test::onnx_samples;
using unity::io::test::standard;
using unity::test::message_of;

namespace {

std::filesystem::path fresh_folder(const std::string& name) {
  const auto folder = std::filesystem::path{UNITY_TEST_SCRATCH_DIR} / ("io_onnx_export_" + name);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

}  // namespace

TEST_CASE("each sample operator survives ONNX export and import with its values") {
  for (const auto& s : onnx_samples()) {
    DYNAMIC_SECTION(s.name) {
      auto m = model_of(s);
      check_close(m, again(m));  // weights without data
      m.data = data_of(m.graph);
      const auto copy = again(m);
      check_close(m, copy);
      CHECK(copy.opaque_operators.empty());
      // A second round trip changes nothing.
      CHECK(again(copy).graph == copy.graph);
    }
  }
}

TEST_CASE("each sample operator is written from its first opset on with the same values") {
  // The first opset in which each sample can be written; 1 if it is not listed.
  std::map<std::string, std::int64_t> first{{"erf", 9},
                                            {"gelu", 9},
                                            {"matmul gelu", 9},
                                            {"linear gelu", 9},
                                            {"conv2d gelu", 9},
                                            {"max_pool explicit", 10},
                                            {"slice", 10},
                                            {"average_pool explicit", 7},
                                            {"edges", 12},
                                            {"edges in int32", 12},
                                            {"sin", 7},
                                            {"cos", 7},
                                            {"tan", 7},
                                            {"sign", 9},
                                            {"round", 11},
                                            {"celu", 12},
                                            {"thresholded_relu", 10},
                                            {"shrink", 9},
                                            {"hard_swish", 14},
                                            {"swish 2", 7},
                                            {"gelu_tanh", 7},
                                            {"is_nan", 9},
                                            {"is_inf", 10},
                                            {"prelu", 7},
                                            {"mod", 10},
                                            {"truncated mod", 10},
                                            {"less_or_equal", 12},
                                            {"greater_or_equal", 12},
                                            {"logical_and", 7},
                                            {"logical_or", 7},
                                            {"logical_xor", 7},
                                            {"where", 9},
                                            {"gather_elements", 11},
                                            {"gather_nd", 11},
                                            {"scatter_elements", 9},
                                            {"scatter_nd", 11},
                                            {"one_hot_values", 9},
                                            {"scatter_sum", 16},
                                            {"tile", 6},
                                            {"strided_slice", 10},
                                            {"trilu", 14},
                                            {"eye_like", 9},
                                            {"rnn", 7},
                                            {"gru", 7},
                                            {"lstm", 7},
                                            {"einsum", 12},
                                            {"resize", 11},
                                            {"resize nearest", 9},
                                            {"dequantize", 10},
                                            {"dequantize along an axis", 13},
                                            {"quantize", 10},
                                            {"quantize along an axis", 13},
                                            {"dynamic_quantize", 11},
                                            {"integer_matmul", 10},
                                            {"integer_conv2d", 10},
                                            {"quantized_matmul", 10},
                                            {"quantized_conv2d", 10},
                                            {"least elements", 11}};
  for (const auto* broadcasts :
       {"add", "sub", "mul", "div", "maximum", "minimum", "layer_norm", "expand", "fill", "lstm_cell"}) {
    first.emplace(broadcasts, 6);
  }
  first.insert(unity::io::test::first_opsets_of_statistics.begin(), unity::io::test::first_opsets_of_statistics.end());
  for (const auto& s : onnx_samples()) {
    DYNAMIC_SECTION(s.name) {
      auto m = model_of(s);
      m.data = data_of(m.graph);
      std::int64_t least = 0;
      for (const std::int64_t opset :
           {28, 27, 24, 22, 20, 19, 18, 17, 16, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 2, 1}) {
        CAPTURE(opset);
        m.opset = opset;
        std::string bytes;
        try {
          bytes = io::serialize_onnx(standard(), m);
        } catch (const unity::error&) {
          break;
        }
        least = opset;
        const auto copy = io::parse_onnx(standard(), bytes, s.name, {});
        CHECK(copy.opset == opset);
        CHECK(copy.opaque_operators.empty());
        check_close(m, copy);
        CHECK(again(copy).graph == copy.graph);
      }
      const auto found = first.find(s.name);
      CHECK(least == (found == first.end() ? 1 : found->second));
    }
  }
}

TEST_CASE("the ONNX samples contain all operators but the opaque one") {
  std::set<std::string> seen;
  for (const auto& s : onnx_samples()) {
    const auto g = model_of(s).graph;
    for (const auto i : node_ids(g)) {
      seen.insert(standard().signature(g.operation(i).kind).name);
    }
  }
  for (std::size_t k = 0; k < standard().kind_count(); ++k) {
    const auto& name = standard().signature(unity::kind_id{k}).name;
    CAPTURE(name);
    CHECK((name == "opaque" || seen.contains(name)));
  }
}

TEST_CASE("exported ONNX samples pass the checker; its shape inference agrees where supported") {
  for (const auto& s : onnx_samples()) {
    auto m = model_of(s);
    m.data = data_of(m.graph);
    onnx::ModelProto proto;
    REQUIRE(proto.ParseFromString(io::serialize_onnx(standard(), m)));
    CAPTURE(s.name);
    const auto stated = proto.graph().output();
    for (auto& out : *proto.mutable_graph()->mutable_output()) {
      out.mutable_type()->mutable_tensor_type()->clear_shape();
    }
    REQUIRE_NOTHROW(onnx::shape_inference::InferShapes(proto, onnx::OpSchemaRegistry::Instance(), {true, 1, true}));
    for (int i = 0; i < stated.size(); ++i) {
      const auto type = io::detail::concrete_type(proto.graph().output(i).type(), {});
      if (s.name == "one_hot_values" || s.name == "einsum") {
        CHECK_FALSE(type);  // the packaged inference supports no depth and no subscripts
        continue;
      }
      REQUIRE(type);
      CHECK(*type == *io::detail::concrete_type(stated[i].type(), {}));
    }
    REQUIRE_NOTHROW(onnx::checker::check_model(proto));
    CHECK(proto.opset_import(0).version() == 17);
  }
}

TEST_CASE("float64/float16/bfloat16 models survive ONNX export and import") {
  for (const auto element : {dtype::float64, dtype::float16, dtype::bfloat16}) {
    tensor::builder b{standard()};
    const auto y =
        b.add(b.relu(b.input("x", {2, 3}, element)), b.mul(b.weight("w", {3}, element), b.fill(0.5, {}, element)));
    auto m = io::make_model(std::move(b).finish({y}), "types");
    m.data = data_of(m.graph);
    const auto copy = again(m);
    CHECK(copy.graph.type(copy.graph.outputs()[0]).element == element);
    CHECK(copy.data == m.data);
  }
}

TEST_CASE("names of weights and outputs survive an ONNX round trip") {
  tensor::builder b{standard()};
  const auto x = b.input("fill", {2});
  const auto y = b.add(x, b.weight("add_2", {2}));
  auto m = io::make_model(std::move(b).finish({y, x, y}), "names");
  m.outputs = {"list", "copy of x", "y again"};
  m.data = data_of(m.graph);
  const auto copy = again(m);
  CHECK(copy.outputs == m.outputs);
  CHECK(copy.data == m.data);
  check_close(m, copy);
}

TEST_CASE("a model with a column-major layout keeps its values in an ONNX round trip") {
  tensor::builder b{standard()};
  auto op = standard().make_operation("matmul");
  op.order = tensor::layout::column_major;
  const value_id operands[] = {b.input("x", {2, 3}), b.weight("w", {3, 4})};
  const auto y = b.apply(op, operands)[0];
  const auto m = io::make_model(std::move(b).finish({y}), "layout");
  check_close(m, again(m));
}

TEST_CASE("weights above a size limit are exported to an external data file and read back") {
  const auto folder = fresh_folder("external");
  tensor::builder b{standard()};
  const auto x = b.input("x", {2, 30});
  const auto product = b.matmul(x, b.weight("w", {30, 40}));
  const auto y = b.add(product, b.weight("b", {40}));
  auto m = io::make_model(std::move(b).finish({y}), "external");
  m.data = data_of(m.graph);
  io::export_options options;
  options.external_data_above = 100;
  io::export_onnx(standard(), m, folder / "m.onnx", options);
  CHECK(std::filesystem::file_size(folder / "m.onnx.data") >= 30 * 40 * 4);
  CHECK(std::filesystem::file_size(folder / "m.onnx") < 1000);
  const auto copy = io::import_onnx(standard(), folder / "m.onnx");
  CHECK(copy.data == m.data);
  REQUIRE_NOTHROW(onnx::checker::check_model((folder / "m.onnx").string()));
  SECTION("a missing external data file is an error that names file and tensor") {
    std::filesystem::remove(folder / "m.onnx.data");
    CHECK_THAT(message_of([&] { (void)io::import_onnx(standard(), folder / "m.onnx"); }),
               Catch::Contains("tensor 'w'") && Catch::Contains("m.onnx.data") && Catch::Contains("No such file"));
  }
  SECTION("a truncated external data file is an error") {
    std::filesystem::resize_file(folder / "m.onnx.data", 1000);
    CHECK_THAT(message_of([&] { (void)io::import_onnx(standard(), folder / "m.onnx"); }),
               Catch::Contains("tensor 'w'") && Catch::Contains("ends at byte 1000"));
  }
}

TEST_CASE("a failed ONNX export leaves no files") {
  const auto folder = fresh_folder("unwritable");
  tensor::builder b{standard()};
  const auto y = b.relu(b.input("x", {2}));
  const auto m = io::make_model(std::move(b).finish({y}), "m");
  CHECK_THAT(message_of([&] { io::export_onnx(standard(), m, folder / "none" / "m.onnx"); }),
             Catch::Contains("cannot be created"));
  CHECK(std::filesystem::is_empty(folder));
}

TEST_CASE("weight data of another shape is an ONNX export error that names the weight") {
  tensor::builder b{standard()};
  const auto y = b.relu(b.weight("w", {2}));
  auto m = io::make_model(std::move(b).finish({y}), "m");
  m.data.emplace("w", io::make_data(dtype::float32, {3}, std::vector<double>{1, 2, 3}));
  CHECK_THAT(message_of([&] { (void)io::serialize_onnx(standard(), m); }),
             Catch::Contains("'w'") && Catch::Contains("float32[3]") && Catch::Contains("float32[2]"));
}

TEST_CASE("repeated ONNX exports of a model are byte-identical") {
  for (const auto& s : onnx_samples()) {
    auto m = model_of(s);
    m.data = data_of(m.graph);
    CHECK(io::serialize_onnx(standard(), m) == io::serialize_onnx(standard(), m));
  }
}

}  // namespace tests_of_onnx_export
