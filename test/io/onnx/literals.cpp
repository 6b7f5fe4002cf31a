#include <unity/io/onnx/literals.hpp>

#include <set>
#include <string>

#include <onnx/onnx_pb.h>
#include <catch2/catch.hpp>

#include <unity/core/file.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/io/onnx_import.hpp>
#include <unity/io/onnx_model.hpp>

#include "../onnx_subjects.hpp"

namespace tests_of_literals {

namespace io = unity::io;
using unity::io::test::outline;
using unity::io::test::standard;

namespace {

// By PyTorch; see scaled_gelu.py there.
io::onnx_model exported(const std::string& name) {
  return io::import_onnx(standard(), std::string{UNITY_TEST_SOURCE_DIR} + "/test/io/onnx/exports/" + name);
}

std::set<std::string> weights_of(const io::onnx_model& m) {
  std::set<std::string> names;
  for (const auto n : node_ids(m.graph)) {
    if (m.graph.operation(n).kind == standard().kind("weight")) {
      names.insert(std::string{standard().read(m.graph.operation(n)).word("name")});
    }
  }
  return names;
}

onnx::ModelProto model_with(const std::set<std::string>& numbers, const std::string& producer) {
  onnx::ModelProto m;
  m.set_producer_name(producer);
  for (const auto& name : numbers) {
    auto& t = *m.mutable_graph()->add_initializer();
    t.set_name(name);
    t.set_data_type(onnx::TensorProto::FLOAT);
    t.add_float_data(0.5F);
  }
  return m;
}

}  // namespace

TEST_CASE("of PyTorch's exports, learned numbers are weights, and those of the program are not") {
  for (const auto* const name : {"scaled_gelu_export.onnx", "scaled_gelu_script.onnx"}) {
    INFO(name);
    const auto m = exported(name);
    CHECK(weights_of(m) == std::set<std::string>{"scale"});
    CHECK(outline(m).starts_with("mul div erf add mul mul"));
  }
}

TEST_CASE("without metadata, names and the producer tell which numbers are learned") {
  const std::set<std::string> learned{"scale", "encoder.layers.0.scale", "val_scale"};
  const std::set<std::string> stated{"/encoder/Constant_output_0", "onnx::Mul_12", "12", "val_3",
                                     "scalar_tensor_default_1"};
  auto names = learned;
  names.insert(stated.begin(), stated.end());
  CHECK(io::detail::literals(model_with(names, "pytorch")) == stated);
  CHECK(io::detail::literals(model_with(names, "unity")).empty());
  CHECK(io::detail::literals(model_with(names, "tf2onnx")) == names);
}

TEST_CASE("integers and initializers with dimensions are never literals") {
  auto m = model_with({"a", "b", "c"}, "tf2onnx");
  m.mutable_graph()->mutable_initializer(0)->set_data_type(onnx::TensorProto::INT64);
  m.mutable_graph()->mutable_initializer(1)->add_dims(1);
  CHECK(io::detail::literals(m) == std::set<std::string>{"c"});
}

TEST_CASE("metadata that is not of its form says nothing") {
  auto m = model_with({"a"}, "pytorch");
  // Field 9 of nodes: an entry that ends early, one without fields, and a number.
  for (const auto* const bytes : {"\x4a\x03\x0a\x09x", "\x4a\x01\x07", "\x48\x01"}) {
    onnx::NodeProto node;
    node.set_op_type("Relu");
    REQUIRE(node.MergeFromString(bytes));
    *m.mutable_graph()->add_node() = node;
  }
  CHECK(io::detail::literals(m).empty());
}

}  // namespace tests_of_literals
