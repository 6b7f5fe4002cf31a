#include <unity/io/onnx_import.hpp>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/file.hpp>
#include <unity/tensor/builder.hpp>

#include "../support/onnx_text.hpp"
#include "onnx_subjects.hpp"

namespace tests_of_onnx_import {

namespace io = unity::io;
namespace tensor = unity::tensor;
using tensor::dtype;
using unity::node_id;
using unity::value_id;
using unity::io::test::built;
using unity::io::test::outline;
using unity::io::test::standard;
using unity::test::onnx_bytes_of;
using unity::test::onnx_model_of;

namespace {

io::onnx_model read(const std::string& graph, int opset = 17, const io::import_options& options = {}) {
  return io::parse_onnx(standard(), onnx_bytes_of(graph, opset), "model", {}, options);
}
std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const unity::error& e) {
    CHECK(std::string{e.what()}.find('\n') == std::string::npos);
    CHECK(std::string{e.what()}.size() < 600);
    return e.what();
  }
  return {};
}
std::string complaint(const onnx::ModelProto& model, const io::import_options& options = {}) {
  return message_of([&] { (void)io::parse_onnx(standard(), model.SerializeAsString(), "model", {}, options); });
}
std::string complaint(const std::string& graph, int opset = 17, const io::import_options& options = {}) {
  return message_of([&] { (void)read(graph, opset, options); });
}
std::filesystem::path fresh_folder(const std::string& name) {
  const auto folder = std::filesystem::path{UNITY_TEST_SCRATCH_DIR} / ("io_onnx_import_" + name);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}
void set_dimension(onnx::ModelProto& model, int input, int axis, const std::string& name) {
  model.mutable_graph()
      ->mutable_input(input)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(axis)
      ->set_dim_param(name);
}

}  // namespace

TEST_CASE("shape arithmetic in ONNX files is folded on import") {
  SECTION("Reshape to sizes taken from Shape and Gather") {
    const auto m =
        read(R"(g (float[2,5,6] x) => (float[2,5,2,3] y) <int64 zero = {0}, int64 one = {1}, int64[1] axis = {0}> {
      s = Shape(x) b0 = Gather(s, zero) n0 = Gather(s, one)
      b = Unsqueeze(b0, axis) n = Unsqueeze(n0, axis)
      heads = Constant <value = int64[1] {2}> () size = Constant <value = int64[1] {-1}> ()
      dims = Concat <axis = 0> (b, n, heads, size)
      y = Reshape(x, dims) })");
    CHECK(m.graph == built([](auto& b) { return b.reshape(b.input("x", {2, 5, 6}), {2, 5, 2, 3}); }));
    CHECK(m.data.empty());
  }
  SECTION("arithmetic/casts/comparisons/Where on sizes") {
    const auto m = read(R"(g (float[6,4] x) => (float[n,m] y) <int64 zero = {0}, int64 two = {2}, int64[1] axis = {0}> {
      s = Shape(x) rows = Gather(s, zero) half = Div(rows, two) less = Sub(half, two) real = Cast <to = 1> (less)
      root = Sqrt(real) back = Cast <to = 7> (root) same = Equal(back, two) pick = Where(same, two, half)
      most = Max(pick, half) end = Unsqueeze(most, axis)
      y = Slice(x, axis, end) })");
    CHECK(m.graph == built([](auto& b) { return b.slice(b.input("x", {6, 4}), {0}, {0}, {3}); }));
  }
  SECTION("part of a Shape with its product and ConstantOfShape") {
    const auto m = read(R"(g (float[2,3,4] x) => (float[n] y) <int64[1] one = {1}> {
      tail = Shape <start = 1> (x) count = ReduceProd(tail) dims = Concat <axis = 0> (one, count)
      zeros = ConstantOfShape <value = float[1] {0.5}> (dims) flat = Reshape(zeros, count)
      f = Flatten <axis = 1> (x) y = Add(f, flat) })");
    CHECK(outline(m) == "reshape add");
    CHECK(m.graph.type(m.graph.outputs()[0]).dims == tensor::shape{2, 12});
  }
  SECTION("Pad sizes in the order of PyTorch's exporter") {
    const auto m = read(R"(g (float[2,3] x) => (float[n,m] y)
      <int64[4] pads = {1, 2, 0, 3}, int64[2] two = {-1, 2}, int64[1] last = {-1}, int64[1] axis = {0}> {
      end = Constant <value = int64[1] {-9223372036854775807}> ()
      copy = Cast <to = 7> (pads) pairs = Reshape(copy, two) back = Slice(pairs, last, end, axis, last)
      sides = Transpose <perm = [1, 0]> (back) all = Reshape(sides, last) y = Pad(x, all) })");
    CHECK(m.graph == built([](auto& b) { return b.pad(b.input("x", {2, 3}), {0, 1, 3, 2}); }));
  }
  SECTION("an If with a constant condition is replaced by its branch") {
    auto model = onnx_model_of(R"(<ir_version: 8, opset_import: [ "" : 17 ]> g (float[2,3] x) => (float[2,3] y)
      <int64 i = {0}, int64 two = {2}> { s = Shape(x) n = Gather(s, i) c = Equal(n, two) y = If(c) })");
    for (const auto* name : {"then_branch", "else_branch"}) {
      unity::test::add_branch(*model.mutable_graph()->mutable_node(3), name, name[0] == 't' ? "Relu" : "Tanh", {"x"});
    }
    CHECK(outline(io::parse_onnx(standard(), model.SerializeAsString(), "if", {})) == "relu");
  }
}

TEST_CASE("branches of different ONNX nodes may use one name for different constants") {
  auto model = onnx_model_of(R"(<ir_version: 8, opset_import: [ "" : 17 ]> g (float[2] x) => (float[2] y)
      <bool t = {1}> { a = If(t) b = If(t) y = Sub(a, b) })");
  for (const int k : {0, 1}) {
    for (const auto* name : {"then_branch", "else_branch"}) {
      auto& branch = unity::test::add_branch(*model.mutable_graph()->mutable_node(k), name, "Add", {"x", "c"});
      auto& c = *branch.add_initializer();
      c.set_name("c");
      c.set_data_type(onnx::TensorProto::FLOAT);
      c.add_dims(2);
      c.add_float_data(static_cast<float>(1 + k));
      c.add_float_data(static_cast<float>(5 + k));
    }
  }
  const auto m = io::parse_onnx(standard(), model.SerializeAsString(), "if", {});
  CHECK(outline(m) == "add add sub");
  REQUIRE(m.data.size() == 2);
  CHECK(m.data.begin()->second != std::next(m.data.begin())->second);
}

TEST_CASE("an ONNX Constant of an empty list is a tensor without elements") {
  auto model = onnx_model_of(R"(<ir_version: 8, opset_import: [ "" : 17 ]> g (float[1] x) => (float y)
      { s = Constant <value_ints = [1]> () y = Reshape(x, s) })");
  model.mutable_graph()->mutable_node(0)->mutable_attribute(0)->clear_ints();
  const auto m = io::parse_onnx(standard(), model.SerializeAsString(), "m", {});
  CHECK(outline(m) == "reshape");
  CHECK(m.graph.type(m.graph.outputs()[0]).rank() == 0);
}

TEST_CASE("ONNX scales of one element are those of the whole tensor whatever the axis") {
  for (const auto* const x : {"int8[4]", "int8[4,3]"}) {
    const auto m = read(std::string{"g ("} + x +
                        " x) => (float[n,m] y) <float[1] s = {0.5}, int8[1] z = {3}> "
                        "{ y = DequantizeLinear(x, s, z) }");
    CHECK(m.opaque_operators.empty());
    CHECK(outline(m).ends_with("dequantize"));
  }
  CHECK(complaint("g (int8[4] x) => (float[4] y) <float[4] s = {1, 2, 3, 4}> { y = DequantizeLinear(x, s) }")
            .find("has axis 1") != std::string::npos);
}

TEST_CASE("an ONNX Gather by computed constants may count back") {
  const auto m =
      read(R"(g (float[1,2,2] x) => (float[1,2,2] y) <float[3,2] w = {0, 1, 2, 3, 4, 5}, int64[2] i = {-1, 0}> {
    f = Flatten <axis = 0> (i) g = Gather(w, f) y = Add(x, g) })");
  CHECK(outline(m).find("embedding") == std::string::npos);
}

TEST_CASE("an ONNX Clip of float64 has bounds beyond the range of float32") {
  CHECK(outline(
            read("g (double[2] x) => (double[2] y) <double a = {-1e100}, double b = {1e100}> { y = Clip(x, a, b) }")) ==
        "clip");
}

TEST_CASE("an ONNX ReduceProd of no axes may keep its operand") {
  const auto m = read(R"(g (float[2] x) => (float[2] y) <int64[2] c = {2, 3}> {
    p = ReduceProd <noop_with_empty_axes = 1> (c) r = Cast <to = 1> (p) y = Mul(x, r) })",
                      18);
  const auto last = m.graph.producer(m.graph.outputs()[0]);
  CHECK(m.graph.type(m.graph.operands(last)[1]).dims == tensor::shape{2});
}

TEST_CASE("ONNX constants without elements are joined without a node") {
  const std::string before = "g (float[2,4,3] x) => (float[2,4,3] y) <int64[3] d = {2, 4, 0}> { ";
  const auto m = read(before + R"(
    none = ConstantOfShape(d) c = Concat <axis = 2> (none, x, none) y = Relu(c) })");
  CHECK(m.graph == built([](auto& b) { return b.relu(b.input("x", {2, 4, 3})); }));
  CHECK(m.data.empty());
  const auto two = read(before + "e = ConstantOfShape(d) y = Concat <axis = -1> (x, e, x) }");
  CHECK(two.graph == built([](auto& b) {
          const auto x = b.input("x", {2, 4, 3});
          const value_id parts[] = {x, x};
          return b.concat(2, parts);
        }));
  CHECK_THAT(complaint(before + "e = ConstantOfShape(d) y = Concat <axis = 0> (x, e) }"),
             Catch::Contains("node 1 (Concat): input 1 without elements; expected float32[0,4,3]"));
  CHECK_THAT(complaint(before + "e = ConstantOfShape(d) i = Cast <to = 7> (e) y = Concat <axis = 2> (x, i) }"),
             Catch::Contains("input 1 without elements; expected float32[2,4,0]"));
  io::import_options keeps;
  keeps.keep_rest = true;
  const auto kept = read(
      "g (float[2] x) => (float[2] z, float[n] y) <int64[1] d = {0}> { z = Tanh(x) e = ConstantOfShape(d) y = Relu(e) "
      "}",
      17, keeps);
  CHECK(outline(kept) == "tanh");
  CHECK(kept.opaque_operators == std::map<std::string, std::size_t>{{"Relu", 1}});
  CHECK_THAT(kept.rest_reason, Catch::Contains("node 2 (Relu): output 'y' has no known sizes"));
}

TEST_CASE("ONNX constants import as fill or constant and initializers as weight") {
  const auto m = read(R"(g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> {
    half = Constant <value = float {0.5}> () list = Constant <value = float[2] {3, 4}> ()
    a = Mul(x, half) b = Add(a, list) y = Sub(b, w) })");
  std::map<std::string, int> kinds;
  for (const auto i : node_ids(m.graph)) {
    ++kinds[standard().signature(m.graph.operation(i).kind).name];
  }
  CHECK(kinds == std::map<std::string, int>{
                     {"input", 1}, {"fill", 1}, {"constant", 1}, {"weight", 1}, {"mul", 1}, {"add", 1}, {"sub", 1}});
  CHECK(io::elements_of<double>(m.data.at("w")) == std::vector<double>{1, 2});
  CHECK(io::elements_of<double>(m.data.at("list")) == std::vector<double>{3, 4});
  CHECK(m.data.size() == 2);
}

TEST_CASE("named ONNX dimensions take their sizes from the import options") {
  auto model = onnx_model_of(
      R"(<ir_version: 8, opset_import: [ "" : 17 ]>
         g (float[1,3] x, float[1,3] z) => (float[1,3] y) { y = Add(x, z) })");
  set_dimension(model, 0, 0, "batch");
  set_dimension(model, 1, 0, "batch");
  const auto m = io::parse_onnx(standard(), model.SerializeAsString(), "m", {}, {{{"batch", 5}}});
  CHECK(m.graph.type(m.graph.outputs()[0]).dims == tensor::shape{5, 3});
  SECTION("a dimension without a size is an error that names the input and the flag") {
    CHECK_THAT(complaint(model),
               Catch::Contains("input 'x'") && Catch::Contains("(batch)") && Catch::Contains("--dim batch=SIZE"));
  }
  SECTION("an unknown dimension name is an error that lists the known ones") {
    CHECK_THAT(complaint(model, {{{"batch", 5}, {"bach", 5}}}),
               Catch::Contains("'bach'") && Catch::Contains("one of: batch"));
  }
  SECTION("a dimension's size must be positive") {
    CHECK_THAT(complaint(model, {{{"batch", 0}}}),
               Catch::Contains("dimension 0 is 0") && Catch::Contains("a positive size"));
    CHECK_THAT(complaint(model, {{{"batch", -3}}}), Catch::Contains("a positive size"));
  }
  SECTION("an unnamed open dimension is called by its input and axis") {
    model.mutable_graph()
        ->mutable_input(0)
        ->mutable_type()
        ->mutable_tensor_type()
        ->mutable_shape()
        ->mutable_dim(0)
        ->clear_value();
    CHECK_THAT(complaint(model, {{{"batch", 5}}}), Catch::Contains("--dim x.0=SIZE"));
    CHECK_NOTHROW(io::parse_onnx(standard(), model.SerializeAsString(), "m", {}, {{{"batch", 5}, {"x.0", 5}}}));
  }
}

TEST_CASE("a truncated or invalid ONNX file is a one-line error") {
  const auto bytes = onnx_bytes_of("g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }");
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    CAPTURE(length);
    const auto message = message_of([&] { (void)io::parse_onnx(standard(), bytes.substr(0, length), "model", {}); });
    CHECK_THAT(message, Catch::Contains("model") && Catch::Contains("expected"));
  }
  CHECK_THAT(message_of([] { (void)io::parse_onnx(standard(), "not a model at all", "notes.txt", {}); }),
             Catch::Contains("notes.txt"));
  CHECK_THAT(message_of([] { (void)io::import_onnx(standard(), "none.onnx"); }),
             Catch::Contains("none.onnx") && Catch::Contains("No such file"));
}

TEST_CASE("each corrupted single byte of an ONNX file gives a model or a one-line error") {
  const auto bytes = onnx_bytes_of(
      R"(g (float[2,3] x, float[3,4] v) => (float[2,4] y) <float[4] w = {1, 2, 3, 4}, int64[2] s = {3, 2}> {
    r = Reshape(x, s) t = Transpose <perm = [1, 0]> (r) a = MatMul(t, v) b = Add(a, w) y = Softmax <axis = -1> (b) })");
  std::size_t errors = 0;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (const char with : {'\0', '\x7f', '\xff'}) {
      auto damaged = bytes;
      damaged[at] = with;
      errors += message_of([&] { (void)io::parse_onnx(standard(), damaged, "model", {}); }).empty() ? 0 : 1;
    }
  }
  CHECK(errors > bytes.size());
}

TEST_CASE("ONNX opsets outside 1 to 28 are refused with their number") {
  const std::string graph = "g (float[2] x) => (float[2] y) { y = Relu(x) }";
  CHECK_THAT(complaint(graph, 0), Catch::Contains("opset 0") && Catch::Contains("1 to 28"));
  CHECK_THAT(complaint(graph, 29), Catch::Contains("opset 29"));
  CHECK(complaint(graph, 1).empty());
  CHECK(complaint(graph, 28).empty());
  auto none =
      onnx_model_of(R"(<ir_version: 8, opset_import: [ "other" : 1 ]> g (float[2] x) => (float[2] y) { y = Relu(x) })");
  CHECK_THAT(complaint(none), Catch::Contains("no opset of the default domain"));
}

TEST_CASE("nodes of newer ONNX opsets are checked if their operators have not changed") {
  const std::string inputs = "g (float[2,3] x) => (float[2,3] y) ";
  CHECK_THAT(complaint(inputs + "{ y = Elu <beta = 1.0> (x) }", 22), Catch::Contains("beta"));
  CHECK_THAT(complaint(inputs + "{ y = Elu(x, x) }", 22), Catch::Contains("Elu"));
  CHECK_THAT(complaint(inputs + "{ y = Gelu(x) }", 19), Catch::Contains("Gelu"));  // came with opset 20
  CHECK_THAT(complaint(inputs + "{ y = Upsample(x, x) }", 18), Catch::Contains("Upsample"));
  CHECK(complaint(inputs + "{ y = Elu(x) }", 22).empty());
  CHECK(complaint(inputs + "{ y = Gelu(x) }", 20).empty());
}

TEST_CASE("ONNX nodes with mismatched sizes are refused with the reason") {
  CHECK_THAT(complaint("g (float[2,3] x, float[4,5] z) => (float[2,5] y) { y = MatMul(x, z) }"),
             Catch::Contains("node 0 (MatMul)") && Catch::Contains("float32[2,3]") && Catch::Contains("float32[4,5]"));
  CHECK_THAT(complaint("g (float[2,3] x, float[4,5] z) => (float[2,5] y) { y = Add(x, z) }"),
             Catch::Contains("broadcast"));
  CHECK_THAT(complaint("g (float[1,3,8,8] x, float[4,2,3,3] w) => (float[1,4,6,6] y) { y = Conv(x, w) }"),
             Catch::Contains("(Conv)"));
  CHECK_THAT(complaint("g (float[2,3] x) => (float[7] y) <int64[1] s = {7}> { y = Reshape(x, s) }"),
             Catch::Contains("float32[2,3] to [7]"));
  CHECK_THAT(complaint("g (float[2,3] x) => (float[2] y) { y = ReduceMean <axes = [5]> (x) }"),
             Catch::Contains("within rank 2"));
  CHECK_THAT(complaint("g (float[2,3] x) => (float[2,2] y) <int64[2] s = {2, 2}> { y, z = Split <axis = 1> (x, s) }"),
             Catch::Contains("(Split)"));
  CHECK_THAT(complaint("g (float[3] x) => (float[n] y) <int64[1] s = {3}> { y = Slice(x, s, s) }"),
             Catch::Contains("without elements"));
}

TEST_CASE("small ONNX files that ask for huge tensors are refused") {
  std::string nodes = "{ n = Constant <value = int64[1] {65536}> () ";
  for (int i = 0; i < 300; ++i) {
    nodes += "v" + std::to_string(i) + " = ConstantOfShape(n) ";
  }
  CHECK_THAT(complaint("g (float[2] x) => (float[2] y) " + nodes + "y = Relu(x) }"),
             Catch::Contains("shape arithmetic on more than"));
  CHECK_THAT(complaint("g (float[1000000000000] x) => (float[n] y) { y = Split <num_outputs = 500000000000> (x) }", 18),
             Catch::Contains("into 1 results"));
  CHECK_THAT(complaint("g (float[100000000000000, 100000000000000] x) => (float[n] y) { y = Relu(x) }"),
             Catch::Contains("too many elements"));
}

TEST_CASE("malformed ONNX graphs are refused with the reason") {
  auto model = onnx_model_of(
      R"(<ir_version: 8, opset_import: [ "" : 17 ]> g (float[2] x) => (float[2] y) { a = Relu(x) y = Tanh(a) })");
  auto& g = *model.mutable_graph();
  SECTION("an undefined node input") {
    g.mutable_node(1)->set_input(0, "nowhere");
    CHECK_THAT(complaint(model), Catch::Contains("node 1 (Tanh): reads 'nowhere', which nothing defines"));
  }
  SECTION("a cycle of nodes") {
    g.mutable_node(0)->set_input(0, "y");
    CHECK_THAT(complaint(model), Catch::Contains("depends on itself through 'y'"));
  }
  SECTION("nodes out of order") {
    g.mutable_node()->SwapElements(0, 1);
    CHECK_THAT(complaint(model), Catch::Contains("before node 1 (Relu) defines it"));
  }
  SECTION("a value defined twice") {
    g.mutable_node(1)->set_output(0, "a");
    CHECK_THAT(complaint(model), Catch::Contains("defines 'a' a second time"));
  }
  SECTION("an undefined graph output") {
    g.mutable_output(0)->set_name("z");
    CHECK_THAT(complaint(model), Catch::Contains("output 'z': is not defined"));
  }
  SECTION("an unknown ONNX operator") {
    g.mutable_node(0)->set_op_type("Rellu");
    CHECK_THAT(complaint(model), Catch::Contains("Rellu"));
    model.mutable_opset_import(0)->set_version(19);  // which the packaged checker does not know
    CHECK_THAT(complaint(model), Catch::Contains("Rellu") && Catch::Contains("that the ONNX checker accepts"));
  }
  SECTION("no outputs or no graph") {
    g.clear_output();
    CHECK_THAT(complaint(model), Catch::Contains("computes nothing"));
    model.clear_graph();
    CHECK_THAT(complaint(model), Catch::Contains("has no graph"));
  }
}

TEST_CASE("ONNX initializers with invalid data are refused with the reason") {
  auto model = onnx_model_of(
      R"(<ir_version: 8, opset_import: [ "" : 17 ]>
         g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) })");
  auto& w = *model.mutable_graph()->mutable_initializer(0);
  SECTION("a NaN element") {
    w.set_float_data(1, std::numeric_limits<float>::quiet_NaN());
    CHECK_THAT(complaint(model), Catch::Contains("tensor 'w': element 1 is NaN"));
  }
  SECTION("too few elements") {
    w.mutable_float_data()->RemoveLast();
    CHECK_THAT(complaint(model), Catch::Contains("tensor 'w': holds 4 bytes; expected 8"));
  }
  SECTION("an overflowing dimension") {
    w.set_dims(0, std::numeric_limits<std::int64_t>::max());
    CHECK_THAT(complaint(model), Catch::Contains("tensor 'w'"));
  }
  SECTION("an unsupported element type") {
    w.set_data_type(onnx::TensorProto::COMPLEX64);
    CHECK_THAT(complaint(model), Catch::Contains("COMPLEX64") && Catch::Contains("float32"));
  }
  SECTION("missing/truncated/misplaced external data") {
    const auto put = [&](const std::string& key, const std::string& value) {
      auto& entry = *w.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    };
    w.clear_float_data();
    w.set_data_location(onnx::TensorProto::EXTERNAL);
    put("location", "w.bin");
    const auto folder = fresh_folder("external");
    const auto text = [&] {
      return message_of([&] { (void)io::parse_onnx(standard(), model.SerializeAsString(), "model", folder); });
    };
    CHECK_THAT(text(), Catch::Contains("tensor 'w': external data:") && Catch::Contains((folder / "w.bin").string()));
    unity::atomic_write(folder / "w.bin", std::string(12, '\0'));
    CHECK(text().empty());
    put("offset", "8");
    CHECK_THAT(text(), Catch::Contains("ends at byte 12"));
    put("offset", "x8");
    CHECK_THAT(text(), Catch::Contains("'x8'"));
    w.mutable_external_data()->RemoveLast();
    put("location", "../w.bin");
    CHECK_THAT(text(), Catch::Contains("'../w.bin'") && Catch::Contains("folder or below"));
    put("location", std::string{"w.bin\0\n", 7});
    CHECK_THAT(text(), Catch::Contains("'w.bin? '") && Catch::Contains("folder or below"));
  }
}

TEST_CASE("ResNet and BERT models of PyTorch's exporter are imported") {
  const auto kinds = [](const io::onnx_model& m) {
    std::map<std::string, int> count;
    for (const auto i : node_ids(m.graph)) {
      ++count[standard().signature(m.graph.operation(i).kind).name];
    }
    return count;
  };
  const std::filesystem::path models{UNITY_TEST_MODEL_DIR};
  SECTION("ResNet without opaque operators") {
    const auto m = io::import_onnx(standard(), models / "resnet_small.onnx", {{{"batch", 2}}});
    CHECK(m.opaque_operators.empty());
    const auto count = kinds(m);
    CHECK(count.at("conv2d") == 53);
    CHECK(count.at("batch_norm") == 53);
    CHECK(count.at("add") == 16);
    CHECK(m.graph.type(m.graph.outputs()[0]).dims == tensor::shape{2, 10});
  }
  SECTION("BERT with a decomposed layer norm and without opaque operators") {
    const auto m = io::import_onnx(standard(), models / "bert_small.onnx", {{{"batch", 2}, {"sequence", 5}}});
    CHECK(m.opaque_operators.empty());
    const auto count = kinds(m);
    CHECK(count.at("matmul") == 2 * 8);
    CHECK(count.at("softmax") == 2);
    CHECK(count.at("reshape") == 2 * 4);
    CHECK(count.at("embedding") == 3);
    CHECK(m.outputs == std::vector<std::string>{"last_hidden_state", "pooled"});
  }
  SECTION("BERT with a fused layer norm and external weights") {
    const auto m = io::import_onnx(standard(), models / "bert_fused.onnx", {{{"batch", 1}, {"sequence", 16}}});
    CHECK(kinds(m).at("layer_norm") == 5);
    CHECK(m.data.contains("layer.0.attention.query.weight"));
  }
}

}  // namespace tests_of_onnx_import
