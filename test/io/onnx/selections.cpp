#include <unity/io/onnx/restored_nodes.hpp>

#include <string>
#include <vector>

#include <onnx/onnx_pb.h>
#include <catch2/catch.hpp>

#include <unity/io/onnx_export.hpp>
#include <unity/io/onnx_import.hpp>
#include <unity/tensor/equivalence.hpp>

#include "../../support/onnx_text.hpp"
#include "../onnx_subjects.hpp"

namespace tests_of_selections {

namespace io = unity::io;
using unity::io::test::standard;

namespace {

// The nodes of the model after reading and writing it at this opset, which must compute the same.
std::string rewritten(const std::string& text, int opset) {
  CAPTURE(text, opset);
  const auto m = io::parse_onnx(standard(), unity::test::onnx_bytes_of(text, opset), "m", {});
  const auto bytes = io::serialize_onnx(standard(), m);
  onnx::ModelProto proto;
  REQUIRE(proto.ParseFromString(bytes));
  std::string operators;
  for (const auto& n : proto.graph().node()) {
    operators += (operators.empty() ? "" : " ") + n.op_type();
  }
  CHECK(unity::tensor::check_equivalence(standard(), m.graph, io::parse_onnx(standard(), bytes, "m", {}).graph).passed);
  return operators;
}

}  // namespace

TEST_CASE("a Gather with one constant index is written as a Gather again") {
  for (const int opset : {9, 11, 13, 17}) {
    CHECK(rewritten("g (float[2,3,4] x) => (float[2,4] y) <int64 i = {2}> { y = Gather <axis = 1> (x, i) }", opset) ==
          "Gather");
    CHECK(rewritten(R"(g (float[2,3,4] x) => (float[2,4] y, float[2,4] z) <int64 i = {2}, int64 j = {0}> {
      a = Gather <axis = 1> (x, i) b = Gather <axis = 1> (x, j) y = Relu(a) z = Add(a, b) })",
                    opset) == "Gather Gather Relu Add");
  }
}

TEST_CASE("a Slice with two readers or several elements is not written as a Gather") {
  for (const int opset : {13, 17}) {
    const auto sliced = [&](const std::string& axis, const std::string& end, const std::string& rest) {
      return rewritten("g (float[2,3,1] x) => (float[2,1] y, float[2,1,1] z) <int64[1] s = {1}, int64[1] e = {" + end +
                           "}, int64[1] a = {" + axis + "}, int64[1] one = {1}> { c = Slice(x, s, e, a) " + rest + " }",
                       opset);
    };
    CHECK(sliced("1", "2", "y = Squeeze(c, one) z = Relu(c)") == "Slice Squeeze Relu");
    CHECK(rewritten(R"(g (float[2,3,1] x) => (float[1,3] y) <int64[1] s = {1}, int64[1] e = {2}, int64[1] a = {0},
      int64[1] last = {2}> { c = Slice(x, s, e, a) y = Squeeze(c, last) })",
                    opset) == "Slice Squeeze");
    CHECK(rewritten(R"(g (float[2,1,3] x) => (float[2,2] y) <int64[1] s = {0}, int64[1] e = {2}, int64[1] a = {2},
      int64[1] axis = {1}> { c = Slice(x, s, e, a) y = Squeeze(c, axis) })",
                    opset) == "Slice Squeeze");
  }
}

}  // namespace tests_of_selections
