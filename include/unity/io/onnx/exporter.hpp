// Writes a tensor graph as an ONNX graph of its opset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <onnx/onnx_pb.h>

#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/io/onnx/graph_writer.hpp>
#include <unity/io/onnx/operators.hpp>
#include <unity/io/onnx/untranslated.hpp>
#include <unity/io/onnx_model.hpp>
#include <unity/io/tensor_data.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::io::detail {

class graph_exporter {
 public:
  graph_exporter(const tensor::algebra& algebra, const onnx_model& model)
      : algebra_{&algebra},
        model_{&model},
        opaque_{algebra.kind("opaque")},
        out_{model.opset, model.open},
        opaque_nodes_{algebra, model, out_},
        own_operators_{algebra, model.operators} {}
  graph_exporter(const graph_exporter&) = delete;
  graph_exporter& operator=(const graph_exporter&) = delete;

  // Effects: writes everything except the data of named weights and constants, which data() lists. keeps_operators:
  // no node stands for two operators of the graph.
  [[nodiscard]] onnx::GraphProto run(bool keeps_operators = false);

  // Initializers to be added: the name in the file, and the data.
  [[nodiscard]] const named_data& data() const noexcept { return data_; }
  // Inputs of the file that are weights without data.
  [[nodiscard]] const std::vector<std::string>& weights_without_data() const noexcept { return without_data_; }

  // After run: the name of each value of the graph in the file, and the operator that a node of the file stands for, or
  // is a part of, by its first_output.
  [[nodiscard]] const std::vector<std::string>& names() const noexcept { return names_; }
  [[nodiscard]] const std::unordered_map<std::string, node_id>& writers() const noexcept { return writers_; }

 private:
  static constexpr std::int64_t most_kernel_elements = std::int64_t{1} << 28;

  [[nodiscard]] bool is_named_source(const tensor::operation& op) const {
    return algebra_->definition_of(op.kind).source != tensor::source_kind::none;
  }
  [[nodiscard]] std::string place(const tensor::tensor_graph& g, node_id n) const {
    return fmt::format("node {} ({})", n.index(), algebra_->signature(g.operation(n).kind).name);
  }

  // Effects: writes the inputs as in the original file, whether needed or not.
  void write_signature();
  [[nodiscard]] bool is_stated_input(const std::string& name) const { return stated_inputs_.contains(name); }
  // An output that is an input or a constant may share its name.
  [[nodiscard]] bool is_source_named(value_id v, const std::string& name) const {
    const auto& op = model_->graph.operation(model_->graph.producer(v));
    return is_named_source(op) && algebra_->read(op).word("name") == name;
  }
  void claim_outputs();
  // Effects: reserves the names that the rest uses.
  void read_rest();
  void write_rest();
  // Writes constants that depend on open sizes.
  void write_computed();
  // Merges equal sources: a weight named by two nodes is written once.
  void name_sources(std::vector<std::string>& names);
  void add_source(node_id n, const std::string& name);
  [[nodiscard]] std::string source_name(node_id n);
  // Adds the data of inputs that nothing reads any more.
  void add_unread_defaults();
  // Names each output value that has no name yet after its output; write_outputs adds an Identity for the others.
  void name_outputs(std::vector<std::string>& names);
  // Writes the nodes of the graph, or of the body of a composite, whose first nodes have no kind.
  void write_nodes(const tensor::tensor_graph& g, const std::vector<std::string>& names);
  void write_node(const tensor::tensor_graph& g, node_id n, const std::vector<std::string>& names);
  // Writes a constant tensor computed by its definition.
  void write_kernel(const tensor::tensor_graph& g, node_id n, const std::vector<std::string>& names);
  void write_composite(const tensor::tensor_graph& g, node_id n, const std::vector<std::string>& names);
  void write_identity(const std::string& from, const std::string& to);

  // Lists the outputs. If there is a rest, lists those of the signature, in its order, because only the signature
  // distinguishes outputs from values that the rest reads.
  void write_outputs(const std::vector<std::string>& names);
  // The output as the file stated it, if that agrees with the type.
  [[nodiscard]] onnx::ValueInfoProto stated_output(const std::string& name, const tensor::tensor_type& type) const;
  // Gives the name of n to the ONNX node, among those from `first` on, that writes its first result.
  void write_label(node_id n, int first, const std::vector<std::string>& names);

  const tensor::algebra* algebra_;
  const onnx_model* model_;
  kind_id opaque_;
  onnx_operators operators_;
  graph_writer out_;
  opaque_exporter opaque_nodes_;
  own_operators own_operators_;
  onnx::GraphProto signature_;
  onnx::GraphProto rest_;
  std::set<std::string> stated_inputs_;
  std::vector<std::string> output_names_;
  std::set<std::string> output_set_;
  named_data data_;
  std::vector<std::string> without_data_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, node_id> writers_;
  std::map<std::string, std::string> computed_;  // names in the file of constants that depend on open sizes
};

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_EXPORTER)

#include <algorithm>
#include <string_view>

#include <unity/core/error.hpp>
#include <unity/io/onnx/family.hpp>
#include <unity/io/onnx/opaque.hpp>
#include <unity/io/onnx/proto.hpp>
#include <unity/io/onnx/restored_nodes.hpp>
#include <unity/tensor/evaluate.hpp>

namespace unity::io::detail {

UNITY_INLINE onnx::GraphProto graph_exporter::run(bool keeps_operators) {
  const auto& g = model_->graph;
  write_signature();
  claim_outputs();
  read_rest();
  opaque_nodes_.read();
  std::vector<std::string> names(g.value_count());
  name_sources(names);
  add_unread_defaults();
  name_outputs(names);
  opaque_nodes_.keep_names(names);
  for (std::size_t v = 0; v < names.size(); ++v) {
    if (names[v].empty()) {
      const auto producer = g.producer(value_id{v});
      names[v] = out_.fresh(fmt::format("{}_{}", algebra_->signature(g.operation(producer).kind).name, v));
    }
  }
  write_computed();
  write_nodes(g, names);
  write_outputs(names);
  write_rest();
  if (!keeps_operators) {
    merge_clips(out_);
    merge_selections(out_);
    merge_lines(out_, data_);
  }
  names_ = std::move(names);
  out_.proto().set_name(model_->name.empty() ? "model" : model_->name);
  return std::move(out_.proto());
}

UNITY_INLINE void graph_exporter::write_signature() {
  if (!signature_.ParseFromString(model_->signature)) {
    throw error{fmt::format("model {}", in_quotes(model_->name)), "a damaged signature", "what importing left there"};
  }
  for (const auto& in : signature_.input()) {
    out_.claim(in.name());
    stated_inputs_.insert(in.name());
    *out_.proto().add_input() = in;
  }
  if (!signature_.doc_string().empty()) {
    out_.proto().set_doc_string(signature_.doc_string());
  }
}

UNITY_INLINE void graph_exporter::claim_outputs() {
  const auto outputs = model_->graph.outputs();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto wish =
        i < model_->outputs.size() && !model_->outputs[i].empty() ? model_->outputs[i] : fmt::format("output_{}", i);
    if (is_source_named(outputs[i], wish)) {
      out_.claim(wish);
      output_names_.push_back(wish);
    } else {
      output_names_.push_back(out_.fresh(wish));
    }
    output_set_.insert(output_names_.back());
  }
}

UNITY_INLINE void graph_exporter::read_rest() {
  if (!rest_.ParseFromString(model_->rest)) {
    throw error{fmt::format("model {}", in_quotes(model_->name)), "a damaged rest", "what importing left there"};
  }
  out_.claim_all(rest_);
}

UNITY_INLINE void graph_exporter::write_rest() {
  out_.proto().mutable_node()->MergeFrom(rest_.node());
  out_.proto().mutable_initializer()->MergeFrom(rest_.initializer());
}

UNITY_INLINE void graph_exporter::name_sources(std::vector<std::string>& names) {
  std::map<std::pair<kind_id, attribute_list>, std::string> written;
  for (const auto n : node_ids(model_->graph)) {
    const auto& op = model_->graph.operation(n);
    if (!is_named_source(op)) {
      continue;
    }
    const auto value = model_->graph.results(n)[0];
    const auto [place, fresh] = written.try_emplace({op.kind, op.attributes});
    if (fresh) {
      place->second = source_name(n);
      add_source(n, place->second);
    }
    names[value.index()] = place->second;
  }
}

UNITY_INLINE void graph_exporter::write_computed() {
  onnx::GraphProto all;
  if (computed_.empty() || !all.ParseFromString(model_->open.computing)) {
    return;
  }
  std::set<std::string> needed;
  for (const auto& entry : computed_) {
    needed.insert(entry.first);
  }
  for (int i = all.node_size(); i-- > 0;) {
    const auto& node = all.node(i);
    if (needed.contains(node.output(0))) {
      needed.insert(node.input().begin(), node.input().end());
    }
  }
  const auto name_of = [&](const std::string& name) {
    auto& now = computed_[name];
    now = now.empty() && !name.empty() ? out_.fresh(fmt::format("sized_{}", name)) : now;
    return now;
  };
  for (const auto& t : all.initializer()) {
    if (needed.contains(t.name())) {
      (*out_.proto().add_initializer() = t).set_name(name_of(t.name()));
    }
  }
  for (auto node : all.node()) {
    if (!needed.contains(node.output(0))) {
      continue;
    }
    if (node.domain() == "unity") {
      const std::vector<std::int64_t> values(node.attribute(0).ints().begin(), node.attribute(0).ints().end());
      out_.write_integers(values, node.attribute(1).i() > 0, name_of(node.output(0)));
      continue;
    }
    node.clear_name();  // another copy of it may stay in the graph
    for (auto* names : {node.mutable_input(), node.mutable_output()}) {
      for (auto& name : *names) {
        name = name_of(name);
      }
    }
    *out_.proto().add_node() = node;
  }
}

UNITY_INLINE std::string graph_exporter::source_name(node_id n) {
  const auto& op = model_->graph.operation(n);
  const auto wish = algebra_->read(op).word("name");
  const bool is_input = algebra_->definition_of(op.kind).source == tensor::source_kind::input;
  if (is_stated_input(wish) && (is_input || model_->defaults.contains(wish))) {
    return wish;
  }
  const auto outputs = model_->graph.outputs();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (output_names_[i] == wish && is_source_named(outputs[i], wish) &&
        model_->graph.operation(model_->graph.producer(outputs[i])) == op) {
      return wish;
    }
  }
  return out_.fresh(wish);
}

UNITY_INLINE void graph_exporter::add_unread_defaults() {
  std::set<std::string> written;
  for (const auto& [name, data] : data_) {
    written.insert(name);
  }
  for (const auto& name : model_->defaults) {
    const auto found = model_->data.find(name);
    if (!written.contains(name) && found != model_->data.end()) {
      data_.emplace_back(name, found->second);
    }
  }
}

UNITY_INLINE void graph_exporter::add_source(node_id n, const std::string& name) {
  const auto& op = model_->graph.operation(n);
  const auto& type = model_->graph.type(model_->graph.results(n)[0]);
  const auto found = model_->data.find(algebra_->read(op).word("name"));
  const bool is_input = algebra_->definition_of(op.kind).source == tensor::source_kind::input;
  if (!is_input && model_->open.computed.contains(algebra_->read(op).word("name"))) {
    computed_.emplace(algebra_->read(op).word("name"), name);
    return;
  }
  if (is_input || found == model_->data.end()) {
    if (!is_stated_input(name)) {
      auto& in = *out_.proto().add_input();
      fill_type(in, name, type);
      leave_open(in, model_->open);
    }
    if (!is_input) {
      without_data_.push_back(name);
    }
    return;
  }
  const auto& data = found->second;
  const auto size = static_cast<std::size_t>(tensor::element_count(type.dims) * tensor::size_of(type.element));
  if (data.element != type.element || data.dims != type.dims || data.bytes.size() != size) {
    throw error{
        fmt::format("{} {}", place(model_->graph, n), in_quotes(name)),
        fmt::format("data of {}", tensor::to_string({data.element, tensor::layout::row_major, false, data.dims})),
        tensor::to_string(type)};
  }
  data_.emplace_back(name, data);
}

UNITY_INLINE void graph_exporter::name_outputs(std::vector<std::string>& names) {
  const auto outputs = model_->graph.outputs();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    auto& name = names[outputs[i].index()];
    if (name.empty()) {
      name = output_names_[i];
    }
  }
}

UNITY_INLINE void graph_exporter::write_nodes(const tensor::tensor_graph& g, const std::vector<std::string>& names) {
  for (const auto n : node_ids(g)) {
    const auto& op = g.operation(n);
    if (!op.kind.valid() || is_named_source(op)) {
      continue;
    }
    const int first = out_.proto().node_size();
    write_node(g, n, names);
    if (&g == &model_->graph) {
      write_label(n, first, names);
      for (int i = first; i < out_.proto().node_size(); ++i) {
        writers_.emplace(first_output(out_.proto().node(i)), n);
      }
    }
  }
}

UNITY_INLINE void graph_exporter::write_node(const tensor::tensor_graph& g, node_id n,
                                             const std::vector<std::string>& names) {
  const auto& op = g.operation(n);
  const auto& kind = algebra_->signature(op.kind).name;
  if (const auto* own = own_operators_.find(kind)) {
    export_node node{*algebra_, g, n, names, out_};
    own_operators_.write(*own, node, model_->open, output_set_);
  } else if (const auto write = operators_.writer_of(kind, out_.opset())) {
    export_node node{*algebra_, g, n, names, out_};
    write(node);
  } else if (op.kind == opaque_) {
    opaque_nodes_.write(n, names, output_set_);
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

UNITY_INLINE void graph_exporter::write_kernel(const tensor::tensor_graph& g, node_id n,
                                               const std::vector<std::string>& names) {
  const auto& type = g.type(g.results(n)[0]);
  if (out_.is_open(type.dims)) {
    throw error{place(g, n), fmt::format("a constant of open sizes, {}", tensor::to_string(type)), "sizes of --dim"};
  }
  if (tensor::element_count(type.dims) > most_kernel_elements) {
    throw error{place(g, n), tensor::to_string(type), fmt::format("at most {} elements", most_kernel_elements)};
  }
  const auto value = tensor::evaluate<double>(*algebra_, g.operation(n), {}, {});
  out_.initializer(names[g.results(n)[0].index()], make_data(type.element, type.dims, value.front().data));
}

UNITY_INLINE void graph_exporter::write_composite(const tensor::tensor_graph& g, node_id n,
                                                  const std::vector<std::string>& names) {
  std::vector<tensor::tensor_type> types;
  for (const auto v : g.operands(n)) {
    types.push_back(g.type(v));
  }
  const auto body = algebra_->body(g.operation(n), types);
  if (!body) {
    throw error{place(g, n), "no form in ONNX",
                "an operator with a row in io/onnx/ or in the model's list of operators, or one made of such"};
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
      name = out_.fresh(fmt::format("{}_body", names[g.results(n)[0].index()]));
    }
  }
  write_nodes(*body, inner);
  for (const auto& [from, to] : passed) {
    write_identity(from, to);
  }
}

UNITY_INLINE void graph_exporter::write_identity(const std::string& from, const std::string& to) {
  const std::string inputs[] = {from};
  const std::string outputs[] = {to};
  out_.node("Identity", inputs, outputs);
}

UNITY_INLINE void graph_exporter::write_outputs(const std::vector<std::string>& names) {
  const auto outputs = model_->graph.outputs();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto& name = names[outputs[i].index()];
    if (name != output_names_[i]) {
      write_identity(name, output_names_[i]);
    }
    if (model_->rest.empty()) {
      *out_.proto().add_output() = stated_output(output_names_[i], model_->graph.type(outputs[i]));
    }
  }
  if (model_->rest.empty()) {
    return;
  }
  for (const auto& out : signature_.output()) {
    const auto found = std::find(output_names_.begin(), output_names_.end(), out.name());
    const auto i = static_cast<std::size_t>(found - output_names_.begin());
    *out_.proto().add_output() =
        found == output_names_.end() ? out : stated_output(*found, model_->graph.type(outputs[i]));
  }
}

UNITY_INLINE onnx::ValueInfoProto graph_exporter::stated_output(const std::string& name,
                                                                const tensor::tensor_type& type) const {
  onnx::ValueInfoProto info;
  fill_type(info, name, type);
  leave_open(info, model_->open);
  const auto stated = std::find_if(signature_.output().begin(), signature_.output().end(),
                                   [&](const auto& out) { return out.name() == name; });
  if (stated == signature_.output().end() || !stated->type().has_tensor_type() ||
      stated->type().tensor_type().elem_type() != info.type().tensor_type().elem_type()) {
    return info;
  }
  const auto& dims = stated->type().tensor_type().shape().dim();
  bool is_true = !stated->type().tensor_type().has_shape() || dims.size() == static_cast<int>(type.rank());
  for (int i = 0; is_true && i < dims.size(); ++i) {
    is_true = !dims[i].has_dim_value() || dims[i].dim_value() == type.dims[static_cast<std::size_t>(i)];
  }
  return is_true ? *stated : info;
}

UNITY_INLINE void graph_exporter::write_label(node_id n, int first, const std::vector<std::string>& names) {
  const auto label = model_->labels.find(n);
  if (label == model_->labels.end()) {
    return;
  }
  const auto& result = names[model_->graph.results(n)[0].index()];
  for (int i = first; i < out_.proto().node_size(); ++i) {
    auto& node = *out_.proto().mutable_node(i);
    if (std::find(node.output().begin(), node.output().end(), result) != node.output().end()) {
      node.set_name(label->second.name);
      node.set_doc_string(label->second.doc);
    }
  }
}

}  // namespace unity::io::detail

#endif
