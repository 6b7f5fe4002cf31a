// Removes dead code from a model.
#pragma once

#include <cstddef>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/io/onnx_model.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::io::detail {

// A copy of the graph without the nodes on which no output depends, except nodes for which `keep` holds. `origins`
// receives the original node of each node of the copy.
template <class Keep>
[[nodiscard]] tensor::tensor_graph live_graph(const tensor::tensor_graph& g, Keep keep, std::vector<node_id>& origins) {
  std::vector<char> live(g.node_count(), 0);
  for (const auto v : g.outputs()) {
    live[g.producer(v).index()] = 1;
  }
  for (std::size_t i = g.node_count(); i-- > 0;) {
    const node_id n{i};
    live[i] = live[i] != 0 || keep(n) ? 1 : 0;
    for (const auto v : g.operands(n)) {
      auto& producer = live[g.producer(v).index()];
      producer = producer != 0 || live[i] != 0 ? 1 : 0;
    }
  }
  tensor::tensor_graph out;
  std::vector<value_id> moved(g.value_count());
  for (const auto n : node_ids(g)) {
    if (live[n.index()] != 0) {
      copy_node(g, n, out, moved);
      origins.push_back(n);
    }
  }
  std::vector<value_id> outputs;
  for (const auto v : g.outputs()) {
    outputs.push_back(moved[v.index()]);
  }
  out.set_outputs(outputs);
  return out;
}

// Effects: removes everything that no output needs, including data, except inputs, since callers supply them, and their
// defaults.
void prune(const tensor::algebra& algebra, onnx_model& model);

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_PRUNE)

#include <map>
#include <set>
#include <string>

#include <onnx/onnx_pb.h>

#include <unity/io/onnx/proto.hpp>

namespace unity::io::detail {

UNITY_INLINE void prune(const tensor::algebra& algebra, onnx_model& model) {
  const auto input = algebra.kind("input");
  const auto opaque = algebra.kind("opaque");
  std::vector<node_id> origins;
  model.graph = live_graph(model.graph, [&](node_id n) { return model.graph.operation(n).kind == input; }, origins);
  model.labels = stayed_labels(model.labels, origins);
  std::set<std::string> names(model.defaults.begin(), model.defaults.end());
  std::set<std::string> signatures;
  model.opaque_operators.clear();
  for (const auto i : node_ids(model.graph)) {
    const auto& op = model.graph.operation(i);
    if (algebra.definition_of(op.kind).source != tensor::source_kind::none) {
      names.insert(algebra.read(op).word("name"));
    } else if (op.kind == opaque) {
      signatures.insert(algebra.read(op).word("signature"));
      ++model.opaque_operators[algebra.read(op).word("name")];
    }
  }
  // Tensors without elements belong to opaque nodes.
  std::erase_if(model.data, [&](const auto& entry) {
    return !names.contains(entry.first) && (signatures.empty() || !entry.second.bytes.empty());
  });
  std::erase_if(model.opaque_nodes, [&](const auto& entry) { return !signatures.contains(entry.first); });
  onnx::GraphProto rest;
  (void)rest.ParseFromString(model.rest);
  for (const auto& node : rest.node()) {
    ++model.opaque_operators[operator_name(node)];
  }
}

}  // namespace unity::io::detail

#endif
