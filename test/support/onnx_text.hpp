// ONNX models written as text, for tests.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include <onnx/defs/parser.h>
#include <onnx/onnx_pb.h>

namespace unity::test {

// Throws: std::runtime_error with the parser's message.
inline onnx::ModelProto onnx_model_of(const std::string& text) {
  onnx::ModelProto model;
  onnx::OnnxParser parser{text.c_str()};
  const auto status = parser.Parse(model);
  if (!status.IsOK()) {
    throw std::runtime_error{status.ErrorMessage()};
  }
  return model;
}

// A model of one opset: `graph` is "name (inputs) => (outputs) <initializers> { nodes }".
inline std::string onnx_bytes_of(const std::string& graph, int opset = 17) {
  return onnx_model_of("<ir_version: 8, opset_import: [ \"\" : " + std::to_string(opset) + " ]>\n" + graph)
      .SerializeAsString();
}

// Adds the branch of an If: its graph, with one output of float32 that one node computes.
inline onnx::GraphProto& add_branch(onnx::NodeProto& node, const std::string& name, const std::string& op_type,
                                    const std::vector<std::string>& operands) {
  auto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::GRAPH);
  auto& g = *attribute.mutable_g();
  g.set_name(name);
  auto& inner = *g.add_node();
  inner.set_op_type(op_type);
  for (const auto& operand : operands) {
    inner.add_input(operand);
  }
  inner.add_output(name + "_out");
  g.add_output()->set_name(name + "_out");
  g.mutable_output(0)->mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  return g;
}

}  // namespace unity::test
