// Restores Gathers of one index from Slice and Squeeze: one node instead of two.
#pragma once

#include <unity/io/onnx/graph_writer.hpp>

namespace unity::io::detail {

// Effects: in the nodes written so far, a Squeeze of the one axis along which a Slice takes one element becomes the
// Gather of that element if nothing else reads the Slice and it is not an output. Complexity: linear in the nodes.
void merge_selections(graph_writer& out);

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_SELECTIONS)

#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <onnx/onnx_pb.h>

#include <unity/core/config.hpp>
#include <unity/io/onnx/node_uses.hpp>
#include <unity/io/onnx/proto.hpp>
#include <unity/io/tensor_data.hpp>

namespace unity::io::detail {

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
