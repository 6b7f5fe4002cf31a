// Restores nodes of a written ONNX graph: Clips from Relu and Min, Gathers of one index from Slice and Squeeze, and
// convolutions and pooling along one dimension from those on images of height 1.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <unordered_map>

#include <onnx/onnx_pb.h>

#include <unity/io/onnx/graph_writer.hpp>
#include <unity/io/tensor_data.hpp>

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

// Restores convolutions and pooling along one dimension.

// Effects: in the nodes written so far, a Conv, MaxPool or AveragePool between an Unsqueeze and a Squeeze of the height
// becomes one along one dimension if nothing else reads its result. Weights lose their height, too: they are results of
// an Unsqueeze, or in `data` and read once. Complexity: linear in the nodes.
void merge_lines(graph_writer& out, named_data& data);

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_RESTORED_NODES)

#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>

#include <unity/core/config.hpp>
#include <unity/io/onnx/proto.hpp>

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

// Lists of one integer, which are attributes of nodes or, in later opsets, inputs.
class single_integers {
 public:
  UNITY_INLINE explicit single_integers(const onnx::GraphProto& g) {
    for (const auto& t : g.initializer()) {
      if (t.data_type() == onnx::TensorProto::INT64 && t.raw_data().size() == sizeof(std::int64_t)) {
        std::memcpy(&inputs_[t.name()], t.raw_data().data(), sizeof(std::int64_t));
      }
    }
  }
  [[nodiscard]] UNITY_INLINE std::optional<std::int64_t> find(const onnx::NodeProto& n, std::string_view name,
                                                              int input) const {
    for (const auto& a : n.attribute()) {
      if (a.name() == name && a.ints_size() == 1) {
        return a.ints(0);
      }
    }
    const auto found = input < n.input_size() ? inputs_.find(n.input(input)) : inputs_.end();
    return found == inputs_.end() ? std::nullopt : std::optional{found->second};
  }

 private:
  std::map<std::string, std::int64_t> inputs_{};
};

UNITY_INLINE void merge_selections(graph_writer& out) {
  auto& g = out.proto();
  const node_uses uses{g};
  if (uses.has_subgraphs()) {
    return;
  }
  const single_integers lists{g};
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
    const auto at = lists.find(from, "starts", 1);
    const auto end = lists.find(from, "ends", 2);
    const auto axis = lists.find(from, "axes", 3);
    const bool steps = from.input_size() > 4 && lists.find(from, "", 4) != 1;
    if (!at || !end || !axis || steps || *at < 0 || *end != *at + 1 || lists.find(n, "axes", 1) != axis) {
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

// Effects: removes the height from the sizes of a window. Returns whether the window has a height of 1 without padding;
// if not, the node is unchanged.
UNITY_INLINE bool make_line(onnx::NodeProto& n) {
  auto line = n;
  for (auto& a : *line.mutable_attribute()) {
    if (a.ints_size() == 2 && a.ints(0) == 1) {  // strides, dilations, kernel_shape
      a.mutable_ints()->erase(a.ints().begin());
    } else if (a.name() == "pads" && a.ints_size() == 4 && a.ints(0) == 0 && a.ints(2) == 0) {
      const auto before = a.ints(1);
      const auto after = a.ints(3);
      a.clear_ints();
      a.add_ints(before);
      a.add_ints(after);
    } else if (a.ints_size() > 0) {
      return false;
    }
  }
  n.Swap(&line);
  return true;
}

UNITY_INLINE void merge_lines(graph_writer& out, named_data& data) {
  constexpr std::int64_t height = 2;
  auto& g = out.proto();
  const node_uses uses{g};
  if (uses.has_subgraphs()) {
    return;
  }
  const single_integers lists{g};
  std::map<std::string, tensor_data*> tensors;
  for (auto& [name, tensor] : data) {
    tensors.emplace(name, &tensor);
  }
  for (const auto& in : g.input()) {
    tensors.erase(in.name());  // its type is stated
  }
  std::map<std::string, int> unsqueezes;
  std::map<std::string, int> squeezes;  // by what they read
  for (int i = 0; i < g.node_size(); ++i) {
    const auto& n = g.node(i);
    if (is_default_domain(n.domain()) && n.input_size() > 0 && n.output_size() > 0 &&
        lists.find(n, "axes", 1) == height) {
      if (n.op_type() == "Unsqueeze") {
        unsqueezes.emplace(n.output(0), i);
      } else if (n.op_type() == "Squeeze") {
        squeezes.emplace(n.input(0), i);
      }
    }
  }
  std::map<int, std::size_t> left;  // of unsqueezes, reads
  std::set<int> merged;
  // Effects: the node reads what the unsqueeze reads.
  const auto skip = [&](onnx::NodeProto& n, int operand, int unsqueeze) {
    const auto& made = g.node(unsqueeze).output(0);
    if (left.try_emplace(unsqueeze, uses.count(made)).first->second-- == 1) {
      merged.insert(unsqueeze);
    }
    n.set_input(operand, g.node(unsqueeze).input(0));
  };
  for (int i = 0; i < g.node_size(); ++i) {
    auto& n = *g.mutable_node(i);
    const bool is_conv = n.op_type() == "Conv";
    if (!is_default_domain(n.domain()) || !(is_conv || n.op_type() == "MaxPool" || n.op_type() == "AveragePool") ||
        n.input_size() < (is_conv ? 2 : 1) || n.output_size() != 1) {
      continue;
    }
    const auto from = unsqueezes.find(n.input(0));
    const auto to = squeezes.find(n.output(0));
    const auto made = is_conv ? unsqueezes.find(n.input(1)) : unsqueezes.end();
    const auto weights = is_conv ? tensors.find(n.input(1)) : tensors.end();
    const bool has_data = weights != tensors.end() && uses.count(n.input(1)) == 1 &&
                          weights->second->dims.size() == 4 && weights->second->dims[height] == 1;
    if (from == unsqueezes.end() || to == squeezes.end() || uses.count(n.output(0)) != 1 ||
        (is_conv && made == unsqueezes.end() && !has_data) || !make_line(n)) {
      continue;
    }
    skip(n, 0, from->second);
    if (made != unsqueezes.end()) {
      skip(n, 1, made->second);
    } else if (has_data) {
      auto& dims = weights->second->dims;
      dims = {dims[0], dims[1], dims[3]};
    }
    const auto& squeeze = g.node(to->second);
    n.set_output(0, squeeze.output(0));
    n.set_name(squeeze.name());
    n.set_doc_string(squeeze.doc_string());
    merged.insert(to->second);
  }
  drop_nodes(g, merged);
}

}  // namespace unity::io::detail

#endif
