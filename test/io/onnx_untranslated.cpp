#include <unity/io/onnx/untranslated.hpp>

#include <cmath>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/error.hpp>
#include <unity/io/onnx_export.hpp>
#include <unity/io/onnx_import.hpp>
#include <unity/tensor/shape.hpp>

#include "../support/cases.hpp"
#include "../support/message_of.hpp"
#include "../support/onnx_text.hpp"
#include "onnx_samples.hpp"

namespace tests_of_onnx_untranslated {

namespace io = unity::io;
namespace tensor = unity::tensor;
using tensor::dtype;
using unity::value_id;
using unity::io::test::again;
using unity::io::test::standard;
using unity::test::message_of;

TEST_CASE("a node of an unsupported ONNX operator is written back byte for byte") {
  const auto bytes = unity::test::onnx_bytes_of(R"(g (float[3,2,4] x) => (float[3,1,2,6] y, float[1,2,6] last)
    <float[1,24,4] w = {1}, float[1,24,6] r = {1}> {
      h = Relu(x)
      y, last = LSTM <hidden_size = 6, activations = ["Sigmoid", "Tanh", "Relu"]> (h, w, r) })");
  onnx::ModelProto source;
  source.ParseFromString(bytes);
  for (auto& t : *source.mutable_graph()->mutable_initializer()) {  // the text has fewer numbers than the tensors
    t.clear_float_data();
    std::string raw(static_cast<std::size_t>(t.dims(1) * t.dims(2)) * 4, '\0');
    t.set_raw_data(raw);
  }
  source.mutable_graph()->mutable_node(1)->set_name("the cell");
  source.mutable_graph()->mutable_node(1)->set_doc_string("said something");
  const auto m = io::parse_onnx(standard(), source.SerializeAsString(), "lstm", {});
  CHECK(m.opaque_operators == std::map<std::string, std::size_t>{{"LSTM", 1}});
  onnx::ModelProto written;
  REQUIRE(written.ParseFromString(io::serialize_onnx(standard(), m)));
  CHECK(written.graph().node(1).SerializeAsString() == source.graph().node(1).SerializeAsString());
  CHECK(again(m).graph == m.graph);
}

TEST_CASE("an operator of a custom ONNX domain needs stated result types and keeps its domain") {
  const std::string text = R"(<ir_version: 8, opset_import: [ "" : 17, "com.example" : 3 ]>
    g (float[2,3] x) => (float[2,3] y) { z = com.example.Fancy <depth = 2> (x) y = Relu(z) })";
  auto model = unity::test::onnx_model_of(text);
  CHECK_THAT(message_of([&] { (void)io::parse_onnx(standard(), model.SerializeAsString(), "f", {}); }),
             Catch::Contains("com.example.Fancy") && Catch::Contains("'z' has no known sizes"));
  io::detail::fill_type(*model.mutable_graph()->add_value_info(), "z", {dtype::float32, {}, false, {2, 3}});
  const auto m = io::parse_onnx(standard(), model.SerializeAsString(), "f", {});
  CHECK(m.opaque_operators == std::map<std::string, std::size_t>{{"com.example.Fancy", 1}});
  const auto copy = again(m);
  CHECK(copy.graph == m.graph);
  CHECK(copy.opaque_nodes == m.opaque_nodes);
  CHECK(again(copy).envelope == copy.envelope);
}

TEST_CASE("If branches read a captured value by its new name after a rename") {
  const auto model = [] {
    auto m = unity::test::onnx_model_of(R"(<ir_version: 8, opset_import: [ "" : 17 ]>
      g (float[2,3] x, bool c) => (float[2,3] y) { a = Abs(x) y = If(c) })");
    for (const auto* name : {"then_branch", "else_branch"}) {
      unity::test::add_branch(*m.mutable_graph()->mutable_node(1), name, name[0] == 't' ? "Relu" : "Neg", {"a"});
    }
    return m;
  }();
  auto m = io::parse_onnx(standard(), model.SerializeAsString(), "if", {});
  REQUIRE(m.opaque_operators == std::map<std::string, std::size_t>{{"If", 1}});
  CHECK(again(m).graph == m.graph);
  // Gives another name to the value that the branches read.
  tensor::tensor_graph g;
  std::vector<value_id> moved(m.graph.value_count());
  for (const auto n : node_ids(m.graph)) {
    std::vector<value_id> operands;
    std::vector<tensor::tensor_type> types;
    for (const auto v : m.graph.operands(n)) {
      operands.push_back(moved[v.index()]);
    }
    for (const auto v : m.graph.results(n)) {
      types.push_back(m.graph.type(v));
    }
    auto made = g.add_node(m.graph.operation(n), operands, types);
    if (standard().signature(m.graph.operation(n).kind).name == "abs") {
      made = g.add_node(standard().make_operation("identity"), g.results(made), types);
    }
    moved[m.graph.results(n)[0].index()] = g.results(made)[0];
  }
  m.outputs = {"a"};  // takes the captured name
  const value_id outputs[] = {moved[m.graph.outputs()[0].index()]};
  g.set_outputs(outputs);
  m.graph = g;
  onnx::ModelProto written;
  REQUIRE(written.ParseFromString(io::serialize_onnx(standard(), m)));
  const auto& node = written.graph().node(written.graph().node_size() - 1);
  REQUIRE(node.op_type() == "If");
  CHECK(node.attribute(0).g().node(0).input(0) == written.graph().node(1).output(0));
  CHECK(written.graph().output(0).name() == "a");
}

TEST_CASE("If branches read each of two captured values if one takes the former name of the other") {
  const auto written = [](const std::string& name) {  // of the second value
    auto m = unity::test::onnx_model_of(R"(<ir_version: 8, opset_import: [ "" : 17 ]>
      g (float[2,3] x, bool c) => (float[2,3] y) { a = Relu(x) )" +
                                        name + R"( = Abs(x) y = If(c) })");
    for (const auto* branch : {"then_branch", "else_branch"}) {
      unity::test::add_branch(*m.mutable_graph()->mutable_node(2), branch, "Sub", {"a", name});
    }
    onnx::ModelProto result;
    REQUIRE(result.ParseFromString(
        io::serialize_onnx(standard(), io::parse_onnx(standard(), m.SerializeAsString(), "if", {}))));
    REQUIRE(result.graph().node_size() == 3);
    return result;
  };
  const auto new_name = written("b").graph().node(0).output(0);  // of what was called a
  const auto again = written(new_name);
  const auto& inner = again.graph().node(2).attribute(0).g().node(0);
  CHECK(inner.input(0) == again.graph().node(0).output(0));
  CHECK(inner.input(1) == again.graph().node(1).output(0));
  CHECK(inner.input(0) != inner.input(1));
}

TEST_CASE("external data of inner ONNX graphs are read and written with the model") {
  const auto folder = std::filesystem::path{UNITY_TEST_SCRATCH_DIR} / "io_onnx_inner_external";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const float numbers[] = {3, 5};
  unity::atomic_write(folder / "w.bin", {reinterpret_cast<const char*>(numbers), sizeof numbers});
  auto m = unity::test::onnx_model_of(R"(<ir_version: 8, opset_import: [ "" : 17 ]>
      g (float[2] x, bool c) => (float[2] y) { y = If(c) })");
  for (const auto* branch : {"then_branch", "else_branch"}) {
    auto& g = unity::test::add_branch(*m.mutable_graph()->mutable_node(0), branch, "Add", {"x", "w"});
    auto& w = *g.add_initializer();
    w.set_name("w");
    w.set_data_type(onnx::TensorProto::FLOAT);
    w.add_dims(2);
    w.set_data_location(onnx::TensorProto::EXTERNAL);
    auto& entry = *w.add_external_data();
    entry.set_key("location");
    entry.set_value("w.bin");
  }
  const auto bytes = io::serialize_onnx(standard(), io::parse_onnx(standard(), m.SerializeAsString(), "if", folder));
  CHECK(io::external_files(bytes).empty());
  onnx::ModelProto written;
  REQUIRE(written.ParseFromString(bytes));
  CHECK(written.graph().node(0).attribute(0).g().initializer(0).raw_data() ==
        std::string{reinterpret_cast<const char*>(numbers), sizeof numbers});
}

TEST_CASE("unsupported ONNX nodes keep their form and the model's opset in a round trip") {
  const std::pair<int, std::string> graphs[] = {
      {5, "g (float[1,2,3,3] x) => (float[1,2,1,1] y) { y = GlobalLpPool <p = 2> (x) }"},
      {8, "g (float[1,2,3,3] x) => (float[1,2,6,6] y) { y = Upsample <scales = [1.0, 1.0, 2.0, 2.0]> (x) }"},
      {12, "g (int64[3] x, int64 z) => (int64[3] y) { y = Clip(x, z) }"},
      {18, "g (int64[2,3] x) => (int64[2,1] y) <int64[1] axes = {1}> { y = ReduceL2(x, axes) }"},
      {20, "g (float16[2,3] x) => (bool[2,3] y) { y = IsInf(x) }"},
      {23, "g (float[2,3] x, float[3] s) => (float[2,3] y) { z = RMSNormalization(x, s) y = Unheard(z) }"},
      {24, "g (float[2,3] x) => (float[2,3] y) { y = Acos(x) }"}};
  for (const auto& [opset, graph] : graphs) {
    CAPTURE(opset, graph);
    const auto bytes = unity::test::onnx_bytes_of(graph, opset);
    if (opset == 23) {
      CHECK_THAT(message_of([&] { (void)io::parse_onnx(standard(), bytes, "m", {}); }), Catch::Contains("Unheard"));
      continue;
    }
    const auto m = io::parse_onnx(standard(), bytes, "m", {});
    CHECK(m.opaque_operators.size() == 1);
    onnx::ModelProto source;
    onnx::ModelProto written;
    REQUIRE(source.ParseFromString(bytes));
    REQUIRE(written.ParseFromString(io::serialize_onnx(standard(), m)));
    CHECK(written.opset_import(0).version() == opset);
    const auto& node = written.graph().node(written.graph().node_size() - 1);
    CHECK(node.op_type() == source.graph().node(0).op_type());
    REQUIRE(node.attribute_size() == source.graph().node(0).attribute_size());
    CHECK(node.input_size() == source.graph().node(0).input_size());
    CHECK(again(m).graph == m.graph);
  }
}

TEST_CASE("with keep_rest ONNX nodes that cannot be translated are kept unchanged") {
  const std::string text = R"(<ir_version: 8, opset_import: [ "" : 17, "com.example" : 3 ]>
    g (float[2,3] x, string[2] names, float[0,3] none) => (float[2,3] y, string[2] s, float[n] f, float[2,3] same)
    <float[3] w = {1, 2, 3}, float[1] nan = {1}> {
      a = Relu(x) b = Add(a, w) z = com.example.Fancy <depth = 2> (b, w) y = Relu(b) s = Identity(names)
      c = Concat <axis = 0> (none, z) d = Add(c, nan) f = Flatten(d) same = Identity(x) })";
  auto model = unity::test::onnx_model_of(text);
  model.mutable_graph()->mutable_initializer(1)->set_float_data(0, std::nanf(""));
  const auto read = [&](const std::string& bytes) {
    io::import_options options;
    options.keep_rest = true;
    return io::parse_onnx(standard(), bytes, "m", {}, options);
  };
  CHECK_THAT(message_of([&] { (void)io::parse_onnx(standard(), model.SerializeAsString(), "m", {}); }),
             Catch::Contains("input 'names'"));
  auto m = read(model.SerializeAsString());
  CHECK(io::test::outline(m) == "relu add relu");
  CHECK(m.opaque_operators ==
        std::map<std::string, std::size_t>{
            {"Add", 1}, {"Concat", 1}, {"Flatten", 1}, {"Identity", 1}, {"com.example.Fancy", 1}});
  CHECK(m.outputs == std::vector<std::string>{"y", "same", "b", "w"});
  CHECK_THAT(m.rest_reason, Catch::Contains("input 'names'"));
  CHECK(io::keeps_signature(standard(), m));
  const auto bytes = io::serialize_onnx(standard(), m);
  onnx::ModelProto written;
  REQUIRE(written.ParseFromString(bytes));
  const auto node_of = [](const onnx::ModelProto& of, const std::string& output) {
    for (const auto& n : of.graph().node()) {
      if (n.output(0) == output) {
        return n.SerializeAsString();
      }
    }
    return std::string{};
  };
  for (const auto* output : {"z", "s", "c", "d", "f"}) {
    CAPTURE(output);
    CHECK(node_of(written, output) == node_of(model, output));
  }
  CHECK(written.graph().initializer_size() == 2);
  CHECK(read(bytes).graph == m.graph);
  CHECK(read(bytes).rest == m.rest);
  // A rewritten graph does not use names of the untranslated rest.
  io::export_options folds;
  folds.fold_constants = true;
  CHECK(read(io::serialize_onnx(standard(), m, folds)).rest == m.rest);
}

TEST_CASE("a corrupted byte of an ONNX file with a kept rest gives a model or an error") {
  const auto bytes = unity::test::onnx_bytes_of(
      R"(g (float[2,3] x, string[2] names) => (float[2,3] y, string[2] s, float[2,3] m)
    <float[3] w = {1, 2, 3}> { a = Add(x, w) y = Relu(a) s = Identity(names) m = Swish(a) })",
      24);
  std::size_t kept = 0;
  std::size_t errors = 0;
  constexpr auto apart = unity::test::all_or<std::size_t>(1, 7);
  for (std::size_t at = 0; at < bytes.size(); at += apart) {
    for (const char with : {'\0', '\x7f', '\xff', static_cast<char>(bytes[at] ^ 1)}) {
      auto damaged = bytes;
      damaged[at] = with;
      io::import_options options;
      options.keep_rest = true;
      try {
        const auto m = io::parse_onnx(standard(), damaged, "model", {}, options);
        const auto copy = io::parse_onnx(standard(), io::serialize_onnx(standard(), m), "model", {}, options);
        kept += copy.rest == m.rest && !m.rest.empty() ? 1 : 0;
      } catch (const unity::error&) {
        ++errors;
      }
    }
  }
  CHECK(errors > bytes.size() / apart);
  CHECK(kept > bytes.size() / 4 / apart);
}

}  // namespace tests_of_onnx_untranslated
