// The parts of an ONNX graph that the tensor algebra cannot express: nodes that become opaque operators and are written
// unchanged, and the part that stays outside of the tensor graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <onnx/checker.h>
#include <onnx/defs/schema.h>
#include <onnx/onnx_pb.h>
#include <onnx/shape_inference/implementation.h>

#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/io/onnx/graph_maker.hpp>
#include <unity/io/onnx/graph_writer.hpp>
#include <unity/io/onnx/opaque.hpp>
#include <unity/io/onnx_model.hpp>
#include <unity/io/tensor_data.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::io::detail {

// Imports ONNX nodes that the tensor algebra cannot express, unchanged.

using onnx_values = std::unordered_map<std::string, onnx_value>;

class opaque_importer {
 public:
  // `envelope`: the model without its graph. `hints`: types that the file states for values.
  opaque_importer(graph_maker& maker, const onnx::ModelProto& envelope, std::int64_t opset,
                  std::map<std::string, tensor::tensor_type> hints)
      : maker_{&maker}, envelope_{&envelope}, opset_{opset}, hints_{std::move(hints)} {}

  // Operands: the present inputs, then what subgraphs read from outside.
  // Throws: no_counterpart if the types of the results are unknown, or it reads a tensor without elements.
  [[nodiscard]] std::vector<value_id> add(const onnx::NodeProto& node, std::span<onnx_value* const> inputs,
                                          onnx_values& values, const std::string& where);
  // The original nodes, by the signature of the opaque node.
  [[nodiscard]] std::map<std::string, std::string, std::less<>> take_nodes() { return std::move(nodes_); }

 private:
  // The types that the file states, else the inferred ones: the packaged inference has errors.
  // Throws: unity::error if stated and inferred types differ in element type or rank; no_counterpart if a result has
  // neither.
  [[nodiscard]] std::vector<tensor::tensor_type> result_types(const onnx::NodeProto& node,
                                                              std::span<const typed_input> inputs,
                                                              const std::string& where) const;

  value_id carried(onnx_value& v, const std::string& where);

  graph_maker* maker_;
  const onnx::ModelProto* envelope_;
  std::int64_t opset_;
  std::map<std::string, tensor::tensor_type> hints_;
  std::map<std::string, std::string, std::less<>> nodes_;
};

// Writes opaque nodes as their original ONNX nodes.

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
  static void rename(onnx::AttributeProto& a, const std::map<std::string, std::string>& now);

  const tensor::algebra* algebra_;
  const onnx_model* model_;
  graph_writer* out_;
  kind_id kind_;
  std::map<node_id, onnx::NodeProto> nodes_;
};

// The part of an ONNX graph that stays outside of the tensor graph: nodes and initializers around values that are not
// numeric tensors of known sizes, and everything that depends on them.

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

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_UNTRANSLATED)

#include <algorithm>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/io/onnx/check.hpp>
#include <unity/io/onnx/proto.hpp>
#include <unity/io/onnx/read_tensor.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::io::detail {

UNITY_INLINE std::vector<value_id> opaque_importer::add(const onnx::NodeProto& node,
                                                        std::span<onnx_value* const> inputs, onnx_values& values,
                                                        const std::string& where) {
  std::vector<value_id> operands;
  std::vector<typed_input> typed;
  std::set<std::string> listed;
  const auto read = [&](const std::string& name, onnx_value& v) {
    if (v.is_empty()) {  // such as Resize's absent region: required by the node
      maker_->data()[name] = data_from(*v.known);
      typed.push_back({name, {}, v.known.get()});
      return;
    }
    operands.push_back(carried(v, where));
    if (listed.insert(name).second) {
      typed.push_back({name, maker_->type(operands.back()), v.known.get()});
    }
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] != nullptr) {
      read(node.input(static_cast<int>(i)), *inputs[i]);
    }
  }
  const captures captured{node};
  for (const auto& name : captured.names()) {
    const auto found = values.find(name);
    if (found == values.end()) {
      throw error{where, fmt::format("reads {}, which nothing defines before", in_quotes(name)),
                  "a value of the graph"};
    }
    read(name, found->second);
  }
  const auto types = result_types(node, typed, where);
  const auto key = fmt::format("{}#{}", operator_name(node), nodes_.size());
  std::vector<std::int64_t> elements;
  std::vector<std::int64_t> dims;
  for (const auto& t : types) {
    elements.push_back(static_cast<std::int64_t>(t.element));
    dims.push_back(static_cast<std::int64_t>(t.rank()));
    dims.insert(dims.end(), t.dims.begin(), t.dims.end());
  }
  const tensor::named_attribute attributes[] = {
      {"name", operator_name(node)}, {"signature", key}, {"elements", elements}, {"dims", dims}};
  nodes_.emplace(key, node.SerializeAsString());
  try {
    return maker_->emit("opaque", operands, attributes);
  } catch (const not_accepted& e) {
    throw error{where, e.found, e.expected};
  }
}

UNITY_INLINE std::vector<tensor::tensor_type> opaque_importer::result_types(const onnx::NodeProto& node,
                                                                            std::span<const typed_input> inputs,
                                                                            const std::string& where) const {
  std::string problem;
  const auto inferred = infer_results(node, inputs, *envelope_, opset_, problem);
  std::vector<tensor::tensor_type> types;
  for (const auto& out : node.output()) {
    if (out.empty()) {
      continue;
    }
    const auto found = inferred.find(out);
    const auto hint = hints_.find(out);
    if (found == inferred.end() && hint == hints_.end()) {
      throw no_counterpart{where,
                           fmt::format("output {} has no known sizes{}", in_quotes(out),
                                       problem.empty() ? "" : fmt::format(" ({})", problem)),
                           "an operator of known result types, or value_info with sizes"};
    }
    const bool both = found != inferred.end() && hint != hints_.end();
    if (both && (found->second.element != hint->second.element || found->second.rank() != hint->second.rank())) {
      throw error{where, fmt::format("output {} is {}", in_quotes(out), tensor::to_string(found->second)),
                  fmt::format("{} as value_info says", tensor::to_string(hint->second))};
    }
    types.push_back(hint != hints_.end() ? hint->second : found->second);
  }
  return types;
}

UNITY_INLINE value_id opaque_importer::carried(onnx_value& v, const std::string& where) {
  try {
    return maker_->materialize(v);
  } catch (const not_accepted&) {
    throw no_counterpart{where, fmt::format("reads {}, which has no elements", in_quotes(v.name)),
                         "a tensor with elements"};
  }
}

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
  std::map<std::string, std::string> now;  // all at once: a new name may be the old one of another
  for (const auto& name : captured.names()) {
    if (empty_data(name) == nullptr) {
      now.emplace(name, operand());
    }
  }
  for (auto& a : *node.mutable_attribute()) {
    rename(a, now);
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

UNITY_INLINE void opaque_exporter::rename(onnx::AttributeProto& a, const std::map<std::string, std::string>& now) {
  const auto in_graph = [&](onnx::GraphProto& g) {
    for (auto& node : *g.mutable_node()) {
      for (auto& in : *node.mutable_input()) {
        const auto to = now.find(in);
        in = to == now.end() ? in : to->second;
      }
      for (auto& inner : *node.mutable_attribute()) {
        rename(inner, now);
      }
    }
    for (auto& out : *g.mutable_output()) {
      if (const auto to = now.find(out.name()); to != now.end()) {
        out.set_name(to->second);
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
