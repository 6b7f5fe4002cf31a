// How families of operators declare what they import and export, and one node as their functions see it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <onnx/onnx_pb.h>

#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/io/onnx/graph_maker.hpp>
#include <unity/io/onnx/graph_writer.hpp>
#include <unity/io/tensor_data.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::io::detail {

// Reads the attributes of an ONNX node. A view: must not outlive the node.
// Throws: every member throws unity::error if the attribute has another type.
class node_attributes {
 public:
  // `where`: for messages.
  node_attributes(const onnx::NodeProto& node, std::string where) : node_{&node}, where_{std::move(where)} {}

  [[nodiscard]] const onnx::AttributeProto* find(std::string_view name) const;
  [[nodiscard]] std::int64_t integer(std::string_view name, std::int64_t otherwise) const {
    const auto* a = typed(name, onnx::AttributeProto::INT);
    return a == nullptr ? otherwise : a->i();
  }
  [[nodiscard]] double real(std::string_view name, double otherwise) const {
    const auto* a = typed(name, onnx::AttributeProto::FLOAT);
    return a == nullptr ? otherwise : static_cast<double>(a->f());
  }
  [[nodiscard]] std::string word(std::string_view name, std::string_view otherwise) const {
    const auto* a = typed(name, onnx::AttributeProto::STRING);
    return a == nullptr ? std::string{otherwise} : a->s();
  }
  [[nodiscard]] std::optional<std::vector<std::int64_t>> integers(std::string_view name) const {
    const auto* a = typed(name, onnx::AttributeProto::INTS);
    return a == nullptr ? std::nullopt : std::optional{std::vector<std::int64_t>(a->ints().begin(), a->ints().end())};
  }
  [[nodiscard]] std::vector<std::int64_t> integers(std::string_view name, std::vector<std::int64_t> otherwise) const {
    return integers(name).value_or(std::move(otherwise));
  }
  // A tensor attribute of any size.
  [[nodiscard]] std::optional<tensor_data> data(std::string_view name) const;
  // A tensor attribute if it is small.
  [[nodiscard]] std::optional<known_tensor> known(std::string_view name) const {
    const auto all = data(name);
    return all ? known_from(*all) : std::nullopt;
  }

 private:
  [[nodiscard]] const onnx::AttributeProto* typed(std::string_view name,
                                                  onnx::AttributeProto::AttributeType type) const;

  const onnx::NodeProto* node_;
  std::string where_;
};

// The target element type of Cast, if it has a counterpart: before opset 6, stated by its name.
[[nodiscard]] std::optional<tensor::dtype> cast_target(const node_attributes& attributes, std::int64_t opset);

// One ONNX node, as seen by the import functions of operator families.

class import_node {
 public:
  import_node(const onnx::NodeProto& node, std::int64_t opset, graph_maker& maker, std::span<onnx_value* const> inputs,
              std::string where)
      : attributes{node, where},
        node_{&node},
        opset_{opset},
        maker_{&maker},
        inputs_{inputs},
        where_{std::move(where)} {}

  const node_attributes attributes;

  [[nodiscard]] std::string_view type() const { return node_->op_type(); }
  [[nodiscard]] std::int64_t opset() const noexcept { return opset_; }
  [[nodiscard]] std::size_t input_count() const noexcept { return inputs_.size(); }
  [[nodiscard]] bool has(std::size_t i) const { return i < inputs_.size() && inputs_[i] != nullptr; }
  // Whether the node's i-th result has a name, so that something may read it.
  [[nodiscard]] bool wants(int i) const { return i < node_->output_size() && !node_->output(i).empty(); }
  [[nodiscard]] int output_count() const { return node_->output_size(); }

  [[nodiscard]] value_id input(std::size_t i) const;
  // By value: emit may move the types of the graph.
  [[nodiscard]] tensor::tensor_type type(std::size_t i) const { return maker_->type(input(i)); }
  [[nodiscard]] tensor::tensor_type type_of(value_id v) const { return maker_->type(v); }
  [[nodiscard]] std::size_t rank(std::size_t i) const { return type(i).rank(); }
  // The inputs to join along an axis, except constants without elements, such as a cache before the first token.
  // Throws: unity::error if such a constant does not fit the others.
  [[nodiscard]] std::vector<value_id> inputs_with_elements(std::int64_t axis) const;
  // The elements of a constant input if they are few, else null.
  [[nodiscard]] const known_tensor* known(std::size_t i) const { return has(i) ? inputs_[i]->known.get() : nullptr; }
  [[nodiscard]] std::optional<std::vector<std::int64_t>> known_integers(std::size_t i) const {
    const auto* k = known(i);
    return k != nullptr && !k->is_real() ? std::optional{k->integers} : std::nullopt;
  }
  [[nodiscard]] std::optional<double> known_real(std::size_t i) const {
    const auto* k = known(i);
    return k != nullptr && k->size() == 1 && !inputs_[i]->varies ? std::optional{k->real(0)} : std::nullopt;
  }
  // A list that is an attribute, or input `place` from opset `since` on. `found` is false if it is an input that is not
  // known; then the operator depends on run-time values.
  struct list_or_input {
    bool found = true;
    std::optional<std::vector<std::int64_t>> values{};
  };
  [[nodiscard]] list_or_input list(std::string_view name, std::size_t place, std::int64_t since) const;
  // The axis counted from the front.
  // Throws: unity::error if it is out of range.
  [[nodiscard]] std::int64_t axis(std::int64_t axis, std::size_t rank) const;
  [[nodiscard]] tensor::shape axes(std::span<const std::int64_t> axes, std::size_t rank) const;

  value_id emit(std::string_view name, std::initializer_list<value_id> operands,
                std::initializer_list<tensor::named_attribute> attributes_ = {}) {
    return emit_all(name, {operands.begin(), operands.size()}, attributes_).front();
  }
  std::vector<value_id> emit_all(std::string_view name, std::span<const value_id> operands,
                                 std::initializer_list<tensor::named_attribute> attributes_ = {}) {
    return maker_->emit(name, operands, {attributes_.begin(), attributes_.size()});
  }
  std::vector<value_id> emit_all(std::string_view name, std::span<const value_id> operands,
                                 std::span<const tensor::named_attribute> attributes_) {
    return maker_->emit(name, operands, attributes_);
  }
  value_id emit(std::string_view name, std::span<const value_id> operands,
                std::span<const tensor::named_attribute> attributes_) {
    return maker_->emit(name, operands, attributes_).front();
  }
  value_id reshape(value_id v, const tensor::shape& dims) {
    return type_of(v).dims == dims ? v : emit("reshape", {v}, {{"dims", dims}});
  }
  // A scalar with the element type of `like`.
  value_id scalar(double value, value_id like) { return maker_->fill(value, type_of(like).element); }
  value_id fill(double value, tensor::dtype element, const tensor::shape& dims) {
    return maker_->fill(value, element, dims);
  }

  [[nodiscard]] const std::string& where() const noexcept { return where_; }
  [[noreturn]] void refuse(std::string_view found, std::string_view expected) const {
    throw error{where_, found, expected};
  }

 private:
  const onnx::NodeProto* node_;
  std::int64_t opset_;
  graph_maker* maker_;
  std::span<onnx_value* const> inputs_;
  std::string where_;
};

// The values that replace the node's results; empty if this library cannot express the node, which then becomes opaque.
// Throws: not_accepted if an operator does not accept its operands.
using import_result = std::optional<std::vector<value_id>>;
using import_row = import_result (*)(import_node&);

inline import_result one(value_id v) { return std::vector{v}; }

// One node of a tensor graph, as seen by the export functions of operator families.

class export_node {
 public:
  // `names`: of all values of the graph.
  export_node(const tensor::algebra& algebra, const tensor::tensor_graph& graph, node_id node,
              const std::vector<std::string>& names, graph_writer& writer)
      : attributes{algebra.read(graph.operation(node))},
        out{writer},
        algebra_{&algebra},
        graph_{&graph},
        node_{node},
        names_{&names} {}

  const tensor::attribute_reader attributes;
  graph_writer& out;

  [[nodiscard]] const std::string& kind() const { return algebra_->signature(graph_->operation(node_).kind).name; }
  [[nodiscard]] std::size_t input_count() const { return graph_->operands(node_).size(); }
  [[nodiscard]] const std::string& input(std::size_t i) const { return (*names_)[graph_->operands(node_)[i].index()]; }
  [[nodiscard]] const tensor::tensor_type& type(std::size_t i) const {
    return graph_->type(graph_->operands(node_)[i]);
  }
  [[nodiscard]] const std::string& result(std::size_t i = 0) const {
    return (*names_)[graph_->results(node_)[i].index()];
  }
  [[nodiscard]] const tensor::tensor_type& result_type(std::size_t i = 0) const {
    return graph_->type(graph_->results(node_)[i]);
  }
  [[nodiscard]] std::vector<std::string> inputs() const;
  [[nodiscard]] std::vector<std::string> results() const;

  [[nodiscard]] std::vector<std::int64_t> integers(std::string_view name) const {
    const auto values = attributes.integers(name);
    return {values.begin(), values.end()};
  }
  // The name of the chosen alternative of an attribute.
  [[nodiscard]] std::string choice(std::string_view name) const;

  void emit(std::string_view type, std::span<const std::string> from, const std::string& to,
            std::initializer_list<onnx_attribute> with = {}) {
    const std::string outputs[] = {to};
    out.node(type, from, outputs, {with.begin(), with.size()});
  }
  void emit(std::string_view type, std::initializer_list<std::string> from, const std::string& to,
            std::initializer_list<onnx_attribute> with = {}) {
    emit(type, std::span{from.begin(), from.size()}, to, with);
  }
  // A list of integers that is an attribute, or the second input from opset `since` on.
  struct listed {
    std::string_view name;
    std::int64_t since;
    std::vector<std::int64_t> values;
  };
  void emit_with_list(std::string_view type, const std::string& from, const std::string& to, const listed& values,
                      std::vector<onnx_attribute> with = {});
  [[nodiscard]] std::int64_t opset() const noexcept { return out.opset(); }
  // A name for an intermediate value.
  [[nodiscard]] std::string step() { return out.fresh(fmt::format("{}_step", result())); }
  [[nodiscard]] std::string scalar(double value, tensor::dtype element) { return out.filled(value, element); }

  // Operators with a fused activation write to before_activation() and then call activate with it.
  [[nodiscard]] std::string before_activation() { return choice("activation") == "none" ? result() : step(); }
  void activate(const std::string& from);

  [[noreturn]] void refuse(std::string_view found, std::string_view expected) const {
    throw error{fmt::format("node {} ({})", node_.index(), kind()), found, expected};
  }

 private:
  const tensor::algebra* algebra_;
  const tensor::tensor_graph* graph_;
  node_id node_;
  const std::vector<std::string>* names_;
};

using export_row = void (*)(export_node&);

// x * (1 + erf(x / sqrt 2)) / 2, for which there is no operator before opset 20.
void emit_gelu(export_node& n, const std::string& x, const std::string& to, tensor::dtype element);

// How an operator of the tensor algebra is written in opsets from `first` to `last`; in other opsets its body is
// written.
struct export_form {
  std::string_view kind;
  export_row write;
  std::int64_t first = 1;
  std::int64_t last = std::numeric_limits<std::int64_t>::max();
};

// One row per ONNX operator that can be read, one per operator of the tensor algebra that can be written.
struct onnx_family {
  std::vector<std::pair<std::string_view, import_row>> imports;
  std::vector<export_form> exports;
};

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_FAMILY)

#include <algorithm>
#include <filesystem>

#include <unity/io/onnx/proto.hpp>
#include <unity/io/onnx/read_tensor.hpp>

namespace unity::io::detail {

UNITY_INLINE const onnx::AttributeProto* node_attributes::find(std::string_view name) const {
  for (const auto& a : node_->attribute()) {
    if (a.name() == name) {
      return &a;
    }
  }
  return nullptr;
}

UNITY_INLINE std::optional<tensor_data> node_attributes::data(std::string_view name) const {
  const auto* a = typed(name, onnx::AttributeProto::TENSOR);
  if (a == nullptr) {
    return std::nullopt;
  }
  if (a->t().data_location() == onnx::TensorProto::EXTERNAL) {
    throw error{where_, fmt::format("attribute {} keeps its data in another file", name),
                "its data in this file: only initializers may be external"};
  }
  auto copy = a->t();
  return tensor_reader{where_, {}}.read(copy, name);
}

UNITY_INLINE std::optional<tensor::dtype> cast_target(const node_attributes& attributes, std::int64_t opset) {
  auto type = onnx::TensorProto::UNDEFINED;
  if (opset >= 6) {
    return from_onnx_type(static_cast<std::int32_t>(attributes.integer("to", type)));
  }
  (void)onnx::TensorProto::DataType_Parse(attributes.word("to", ""), &type);
  return from_onnx_type(type);
}

UNITY_INLINE const onnx::AttributeProto* node_attributes::typed(std::string_view name,
                                                                onnx::AttributeProto::AttributeType type) const {
  const auto* a = find(name);
  // Files of the first IR versions omit the type.
  if (a != nullptr && a->type() != type && a->type() != onnx::AttributeProto::UNDEFINED) {
    throw error{where_, fmt::format("attribute {} is of another type", name),
                onnx::AttributeProto::AttributeType_Name(type)};
  }
  return a;
}

UNITY_INLINE value_id import_node::input(std::size_t i) const {
  if (!has(i)) {
    refuse(fmt::format("has no input {}", i), "one");
  }
  return maker_->materialize(*inputs_[i]);
}

UNITY_INLINE auto import_node::list(std::string_view name, std::size_t place, std::int64_t since) const
    -> list_or_input {
  if (opset_ < since) {
    return {true, attributes.integers(name)};
  }
  return {!has(place) || known_integers(place).has_value(), known_integers(place)};
}

UNITY_INLINE std::vector<value_id> import_node::inputs_with_elements(std::int64_t axis) const {
  std::vector<value_id> all;
  std::vector<std::size_t> empty;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (has(i) && inputs_[i]->is_empty() && !inputs_[i]->varies) {
      empty.push_back(i);
    } else {
      all.push_back(input(i));
    }
  }
  for (const auto i : all.empty() ? std::vector<std::size_t>{} : empty) {
    auto expected = type_of(all.front());
    expected.dims[static_cast<std::size_t>(this->axis(axis, expected.rank()))] = 0;
    if (known(i)->element != expected.element || !std::ranges::equal(known(i)->dims, expected.dims)) {
      refuse(fmt::format("input {} without elements", i), tensor::to_string(expected));
    }
  }
  return all;
}

UNITY_INLINE std::int64_t import_node::axis(std::int64_t axis, std::size_t rank) const {
  const auto front = front_axis(axis, rank);
  if (!front) {
    refuse(fmt::format("has axis {}", axis), fmt::format("one within rank {}", rank));
  }
  return static_cast<std::int64_t>(*front);
}

UNITY_INLINE tensor::shape import_node::axes(std::span<const std::int64_t> axes, std::size_t rank) const {
  const auto front = front_axes(axes, rank);
  if (!front) {
    refuse("has axes that are repeated or out of range", fmt::format("axes within rank {}", rank));
  }
  return tensor::shape(std::span<const std::int64_t>{*front});
}

UNITY_INLINE std::vector<std::string> export_node::inputs() const {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < input_count(); ++i) {
    all.push_back(input(i));
  }
  return all;
}

UNITY_INLINE std::vector<std::string> export_node::results() const {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < graph_->results(node_).size(); ++i) {
    all.push_back(result(i));
  }
  return all;
}

UNITY_INLINE void export_node::emit_with_list(std::string_view type, const std::string& from, const std::string& to,
                                              const listed& values, std::vector<onnx_attribute> with) {
  std::vector<std::string> inputs{from};
  if (opset() < values.since) {
    with.push_back({std::string{values.name}, values.values});
  } else {
    inputs.push_back(out.integers(values.values));
  }
  const std::string outputs[] = {to};
  out.node(type, inputs, outputs, with);
}

UNITY_INLINE std::string export_node::choice(std::string_view name) const {
  for (const auto& a : algebra_->signature(graph_->operation(node_).kind).attributes) {
    if (a.name == name) {
      return a.choices.at(static_cast<std::size_t>(attributes.integer(name)));
    }
  }
  return {};
}

UNITY_INLINE void emit_gelu(export_node& n, const std::string& x, const std::string& to, tensor::dtype element) {
  if (n.opset() >= 20) {
    n.emit("Gelu", {x}, to);
    return;
  }
  const auto scaled = n.step();
  const auto error_function = n.step();
  const auto shifted = n.step();
  const auto product = n.step();
  n.emit("Div", {x, n.scalar(1.4142135623730951, element)}, scaled);
  n.emit("Erf", {scaled}, error_function);
  n.emit("Add", {error_function, n.scalar(1, element)}, shifted);
  n.emit("Mul", {x, shifted}, product);
  n.emit("Mul", {product, n.scalar(0.5, element)}, to);
}

UNITY_INLINE void export_node::activate(const std::string& from) {
  const auto activation = choice("activation");
  if (activation == "relu") {
    emit("Relu", {from}, result());
  } else if (activation == "sigmoid") {
    emit("Sigmoid", {from}, result());
  } else if (activation == "tanh") {
    emit("Tanh", {from}, result());
  } else if (activation == "gelu") {
    emit_gelu(*this, from, result(), result_type().element);
  } else if (activation != "none") {
    refuse(fmt::format("activation {}", activation), "one that ONNX has operators for");
  }
}

}  // namespace unity::io::detail

#endif
