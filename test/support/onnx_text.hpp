// ONNX models written as text, for tests.
#pragma once

#include <stdexcept>
#include <string>

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

}  // namespace unity::test
