// Writes opaque nodes as the ONNX nodes that they were.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <onnx/checker.h>
#include <onnx/defs/schema.h>
#include <onnx/onnx_pb.h>
#include <onnx/shape_inference/implementation.h>
#include <onnx/version_converter/convert.h>

#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/io/onnx/graph_writer.hpp>
#include <unity/io/onnx/known.hpp>
#include <unity/io/onnx/opaque.hpp>
#include <unity/io/onnx_model.hpp>
#include <unity/io/tensor_data.hpp>
#include <unity/tensor/algebra.hpp>

namespace unity::io::detail {

class opaque_exporter {
 public:
  opaque_exporter(const tensor::algebra& algebra, const onnx_model& model, const onnx::ModelProto& envelope,
                  graph_writer& writer)
      : algebra_{&algebra}, model_{&model}, envelope_{&envelope}, out_{&writer}, kind_{algebra.kind("opaque")} {}

  // Effects: takes the names that the nodes bring with them.
  // Throws: unity::error where the model has no ONNX node for an opaque node.
  void read();
  // Opaque nodes keep the names that they were read with, where those are free.
  void keep_names(std::vector<std::string>& names) const;

  // `names`: of all values; `outputs`: of the graph's outputs, whose types are stated elsewhere.
  // Throws: unity::error where the export opset cannot express the node.
  void write(node_id n, const std::vector<std::string>& names, const std::set<std::string>& outputs);

 private:
  [[nodiscard]] std::string place(node_id n) const { return fmt::format("node {} (opaque)", n.index()); }
  // Inputs without elements are no operands; they are kept by name.
  void write_empty(const std::string& name);
  [[nodiscard]] const tensor_data* empty_data(const std::string& name) const {
    const auto found = model_->data.find(name);
    return found != model_->data.end() && found->second.bytes.empty() ? &found->second : nullptr;
  }
  // Effects: the node reads its operands by the names that they have now, in its subgraphs too.
  [[nodiscard]] std::vector<typed_input> name_inputs(node_id n, onnx::NodeProto& node,
                                                     const std::vector<std::string>& names);
  void name_outputs(node_id n, onnx::NodeProto& node, const std::vector<std::string>& names,
                    const std::set<std::string>& outputs);
  // Names within subgraphs are taken: an outer value of that name would be shadowed.
  void claim_inner(const onnx::AttributeProto& a);

  void add_typed(std::vector<typed_input>& all, value_id v, const std::string& name);
  static void rename(onnx::AttributeProto& a, const std::string& from, const std::string& to);

  const tensor::algebra* algebra_;
  const onnx_model* model_;
  const onnx::ModelProto* envelope_;
  graph_writer* out_;
  kind_id kind_;
  std::map<node_id, onnx::NodeProto> nodes_;
  std::map<std::size_t, known_tensor> known_;
  std::vector<std::unique_ptr<known_tensor>> empty_known_;
};

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_OPAQUE_EXPORT)

#include <unity/core/error.hpp>
#include <unity/io/onnx/proto.hpp>
#include <unity/io/onnx/structure.hpp>

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
    for (const auto& a : node.attribute()) {
      claim_inner(a);
    }
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
  const auto inputs = name_inputs(n, node, names);
  name_outputs(n, node, names, outputs);
  const auto current = node_at_export_opset(node, inputs, *envelope_, model_->opset);
  if (!current) {
    throw error{node_place(node, n.index()), fmt::format("has a form of opset {}", model_->opset),
                fmt::format("an operator that opset {} can express", export_opset)};
  }
  *out_->proto().add_node() = *current;
}

UNITY_INLINE void opaque_exporter::write_empty(const std::string& name) {
  if (const auto* data = empty_data(name); data != nullptr && out_->claim(name)) {
    out_->initializer(name, *data);
  }
}

UNITY_INLINE std::vector<typed_input> opaque_exporter::name_inputs(node_id n, onnx::NodeProto& node,
                                                                   const std::vector<std::string>& names) {
  const auto operands = model_->graph.operands(n);
  std::size_t next = 0;
  const auto operand = [&] {
    if (next >= operands.size()) {
      throw error{place(n), "fewer operands than its ONNX node reads", "as many"};
    }
    return operands[next++];
  };
  std::vector<typed_input> typed;
  std::set<std::string> listed;
  const captures captured{node};
  for (auto& name : *node.mutable_input()) {
    if (const auto* data = empty_data(name)) {
      empty_known_.push_back(std::make_unique<known_tensor>(known_from(*data).value_or(known_tensor{})));
      typed.push_back({name, {}, empty_known_.back().get()});
    } else if (!name.empty()) {
      const auto v = operand();
      name = names[v.index()];
      if (listed.insert(name).second) {
        add_typed(typed, v, name);
      }
    }
  }
  for (const auto& name : captured.names()) {
    if (empty_data(name) == nullptr) {
      const auto v = operand();
      if (listed.insert(names[v.index()]).second) {
        add_typed(typed, v, names[v.index()]);
      }
      for (auto& a : *node.mutable_attribute()) {
        rename(a, name, names[v.index()]);
      }
    }
  }
  return typed;
}

UNITY_INLINE void opaque_exporter::name_outputs(node_id n, onnx::NodeProto& node, const std::vector<std::string>& names,
                                                const std::set<std::string>& outputs) {
  std::size_t next = 0;
  for (auto& name : *node.mutable_output()) {
    if (!name.empty() && next < model_->graph.results(n).size()) {
      const auto v = model_->graph.results(n)[next++];
      name = names[v.index()];
      if (!outputs.contains(name)) {
        fill_type(*out_->proto().add_value_info(), name, model_->graph.type(v));
      }
    }
  }
}

UNITY_INLINE void opaque_exporter::claim_inner(const onnx::AttributeProto& a) {
  const auto claim_graph = [&](const onnx::GraphProto& g) {
    for (const auto& i : g.input()) {
      out_->claim(i.name());
    }
    for (const auto& t : g.initializer()) {
      out_->claim(t.name());
    }
    for (const auto& node : g.node()) {
      for (const auto& name : node.output()) {
        out_->claim(name);
      }
      for (const auto& inner : node.attribute()) {
        claim_inner(inner);
      }
    }
  };
  if (a.has_g()) {
    claim_graph(a.g());
  }
  for (const auto& g : a.graphs()) {
    claim_graph(g);
  }
}

UNITY_INLINE void opaque_exporter::add_typed(std::vector<typed_input>& all, value_id v, const std::string& name) {
  const auto& op = model_->graph.operation(model_->graph.producer(v));
  const known_tensor* known = nullptr;
  if (algebra_->definition_of(op.kind).source != tensor::source_kind::none) {
    const auto found = model_->data.find(algebra_->read(op).word("name"));
    if (found != model_->data.end()) {
      if (auto k = known_from(found->second)) {
        known = &known_[v.index()];
        known_[v.index()] = std::move(*k);
      }
    }
  }
  all.push_back({name, model_->graph.type(v), known});
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
