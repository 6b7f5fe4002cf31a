#include <unity/io/onnx/device_proto.hpp>

#include <catch2/catch.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include <onnx/onnx_pb.h>

#include <unity/graph/concepts.hpp>
#include <unity/io/onnx_export.hpp>
#include <unity/io/onnx_import.hpp>
#include <unity/io/wire.hpp>

#include "../onnx_devices.hpp"
#include "../onnx_subjects.hpp"

namespace tests_of_device_proto {

namespace io = unity::io;
using unity::io::test::read_annotations;
using unity::io::test::standard;

namespace {

// Adds an annotation to a node, and another field that the packaged library does not know.
void annotate(onnx::NodeProto& node) {
  io::wire_writer sharding;
  sharding.bytes(1, node.output(0));
  sharding.integer(2, 0);
  io::wire_writer one;
  one.bytes(1, "two devices");
  one.bytes(2, sharding.text());
  io::wire_writer fields;
  fields.bytes(9, "\n\3key");  // metadata_props
  fields.bytes(10, one.text());
  node.MergeFromString(fields.text());
}

void fill_input(onnx::ValueInfoProto& v, const std::string& name) {
  v.set_name(name);
  auto& t = *v.mutable_type()->mutable_tensor_type();
  t.set_elem_type(onnx::TensorProto::FLOAT);
  t.mutable_shape()->add_dim()->set_dim_value(2);
}

// y = Fancy(x), an operator of an unknown domain, on two devices.
onnx::ModelProto fancy_model() {
  onnx::ModelProto m;
  m.set_ir_version(11);
  m.add_opset_import()->set_version(17);
  auto& domain = *m.add_opset_import();
  domain.set_domain("com.example");
  domain.set_version(1);
  auto& g = *m.mutable_graph();
  g.set_name("fancy");
  fill_input(*g.add_input(), "x");
  fill_input(*g.add_output(), "y");
  fill_input(*g.add_value_info(), "y");
  auto& node = *g.add_node();
  node.set_op_type("Fancy");
  node.set_domain("com.example");
  node.add_input("x");
  node.add_output("y");
  annotate(node);
  io::wire_writer devices;
  devices.bytes(1, "two devices");
  devices.integer(2, 2);
  io::wire_writer fields;
  fields.bytes(26, devices.text());
  m.MergeFromString(fields.text());
  return m;
}

}  // namespace

TEST_CASE("an opaque ONNX node loses its device annotation in a round trip") {
  const auto bytes = fancy_model().SerializeAsString();
  REQUIRE(read_annotations(bytes).annotated() == 1);
  const auto model = io::parse_onnx(standard(), bytes, "model", ".");
  REQUIRE(model.opaque_operators.size() == 1);
  const auto after = io::serialize_onnx(standard(), model);
  const auto m = read_annotations(after);
  CHECK(m.version == 11);
  CHECK(m.configurations == 0);
  REQUIRE(m.nodes.size() == 1);
  CHECK(m.nodes[0].annotations == 0);
  CHECK(after.find("key") != std::string::npos);
}

TEST_CASE("ONNX nodes without a first output have the stages of their own operators") {
  auto proto = fancy_model();
  auto& g = *proto.mutable_graph();
  g.mutable_node(0)->set_output(0, "");
  g.mutable_node(0)->add_output("y");
  *g.add_node() = g.node(0);
  g.mutable_node(1)->set_op_type("Fancier");
  g.mutable_node(1)->set_output(1, "z");
  fill_input(*g.add_output(), "z");
  fill_input(*g.add_value_info(), "z");
  const auto model = io::parse_onnx(standard(), proto.SerializeAsString(), "model", ".");
  io::graph_devices devices{"three", {"a", "b", "c"}, {}};
  devices.nodes.resize(model.graph.node_count());
  std::int64_t stages = 0;
  for (const auto n : unity::node_ids(model.graph)) {
    if (!model.graph.operands(n).empty()) {
      devices.nodes[n.index()].stage = ++stages;
    }
  }
  REQUIRE(stages == 2);
  const auto m = read_annotations(io::serialize_onnx(standard(), model, devices));
  REQUIRE(m.nodes.size() == 2);
  CHECK(m.nodes[0].outputs == std::vector<std::string>{"", "y"});
  CHECK(m.nodes[0].stage == 1);
  CHECK(m.nodes[1].outputs == std::vector<std::string>{"", "z"});
  CHECK(m.nodes[1].stage == 2);
}

TEST_CASE("drop_devices removes annotations of subgraphs and functions and keeps older files") {
  auto m = fancy_model();
  auto& branch = *m.mutable_graph()->mutable_node(0)->add_attribute();
  branch.set_name("body");
  branch.set_type(onnx::AttributeProto::GRAPH);
  *branch.mutable_g()->add_node() = m.graph().node(0);
  *m.add_functions()->add_node() = m.graph().node(0);
  const auto with = m.SerializeAsString();
  io::detail::drop_devices(m);
  const auto without = m.SerializeAsString();
  CHECK(with.find("two devices") != std::string::npos);
  CHECK(without.find("two devices") == std::string::npos);
  CHECK(m.functions(0).node(0).attribute(0).g().node(0).output(0) == "y");

  auto older = fancy_model();
  older.set_ir_version(10);
  const auto before = older.SerializeAsString();
  io::detail::drop_devices(older);
  CHECK(older.SerializeAsString() == before);
}

TEST_CASE("shards on the same device group share one negative group number") {
  unity::io::device_sharding s;
  s.devices = {{0, 1}, {2}, {0, 1}, {2, 3}};
  s.dimensions = {{1, 8, 4}};
  std::string text;
  const auto bytes = io::detail::to_wire("t", s);
  io::test::for_each_field(bytes, [&](const io::wire_reader::field& f) {
    if (f.number == 2) {
      text += std::to_string(static_cast<std::int64_t>(f.integer)) + " ";
    }
  });
  CHECK(text == "-1 2 -1 -2 ");
  io::test::annotated_node node;
  io::test::read_sharding(bytes, node);
  CHECK(node.tensors.at("t") == s);
}

}  // namespace tests_of_device_proto
