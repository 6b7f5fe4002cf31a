// Restores nodes of a written ONNX graph: Clips from Relu and Min, and Gathers of one index from Slice and Squeeze.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <unordered_map>

#include <onnx/onnx_pb.h>

#include <unity/io/onnx/graph_writer.hpp>

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

// Restores Clips from Relu and Min: engines fuse a Clip into the previous operator, but not the two.

// Effects: in the nodes written so far, Min(Relu(x), constant) becomes Clip(x, 0, constant) if nothing else reads the
// Relu and it is not an output. Before opset 12, whose Clip supports all types of Relu and Min, does nothing.
// Complexity: linear in the nodes.
void merge_clips(graph_writer& out);

// Restores Gathers of one index from Slice and Squeeze: one node instead of two.

// Effects: in the nodes written so far, a Squeeze of the one axis along which a Slice takes one element becomes the
// Gather of that element if nothing else reads the Slice and it is not an output. Complexity: linear in the nodes.
void merge_selections(graph_writer& out);

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_RESTORED_NODES)

#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/io/onnx/proto.hpp>
#include <unity/io/tensor_data.hpp>

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

UNITY_INLINE void merge_clips(graph_writer& out) {
  if (out.opset() < 12) {
    return;
  }
  auto& g = out.proto();
  const node_uses uses{g};
  std::map<std::string, int> relus;
  std::map<std::string, onnx::TensorProto::DataType> scalars;
  for (int i = 0; i < g.node_size(); ++i) {
    const auto& n = g.node(i);
    if (!is_default_domain(n.domain())) {
      continue;
    }
    if (n.op_type() == "Relu") {
      relus.emplace(n.output(0), i);
    } else if (n.op_type() == "Constant" && n.attribute_size() == 1 && n.attribute(0).has_t() &&
               n.attribute(0).t().dims_size() == 0) {
      scalars.emplace(n.output(0), static_cast<onnx::TensorProto::DataType>(n.attribute(0).t().data_type()));
    }
  }
  std::set<int> merged;
  std::map<onnx::TensorProto::DataType, std::string> zeros;
  for (int i = 0; i < g.node_size() && !uses.has_subgraphs(); ++i) {
    auto& n = *g.mutable_node(i);
    if (n.op_type() != "Min" || !is_default_domain(n.domain()) || n.input_size() != 2) {
      continue;
    }
    for (const int side : {0, 1}) {
      const auto relu = relus.find(n.input(side));
      const auto bound = scalars.find(n.input(1 - side));
      if (relu == relus.end() || bound == scalars.end() || uses.count(n.input(side)) != 1) {
        continue;
      }
      const auto type = from_onnx_type(bound->second);
      auto& zero = zeros[bound->second];
      if (zero.empty()) {
        zero = out.fresh("zero");
        out.initializer(zero, make_data(*type, {}, std::vector<double>{0}));
      }
      const std::string high = n.input(1 - side);
      n.set_op_type("Clip");
      n.clear_input();
      n.add_input(g.node(relu->second).input(0));
      n.add_input(zero);
      n.add_input(high);
      merged.insert(relu->second);
      break;
    }
  }
  drop_nodes(g, merged);
}

UNITY_INLINE void merge_selections(graph_writer& out) {
  auto& g = out.proto();
  const node_uses uses{g};
  if (uses.has_subgraphs()) {
    return;
  }
  std::map<std::string, std::int64_t> single;  // lists of one integer
  for (const auto& t : g.initializer()) {
    if (t.data_type() == onnx::TensorProto::INT64 && t.raw_data().size() == sizeof(std::int64_t)) {
      std::memcpy(&single[t.name()], t.raw_data().data(), sizeof(std::int64_t));
    }
  }
  // A list of one integer that is an attribute or, in later opsets, an input.
  const auto list = [&](const onnx::NodeProto& n, std::string_view name, int input) -> std::optional<std::int64_t> {
    for (const auto& a : n.attribute()) {
      if (a.name() == name && a.ints_size() == 1) {
        return a.ints(0);
      }
    }
    const auto found = input < n.input_size() ? single.find(n.input(input)) : single.end();
    return found == single.end() ? std::nullopt : std::optional{found->second};
  };
  std::map<std::string, int> slices;
  std::map<std::int64_t, std::string> indices;
  std::set<int> merged;
  for (int i = 0; i < g.node_size(); ++i) {
    auto& n = *g.mutable_node(i);
    if (!is_default_domain(n.domain())) {
      continue;
    }
    if (n.op_type() == "Slice") {
      slices.emplace(n.output(0), i);
      continue;
    }
    const auto slice = n.op_type() == "Squeeze" ? slices.find(n.input(0)) : slices.end();
    if (slice == slices.end() || uses.count(n.input(0)) != 1) {
      continue;
    }
    const auto& from = g.node(slice->second);
    const auto at = list(from, "starts", 1);
    const auto end = list(from, "ends", 2);
    const auto axis = list(from, "axes", 3);
    const bool steps = from.input_size() > 4 && list(from, "", 4) != 1;
    if (!at || !end || !axis || steps || *at < 0 || *end != *at + 1 || list(n, "axes", 1) != axis) {
      continue;
    }
    auto& index = indices[*at];
    if (index.empty()) {
      index = out.fresh("index");
      out.initializer(index, make_data(tensor::dtype::int64, {}, std::vector<std::int64_t>{*at}));
    }
    n.set_op_type("Gather");
    n.clear_input();
    n.add_input(from.input(0));
    n.add_input(index);
    n.clear_attribute();
    fill_attribute(*n.add_attribute(), {"axis", *axis});
    merged.insert(slice->second);
  }
  drop_nodes(g, merged);
}

}  // namespace unity::io::detail

#endif
