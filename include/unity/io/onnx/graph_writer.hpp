// An ONNX graph under construction: nodes, small constants, names that do not collide.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include <onnx/onnx_pb.h>

#include <unity/core/small_vector.hpp>
#include <unity/io/tensor_data.hpp>
#include <unity/tensor/dtype.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::io::detail {

struct onnx_attribute {
  std::string name;
  std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>, tensor_data> value;
};

void fill_tensor(onnx::TensorProto& proto, tensor_data data, std::string_view name);

void fill_attribute(onnx::AttributeProto& proto, const onnx_attribute& a);

class graph_writer {
 public:
  explicit graph_writer(std::int64_t opset) : opset_{opset} {}

  // Of the default domain, in which nodes are stated.
  [[nodiscard]] std::int64_t opset() const noexcept { return opset_; }
  [[nodiscard]] onnx::GraphProto& proto() noexcept { return proto_; }

  // Takes a name if it is free.
  bool claim(const std::string& name) { return !name.empty() && names_.insert(name).second; }
  // Names within subgraphs are taken: an outer value of that name would be shadowed.
  void claim_inner(const onnx::NodeProto& node);
  void claim_all(const onnx::GraphProto& g);
  // A name that no value has, close to the one wished for.
  [[nodiscard]] std::string fresh(std::string_view wish);

  onnx::NodeProto& node(std::string_view type, std::span<const std::string> inputs,
                        std::span<const std::string> outputs, std::span<const onnx_attribute> attributes = {});

  // The name of a list of integers, such as an operator's axes; equal lists are written once.
  [[nodiscard]] std::string integers(std::span<const std::int64_t> values);
  // The name of one integer, such as an operator's axis, which is a tensor of rank 0.
  [[nodiscard]] std::string integer(std::int64_t value);
  // The name of a tensor all of whose elements are `value`. A node, not an initializer: initializers are weights.
  [[nodiscard]] std::string filled(double value, tensor::dtype element, const tensor::shape& dims = {});
  void write_filled(double value, tensor::dtype element, const tensor::shape& dims, const std::string& name);
  void initializer(const std::string& name, tensor_data data) {
    fill_tensor(*proto_.add_initializer(), std::move(data), name);
  }

 private:
  struct fill_key {
    double value;
    tensor::dtype element;
    std::vector<std::int64_t> dims;
  };
  struct by_bits {
    bool operator()(const fill_key& a, const fill_key& b) const noexcept;
  };

  std::int64_t opset_;
  onnx::GraphProto proto_;
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, std::size_t> tried_;  // so that the n-th name of a kind is not found in n steps
  std::map<std::vector<std::int64_t>, std::string> lists_;
  std::map<std::int64_t, std::string> integers_;
  std::map<fill_key, std::string, by_bits> fills_;
};

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_GRAPH_WRITER)

#include <bit>
#include <tuple>

#include <fmt/core.h>

#include <unity/io/onnx/proto.hpp>

namespace unity::io::detail {

UNITY_INLINE void fill_tensor(onnx::TensorProto& proto, tensor_data data, std::string_view name) {
  proto.set_name(std::string{name});
  proto.set_data_type(to_onnx_type(data.element));
  for (const auto d : data.dims) {
    proto.add_dims(d);
  }
  proto.set_raw_data(std::move(data.bytes));
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
    fill_attribute(*n.add_attribute(), a);
  }
  return n;
}

UNITY_INLINE std::string graph_writer::integers(std::span<const std::int64_t> values) {
  const std::vector<std::int64_t> key(values.begin(), values.end());
  const auto found = lists_.find(key);
  if (found != lists_.end()) {
    return found->second;
  }
  auto name = fresh("list");
  initializer(name, make_data(tensor::dtype::int64, {static_cast<std::int64_t>(key.size())}, key));
  return lists_.emplace(key, std::move(name)).first->second;
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
  if (tensor::element_count(dims) <= 16 || opset_ < first_with_constant_of_shape) {
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
