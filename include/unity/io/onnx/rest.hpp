// The part of an ONNX graph that stays outside of the tensor graph: nodes and initializers around values that are not
// numeric tensors of known sizes, and everything that depends on them.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include <onnx/onnx_pb.h>

namespace unity::io::detail {

class graph_rest {
 public:
  // Whether it is a value of the rest.
  [[nodiscard]] bool contains(const std::string& name) const { return values_.contains(name); }
  // Whether the node or one of its subgraphs reads a value of the rest.
  [[nodiscard]] bool is_read_by(const onnx::NodeProto& node) const;
  // The values of the graph that its nodes read, without duplicates.
  [[nodiscard]] std::vector<std::string> reads() const;

  void add_input(const std::string& name) { values_.insert(name); }
  void add(onnx::TensorProto tensor);
  void add(const onnx::NodeProto& node);
  // Another name for a value of the rest.
  void add_name(const std::string& of, const std::string& name);

  // A serialized GraphProto; empty if the rest consists of inputs only.
  [[nodiscard]] std::string text() const;

 private:
  std::set<std::string> values_;
  onnx::GraphProto graph_;
};

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_REST)

#include <algorithm>

#include <unity/core/config.hpp>
#include <unity/io/onnx/check.hpp>

namespace unity::io::detail {

UNITY_INLINE bool graph_rest::is_read_by(const onnx::NodeProto& node) const {
  const auto is_in = [&](const std::string& name) { return values_.contains(name); };
  return !values_.empty() && (std::any_of(node.input().begin(), node.input().end(), is_in) ||
                              std::ranges::any_of(captures{node}.names(), is_in));
}

UNITY_INLINE std::vector<std::string> graph_rest::reads() const {
  std::set<std::string> all;
  for (const auto& node : graph_.node()) {
    all.insert(node.input().begin(), node.input().end());
    const captures captured{node};
    all.insert(captured.names().begin(), captured.names().end());
  }
  std::erase_if(all, [&](const std::string& name) { return name.empty() || values_.contains(name); });
  return {all.begin(), all.end()};
}

UNITY_INLINE void graph_rest::add(onnx::TensorProto tensor) {
  if (values_.insert(tensor.name()).second) {
    *graph_.add_initializer() = std::move(tensor);
  }
}

UNITY_INLINE void graph_rest::add(const onnx::NodeProto& node) {
  *graph_.add_node() = node;
  values_.insert(node.output().begin(), node.output().end());
  values_.erase("");
}

UNITY_INLINE void graph_rest::add_name(const std::string& of, const std::string& name) {
  onnx::NodeProto node;
  node.set_op_type("Identity");
  node.add_input(of);
  node.add_output(name);
  add(node);
}

UNITY_INLINE std::string graph_rest::text() const {
  return graph_.node_size() + graph_.initializer_size() > 0 ? graph_.SerializeAsString() : std::string{};
}

}  // namespace unity::io::detail

#endif
