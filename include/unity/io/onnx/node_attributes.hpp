// The attributes of an ONNX node, by name, with defaults.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <onnx/onnx_pb.h>

#include <unity/io/onnx/known.hpp>
#include <unity/io/tensor_data.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::io::detail {

// A view of a node.
// Throws: unity::error if an attribute has another type.
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

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_NODE_ATTRIBUTES)

#include <filesystem>

#include <fmt/core.h>

#include <unity/core/error.hpp>
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
    throw error{where_, fmt::format("attribute {} keeps its data in another file", name), "it here; initializers may"};
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

}  // namespace unity::io::detail

#endif
