// Restores Clips from Relu and Min: engines fuse a Clip into the previous operator, but not the two.
#pragma once

#include <unity/io/onnx/graph_writer.hpp>

namespace unity::io::detail {

// Effects: in the nodes written so far, Min(Relu(x), constant) becomes Clip(x, 0, constant) if nothing else reads the
// Relu and it is not an output. Before opset 12, whose Clip supports all types of Relu and Min, does nothing.
// Complexity: linear in the nodes.
void merge_clips(graph_writer& out);

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_CLIPS)

#include <map>
#include <set>
#include <string>
#include <vector>

#include <onnx/onnx_pb.h>

#include <unity/core/config.hpp>
#include <unity/io/onnx/node_uses.hpp>
#include <unity/io/onnx/proto.hpp>
#include <unity/io/tensor_data.hpp>

namespace unity::io::detail {

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

}  // namespace unity::io::detail

#endif
