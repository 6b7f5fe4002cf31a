// A model as it came out of an ONNX file: a tensor graph, and beside it everything that a graph does not hold.
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

// What a file calls a node, and says about it.
struct node_label {
  std::string name{};
  std::string doc{};

  friend bool operator==(const node_label&, const node_label&) = default;
};

struct onnx_file_size {
  std::uint64_t bytes = 0;  // with the files beside it that hold its tensors
  std::size_t nodes = 0;    // of its graph, but those of the operator Constant, which are initializers to engines

  friend bool operator==(const onnx_file_size&, const onnx_file_size&) = default;
};

// Regular. To export a rewritten graph, replace `graph`: nodes find their data by name; and `labels`, see
// stayed_labels.
struct onnx_model {
  tensor::tensor_graph graph{};
  std::string name = "model";
  std::vector<std::string> outputs{};      // names of graph.outputs(), in order; inputs are named by their nodes
  data_table data{};                       // of weight and constant nodes, by name
  std::map<node_id, node_label> labels{};  // of nodes of graph

  // Inputs and outputs as they stood in the file, with the sizes that were bound: a serialized GraphProto of nothing
  // else. Weights whose data nobody gave are left out of it. Empty where there was no file.
  std::string signature{};
  // Inputs that the file gives data to. A caller may give other data, so nothing is computed from these once and for
  // all.
  std::set<std::string, std::less<>> defaults{};

  // What is kept as it stands in the file, beside the graph, since tensors of known sizes do not say it: a serialized
  // GraphProto of nodes and initializers. The graph's last outputs, which no signature lists, are what it reads.
  std::string rest{};
  std::string rest_reason{};  // what the first of it is, and why no node of the graph can be it

  // How many nodes are kept as they are, by operator ("LSTM", "com.example.Fancy"): those that this library does not
  // know, and those of `rest`.
  std::map<std::string, std::size_t> opaque_operators{};
  // Their nodes as they stood in the file (serialized NodeProto), by the signature of the opaque node.
  std::map<std::string, std::string, std::less<>> opaque_nodes{};
  std::int64_t opset = 17;  // of the default domain
  // The file's remaining parts: a serialized ModelProto without graph (other domains, functions, metadata).
  std::string envelope{};
  open_sizes open{};  // of a model that import_open_onnx read

  // Of the file that the model came from; zeros where there was none.
  onnx_file_size file{};

  friend bool operator==(const onnx_model&, const onnx_model&) = default;
};

struct import_options {
  // Sizes of named dimensions (--dim NAME=SIZE). A dimension without a name is called INPUT.AXIS.
  std::map<std::string, std::int64_t, std::less<>> dimensions{};
  // Values that are no tensors of numbers of known sizes (strings, sequences, results of operators that nothing says
  // the type of), and all that depends on them, become `rest`. For who writes the model again; without, they are
  // errors.
  bool keep_rest = false;
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

// Labels of a graph that was made of another one. origins: by node of it, that one's node, or null.
[[nodiscard]] std::map<node_id, node_label> stayed_labels(const std::map<node_id, node_label>& labels,
                                                          std::span<const node_id> origins);

// A model around a graph that came from no file, such as one of the zoo's.
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
