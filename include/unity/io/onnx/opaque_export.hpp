// Writes opaque nodes as their original ONNX nodes.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <onnx/onnx_pb.h>

#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/io/onnx/graph_writer.hpp>
#include <unity/io/onnx_model.hpp>
#include <unity/io/tensor_data.hpp>
#include <unity/tensor/algebra.hpp>

namespace unity::io::detail {

class opaque_exporter {
 public:
  opaque_exporter(const tensor::algebra& algebra, const onnx_model& model, graph_writer& writer)
      : algebra_{&algebra}, model_{&model}, out_{&writer}, kind_{algebra.kind("opaque")} {}

  // Effects: reserves the names that the nodes use.
  // Throws: unity::error if the model lacks the ONNX node of an opaque node.
  void read();
  // Opaque nodes keep their original names if these are free.
  void keep_names(std::vector<std::string>& names) const;

  // `names`: of all values; `outputs`: names of the graph's outputs, whose types are stated elsewhere.
  void write(node_id n, const std::vector<std::string>& names, const std::set<std::string>& outputs);

 private:
  [[nodiscard]] std::string place(node_id n) const { return fmt::format("node {} (opaque)", n.index()); }
  // Inputs without elements are not operands; they are kept by name.
  void write_empty(const std::string& name);
  [[nodiscard]] const tensor_data* empty_data(const std::string& name) const {
    const auto found = model_->data.find(name);
    return found != model_->data.end() && found->second.bytes.empty() ? &found->second : nullptr;
  }
  // Effects: renames the node's inputs to the current names of its operands, also in its subgraphs.
  void name_inputs(node_id n, onnx::NodeProto& node, const std::vector<std::string>& names) const;
  void name_outputs(node_id n, onnx::NodeProto& node, const std::vector<std::string>& names,
                    const std::set<std::string>& outputs);
  static void rename(onnx::AttributeProto& a, const std::string& from, const std::string& to);

  const tensor::algebra* algebra_;
  const onnx_model* model_;
  graph_writer* out_;
  kind_id kind_;
  std::map<node_id, onnx::NodeProto> nodes_;
};

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_OPAQUE_EXPORT)

#include <unity/core/error.hpp>
#include <unity/io/onnx/check.hpp>
#include <unity/io/onnx/opaque.hpp>
#include <unity/io/onnx/proto.hpp>

namespace unity::io::detail {

UNITY_INLINE void opaque_exporter::read() {
  for (const auto n : node_ids(model_->graph)) {
    const auto& op = model_->graph.operation(n);
    if (op.kind != kind_) {
      continue;
    }
    const auto key = algebra_->read(op).word("signature");
    const auto found = model_->opaque_nodes.find(key);
    onnx::NodeProto node;
    if (found == model_->opaque_nodes.end() || !node.ParseFromString(found->second)) {
      throw error{place(n), fmt::format("no ONNX node for signature {}", in_quotes(key)),
                  "one in the model's side table"};
    }
    out_->claim_inner(node);
    const captures captured{node};
    for (const auto& name : captured.names()) {
      write_empty(name);
    }
    for (const auto& name : node.input()) {
      write_empty(name);
    }
    nodes_.emplace(n, std::move(node));
  }
}

UNITY_INLINE void opaque_exporter::keep_names(std::vector<std::string>& names) const {
  const auto keep = [&](value_id v, const std::string& wish) {
    if (names[v.index()].empty() && out_->claim(wish)) {
      names[v.index()] = wish;
    }
  };
  for (const auto& [n, node] : nodes_) {
    std::size_t next = 0;
    for (const auto& name : node.output()) {
      if (!name.empty() && next < model_->graph.results(n).size()) {
        keep(model_->graph.results(n)[next++], name);
      }
    }
    next = 0;
    for (const auto& name : node.input()) {
      if (!name.empty() && empty_data(name) == nullptr && next < model_->graph.operands(n).size()) {
        keep(model_->graph.operands(n)[next++], name);
      }
    }
  }
}

UNITY_INLINE void opaque_exporter::write(node_id n, const std::vector<std::string>& names,
                                         const std::set<std::string>& outputs) {
  auto node = nodes_.at(n);
  name_inputs(n, node, names);
  name_outputs(n, node, names, outputs);
  *out_->proto().add_node() = std::move(node);
}

UNITY_INLINE void opaque_exporter::write_empty(const std::string& name) {
  if (const auto* data = empty_data(name); data != nullptr && out_->claim(name)) {
    out_->initializer(name, *data);
  }
}

UNITY_INLINE void opaque_exporter::name_inputs(node_id n, onnx::NodeProto& node,
                                               const std::vector<std::string>& names) const {
  const auto operands = model_->graph.operands(n);
  std::size_t next = 0;
  const auto operand = [&]() -> const std::string& {
    if (next >= operands.size()) {
      throw error{place(n), "fewer operands than its ONNX node reads", "as many"};
    }
    return names[operands[next++].index()];
  };
  const captures captured{node};
  for (auto& name : *node.mutable_input()) {
    if (!name.empty() && empty_data(name) == nullptr) {
      name = operand();
    }
  }
  for (const auto& name : captured.names()) {
    if (empty_data(name) == nullptr) {
      const auto& now = operand();
      for (auto& a : *node.mutable_attribute()) {
        rename(a, name, now);
      }
    }
  }
}

UNITY_INLINE void opaque_exporter::name_outputs(node_id n, onnx::NodeProto& node, const std::vector<std::string>& names,
                                                const std::set<std::string>& outputs) {
  std::size_t next = 0;
  for (auto& name : *node.mutable_output()) {
    if (!name.empty() && next < model_->graph.results(n).size()) {
      const auto v = model_->graph.results(n)[next++];
      name = names[v.index()];
      if (!outputs.contains(name)) {
        auto& info = *out_->proto().add_value_info();
        fill_type(info, name, model_->graph.type(v));
        leave_open(info, model_->open);
      }
    }
  }
}

UNITY_INLINE void opaque_exporter::rename(onnx::AttributeProto& a, const std::string& from, const std::string& to) {
  const auto in_graph = [&](onnx::GraphProto& g) {
    for (auto& node : *g.mutable_node()) {
      for (auto& in : *node.mutable_input()) {
        in = in == from ? to : in;
      }
      for (auto& inner : *node.mutable_attribute()) {
        rename(inner, from, to);
      }
    }
    for (auto& out : *g.mutable_output()) {
      if (out.name() == from) {
        out.set_name(to);
      }
    }
  };
  if (a.has_g()) {
    in_graph(*a.mutable_g());
  }
  for (auto& g : *a.mutable_graphs()) {
    in_graph(g);
  }
}

}  // namespace unity::io::detail

#endif
