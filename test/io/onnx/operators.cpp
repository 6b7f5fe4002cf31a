#include <unity/io/onnx/operators.hpp>

#include <cmath>
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/io/onnx_import.hpp>
#include <unity/tensor/builder.hpp>

#include "../../support/onnx_text.hpp"
#include "../onnx_subjects.hpp"

namespace tests_of_operators {

namespace io = unity::io;
namespace tensor = unity::tensor;
using tensor::dtype;
using unity::node_id;
using unity::value_id;
using unity::io::test::built;
using unity::io::test::outline;
using unity::io::test::standard;

namespace {

io::onnx_model read(const std::string& graph, int opset = 17) {
  return io::parse_onnx(standard(), unity::test::onnx_bytes_of(graph, opset), "model", {});
}

// One graph in the forms of several opsets.
struct forms {
  std::string name;
  std::vector<std::pair<int, std::string>> texts;
  std::function<value_id(tensor::builder&)> meaning;
};
std::vector<forms> all_forms() {
  const std::string one = "g (float[4,6] x) => (float[n,m] y) ";
  return {
      {"a sum along an axis, whose operands had to be of one shape before opset 7",
       {{1, "g (float[2,3,4] x, float[3] w) => (float[2,3,4] y) { y = Add <broadcast = 1, axis = 1> (x, w) }"},
        {6, "g (float[2,3,4] x, float[3] w) => (float[2,3,4] y) { y = Add <broadcast = 1, axis = 1> (x, w) }"}},
       [](auto& b) {
         const auto x = b.input("x", {2, 3, 4});
         return b.add(x, b.reshape(b.input("w", {3}), {3, 1}));
       }},
      {"Cast",
       {{5, "g (float[4] x) => (int64[4] y) { y = Cast <to = \"INT64\"> (x) }"},
        {6, "g (float[4] x) => (int64[4] y) { y = Cast <to = 7> (x) }"},
        {19, "g (float[4] x) => (int64[4] y) { y = Cast <to = 7, saturate = 1> (x) }"}},
       [](auto& b) { return b.apply("cast", {b.input("x", {4})}, {{"element", "int64"}})[0]; }},
      {"Squeeze",
       {{11, "g (float[1,4,1] x) => (float[n] y) { y = Squeeze <axes = [0, -1]> (x) }"},
        {13, "g (float[1,4,1] x) => (float[n] y) <int64[2] a = {0, -1}> { y = Squeeze(x, a) }"},
        {21, "g (float[1,4,1] x) => (float[n] y) { y = Squeeze(x) }"}},
       [](auto& b) { return b.apply("squeeze", {b.input("x", {1, 4, 1})}, {{"axes", {0, 2}}})[0]; }},
      {"Unsqueeze",
       {{11, one + "{ y = Unsqueeze <axes = [0, -1]> (x) }"},
        {13, one + "<int64[2] a = {-1, 0}> { y = Unsqueeze(x, a) }"},
        {21, one + "<int64[2] a = {0, 3}> { y = Unsqueeze(x, a) }"}},
       [](auto& b) { return b.apply("unsqueeze", {b.input("x", {4, 6})}, {{"axes", {0, 3}}})[0]; }},
      {"ReduceSum",
       {{11, one + "{ y = ReduceSum <axes = [-1], keepdims = 0> (x) }"},
        {13, one + "<int64[1] a = {1}> { y = ReduceSum <keepdims = 0> (x, a) }"},
        {18, one + "<int64[1] a = {-1}> { y = ReduceSum <keepdims = 0> (x, a) }"}},
       [](auto& b) { return b.apply("reduce_sum", {b.input("x", {4, 6})}, {{"axes", {1}}, {"keep_dims", 0}})[0]; }},
      {"ReduceMean and ReduceMax over everything",
       {{7, one + "{ z = ReduceMean(x) y = ReduceMax(z) }"}, {18, one + "{ z = ReduceMean(x) y = ReduceMax(z) }"}},
       [](auto& b) {
         const auto z = b.apply("reduce_mean", {b.input("x", {4, 6})}, {{"axes", {0, 1}}})[0];
         return b.apply("reduce_max", {z}, {{"axes", {0, 1}}})[0];
       }},
      {"Slice",
       {{9, one + "{ y = Slice <starts = [1, -2], ends = [1000, 6], axes = [0, 1]> (x) }"},
        {10,
         one +
             "<int64[2] s = {-2, 1}, int64[2] e = {9223372036854775807, -0}, int64[2] a = {1, 0}, int64[2] d = {1, 1}>"
             "{ e2 = Constant <value = int64[2] {9223372036854775807, 4}> () y = Slice(x, s, e2, a, d) }"}},
       [](auto& b) {
         return b.apply("slice", {b.input("x", {4, 6})},
                        {{"axes", {0, 1}}, {"starts", {1, 4}}, {"ends", {4, 6}}, {"steps", {1, 1}}})[0];
       }},
      {"Split",
       {{11, "g (float[4,6] x) => (float[n,m] y) { y, z = Split <axis = 1, split = [2, 4]> (x) }"},
        {13, "g (float[4,6] x) => (float[n,m] y) <int64[2] s = {2, 4}> { y, z = Split <axis = -1> (x, s) }"}},
       [](auto& b) { return b.split(b.input("x", {4, 6}), 1, {2, 4})[0]; }},
      {"Split into equal parts, the last smaller from opset 18 on",
       {{18, "g (float[4,7] x) => (float[n,m] y) { y, z, w = Split <axis = 1, num_outputs = 3> (x) }"},
        {21, "g (float[4,7] x) => (float[n,m] y) { y, z, w = Split <axis = -1, num_outputs = 3> (x) }"}},
       [](auto& b) { return b.split(b.input("x", {4, 7}), 1, {3, 3, 1})[0]; }},
      {"Pad",
       {{1, one + "{ y = Pad <paddings = [0, 1, 0, 2], value = 0.5> (x) }"},
        {10, one + "{ y = Pad <pads = [0, 1, 0, 2], value = 0.5> (x) }"},
        {13, one + "<int64[4] p = {0, 1, 0, 2}, float v = {0.5}> { y = Pad(x, p, v) }"},
        {18, one + "<int64[2] p = {1, 2}, float v = {0.5}, int64[1] a = {-1}> { y = Pad(x, p, v, a) }"}},
       [](auto& b) { return b.pad(b.input("x", {4, 6}), {0, 1, 0, 2}, 0.5); }},
      {"Dropout",
       {{6, one + "{ y = Dropout <ratio = 0.25, is_test = 1> (x) }"},
        {10, one + "{ y = Dropout <ratio = 0.25> (x) }"},
        {13, one + "<float r = {0.25}> { y = Dropout(x, r) }"},
        {21, one + "<float r = {0.25}, bool t = {0}> { y = Dropout(x, r, t) }"}},
       [](auto& b) { return b.apply("dropout", {b.input("x", {4, 6})}, {{"rate", 0.25}})[0]; }},
      {"Clip at zero",
       {{10, one + "{ y = Clip <min = 0.0> (x) }"}, {13, one + "<float z = {0}> { y = Clip(x, z) }"}},
       [](auto& b) { return b.relu(b.input("x", {4, 6})); }},
      {"Clip between others",
       {{10, one + "{ y = Clip <min = -1.0, max = 6.0> (x) }"},
        {13, one + "<float a = {-1}, float b = {6}> { y = Clip(x, a, b) }"}},
       [](auto& b) { return b.apply("clip", {b.input("x", {4, 6})}, {{"low", -1.0}, {"high", 6.0}})[0]; }},
      {"Clip of integers",
       {{12, "g (int64[4] x) => (int64[4] y) <int64 n = {9223372036854775807}> { y = Clip(x, , n) }"}},
       [](auto& b) {
         return b.apply("clip", {b.input("x", {4}, dtype::int64)}, {{"low", -HUGE_VAL}, {"high", 0x1p63}})[0];
       }},
      {"Div of integers",
       {{7, "g (int64[4] x, int64[1] n) => (int64[4] y) { y = Div(x, n) }"}},
       [](auto& b) {
         return b.apply("integer_div", {b.input("x", {4}, dtype::int64), b.input("n", {1}, dtype::int64)})[0];
       }},
      {"CastLike",
       {{15, "g (float[4,6] x, int32[2] t) => (int32[4,6] y) { y = CastLike(x, t) }"}},
       [](auto& b) {
         const auto x = b.input("x", {4, 6});
         b.input("t", {2}, dtype::int32);
         return b.apply("cast", {x}, {{"element", "int32"}})[0];
       }},
      {"Mean of three",
       {{8, "g (float[4,6] x, float[6] y1, float[1] y2) => (float[4,6] y) { y = Mean(x, y1, y2) }"}},
       [](auto& b) {
         const auto x = b.input("x", {4, 6});
         const auto y1 = b.input("y1", {6});
         const auto y2 = b.input("y2", {1});
         const auto sum = b.apply("add", {b.apply("add", {x, y1})[0], y2})[0];
         return b.apply("div", {sum, b.fill(3)})[0];
       }},
      {"Where",
       {{9, "g (bool[4,1] c, float[6] x, float[1] w) => (float[4,6] y) { y = Where(c, x, w) }"}},
       [](auto& b) {
         const auto c = b.input("c", {4, 1}, dtype::boolean);
         const auto x = b.input("x", {6});
         return b.apply("where", {c, x, b.input("w", {1})})[0];
       }},
      {"comparisons and logic",
       {{12, "g (float[4] x) => (bool[4] y) { a = LessOrEqual(x, x) b = Greater(x, x) c = Xor(a, b) y = Not(c) }"}},
       [](auto& b) {
         const auto x = b.input("x", {4});
         const auto least = b.apply("less_or_equal", {x, x})[0];
         return b.apply("logical_not", {b.apply("logical_xor", {least, b.apply("greater", {x, x})[0]})[0]})[0];
       }},
      {"attributes that are not stated, and that are",
       {{14, one + "{ a = LeakyRelu(x) b = Selu(a) y = HardSigmoid <alpha = 0.5> (b) }"}},
       [](auto& b) {
         const auto leaky = b.apply("leaky_relu", {b.input("x", {4, 6})}, {{"alpha", static_cast<double>(0.01F)}})[0];
         return b.apply("hard_sigmoid", {b.apply("selu", {leaky})[0]}, {{"alpha", 0.5}})[0];
       }},
      {"Mod of integers and of reals",
       {{10,
         "g (int32[4] x, float[4] w) => (float[4] y) { m = Mod(x, x) r = Cast <to = 1> (m) y = Mod <fmod = 1> (r, w) "
         "}"}},
       [](auto& b) {
         const auto x = b.input("x", {4}, dtype::int32);
         const auto w = b.input("w", {4});
         const auto real = b.apply("cast", {b.apply("mod", {x, x})[0]}, {{"element", "float32"}})[0];
         return b.apply("mod", {real, w}, {{"truncated", 1}})[0];
       }},
      {"Gelu by tanh",
       {{20, one + "{ y = Gelu <approximate = \"tanh\"> (x) }"}},
       [](auto& b) { return b.apply("gelu_tanh", {b.input("x", {4, 6})})[0]; }},
      {"Softmax along the last axis",
       {{11, one + "{ y = Softmax(x) }"},
        {13, one + "{ y = Softmax(x) }"},
        {21, one + "{ y = Softmax <axis = 1> (x) }"}},
       [](auto& b) { return b.softmax(b.input("x", {4, 6}), 1); }},
      {"Reshape",
       {{4, one + "{ y = Reshape <shape = [0, 2, -1]> (x) }"},
        {7, one + "<int64[3] s = {0, 2, -1}> { y = Reshape(x, s) }"},
        {14, one + "<int64[3] s = {4, 2, 3}> { y = Reshape <allowzero = 1> (x, s) }"},
        {21, one + "<int64[3] s = {-1, 2, 3}> { y = Reshape(x, s) }"}},
       [](auto& b) { return b.reshape(b.input("x", {4, 6}), {4, 2, 3}); }},
      {"Flatten",
       {{9, "g (float[2,3,4] x) => (float[n,m] y) { y = Flatten <axis = 2> (x) }"},
        {21, "g (float[2,3,4] x) => (float[n,m] y) { y = Flatten <axis = -1> (x) }"}},
       [](auto& b) { return b.reshape(b.input("x", {2, 3, 4}), {6, 4}); }},
      {"BatchNormalization",
       {{6,
         "g (float[1,2,3,3] x, float[2] s) => (float[1,2,3,3] y) { y = BatchNormalization <epsilon = 0.5, is_test = 1> "
         "(x, s, s, s, s) }"},
        {9,
         "g (float[1,2,3,3] x, float[2] s) => (float[1,2,3,3] y) { y = BatchNormalization <epsilon = 0.5> (x, s, s, s, "
         "s) }"},
        {15,
         "g (float[1,2,3,3] x, float[2] s) => (float[1,2,3,3] y) { y = BatchNormalization <epsilon = 0.5> (x, s, s, s, "
         "s) }"}},
       [](auto& b) {
         const auto x = b.input("x", {1, 2, 3, 3});
         const auto s = b.input("s", {2});
         return b.batch_norm(x, s, s, s, s, 0.5);
       }},
      {"a mean over images",
       {{7, "g (float[1,2,3,3] x) => (float[1,2,1,1] y) { y = GlobalAveragePool(x) }"}},
       [](auto& b) { return b.global_average_pool(b.input("x", {1, 2, 3, 3})); }},
      {"Transpose without permutation",
       {{7, one + "{ y = Transpose(x) }"}, {21, one + "{ y = Transpose <perm = [1, 0]> (x) }"}},
       [](auto& b) { return b.transpose(b.input("x", {4, 6}), {1, 0}); }},
      {"Gemm with a transposed matrix and a row as bias",
       {{7, "g (float[4,6] x, float[5,6] w, float[1,5] c) => (float[4,5] y) { y = Gemm <transB = 1> (x, w, c) }"},
        {13,
         "g (float[4,6] x, float[5,6] w, float[1,5] c) => (float[4,5] y) { y = Gemm <transB = 1, alpha = 1.0> (x, w, "
         "c) }"}},
       [](auto& b) {
         const auto x = b.input("x", {4, 6});
         const auto w = b.input("w", {5, 6});
         const auto c = b.input("c", {1, 5});
         const auto t = b.transpose(w, {1, 0});
         return b.linear(x, t, b.reshape(c, {5}));
       }},
      {"Gelu", {{20, one + "{ y = Gelu(x) }"}}, [](auto& b) { return b.gelu(b.input("x", {4, 6})); }},
      {"n-ary operators",
       {{8, "g (float[6] a, float[4,6] b, float[6] c) => (float[4,6] y) { y = Sum(a, b, c) }"}},
       [](auto& b) {
         const auto x = b.input("a", {6});
         const auto y = b.input("b", {4, 6});
         const auto z = b.input("c", {6});
         return b.add(b.add(x, y), z);
       }},
      {"a row taken by its number",
       {{13, "g (float[2,5,3] x) => (float[2,3] y) <int64 i = {-1}> { y = Gather <axis = 1> (x, i) }"}},
       [](auto& b) {
         const auto part = b.slice(b.input("x", {2, 5, 3}), {1}, {4}, {5});
         return b.apply("squeeze", {part}, {{"axes", {1}}})[0];
       }},
      {"rows of a table",
       {{13, "g (float[5,3] x, int64[2,2] i) => (float[2,2,3] y) { y = Gather(x, i) }"}},
       [](auto& b) {
         const auto x = b.input("x", {5, 3});
         return b.embedding(x, b.input("i", {2, 2}, dtype::int64));
       }},
      {"automatic padding",
       {{11,
         "g (float[1,1,5,5] x, float[1,1,2,2] w) => (float[1,1,3,3] y) { y = Conv <auto_pad = \"SAME_UPPER\", strides "
         "= [2, 2]> (x, w) }"}},
       [](auto& b) {
         const auto x = b.input("x", {1, 1, 5, 5});
         tensor::conv2d_options options;
         options.stride = {2, 2};
         options.padding = "same";
         return b.conv2d(x, b.input("w", {1, 1, 2, 2}), options);
       }},
  };
}

}  // namespace

TEST_CASE("an ONNX operator gives the same graph in the notations of different opsets") {
  for (const auto& f : all_forms()) {
    const auto meaning = built(f.meaning);
    for (const auto& [opset, text] : f.texts) {
      CAPTURE(f.name, opset, text);
      const auto m = read(text, opset);
      CHECK(m.graph == meaning);
      CHECK(m.opaque_operators.empty());
    }
  }
}

TEST_CASE("Softmax before opset 13 flattens the dimensions from its axis on") {
  const std::string graph = "g (float[2,3,4] x) => (float[2,3,4] y) { y = Softmax <axis = 1> (x) }";
  CHECK(outline(read(graph, 11)) == "flat_softmax");
  CHECK(outline(read(graph, 13)) == "softmax");
}

TEST_CASE("unsupported ONNX operators become opaque and are counted") {
  const auto m = read(R"(g (float[2,3] x) => (float[2,3] y) { a = Acos(x) b = Acosh(a) y = Acos(b) })");
  CHECK(outline(m) == "opaque opaque opaque");
  CHECK(m.opaque_operators == std::map<std::string, std::size_t>{{"Acos", 2}, {"Acosh", 1}});
  CHECK(m.opaque_nodes.size() == 3);
}

TEST_CASE("unsupported forms of ONNX operators become opaque") {
  const auto opaque = [](const std::string& graph, int opset = 17) {
    const auto m = read(graph, opset);
    CAPTURE(graph);
    CHECK(m.opaque_operators.size() == 1);
  };
  opaque("g (float[1,2,5,5,5] x, float[3,2,2,2,2] w) => (float[1,3,4,4,4] y) { y = Conv(x, w) }");
  opaque("g (float[1,2,4,4] x) => (float[1,2,4,4] y, int64[1,2,4,4] i) { y, i = MaxPool <kernel_shape = [1, 1]> (x) }");
  opaque("g (int64[4] x, int64 n) => (int64[4] y) { y = Clip(x, n) }");
  opaque("g (int64[4] x) => (int64[4] y) <int64 n = {9007199254740993}> { y = Clip(x, n) }");
  opaque("g (float16[4] x) => (bool[4] y) { y = IsInf(x) }", 20);
  opaque("g (bool[2,3] x, bool[3] y) => (bool[2,3] z) { z = And <axis = 1, broadcast = 1> (x, y) }", 6);
  opaque("g (float[4] x) => (float[4] y) { y = Dropout(x) }", 6);  // opset 6 defaults to training
  opaque("g (float[4] x) => (float[4] y) <float r = {0.5}, bool t = {1}> { y = Dropout(x, r, t) }");
}

TEST_CASE("unused optional outputs do not make an ONNX node opaque") {
  const std::string two = "g (float[2,3] x) => (float[2,3] y) { y, mask = Dropout(x) }";
  for (const int opset : {7, 10, 13}) {
    CHECK(outline(read(two, opset)) == "dropout");
  }
  CHECK(outline(read("g (float[2,3] x) => (float[2,3] y, bool[2,3] mask) { y, mask = Dropout(x) }", 13)) == "opaque");
}

}  // namespace tests_of_operators
