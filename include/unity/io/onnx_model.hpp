// A model from an ONNX file: a tensor graph, and everything that a graph does not hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/io/open_sizes.hpp>
#include <unity/io/tensor_data.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::io {

// The name and documentation of a node in a file.
struct node_label {
  std::string name{};
  std::string doc{};

  friend bool operator==(const node_label&, const node_label&) = default;
};

struct onnx_file_size {
  std::uint64_t bytes = 0;  // including external tensor files
  std::size_t nodes = 0;    // of its graph, without operators Constant, which engines treat as initializers

  friend bool operator==(const onnx_file_size&, const onnx_file_size&) = default;
};

// An operator of the algebra and the ONNX node that stands for it, with the same operands, results and attributes.
// Attributes that are choices are written by name, real numbers as float32. Lines go before what io/onnx/ knows.
struct onnx_operator {
  std::string kind{};    // "squared_distance"
  std::string type{};    // of the ONNX node: "SquaredDistance"
  std::string domain{};  // "com.example"; empty for operators of ONNX

  friend bool operator==(const onnx_operator&, const onnx_operator&) = default;
};

// Regular. To export a rewritten graph, replace `graph`, in which nodes find their data by name, and `labels` (see
// stayed_labels).
struct onnx_model {
  tensor::tensor_graph graph{};
  std::string name = "model";
  std::vector<std::string> outputs{};      // names of graph.outputs(), in order; inputs are named by their nodes
  data_table data{};                       // of weight and constant nodes, by name
  std::map<node_id, node_label> labels{};  // of nodes of graph

  // Inputs and outputs as in the file, with the sizes that were bound: a serialized GraphProto of nothing else. Without
  // weights that have no data. Empty if there was no file.
  std::string signature{};
  // Inputs that have default data in the file. Callers may pass other data, so they must not be folded.
  std::set<std::string, std::less<>> defaults{};

  // What stays as it was in the file, outside of the graph, since tensors of known sizes cannot express it: a
  // serialized GraphProto of nodes and initializers. It reads the last outputs of the graph, which no signature lists.
  std::string rest{};
  std::string rest_reason{};  // the first of it, and why no node of the graph can express it

  // The number of nodes kept unchanged, by operator ("LSTM", "com.example.Fancy"): those unknown to this library, and
  // those of `rest`.
  std::map<std::string, std::size_t> opaque_operators{};
  // Their serialized NodeProtos from the file, by the signature of the opaque node.
  std::map<std::string, std::string, std::less<>> opaque_nodes{};
  std::int64_t opset = 17;  // of the default domain
  // The file's remaining parts: a serialized ModelProto without graph (other domains, functions, metadata).
  std::string envelope{};
  open_sizes open{};  // for models read by import_open_onnx
  // How operators are written for which this library has no ONNX form, or another one.
  std::vector<onnx_operator> operators{};

  // The size of the file from which the model came; zeros if there was none.
  onnx_file_size file{};

  friend bool operator==(const onnx_model&, const onnx_model&) = default;
};

struct import_options {
  // Sizes of named dimensions (--dim NAME=SIZE). A dimension without a name is called INPUT.AXIS.
  std::map<std::string, std::int64_t, std::less<>> dimensions{};
  // Keep values that are not numeric tensors of known sizes (strings, sequences, results of unknown type) and
  // everything that depends on them as `rest`. For callers that write the model again; without it, they are errors.
  bool keep_rest = false;
  // Operators in the file for which this library has no counterpart of its own; the model keeps the list.
  std::vector<onnx_operator> operators{};
};

struct export_options {
  // Inference mode: compute what depends only on weights and constants once, and store the result.
  bool fold_constants = false;
  // Tensors of folded subgraphs beyond this many elements stay as they are.
  std::int64_t most_folded_elements = std::int64_t{1} << 28;
  // If the tensors together exceed this, they go to a file NAME.data beside the model. Units: bytes. Protocol buffers
  // are limited to 2 GiB.
  std::int64_t external_data_above = std::int64_t{1900} << 20;
};

// The labels of a graph derived from another one. origins: for each of its nodes, the node of the other graph, or null.
[[nodiscard]] std::map<node_id, node_label> stayed_labels(const std::map<node_id, node_label>& labels,
                                                          std::span<const node_id> origins);

// Wraps a graph that came from no file, such as one of the zoo's.
[[nodiscard]] onnx_model make_model(tensor::tensor_graph graph, std::string name, data_table data = {});

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_MODEL)

#include <filesystem>

#include <fmt/core.h>

namespace unity::io {

UNITY_INLINE std::map<node_id, node_label> stayed_labels(const std::map<node_id, node_label>& labels,
                                                         std::span<const node_id> origins) {
  std::map<node_id, node_label> all;
  for (std::size_t n = 0; n < origins.size(); ++n) {
    const auto found = origins[n].valid() ? labels.find(origins[n]) : labels.end();
    if (found != labels.end()) {
      all.emplace(node_id{n}, found->second);
    }
  }
  return all;
}

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
