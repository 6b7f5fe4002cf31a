#include <unity/io/onnx/indexing.hpp>

#include <string>
#include <utility>
#include <vector>

#include <onnx/onnx_pb.h>
#include <catch2/catch.hpp>

#include <unity/io/onnx_export.hpp>
#include <unity/io/onnx_import.hpp>
#include <unity/tensor/operation.hpp>

#include "../../support/onnx_text.hpp"
#include "../onnx_subjects.hpp"

namespace tests_of_onnx_indexing {

namespace io = unity::io;
namespace tensor = unity::tensor;
using unity::io::test::only_operation;
using unity::io::test::outline;
using unity::io::test::standard;

namespace {

io::onnx_model read(const std::string& graph, int opset) {
  return io::parse_onnx(standard(), unity::test::onnx_bytes_of(graph, opset), "model", {});
}

// The nodes of a file other than constants, by operator.
std::string nodes_of(const std::string& bytes) {
  onnx::ModelProto model;
  REQUIRE(model.ParseFromString(bytes));
  std::string all;
  for (const auto& n : model.graph().node()) {
    all += n.op_type() == "Constant" ? "" : (all.empty() ? "" : " ") + n.op_type();
  }
  return all;
}

struct one_node {
  int opset;
  std::string type;
  std::string kind;
  std::vector<tensor::named_attribute> attributes;  // that the operator of this kind has
  std::string graph;
};

const std::vector<one_node>& nodes() {
  static const std::vector<one_node> all{
      {13,
       "Gather",
       "gather",
       {{"axis", 1}},
       "g (float[4,6] x, int64[3] i) => (float[n,m] y) { y = Gather <axis = -1> (x, i) }"},
      {13,
       "Gather",
       "gather",
       {{"axis", 0}},
       "g (float[4,6] x) => (float[n,m] y) <int64[2] i = {-1, 0}> { y = Gather(x, i) }"},
      {13, "Gather", "gather", {{"axis", 0}}, "g (int64[4] x, int32[2,2] i) => (int64[n,m] y) { y = Gather(x, i) }"},
      {13,
       "Slice",
       "strided_slice",
       {{"axes", {0, 1}}, {"starts", {1, 5}}, {"counts", {2, 3}}, {"steps", {2, -2}}},
       "g (float[4,6] x) => (float[n,m] y) <int64[2] s = {-1, 1}, int64[2] e = {-100, 5}, int64[2] a = {1, 0}, "
       "int64[2] t = {-2, 2}> { y = Slice(x, s, e, a, t) }"},
      {10,
       "Pad",
       "border_pad",
       {{"mode", "reflect"}, {"pads", {0, 1, 2, 0}}, {"value", 0.0}},
       "g (float[4,6] x) => (float[n,m] y) { y = Pad <mode = \"reflect\", pads = [0, 1, 2, 0]> (x) }"},
      {13,
       "Pad",
       "border_pad",
       {{"mode", "edge"}, {"pads", {0, 1, 2, 0}}, {"value", 0.0}},
       "g (float[4,6] x) => (float[n,m] y) <int64[4] p = {0, 1, 2, 0}> { y = Pad <mode = \"edge\"> (x, p) }"},
      {13,
       "Pad",
       "border_pad",
       {{"mode", "constant"}, {"pads", {-1, 1, 2, 0}}, {"value", 0.0}},
       "g (float[4,6] x) => (float[n,m] y) <int64[4] p = {-1, 1, 2, 0}> { y = Pad(x, p) }"},
      {13,
       "Tile",
       "tile",
       {{"repeats", {2, 3}}},
       "g (float[4,6] x) => (float[n,m] y) <int64[2] r = {2, 3}> { y = Tile(x, r) }"},
      {13,
       "GatherElements",
       "gather_elements",
       {{"axis", 1}},
       "g (float[4,6] x, int64[4,2] i) => (float[n,m] y) { y = GatherElements <axis = 1> (x, i) }"},
      {13,
       "GatherND",
       "gather_nd",
       {{"batch", 1}},
       "g (float[4,6,2] x, int64[4,1] i) => (float[n,m] y) { y = GatherND <batch_dims = 1> (x, i) }"},
      {9,
       "Scatter",
       "scatter_elements",
       {{"axis", 0}, {"reduction", "none"}},
       "g (float[4,6] x, int64[2,6] i, float[2,6] u) => (float[n,m] y) { y = Scatter(x, i, u) }"},
      {16,
       "ScatterElements",
       "scatter_elements",
       {{"axis", 0}, {"reduction", "add"}},
       "g (float[4,6] x, int64[2,6] i, float[2,6] u) => (float[n,m] y) "
       "{ y = ScatterElements <reduction = \"add\"> (x, i, u) }"},
      {13,
       "ScatterND",
       "scatter_nd",
       {{"reduction", "none"}},
       "g (float[4,6] x, int64[2,1] i, float[2,6] u) => (float[n,m] y) { y = ScatterND(x, i, u) }"},
      {13,
       "OneHot",
       "one_hot_values",
       {{"axis", 0}, {"depth", 3}},
       "g (int64[4] i, float[2] v) => (float[n,m] y) <int64[1] d = {3}> { y = OneHot <axis = 0> (i, d, v) }"},
      {13,
       "DepthToSpace",
       "depth_to_space",
       {{"block", 2}, {"order", "crd"}},
       "g (float[1,8,2,3] x) => (float[a,b,c,d] y) { y = DepthToSpace <blocksize = 2, mode = \"CRD\"> (x) }"},
      {13,
       "SpaceToDepth",
       "space_to_depth",
       {{"block", 2}},
       "g (float[1,2,4,6] x) => (float[a,b,c,d] y) { y = SpaceToDepth <blocksize = 2> (x) }"},
      {14,
       "Trilu",
       "trilu",
       {{"upper", 0}, {"k", 1}},
       "g (float[4,6] x) => (float[n,m] y) <int64 k = {1}> { y = Trilu <upper = 0> (x, k) }"},
      {9,
       "EyeLike",
       "eye_like",
       {{"k", -1}, {"element", "float16"}},
       "g (float[4,6] x) => (float16[n,m] y) { y = EyeLike <k = -1, dtype = 10> (x) }"},
      {12,
       "Einsum",
       "einsum",
       {{"equation", "ij,jk->ki"}},
       "g (float[4,6] x, float[6,2] w) => (float[n,m] y) { y = Einsum <equation = \"ij,jk->ki\"> (x, w) }"},
      {11,
       "ConvTranspose",
       "conv_transpose",
       {{"stride", {2, 1}}, {"pads", {0, 1, 0, 0}}, {"dilation", {1, 1}}, {"output_padding", {1, 0}}, {"groups", 1}},
       "g (float[1,2,3,3] x, float[2,3,2,2] w, float[3] c) => (float[a,b,c,d] y) "
       "{ y = ConvTranspose <strides = [2, 1], output_padding = [1, 0], pads = [0, 1, 0, 0]> (x, w, c) }"},
      {11,
       "ConvTranspose",
       "conv_transpose",
       {{"stride", {1}}, {"pads", {0, 0}}, {"dilation", {1}}, {"output_padding", {0}}, {"groups", 1}},
       "g (float[1,2,3] x, float[2,3,2] w) => (float[a,b,c] y) { y = ConvTranspose(x, w) }"},
      {13,
       "Resize",
       "resize",
       {{"mode", "linear"},
        {"coordinates", "align_corners"},
        {"rounding", "round_prefer_floor"},
        {"dims", {1, 2, 6, 5}}},
       "g (float[1,2,3,4] x) => (float[a,b,c,d] y) <int64[4] s = {1, 2, 6, 5}> "
       "{ y = Resize <mode = \"linear\", coordinate_transformation_mode = \"align_corners\"> (x, , , s) }"},
      {9,
       "Upsample",
       "resize",
       {{"mode", "nearest"}, {"coordinates", "asymmetric"}, {"rounding", "floor"}, {"dims", {1, 2, 6, 6}}},
       "g (float[1,2,3,3] x) => (float[a,b,c,d] y) <float[4] s = {1, 1, 2, 2}> { y = Upsample(x, s) }"},
      {13,
       "DequantizeLinear",
       "dequantize",
       {{"axis", 1}, {"block", 0}},
       "g (uint8[2,3] x, float[3] s, uint8[3] z) => (float[n,m] y) { y = DequantizeLinear(x, s, z) }"},
      {21,
       "DequantizeLinear",
       "dequantize",
       {{"axis", 1}, {"block", 2}},
       "g (int8[2,6] x, float[2,3] s, int8[2,3] z) => (float[n,m] y) "
       "{ y = DequantizeLinear <axis = 1, block_size = 2> (x, s, z) }"},
      {13,
       "QuantizeLinear",
       "quantize",
       {{"axis", 0}, {"block", 0}, {"element", "uint8"}},
       "g (float[2,3] x, float s) => (uint8[n,m] y) { y = QuantizeLinear(x, s) }"},
      {13,
       "QuantizeLinear",
       "quantize",
       {{"axis", 0}, {"block", 0}, {"element", "int8"}},
       "g (float[2,3] x, float[2] s, int8[2] z) => (int8[n,m] y) { y = QuantizeLinear <axis = 0> (x, s, z) }"},
      {11,
       "DynamicQuantizeLinear",
       "dynamic_quantize",
       {},
       "g (float[2,3] x) => (uint8[n,m] y) { y, s, z = DynamicQuantizeLinear(x) }"},
      {10,
       "MatMulInteger",
       "integer_matmul",
       {},
       "g (uint8[2,3] x, int8[3,4] w, uint8 p, int8[4] q) => (int32[n,m] y) { y = MatMulInteger(x, w, p, q) }"},
      {10,
       "ConvInteger",
       "integer_conv2d",
       {{"stride", {1, 1}}, {"padding", "explicit"}, {"pads", {1, 1, 0, 0}}, {"dilation", {1, 1}}, {"groups", 1}},
       "g (uint8[1,2,4,4] x, uint8[3,2,3,3] w, uint8 p) => (int32[a,b,c,d] y) "
       "{ y = ConvInteger <pads = [1, 1, 0, 0]> (x, w, p) }"},
      {10,
       "QLinearMatMul",
       "quantized_matmul",
       {},
       "g (uint8[2,3] x, float s, uint8 p, uint8[3,4] w, float t, uint8 q, float u, uint8 r) => (uint8[n,m] y) "
       "{ y = QLinearMatMul(x, s, p, w, t, q, u, r) }"},
      {10,
       "QLinearConv",
       "quantized_conv2d",
       {{"stride", {1, 1}}, {"padding", "explicit"}, {"pads", {0, 0, 0, 0}}, {"dilation", {1, 1}}, {"groups", 2}},
       "g (uint8[1,2,4,4] x, float s, uint8 p, int8[2,1,3,3] w, float[2] t, int8[2] q, float u, int8 r, int32[2] b) "
       "=> (int8[a,b,c,d] y) { y = QLinearConv <group = 2> (x, s, p, w, t, q, u, r, b) }"},
      {11,
       "TopK",
       "top_elements",
       {{"axis", 0}, {"count", 3}, {"largest", 0}},
       "g (float[4,6] x) => (int64[n,m] y) <int64[1] k = {3}> { v, y = TopK <axis = 0, largest = 0> (x, k) }"},
      {9,
       "TopK",
       "top_elements",
       {{"axis", 1}, {"count", 2}, {"largest", 1}},
       "g (float[4,6] x) => (float[n,m] y) { y, i = TopK <k = 2> (x) }"},
      {14,
       "LSTM",
       "lstm",
       {{"direction", "reverse"}, {"bias", 0}, {"initial_h", 0}, {"initial_c", 1}},
       "g (float[5,2,3] x, float[1,8,3] w, float[1,8,2] r, float[1,2,2] c) => (float[a,b,c,d] y) "
       "{ y, h = LSTM <hidden_size = 2, direction = \"reverse\"> (x, w, r, , , , c) }"},
      {14,
       "GRU",
       "gru",
       {{"direction", "bidirectional"}, {"bias", 1}, {"initial_h", 0}, {"reset_after", 1}},
       "g (float[5,2,3] x, float[2,6,3] w, float[2,6,2] r, float[2,12] b) => (float[a,b,c,d] y) <int32[2] l = {5, 5}> "
       "{ y = GRU <hidden_size = 2, direction = \"bidirectional\", linear_before_reset = 1> (x, w, r, b, l) }"},
      {14,
       "RNN",
       "rnn",
       {{"direction", "forward"}, {"bias", 0}, {"initial_h", 1}},
       "g (float[5,2,3] x, float[1,2,3] w, float[1,2,2] r, float[1,2,2] h) => (float[a,b,c] y) "
       "{ z, y = RNN <hidden_size = 2> (x, w, r, , , h) }"}};
  return all;
}

}  // namespace

TEST_CASE("ONNX indexing/quantization/recurrent nodes round-trip as one operator") {
  for (const auto& n : nodes()) {
    CAPTURE(n.graph);
    const auto m = read(n.graph, n.opset);
    CHECK(m.opaque_operators.empty());
    REQUIRE(outline(m) == n.kind);
    CHECK(only_operation(m) == standard().make_operation(n.kind, n.attributes));
    const auto bytes = io::serialize_onnx(standard(), m);
    CHECK(nodes_of(bytes) == n.type);
    const auto again = io::parse_onnx(standard(), bytes, "again", {});
    CHECK(again.graph == m.graph);
  }
}

TEST_CASE("unsupported forms of TopK/Einsum/OneHot/Resize/RNN and others stay opaque") {
  const std::vector<std::pair<int, std::string>> all{
      {11, "g (float[1,5000] x) => (float[1,2] y) <int64[1] k = {2}> { y, i = TopK(x, k) }"},  // too many comparisons
      {10, "g (uint8[3] x, uint8[3,4] w) => (int32[4] y) { y = MatMulInteger(x, w) }"},
      {12, "g (float[4,4] x) => (float[4] y) { y = Einsum <equation = \"ii->i\"> (x) }"},
      {13, "g (int64[4] i, int64 d, float[2] v) => (float[4,3] y) { y = OneHot(i, d, v) }"},
      {18,
       "g (float[4,6] x, int64[2,6] i, float[2,6] u) => (float[4,6] y) "
       "{ y = ScatterElements <reduction = \"max\"> (x, i, u) }"},
      {11,
       "g (float[1,2,3,3] x, float[2,3,2,2] w) => (float[1,3,3,3] y) { y = ConvTranspose <auto_pad = \"SAME_UPPER\"> "
       "(x, w) }"},
      {13, "g (float[1,1,3,3] x, float[4] s) => (float[1,1,6,6] y) { y = Resize <mode = \"cubic\"> (x, , s) }"},
      {14,
       "g (float[5,2,3] x, float[1,2,3] w, float[1,2,2] r) => (float[5,1,2,2] y) "
       "{ y = RNN <hidden_size = 2, activations = [\"Relu\"]> (x, w, r) }"},
      {14,
       "g (float[5,2,3] x, float[1,2,3] w, float[1,2,2] r, int32[2] l) => (float[5,1,2,2] y) "
       "{ y = RNN <hidden_size = 2> (x, w, r, , l) }"}};
  for (const auto& [opset, graph] : all) {
    CAPTURE(graph);
    CHECK(outline(read(graph, opset)) == "opaque");
  }
}

}  // namespace tests_of_onnx_indexing
