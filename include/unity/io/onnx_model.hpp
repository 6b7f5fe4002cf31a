// A model as it came out of an ONNX file: a tensor graph, and beside it everything that a graph does not hold.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <unity/graph/compact_graph.hpp>
#include <unity/io/tensor_data.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::io {

// Regular. To export a rewritten graph, replace `graph`: nodes find their data by name.
struct onnx_model {
  tensor::tensor_graph graph{};
  std::string name = "model";
  std::vector<std::string> outputs{};  // names of graph.outputs(), in order; inputs are named by their nodes
  data_table data{};                   // of weight and constant nodes, by name

  // Operators that this library does not know, each once, sorted ("LSTM", "com.example.Fancy").
  std::vector<std::string> opaque_operators{};
  // Their nodes as they stood in the file (serialized NodeProto), by the signature of the opaque node.
  std::map<std::string, std::string, std::less<>> opaque_nodes{};
  std::int64_t opset = 17;  // of the default domain, in which opaque nodes are written
  // The file's remaining parts: a serialized ModelProto without graph (other domains, functions, metadata).
  std::string envelope{};

  friend bool operator==(const onnx_model&, const onnx_model&) = default;
};

struct import_options {
  // Sizes of named dimensions (--dim NAME=SIZE). A dimension without a name is called INPUT.AXIS.
  std::map<std::string, std::int64_t, std::less<>> dimensions{};
};

struct export_options {
  // Compute what depends on weights and constants alone, once, and store the result: inference mode.
  bool fold_constants = false;
  // Tensors of folded subgraphs beyond this many elements stay as they are.
  std::int64_t most_folded_elements = std::int64_t{1} << 28;
  // Where the tensors together exceed this, they go to a file NAME.data beside the model.
  // Units: bytes. Protocol buffers end at 2 GiB.
  std::int64_t external_data_above = std::int64_t{1900} << 20;
};

// A model around a graph that came from no file, such as one of the zoo's.
[[nodiscard]] onnx_model make_model(tensor::tensor_graph graph, std::string name, data_table data = {});

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_MODEL)

#include <filesystem>

#include <fmt/core.h>

namespace unity::io {

UNITY_INLINE onnx_model make_model(tensor::tensor_graph graph, std::string name, data_table data) {
  onnx_model model;
  model.graph = std::move(graph);
  model.name = std::move(name);
  model.data = std::move(data);
  for (std::size_t i = 0; i < model.graph.outputs().size(); ++i) {
    model.outputs.push_back(i == 0 ? "output" : fmt::format("output_{}", i));
  }
  return model;
}

}  // namespace unity::io

#endif
