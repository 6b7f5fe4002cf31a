// Imports one ONNX graph, node by node: folds shape arithmetic, translates what the tensor algebra has, keeps
// everything else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <onnx/checker.h>
#include <onnx/defs/schema.h>
#include <onnx/onnx_pb.h>
#include <onnx/shape_inference/implementation.h>

#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/io/onnx/graph_maker.hpp>
#include <unity/io/onnx/operators.hpp>
#include <unity/io/onnx/size_record.hpp>
#include <unity/io/onnx/untranslated.hpp>
#include <unity/io/onnx_model.hpp>
#include <unity/io/tensor_data.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::io::detail {

class graph_importer {
 public:
  // `envelope`: the model without its graph, which must outlive this object. `hints`: types that the file states for
  // values. `options` must outlive this object. `record`: if not null, receives the sizes that occur.
  graph_importer(const tensor::algebra& algebra, std::string file, std::int64_t opset, const onnx::ModelProto& envelope,
                 std::map<std::string, tensor::tensor_type> hints, const import_options& options, size_record* record)
      : maker_{algebra},
        opaque_{maker_, envelope, opset, std::move(hints)},
        file_{std::move(file)},
        opset_{opset},
        keep_rest_{options.keep_rest},
        record_{record},
        own_operators_{algebra, options.operators} {}
  graph_importer(const graph_importer&) = delete;
  graph_importer& operator=(const graph_importer&) = delete;

  void add_input(const std::string& name, const tensor::tensor_type& type, bool is_weight);
  // Floating-point initializers are weights, unless they are literals; integers and booleans are constants, from which
  // shapes are computed.
  void add_initializer(const std::string& name, tensor_data data, bool is_literal = false) {
    add_data(name, std::move(data), !is_literal);
  }
  // An initializer that is also an input; it keeps its data in any case.
  void add_default(const std::string& name, tensor_data data);
  // An input or an initializer that only the rest reads.
  void add_rest(const std::string& name);
  void add_rest(onnx::TensorProto tensor, std::string reason);
  void add_nodes(const onnx::GraphProto& graph);

  // The model so far, with the graph's outputs; opaque operators are not listed yet.
  // Throws: unity::error if an output cannot be computed.
  [[nodiscard]] onnx_model finish(const onnx::GraphProto& graph);

 private:
  // A limit, so that a small file cannot exhaust memory.
  static constexpr std::size_t most_folded_elements = std::size_t{1} << 24U;

  void add_data(const std::string& name, tensor_data data, bool trained);
  void add_known(const std::string& name, known_tensor known);
  void add_node(const onnx::NodeProto& node, std::size_t index);
  void give_reason(std::string reason) { rest_reason_ = rest_reason_.empty() ? std::move(reason) : rest_reason_; }
  // A tensor without elements, which no node can represent.
  void add_empty_to_rest(const std::string& name);
  // Effects: values that the rest reads become outputs, if they have a node, or are copied, if they have no elements.
  void add_reads_of_rest(onnx_model& model, std::vector<value_id>& outputs);
  void add_known_or_opaque(const onnx::NodeProto& node, std::size_t index);
  // Gives the name of a node of the file to the last node made from it. `before`: the number of nodes before.
  void keep_label(const onnx::NodeProto& node, std::size_t before);

  // Handles operators that make no node: constants, shapes, aliases, branches with known conditions.
  bool add_special(const onnx::NodeProto& node, std::size_t index, std::span<onnx_value* const> inputs,
                   const std::string& where);
  bool add_constant(const onnx::NodeProto& node, const std::string& where);
  bool add_shape(const onnx::NodeProto& node, onnx_value& of, const std::string& where);
  // Replaces an If with a known condition by its branch.
  bool add_decided_branch(const onnx::NodeProto& node, std::size_t index, std::span<onnx_value* const> inputs,
                          const std::string& where);
  // Another name for a value. Its node is made here, so that both names share it.
  void alias(const std::string& name, onnx_value& of);

  bool add_folded(const onnx::NodeProto& node, std::span<onnx_value* const> inputs, const std::string& where);
  bool add_expressed(const onnx::NodeProto& node, std::span<onnx_value* const> inputs, const std::string& where);
  void define(const std::string& name, value_id value);
  void add_opaque(const onnx::NodeProto& node, std::span<onnx_value* const> inputs, const std::string& where);
  [[nodiscard]] std::vector<std::int64_t> dims_of(onnx_value& v) {
    const auto& dims = v.value.valid() ? maker_.type(v.value).dims : v.data->dims;
    return {dims.begin(), dims.end()};
  }
  [[nodiscard]] bool all_floating(std::span<onnx_value* const> inputs) const;

  graph_maker maker_;
  opaque_importer opaque_;
  std::string file_;
  std::int64_t opset_;
  bool keep_rest_;
  size_record* record_;
  onnx_operators operators_;
  own_operators own_operators_;
  onnx_values values_;
  graph_rest rest_;
  std::string rest_reason_;
  std::map<node_id, node_label> labels_;
  std::size_t known_elements_ = 0;
};

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_IMPORTER)

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string_view>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/io/onnx/check.hpp>
#include <unity/io/onnx/family.hpp>
#include <unity/io/onnx/fold.hpp>
#include <unity/io/onnx/proto.hpp>
#include <unity/io/onnx/read_tensor.hpp>

namespace unity::io::detail {

UNITY_INLINE void graph_importer::add_input(const std::string& name, const tensor::tensor_type& type, bool is_weight) {
  onnx_value v;
  v.name = name;
  try {
    v.value = maker_.source(is_weight ? "weight" : "input", name, type.element, type.dims);
  } catch (const not_accepted& e) {
    throw error{fmt::format("{}: input {}", file_, in_quotes(name)), e.found, e.expected};
  }
  values_.emplace(name, std::move(v));
}

UNITY_INLINE void graph_importer::add_default(const std::string& name, tensor_data data) {
  add_initializer(name, std::move(data));
  auto& v = values_.at(name);
  if (v.data->bytes.empty()) {
    maker_.data()[name] = *v.data;
  } else {
    v.value = maker_.constant(v);
  }
}

UNITY_INLINE void graph_importer::add_rest(const std::string& name) {
  rest_.add_input(name);
  give_reason(fmt::format("{}: input {} is not a tensor of numbers with elements", file_, in_quotes(name)));
}

UNITY_INLINE void graph_importer::add_rest(onnx::TensorProto tensor, std::string reason) {
  rest_.add(std::move(tensor));
  give_reason(std::move(reason));
}

UNITY_INLINE void graph_importer::add_nodes(const onnx::GraphProto& graph) {
  std::set<std::string> read;
  for (const auto& out : graph.output()) {
    read.insert(out.name());
  }
  for (const auto& node : graph.node()) {
    read.insert(node.input().begin(), node.input().end());
    const captures captured{node};
    read.insert(captured.names().begin(), captured.names().end());
  }
  for (int i = 0; i < graph.node_size(); ++i) {
    add_node(without_unread(graph.node(i), read, opset_), static_cast<std::size_t>(i));
  }
}

UNITY_INLINE onnx_model graph_importer::finish(const onnx::GraphProto& graph) {
  std::vector<value_id> outputs;
  onnx_model model;
  for (const auto& out : graph.output()) {
    if (rest_.contains(out.name())) {
      continue;
    }
    try {
      outputs.push_back(maker_.materialize(values_.at(out.name())));
    } catch (const not_accepted& e) {
      if (keep_rest_) {
        add_empty_to_rest(out.name());
        continue;
      }
      throw error{fmt::format("{}: output {}", file_, in_quotes(out.name())), e.found, e.expected};
    }
    model.outputs.push_back(out.name());
  }
  add_reads_of_rest(model, outputs);
  maker_.graph().set_outputs(outputs);
  model.graph = std::move(maker_.graph());
  model.data = std::move(maker_.data());
  model.labels = std::move(labels_);
  model.opaque_nodes = opaque_.take_nodes();
  model.opset = opset_;
  return model;
}

UNITY_INLINE void graph_importer::add_data(const std::string& name, tensor_data data, bool trained) {
  onnx_value v;
  v.name = name;
  v.weight = trained && tensor::is_floating(data.element);
  if (const auto known = known_from(data)) {
    v.known = std::make_shared<known_tensor>(*known);
  }
  if (record_ != nullptr && v.known != nullptr) {
    record_->add(name, v.known);
  }
  v.data = std::make_shared<tensor_data>(std::move(data));
  values_.insert_or_assign(name, std::move(v));
}

UNITY_INLINE void graph_importer::add_known(const std::string& name, known_tensor known) {
  onnx_value v;
  v.name = name;
  v.varies = record_ != nullptr && record_->varies(name, known);
  v.known = std::make_shared<known_tensor>(std::move(known));
  values_.insert_or_assign(name, std::move(v));
}

UNITY_INLINE void graph_importer::add_node(const onnx::NodeProto& node, std::size_t index) {
  const auto before = maker_.graph().node_count();
  if (rest_.is_read_by(node)) {
    return rest_.add(node);
  }
  try {
    add_known_or_opaque(node, index);
  } catch (const no_counterpart& e) {
    if (!keep_rest_) {
      throw;
    }
    give_reason(e.what());
    return rest_.add(node);
  }
  keep_label(node, before);
  if (record_ != nullptr) {
    record_->add(node, values_, maker_);
  }
}

UNITY_INLINE void graph_importer::add_empty_to_rest(const std::string& name) {
  const auto& v = values_.at(name);
  onnx::TensorProto empty;
  fill_tensor(empty, v.data != nullptr ? *v.data : data_from(*v.known), name);
  rest_.add(std::move(empty));
}

UNITY_INLINE void graph_importer::add_reads_of_rest(onnx_model& model, std::vector<value_id>& outputs) {
  for (const auto& name : rest_.reads()) {
    const auto found = values_.find(name);
    if (found == values_.end() || std::ranges::find(model.outputs, name) != model.outputs.end()) {
      continue;
    }
    try {
      outputs.push_back(maker_.materialize(found->second));
      model.outputs.push_back(name);
    } catch (const not_accepted&) {
      add_empty_to_rest(name);
    }
  }
  model.rest = rest_.text();
  model.rest_reason = rest_reason_;
}

UNITY_INLINE void graph_importer::keep_label(const onnx::NodeProto& node, std::size_t before) {
  if ((node.name().empty() && node.doc_string().empty()) || node.op_type() == "Constant" || node.op_type() == "If") {
    return;
  }
  for (const auto& out : node.output()) {
    const auto found = out.empty() ? values_.end() : values_.find(out);
    if (found != values_.end() && found->second.value.valid()) {
      const auto made = maker_.graph().producer(found->second.value);
      if (made.index() >= before && !maker_.graph().operands(made).empty()) {
        labels_.emplace(made, node_label{node.name(), node.doc_string()});
      }
    }
  }
}

UNITY_INLINE void graph_importer::add_known_or_opaque(const onnx::NodeProto& node, std::size_t index) {
  const auto where = fmt::format("{}: {}", file_, node_place(node, index));
  std::vector<onnx_value*> inputs;
  for (const auto& in : node.input()) {
    inputs.push_back(in.empty() ? nullptr : &values_.at(in));
  }
  const bool standard = is_default_domain(node.domain());
  const bool own = own_operators_.find(node) != nullptr;
  const bool reads_empty = std::ranges::any_of(inputs, [](const auto* v) { return v != nullptr && v->is_empty(); });
  try {
    if ((standard && !own && (add_special(node, index, inputs, where) || add_folded(node, inputs, where))) ||
        ((standard || own) && add_expressed(node, inputs, where))) {
      return;
    }
  } catch (const not_accepted& e) {
    // Element types that the tensor algebra does not support (such as integers) become opaque, as do readers of a
    // constant without elements; sizes that do not fit together are an error of the model.
    if (all_floating(inputs) && !reads_empty) {
      throw error{where, e.found, e.expected};
    }
  }
  add_opaque(node, inputs, where);
}

UNITY_INLINE bool graph_importer::add_special(const onnx::NodeProto& node, std::size_t index,
                                              std::span<onnx_value* const> inputs, const std::string& where) {
  const auto& type = node.op_type();
  if (type == "Constant") {
    return add_constant(node, where);
  }
  if (type == "Identity" && inputs.size() == 1 && inputs[0] != nullptr) {
    alias(node.output(0), *inputs[0]);
    return true;
  }
  if ((type == "Shape" || type == "Size") && inputs.size() == 1 && inputs[0] != nullptr) {
    return add_shape(node, *inputs[0], where);
  }
  return type == "If" && add_decided_branch(node, index, inputs, where);
}

UNITY_INLINE bool graph_importer::add_constant(const onnx::NodeProto& node, const std::string& where) {
  const node_attributes attributes{node, where};
  if (auto data = attributes.data("value")) {
    add_data(node.output(0), std::move(*data), false);
    return true;
  }
  if (const auto* a = attributes.find("value_float")) {
    add_known(node.output(0), {tensor::dtype::float32, {}, {}, {static_cast<double>(a->f())}});
  } else if (const auto* i = attributes.find("value_int")) {
    add_known(node.output(0), known_scalar(i->i()));
  } else if (const auto* all = attributes.find("value_ints"); all != nullptr && all->ints_size() <= 65536) {
    add_known(node.output(0), known_integers({all->ints().begin(), all->ints().end()}));
  } else if (const auto* reals = attributes.find("value_floats"); reals != nullptr && reals->floats_size() <= 65536) {
    add_known(node.output(0),
              {tensor::dtype::float32, {reals->floats_size()}, {}, {reals->floats().begin(), reals->floats().end()}});
  } else {
    throw no_counterpart{where, "holds no tensor", "a value of numbers"};
  }
  return true;
}

UNITY_INLINE bool graph_importer::add_shape(const onnx::NodeProto& node, onnx_value& of, const std::string& where) {
  const node_attributes attributes{node, where};
  const auto dims = of.known != nullptr ? of.known->dims : dims_of(of);
  const auto rank = static_cast<std::int64_t>(dims.size());
  if (node.op_type() == "Size") {
    std::int64_t count = 1;
    for (const auto d : dims) {
      count *= d;
    }
    add_known(node.output(0), known_scalar(count));
    return true;
  }
  const auto bound = [&](std::int64_t at) { return std::clamp(at < 0 ? at + rank : at, std::int64_t{0}, rank); };
  const auto from = bound(attributes.integer("start", 0));
  const auto to = std::max(from, bound(attributes.integer("end", rank)));
  add_known(node.output(0), known_integers({dims.begin() + from, dims.begin() + to}));
  return true;
}

UNITY_INLINE bool graph_importer::add_decided_branch(const onnx::NodeProto& node, std::size_t index,
                                                     std::span<onnx_value* const> inputs, const std::string& where) {
  if (inputs.size() != 1 || inputs[0] == nullptr || inputs[0]->known == nullptr || inputs[0]->known->size() != 1) {
    return false;
  }
  const bool taken = inputs[0]->known->real(0) != 0;
  const auto* branch = node_attributes{node, where}.find(taken ? "then_branch" : "else_branch");
  if (branch == nullptr || branch->g().output_size() != node.output_size()) {
    return false;
  }
  const auto& g = branch->g();
  for (const auto& t : g.initializer()) {
    auto copy = t;
    add_initializer(t.name(), tensor_reader{where, {}}.read(copy, t.name()));
  }
  for (const auto& inner : g.node()) {
    for (const auto& in : inner.input()) {
      if (!in.empty() && !values_.contains(in) && !rest_.contains(in)) {
        throw error{fmt::format("{}, {}", where, node_place(inner, index)),
                    fmt::format("reads {}, which nothing defines before", in_quotes(in)),
                    "a value of the branch or around it"};
      }
    }
    add_node(inner, index);
  }
  for (int i = 0; i < g.output_size(); ++i) {
    if (rest_.contains(g.output(i).name())) {
      rest_.add_name(g.output(i).name(), node.output(i));
      continue;
    }
    const auto found = values_.find(g.output(i).name());
    if (found == values_.end()) {
      throw error{where, fmt::format("branch output {} is not defined", in_quotes(g.output(i).name())),
                  "a value of the branch"};
    }
    alias(node.output(i), found->second);
    if (record_ != nullptr) {
      record_->add_alias(g.output(i).name(), node.output(i));
    }
  }
  return true;
}

UNITY_INLINE void graph_importer::alias(const std::string& name, onnx_value& of) {
  if (!of.is_empty()) {
    maker_.materialize(of);
  }
  auto copy = of;
  values_.insert_or_assign(name, std::move(copy));
}

UNITY_INLINE bool graph_importer::add_folded(const onnx::NodeProto& node, std::span<onnx_value* const> inputs,
                                             const std::string& where) {
  const auto row = fold_rows().find(node.op_type());
  if (row == fold_rows().end() || node.output_size() != 1) {
    return false;
  }
  std::vector<const known_tensor*> known;
  for (const auto* in : inputs) {
    if (in != nullptr && (in->known == nullptr || in->weight)) {
      return false;
    }
    known.push_back(in == nullptr ? nullptr : in->known.get());
  }
  auto result = row->second({node_attributes{node, where}, opset_, known});
  if (result) {
    known_elements_ += result->size();
    if (known_elements_ > most_folded_elements) {
      throw error{where, fmt::format("shape arithmetic on more than {} numbers", most_folded_elements), "less"};
    }
    add_known(node.output(0), std::move(*result));
  }
  return result.has_value();
}

UNITY_INLINE bool graph_importer::add_expressed(const onnx::NodeProto& node, std::span<onnx_value* const> inputs,
                                                const std::string& where) {
  const auto* own = own_operators_.find(node);
  const auto row = operators_.imports.find(node.op_type());
  if (own == nullptr && row == operators_.imports.end()) {
    return false;
  }
  import_node in{node, opset_, maker_, inputs, where};
  const auto results = own != nullptr ? own_operators_.read(*own, node, in) : row->second(in);
  if (!results) {
    return false;
  }
  for (std::size_t i = 0; i < results->size() && i < static_cast<std::size_t>(node.output_size()); ++i) {
    define(node.output(static_cast<int>(i)), (*results)[i]);
  }
  for (int i = static_cast<int>(results->size()); i < node.output_size(); ++i) {
    if (!node.output(i).empty()) {
      throw error{where, fmt::format("has an output {}", in_quotes(node.output(i))),
                  fmt::format("{} outputs", results->size())};
    }
  }
  return true;
}

UNITY_INLINE void graph_importer::define(const std::string& name, value_id value) {
  if (!name.empty()) {
    onnx_value v;
    v.value = value;
    v.name = name;
    values_.insert_or_assign(name, std::move(v));
  }
}

UNITY_INLINE void graph_importer::add_opaque(const onnx::NodeProto& node, std::span<onnx_value* const> inputs,
                                             const std::string& where) {
  const auto results = opaque_.add(node, inputs, values_, where);
  std::size_t next = 0;
  for (const auto& out : node.output()) {
    if (!out.empty()) {
      define(out, results[next++]);
    }
  }
}

UNITY_INLINE bool graph_importer::all_floating(std::span<onnx_value* const> inputs) const {
  return std::all_of(inputs.begin(), inputs.end(), [&](const onnx_value* v) {
    return v == nullptr || !v->value.valid() || tensor::is_floating(maker_.type(v->value).element);
  });
}

}  // namespace unity::io::detail

#endif
