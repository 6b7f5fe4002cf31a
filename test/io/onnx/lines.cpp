#include <unity/io/onnx/restored_nodes.hpp>

#include <string>

#include <onnx/onnx_pb.h>
#include <catch2/catch.hpp>

#include <unity/io/onnx_export.hpp>
#include <unity/io/onnx_import.hpp>
#include <unity/tensor/equivalence.hpp>

#include "../../support/onnx_text.hpp"
#include "../onnx_subjects.hpp"

namespace tests_of_lines {

namespace io = unity::io;
using unity::io::test::outline;
using unity::io::test::standard;

namespace {

std::string ints(const onnx::NodeProto& n, const std::string& name) {
  std::string text;
  for (const auto& a : n.attribute()) {
    for (const auto i : a.ints()) {
      text += a.name() == name ? std::to_string(i) + " " : "";
    }
  }
  return text;
}

struct rewritten {
  std::string operators{};     // read
  onnx::GraphProto written{};  // of an equal model
};

rewritten rewrite(const std::string& text, int opset) {
  CAPTURE(text, opset);
  rewritten r;
  const auto m = io::parse_onnx(standard(), unity::test::onnx_bytes_of(text, opset), "m", {});
  CHECK(m.opaque_operators.empty());
  r.operators = outline(m);
  const auto bytes = io::serialize_onnx(standard(), m);
  onnx::ModelProto proto;
  REQUIRE(proto.ParseFromString(bytes));
  r.written = proto.graph();
  CHECK(unity::tensor::check_equivalence(standard(), m.graph, io::parse_onnx(standard(), bytes, "m", {}).graph).passed);
  return r;
}

std::string operators_of(const onnx::GraphProto& g) {
  std::string text;
  for (const auto& n : g.node()) {
    text += (text.empty() ? "" : " ") + n.op_type();
  }
  return text;
}

}  // namespace

TEST_CASE("a convolution along one dimension is one on images of height 1, and is written as it was") {
  for (const int opset : {9, 13, 17}) {
    const auto r = rewrite(R"(g (float[2,4,9] x) => (float[n,m,k] y)
      <float[6,2,3] w = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9}, float[6] b = {1,2,3,4,5,6}>
      { y = Conv <strides = [2], pads = [1, 3], dilations = [2], group = 2, kernel_shape = [3]> (x, w, b) })",
                           opset);
    CHECK(r.operators == "unsqueeze unsqueeze conv2d squeeze");
    REQUIRE(r.written.node_size() >= 1);
    const auto& conv = r.written.node(r.written.node_size() - 1);
    CHECK(conv.op_type() == "Conv");
    CHECK(ints(conv, "strides") + ints(conv, "pads") + ints(conv, "dilations") + ints(conv, "kernel_shape") ==
          "2 1 3 2 3 ");
  }
}

TEST_CASE("pooling along one dimension is read, and written as it was") {
  for (const int opset : {10, 13, 17}) {
    for (const std::string kind : {"MaxPool", "AveragePool"}) {
      const auto r = rewrite("g (float[2,4,9] x) => (float[n,m,k] y) { y = " + kind +
                                 " <kernel_shape = [3], strides = [2], pads = [1, 0], ceil_mode = 1> (x) }",
                             opset);
      CHECK(operators_of(r.written) == kind);
      CHECK(ints(r.written.node(0), "strides") + ints(r.written.node(0), "pads") +
                ints(r.written.node(0), "kernel_shape") ==
            "2 1 0 3 ");
    }
    CHECK(operators_of(rewrite("g (float[2,4,9] x) => (float[n,m,k] y) { y = MaxPool <kernel_shape = [2], auto_pad = "
                               "\"SAME_UPPER\"> (x) }",
                               opset)
                           .written) == "MaxPool");
  }
}

TEST_CASE("the height stays where something else reads the image, and where there is more than one row") {
  const auto two = rewrite(R"(g (float[2,4,9] x) => (float[n,m,k] y, float[a,b,c,d] z) <int64[1] h = {2}>
    { u = Unsqueeze(x, h) p = MaxPool <kernel_shape = [1, 3]> (u) y = Squeeze(p, h) z = Relu(p) })",
                           13);
  CHECK(operators_of(two.written) == "Unsqueeze MaxPool Squeeze Relu");
  const auto padded = rewrite(R"(g (float[2,4,9] x) => (float[n,m,k] y) <int64[1] h = {2}>
    { u = Unsqueeze(x, h) p = AveragePool <kernel_shape = [3, 3], pads = [1, 0, 1, 0]> (u) y = Squeeze(p, h) })",
                              13);
  CHECK(operators_of(padded.written) == "Unsqueeze AveragePool Squeeze");
  const auto shared = rewrite(R"(g (float[2,4,9] x) => (float[n,m,k] y, float[a,b,c] z) <int64[1] h = {2}>
    { u = Unsqueeze(x, h) p = MaxPool <kernel_shape = [1, 3]> (u) y = Squeeze(p, h)
      q = MaxPool <kernel_shape = [1, 2]> (u) z = Squeeze(q, h) })",
                              13);
  CHECK(operators_of(shared.written) == "MaxPool MaxPool");
}

}  // namespace tests_of_lines
