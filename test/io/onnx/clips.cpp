#include <unity/io/onnx/restored_nodes.hpp>

#include <functional>
#include <string>
#include <vector>

#include <onnx/onnx_pb.h>
#include <catch2/catch.hpp>

#include <unity/io/onnx_export.hpp>
#include <unity/io/onnx_import.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/equivalence.hpp>

#include "../onnx_subjects.hpp"

namespace tests_of_clips {

namespace io = unity::io;
namespace tensor = unity::tensor;
using unity::value_id;
using unity::io::test::standard;

namespace {

value_id minimum(tensor::builder& b, value_id x, value_id y) { return b.apply("minimum", {x, y})[0]; }

struct written {
  std::string operators{};  // of the nodes other than constants, in order
  bool is_equal = false;    // the model read again equals the written one
};

written write(const std::function<std::vector<value_id>(tensor::builder&)>& build) {
  tensor::builder b{standard()};
  const auto outputs = build(b);
  const auto graph = std::move(b).finish(outputs);
  const auto bytes = io::serialize_onnx(standard(), io::make_model(graph, "m"));
  onnx::ModelProto proto;
  REQUIRE(proto.ParseFromString(bytes));
  written w;
  for (const auto& n : proto.graph().node()) {
    w.operators += n.op_type() == "Constant" ? "" : (w.operators.empty() ? "" : " ") + n.op_type();
  }
  w.is_equal = tensor::check_equivalence(standard(), graph, io::parse_onnx(standard(), bytes, "m", {}).graph).passed;
  return w;
}

}  // namespace

TEST_CASE("relu and a minimum with a number are exported as one Clip") {
  const auto low_first =
      write([](auto& b) { return std::vector{minimum(b, b.relu(b.input("x", {2, 3})), b.fill(6))}; });
  CHECK(low_first.operators == "Clip");
  CHECK(low_first.is_equal);
  const auto bound_first =
      write([](auto& b) { return std::vector{minimum(b, b.fill(6), b.relu(b.input("x", {2, 3})))}; });
  CHECK(bound_first.operators == "Clip");
  CHECK(bound_first.is_equal);
}

TEST_CASE("a convolution's relu and a minimum are exported as Conv and Clip") {
  const auto w = write([](auto& b) {
    tensor::conv2d_options options;
    options.activation = "relu";
    const auto y = b.conv2d(b.input("x", {1, 4, 5, 5}), b.weight("w", {2, 4, 3, 3}), b.weight("b", {2}), options);
    const auto z = b.conv2d(b.input("z", {1, 4, 5, 5}), b.weight("v", {2, 4, 3, 3}), b.weight("c", {2}), options);
    return std::vector{minimum(b, y, b.fill(6)), minimum(b, z, b.fill(3))};
  });
  CHECK(w.operators == "Conv Conv Clip Clip");
  CHECK(w.is_equal);
}

TEST_CASE("relu and minimum stay apart if relu has other readers or the bound is not a number") {
  CHECK(write([](auto& b) {
          const auto y = b.relu(b.input("x", {2, 3}));
          return std::vector{minimum(b, y, b.fill(6)), b.tanh(y)};
        }).operators == "Relu Min Tanh");
  CHECK(write([](auto& b) {
          const auto y = b.relu(b.input("x", {2, 3}));
          return std::vector{minimum(b, y, b.fill(6)), y};
        }).operators == "Relu Min");
  CHECK(write([](auto& b) {
          return std::vector{minimum(b, b.relu(b.input("x", {2, 3})), b.weight("w", {3}))};
        }).operators == "Relu Min");
  CHECK(write([](auto& b) {
          return std::vector{minimum(b, b.relu(b.input("x", {2, 3})), b.fill(6, {3}))};
        }).operators == "Relu Min");
}

}  // namespace tests_of_clips
