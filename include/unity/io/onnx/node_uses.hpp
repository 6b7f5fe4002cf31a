// Counts the uses of values in a written ONNX graph, for changes of single nodes.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <unordered_map>

#include <onnx/onnx_pb.h>

namespace unity::io::detail {

class node_uses {
 public:
  explicit node_uses(const onnx::GraphProto& g);

  // The number of node inputs and graph outputs that are this value; reads in subgraphs are not counted.
  [[nodiscard]] std::size_t count(const std::string& name) const;
  [[nodiscard]] bool has_subgraphs() const noexcept { return has_subgraphs_; }

 private:
  std::unordered_map<std::string, std::size_t> reads_;
  bool has_subgraphs_ = false;
};

// Effects: removes the nodes at these positions.
void drop_nodes(onnx::GraphProto& g, const std::set<int>& nodes);

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_NODE_USES)

#include <unity/core/config.hpp>

namespace unity::io::detail {

UNITY_INLINE node_uses::node_uses(const onnx::GraphProto& g) {
  for (const auto& n : g.node()) {
    for (const auto& in : n.input()) {
      ++reads_[in];
    }
    for (const auto& a : n.attribute()) {
      has_subgraphs_ = has_subgraphs_ || a.has_g() || a.graphs_size() > 0;
    }
  }
  for (const auto& o : g.output()) {
    ++reads_[o.name()];
  }
}

UNITY_INLINE std::size_t node_uses::count(const std::string& name) const {
  const auto found = reads_.find(name);
  return found == reads_.end() ? 0 : found->second;
}

UNITY_INLINE void drop_nodes(onnx::GraphProto& g, const std::set<int>& nodes) {
  onnx::GraphProto kept;
  for (int i = 0; i < g.node_size(); ++i) {
    if (!nodes.contains(i)) {
      kept.add_node()->Swap(g.mutable_node(i));
    }
  }
  g.mutable_node()->Swap(kept.mutable_node());
}

}  // namespace unity::io::detail

#endif
