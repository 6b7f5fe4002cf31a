#include <unity/io/onnx/read_tensor.hpp>

#include <set>
#include <string>

#include <onnx/onnx_pb.h>
#include <catch2/catch.hpp>

namespace tests_of_external_files {

namespace io = unity::io;

namespace {

void place(onnx::TensorProto& t, const std::string& file) {
  t.set_data_location(onnx::TensorProto::EXTERNAL);
  auto& entry = *t.add_external_data();
  entry.set_key("location");
  entry.set_value(file);
  auto& offset = *t.add_external_data();
  offset.set_key("offset");
  offset.set_value("4096");
}

}  // namespace

TEST_CASE("external_files lists files of initializers and attributes even in subgraphs") {
  onnx::ModelProto model;
  auto& g = *model.mutable_graph();
  CHECK(io::external_files(model.SerializeAsString()).empty());
  g.add_initializer()->set_raw_data("1234");
  place(*g.add_initializer(), "weights");
  place(*g.add_initializer(), "weights");
  place(*g.add_node()->add_attribute()->mutable_t(), "folder/constant");
  place(*g.add_node()->add_attribute()->add_tensors(), "list");
  place(*g.add_node()->add_attribute()->mutable_g()->add_initializer(), "branch");
  place(*g.add_node()->add_attribute()->add_graphs()->add_initializer(), "branches");
  CHECK(io::external_files(model.SerializeAsString()) ==
        std::set<std::string>{"weights", "folder/constant", "list", "branch", "branches"});
}

TEST_CASE("external_files refuses bytes that are no model") {
  CHECK_THROWS_WITH(io::external_files("\xff\xff\xff"), "model: bytes that are none; expected a serialized ModelProto");
}

}  // namespace tests_of_external_files
