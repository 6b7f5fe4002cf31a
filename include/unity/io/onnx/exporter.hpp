// Writes a tensor graph as an ONNX graph of the export opset.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/io/onnx/export_node.hpp>
#include <unity/io/onnx/graph_writer.hpp>
#include <unity/io/onnx/opaque.hpp>
#include <unity/io/onnx/operators.hpp>
#include <unity/io/onnx/structure.hpp>
#include <unity/io/onnx_model.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/evaluate.hpp>

namespace unity::io::detail {

class graph_exporter {
 public:
  graph_exporter(const tensor::algebra& algebra, const onnx_model& model, const onnx::ModelProto& envelope)
      : algebra_{&algebra}, model_{&model}, envelope_{&envelope}, opaque_{algebra.kind("opaque")} {}

  // Effects: writes everything but the data of named weights and constants, which data() lists.
  [[nodiscard]] onnx::GraphProto run() {
    const auto& g = model_->graph;
    read_opaque_nodes();
    std::vector<std::string> names(g.value_count());
    name_sources(names);
    name_outputs(names);
    name_around_opaque(names);
    for (std::size_t v = 0; v < names.size(); ++v) {
      if (names[v].empty()) {
        const auto producer = g.producer(value_id{v});
        names[v] = out_.fresh(algebra_->signature(g.operation(producer).kind).name + "_" + std::to_string(v));
      }
    }
    write_nodes(g, names);
    write_outputs(names);
    out_.proto().set_name(model_->name.empty() ? "model" : model_->name);
    return std::move(out_.proto());
  }

  // Initializers to come: name in the file, data.
  [[nodiscard]] const std::vector<std::pair<std::string, const tensor_data*>>& data() const noexcept { return data_; }
  // Inputs of the file that are weights whose data nobody gave.
  [[nodiscard]] const std::vector<std::string>& weights_without_data() const noexcept { return without_data_; }

 private:
  [[nodiscard]] bool is_named_source(const tensor::operation& op) const {
    return algebra_->definition_of(op.kind).source != tensor::source_kind::none;
  }
  [[nodiscard]] std::string place(node_id n) const {
    return "node " + std::to_string(n.index()) + " (" + algebra_->signature(model_->graph.operation(n).kind).name + ")";
  }

  void read_opaque_nodes() {
    for (std::size_t i = 0; i < model_->graph.node_count(); ++i) {
      const node_id n{i};
      const auto& op = model_->graph.operation(n);
      if (op.kind != opaque_) {
        continue;
      }
      const auto key = algebra_->read(op).word("signature");
      const auto found = model_->opaque_nodes.find(key);
      onnx::NodeProto node;
      if (found == model_->opaque_nodes.end() || !node.ParseFromString(found->second)) {
        throw error{place(n), "no ONNX node for signature " + in_quotes(key), "one in the model's side table"};
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
      opaque_nodes_.emplace(n, std::move(node));
    }
  }
  // Inputs without elements are no operands; they are kept by name.
  void write_empty(const std::string& name) {
    if (const auto* data = empty_data(name); data != nullptr && out_.claim(name)) {
      out_.initializer(name, *data);
    }
  }
  [[nodiscard]] const tensor_data* empty_data(const std::string& name) const {
    const auto found = model_->data.find(name);
    return found != model_->data.end() && found->second.bytes.empty() ? &found->second : nullptr;
  }
  // Names within subgraphs are taken: an outer value of that name would be shadowed.
  void claim_inner(const onnx::AttributeProto& a) {
    const auto claim_graph = [&](const onnx::GraphProto& g) {
      for (const auto& i : g.input()) {
        out_.claim(i.name());
      }
      for (const auto& t : g.initializer()) {
        out_.claim(t.name());
      }
      for (const auto& node : g.node()) {
        for (const auto& name : node.output()) {
          out_.claim(name);
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

  // Equal operations are one source: a weight that two nodes name is written once.
  void name_sources(std::vector<std::string>& names) {
    std::map<std::pair<kind_id, attribute_list>, std::string> written;
    for (std::size_t i = 0; i < model_->graph.node_count(); ++i) {
      const node_id n{i};
      const auto& op = model_->graph.operation(n);
      if (!is_named_source(op)) {
        continue;
      }
      const auto value = model_->graph.results(n)[0];
      const auto [place, fresh] = written.try_emplace({op.kind, op.attributes});
      if (fresh) {
        place->second = out_.fresh(algebra_->read(op).word("name"));
        add_source(n, place->second);
      }
      names[value.index()] = place->second;
    }
  }
  void add_source(node_id n, const std::string& name) {
    const auto& op = model_->graph.operation(n);
    const auto& type = model_->graph.type(model_->graph.results(n)[0]);
    const auto found = model_->data.find(algebra_->read(op).word("name"));
    const bool is_input = algebra_->definition_of(op.kind).source == tensor::source_kind::input;
    if (is_input || found == model_->data.end()) {
      fill_type(*out_.proto().add_input(), name, type);
      if (!is_input) {
        without_data_.push_back(name);
      }
      return;
    }
    const auto& data = found->second;
    const auto size = static_cast<std::size_t>(tensor::element_count(type.dims) * tensor::size_of(type.element));
    if (data.element != type.element || data.dims != type.dims || data.bytes.size() != size) {
      throw error{place(n) + " " + in_quotes(name),
                  "data of " + tensor::to_string({data.element, tensor::layout::row_major, false, data.dims}),
                  tensor::to_string(type)};
    }
    data_.emplace_back(name, &data);
  }
  // A value that has a name already, or is an output twice, is passed on by an Identity.
  void name_outputs(std::vector<std::string>& names) {
    const auto outputs = model_->graph.outputs();
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const auto wish = i < model_->outputs.size() && !model_->outputs[i].empty() ? model_->outputs[i]
                                                                                  : "output_" + std::to_string(i);
      output_names_.push_back(out_.fresh(wish));
      auto& name = names[outputs[i].index()];
      if (name.empty()) {
        name = output_names_.back();
      }
    }
  }
  // Opaque nodes keep the names that they were read with, where those are free.
  void name_around_opaque(std::vector<std::string>& names) {
    const auto keep = [&](value_id v, const std::string& wish) {
      if (names[v.index()].empty() && out_.claim(wish)) {
        names[v.index()] = wish;
      }
    };
    for (const auto& [n, node] : opaque_nodes_) {
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

  // Of the graph, or of the body of a composite, whose first nodes have no kind.
  void write_nodes(const tensor::tensor_graph& g, const std::vector<std::string>& names) {
    for (std::size_t i = 0; i < g.node_count(); ++i) {
      const node_id n{i};
      const auto& op = g.operation(n);
      if (!op.kind.valid() || is_named_source(op)) {
        continue;
      }
      const auto& kind = algebra_->signature(op.kind).name;
      if (const auto row = operators_.exports.find(kind); row != operators_.exports.end()) {
        export_node node{*algebra_, g, n, names, out_};
        row->second(node);
      } else if (op.kind == opaque_) {
        write_opaque(n, names);
      } else if (kind == "fill") {
        const auto a = algebra_->read(op);
        const auto& type = g.type(g.results(n)[0]);
        out_.write_filled(a.real("value"), type.element, type.dims, names[g.results(n)[0].index()]);
      } else if (g.operands(n).empty()) {
        write_kernel(g, n, names);
      } else {
        write_composite(g, n, names);
      }
    }
  }
  // A constant tensor that its definition computes.
  void write_kernel(const tensor::tensor_graph& g, node_id n, const std::vector<std::string>& names) {
    const auto& type = g.type(g.results(n)[0]);
    const auto value = tensor::evaluate<double>(*algebra_, g.operation(n), {}, {});
    out_.initializer(names[g.results(n)[0].index()], make_data(type.element, type.dims, value.front().data));
  }
  void write_composite(const tensor::tensor_graph& g, node_id n, const std::vector<std::string>& names) {
    std::vector<tensor::tensor_type> types;
    for (const auto v : g.operands(n)) {
      types.push_back(g.type(v));
    }
    const auto body = algebra_->body(g.operation(n), types);
    if (!body) {
      throw error{place(n), "no form in ONNX", "an operator with a row in io/onnx/, or one made of such"};
    }
    std::vector<std::string> inner(body->value_count());
    for (std::size_t i = 0; i < types.size(); ++i) {
      inner[i] = names[g.operands(n)[i].index()];
    }
    std::vector<std::pair<std::string, std::string>> passed;
    for (std::size_t i = 0; i < body->outputs().size(); ++i) {
      auto& name = inner[body->outputs()[i].index()];
      const auto& result = names[g.results(n)[i].index()];
      if (name.empty()) {
        name = result;
      } else {
        passed.emplace_back(name, result);
      }
    }
    for (auto& name : inner) {
      if (name.empty()) {
        name = out_.fresh(names[g.results(n)[0].index()] + "_body");
      }
    }
    write_nodes(*body, inner);
    for (const auto& [from, to] : passed) {
      write_identity(from, to);
    }
  }
  void write_identity(const std::string& from, const std::string& to) {
    const std::string inputs[] = {from};
    const std::string outputs[] = {to};
    out_.node("Identity", inputs, outputs);
  }

  void write_opaque(node_id n, const std::vector<std::string>& names) {
    const auto& g = model_->graph;
    auto node = opaque_nodes_.at(n);
    const captures captured{node};
    std::size_t next = 0;
    const auto operand = [&] {
      if (next >= g.operands(n).size()) {
        throw error{place(n), "fewer operands than its ONNX node reads", "as many"};
      }
      return g.operands(n)[next++];
    };
    std::vector<typed_input> typed;
    for (auto& name : *node.mutable_input()) {
      if (const auto* data = empty_data(name)) {
        empty_known_.push_back(std::make_unique<known_tensor>(known_from(*data).value_or(known_tensor{})));
        typed.push_back({name, {}, empty_known_.back().get()});
      } else if (!name.empty()) {
        const auto v = operand();
        name = names[v.index()];
        add_typed(typed, v, name);
      }
    }
    for (const auto& name : captured.names()) {
      if (empty_data(name) != nullptr) {
        continue;
      }
      const auto v = operand();
      add_typed(typed, v, names[v.index()]);
      if (names[v.index()] != name) {
        for (auto& a : *node.mutable_attribute()) {
          rename(a, name, names[v.index()]);
        }
      }
    }
    next = 0;
    for (auto& name : *node.mutable_output()) {
      if (!name.empty()) {
        const auto v = g.results(n)[next++];
        name = names[v.index()];
        if (std::find(output_names_.begin(), output_names_.end(), name) == output_names_.end()) {
          fill_type(*out_.proto().add_value_info(), name, g.type(v));
        }
      }
    }
    const auto current = node_at_export_opset(node, typed, *envelope_, model_->opset);
    if (!current) {
      throw error{node_place(node, n.index()), "has a form of opset " + std::to_string(model_->opset),
                  "an operator that opset " + std::to_string(export_opset) + " can express"};
    }
    *out_.proto().add_node() = *current;
  }
  void add_typed(std::vector<typed_input>& all, value_id v, const std::string& name) {
    for (const auto& t : all) {
      if (t.name == name) {
        return;
      }
    }
    const auto& op = model_->graph.operation(model_->graph.producer(v));
    const known_tensor* known = nullptr;
    if (is_named_source(op)) {
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
  static void rename(onnx::AttributeProto& a, const std::string& from, const std::string& to) {
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

  void write_outputs(const std::vector<std::string>& names) {
    const auto outputs = model_->graph.outputs();
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const auto& name = names[outputs[i].index()];
      if (name != output_names_[i]) {
        write_identity(name, output_names_[i]);
      }
      fill_type(*out_.proto().add_output(), output_names_[i], model_->graph.type(outputs[i]));
    }
  }

  const tensor::algebra* algebra_;
  const onnx_model* model_;
  const onnx::ModelProto* envelope_;
  kind_id opaque_;
  onnx_operators operators_;
  graph_writer out_;
  std::map<node_id, onnx::NodeProto> opaque_nodes_;
  std::map<std::size_t, known_tensor> known_;
  std::vector<std::unique_ptr<known_tensor>> empty_known_;
  std::vector<std::string> output_names_;
  std::vector<std::pair<std::string, const tensor_data*>> data_;
  std::vector<std::string> without_data_;
};

}  // namespace unity::io::detail
