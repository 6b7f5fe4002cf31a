// An ONNX graph under construction: nodes, small constants, unique names.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include <onnx/onnx_pb.h>

#include <unity/core/small_vector.hpp>
#include <unity/io/onnx_model.hpp>
#include <unity/io/tensor_data.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::io::detail {

struct onnx_attribute {
  std::string name;
  std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>, tensor_data> value;
};

void fill_tensor(onnx::TensorProto& proto, const tensor_data& data, std::string_view name);

void fill_attribute(onnx::AttributeProto& proto, const onnx_attribute& a);

class graph_writer {
 public:
  // `open`: must outlive this object.
  graph_writer(std::int64_t opset, const open_sizes& open) : opset_{opset}, open_{&open} {}

  // Of the default domain, in which nodes are written.
  [[nodiscard]] std::int64_t opset() const noexcept { return opset_; }
  [[nodiscard]] onnx::GraphProto& proto() noexcept { return proto_; }

  // Reserves a name; false if it is taken.
  bool claim(const std::string& name) { return !name.empty() && names_.insert(name).second; }
  // Reserves names within subgraphs, because an outer value with the same name would be shadowed.
  void claim_inner(const onnx::NodeProto& node);
  void claim_all(const onnx::GraphProto& g);
  // An unused name, close to the desired one.
  [[nodiscard]] std::string fresh(std::string_view wish);

  onnx::NodeProto& node(std::string_view type, std::span<const std::string> inputs,
                        std::span<const std::string> outputs, std::span<const onnx_attribute> attributes = {});

  // Whether any of the numbers changes with open sizes.
  [[nodiscard]] bool is_open(std::span<const std::int64_t> values) const {
    return std::any_of(values.begin(), values.end(), [&](auto n) { return open_->is_open(n); });
  }
  // The name of a list of integers, such as an operator's axes; equal lists are written once. Open sizes in it are
  // computed from the shapes of inputs.
  // Throws: unity::error if one has no form.
  [[nodiscard]] std::string integers(std::span<const std::int64_t> values);
  // Writes such a list, or its first number as a scalar, under the given name.
  void write_integers(std::span<const std::int64_t> values, bool is_list, const std::string& name);
  // The name of one integer, such as an operator's axis, which is a tensor of rank 0.
  [[nodiscard]] std::string integer(std::int64_t value);
  // The name of a tensor whose elements are all `value`. A node, not an initializer: initializers are weights.
  [[nodiscard]] std::string filled(double value, tensor::dtype element, const tensor::shape& dims = {});
  void write_filled(double value, tensor::dtype element, const tensor::shape& dims, const std::string& name);
  void initializer(const std::string& name, const tensor_data& data) {
    fill_tensor(*proto_.add_initializer(), data, name);
  }

 private:
  struct fill_key {
    double value;
    tensor::dtype element;
    std::vector<std::int64_t> dims;
  };
  // A computed list, and its parts, which are lists of one number.
  [[nodiscard]] std::string computed(std::span<const std::int64_t> values);
  [[nodiscard]] std::string computed(std::int64_t number);
  [[nodiscard]] std::string size_of(const open_axis& axis);
  [[nodiscard]] std::string quotient_of(const size_quotient& q);
  [[nodiscard]] std::string combined(std::string_view type, const std::string& a, const std::string& b);
  // Throws: unity::error if an attribute, which cannot be computed, contains an open size.
  void expect_closed(std::string_view type, const onnx_attribute& a, std::span<const std::string> outputs) const;
  [[noreturn]] void refuse(const std::string& where, std::int64_t number) const;

  struct by_bits {
    bool operator()(const fill_key& a, const fill_key& b) const noexcept;
  };

  std::int64_t opset_;
  const open_sizes* open_;
  onnx::GraphProto proto_;
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, std::size_t> tried_;  // makes finding the n-th name of a kind fast
  std::map<std::vector<std::int64_t>, std::string> lists_;
  std::map<std::int64_t, std::string> integers_;
  std::map<fill_key, std::string, by_bits> fills_;
  std::map<std::string, std::string> shapes_;  // of inputs with open sizes
  std::map<std::tuple<std::string, std::string, std::string>, std::string> combined_;
};

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_GRAPH_WRITER)

#include <bit>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/printable.hpp>
#include <unity/io/onnx/proto.hpp>

namespace unity::io::detail {

UNITY_INLINE void fill_tensor(onnx::TensorProto& proto, const tensor_data& data, std::string_view name) {
  proto.set_name(std::string{name});
  proto.set_data_type(to_onnx_type(data.element));
  for (const auto d : data.dims) {
    proto.add_dims(d);
  }
  proto.set_raw_data(data.bytes.text());
}

UNITY_INLINE void fill_attribute(onnx::AttributeProto& proto, const onnx_attribute& a) {
  proto.set_name(a.name);
  if (const auto* integer = std::get_if<std::int64_t>(&a.value)) {
    proto.set_type(onnx::AttributeProto::INT);
    proto.set_i(*integer);
  } else if (const auto* real = std::get_if<double>(&a.value)) {
    proto.set_type(onnx::AttributeProto::FLOAT);
    proto.set_f(static_cast<float>(*real));
  } else if (const auto* word = std::get_if<std::string>(&a.value)) {
    proto.set_type(onnx::AttributeProto::STRING);
    proto.set_s(*word);
  } else if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&a.value)) {
    proto.set_type(onnx::AttributeProto::INTS);
    proto.mutable_ints()->Assign(integers->begin(), integers->end());
  } else {
    proto.set_type(onnx::AttributeProto::TENSOR);
    fill_tensor(*proto.mutable_t(), std::get<tensor_data>(a.value), "");
  }
}

UNITY_INLINE void graph_writer::claim_inner(const onnx::NodeProto& node) {
  for (const auto& a : node.attribute()) {
    if (a.has_g()) {
      claim_all(a.g());
    }
    for (const auto& g : a.graphs()) {
      claim_all(g);
    }
  }
}

UNITY_INLINE void graph_writer::claim_all(const onnx::GraphProto& g) {
  for (const auto& i : g.input()) {
    claim(i.name());
  }
  for (const auto& t : g.initializer()) {
    claim(t.name());
  }
  for (const auto& node : g.node()) {
    for (const auto& name : node.output()) {
      claim(name);
    }
    claim_inner(node);
  }
}

UNITY_INLINE std::string graph_writer::fresh(std::string_view wish) {
  std::string name{wish};
  while (!claim(name)) {
    name = fmt::format("{}_{}", wish, ++tried_[std::string{wish}]);
  }
  return name;
}

UNITY_INLINE onnx::NodeProto& graph_writer::node(std::string_view type, std::span<const std::string> inputs,
                                                 std::span<const std::string> outputs,
                                                 std::span<const onnx_attribute> attributes) {
  auto& n = *proto_.add_node();
  n.set_op_type(std::string{type});
  for (const auto& in : inputs) {
    n.add_input(in);
  }
  for (const auto& out : outputs) {
    n.add_output(out);
  }
  for (const auto& a : attributes) {
    expect_closed(type, a, outputs);
    fill_attribute(*n.add_attribute(), a);
  }
  return n;
}

UNITY_INLINE void graph_writer::expect_closed(std::string_view type, const onnx_attribute& a,
                                              std::span<const std::string> outputs) const {
  const auto* list = std::get_if<std::vector<std::int64_t>>(&a.value);
  for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
    if (open_->is_open((*list)[i])) {
      refuse(fmt::format("{} {}: {}", type, in_quotes(outputs.empty() ? "" : outputs[0]), a.name), (*list)[i]);
    }
  }
}

UNITY_INLINE void graph_writer::refuse(const std::string& where, std::int64_t number) const {
  std::string sizes;
  std::string flags;
  for (const auto& a : open_->axes) {
    sizes += fmt::format("{}{}={}", sizes.empty() ? "" : ", ", printable(a.name, 60), a.size);
    flags += fmt::format("{}--dim {}=SIZE", flags.empty() ? "" : " ", printable(a.name, 60));
  }
  throw error{where, fmt::format("holds {}, which changes with the open sizes ({})", number, sizes), flags};
}

UNITY_INLINE std::string graph_writer::integers(std::span<const std::int64_t> values) {
  const std::vector<std::int64_t> key(values.begin(), values.end());
  const auto found = lists_.find(key);
  if (found != lists_.end()) {
    return found->second;
  }
  if (is_open(values)) {
    return lists_.emplace(key, computed(values)).first->second;
  }
  auto name = fresh("list");
  initializer(name, make_data(tensor::dtype::int64, {static_cast<std::int64_t>(key.size())}, key));
  return lists_.emplace(key, std::move(name)).first->second;
}

UNITY_INLINE void graph_writer::write_integers(std::span<const std::int64_t> values, bool is_list,
                                               const std::string& name) {
  const std::string outputs[] = {name};
  if (is_list) {
    const std::string inputs[] = {integers(values)};
    const onnx_attribute attributes[] = {{"axis", std::int64_t{0}}};
    node("Concat", inputs, outputs, attributes);
  } else {
    const std::string inputs[] = {integers(values), filled(0, tensor::dtype::int64)};
    node("Gather", inputs, outputs);
  }
}

UNITY_INLINE std::string graph_writer::computed(std::span<const std::int64_t> values) {
  std::vector<std::string> parts;
  std::vector<std::int64_t> plain;
  const auto flush = [&] {
    if (!plain.empty()) {
      parts.push_back(integers(plain));
      plain.clear();
    }
  };
  for (const auto n : values) {
    if (open_->is_open(n)) {
      flush();
      parts.push_back(computed(n));
    } else {
      plain.push_back(n);
    }
  }
  flush();
  if (parts.size() == 1) {
    return parts[0];
  }
  const std::string outputs[] = {fresh("sizes")};
  const onnx_attribute attributes[] = {{"axis", std::int64_t{0}}};
  node("Concat", parts, outputs, attributes);
  return outputs[0];
}

UNITY_INLINE std::string graph_writer::computed(std::int64_t number) {
  const auto form = open_->form_of(number);
  constexpr std::int64_t first_with_integers = 7;  // for addition and multiplication
  if (!form || opset_ < first_with_integers) {
    refuse("a list of sizes", number);
  }
  std::string sum;
  for (const auto& t : form->terms) {
    std::string product;
    for (const auto a : t.axes) {
      const auto size = size_of(open_->axes[a]);
      product = product.empty() ? size : combined("Mul", product, size);
    }
    for (const auto& q : t.quotients) {
      const auto size = quotient_of(q);
      product = product.empty() ? size : combined("Mul", product, size);
    }
    if (t.factor != 1) {
      const std::int64_t factor[] = {t.factor};
      product = combined("Mul", product, integers(factor));
    }
    sum = sum.empty() ? product : combined("Add", sum, product);
  }
  if (form->added != 0) {
    const std::int64_t added[] = {form->added};
    sum = combined("Add", sum, integers(added));
  }
  return sum;
}

UNITY_INLINE std::string graph_writer::size_of(const open_axis& axis) {
  auto& shape = shapes_[axis.input];
  if (shape.empty()) {
    const std::string inputs[] = {axis.input};
    const std::string outputs[] = {fresh(fmt::format("{}_shape", axis.input))};
    node("Shape", inputs, outputs);
    shape = outputs[0];
  }
  const std::int64_t place[] = {axis.axis};
  return combined("Gather", shape, integers(place));
}

UNITY_INLINE std::string graph_writer::quotient_of(const size_quotient& q) {
  // Div rounds towards zero, so what is divided must not be negative.
  const std::int64_t before[] = {((q.added % q.divisor) + q.divisor) % q.divisor};
  const std::int64_t after[] = {(q.added - before[0]) / q.divisor};
  const std::int64_t divisor[] = {q.divisor};
  auto size = size_of(open_->axes[q.axis]);
  if (before[0] != 0) {
    size = combined("Add", size, integers(before));
  }
  size = combined("Div", size, integers(divisor));
  return after[0] == 0 ? size : combined("Add", size, integers(after));
}

UNITY_INLINE std::string graph_writer::combined(std::string_view type, const std::string& a, const std::string& b) {
  auto& name = combined_[{std::string{type}, a, b}];
  if (name.empty()) {
    const std::string inputs[] = {a, b};
    const std::string outputs[] = {fresh("size")};
    node(type, inputs, outputs);
    name = outputs[0];
  }
  return name;
}

UNITY_INLINE std::string graph_writer::integer(std::int64_t value) {
  const auto [found, is_new] = integers_.try_emplace(value);
  if (is_new) {
    found->second = fresh("axis");
    initializer(found->second, make_data(tensor::dtype::int64, {}, std::vector{value}));
  }
  return found->second;
}

UNITY_INLINE std::string graph_writer::filled(double value, tensor::dtype element, const tensor::shape& dims) {
  const fill_key key{value, element, {dims.begin(), dims.end()}};
  const auto found = fills_.find(key);
  if (found != fills_.end()) {
    return found->second;
  }
  auto name = fresh("fill");
  write_filled(value, element, dims, name);
  return fills_.emplace(key, std::move(name)).first->second;
}

UNITY_INLINE void graph_writer::write_filled(double value, tensor::dtype element, const tensor::shape& dims,
                                             const std::string& name) {
  const std::string outputs[] = {name};
  constexpr std::int64_t first_with_constant_of_shape = 9;
  if (opset_ < first_with_constant_of_shape && is_open(dims)) {
    refuse(fmt::format("the constant {}", in_quotes(name)), *std::max_element(dims.begin(), dims.end()));
  }
  if ((tensor::element_count(dims) <= 16 && !is_open(dims)) || opset_ < first_with_constant_of_shape) {
    const std::vector<double> all(static_cast<std::size_t>(tensor::element_count(dims)), value);
    const onnx_attribute attributes[] = {{"value", make_data(element, dims, all)}};
    node("Constant", {}, outputs, attributes);
  } else {
    const std::string inputs[] = {integers(dims)};
    const onnx_attribute attributes[] = {{"value", make_data(element, {1}, std::vector<double>{value})}};
    node("ConstantOfShape", inputs, outputs, attributes);
  }
}

UNITY_INLINE bool graph_writer::by_bits::operator()(const fill_key& a, const fill_key& b) const noexcept {
  const auto left = std::bit_cast<std::uint64_t>(a.value);
  const auto right = std::bit_cast<std::uint64_t>(b.value);
  return std::tie(left, a.element, a.dims) < std::tie(right, b.element, b.dims);
}

}  // namespace unity::io::detail

#endif
