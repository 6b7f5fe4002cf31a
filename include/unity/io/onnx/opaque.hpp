// Operators that this library does not know: the types of their results, and their nodes in another opset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <onnx/checker.h>
#include <onnx/defs/schema.h>
#include <onnx/shape_inference/implementation.h>
#include <onnx/version_converter/convert.h>

#include <unity/io/onnx/known.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::io::detail {

// The type of a value if it is a tensor of known sizes. `dims`: sizes of named dimensions.
[[nodiscard]] std::optional<tensor::tensor_type> concrete_type(
    const onnx::TypeProto& type, const std::map<std::string, std::int64_t, std::less<>>& dims);

void fill_type(onnx::ValueInfoProto& info, std::string_view name, const tensor::tensor_type& type);

// What a node reads, with what is known about it.
struct typed_input {
  std::string name;
  tensor::tensor_type type;
  const known_tensor* known = nullptr;
};

// A model of one node, in which the package's inference and conversion see it with the sizes that it has here.
[[nodiscard]] onnx::ModelProto model_of(const onnx::NodeProto& node, std::span<const typed_input> inputs,
                                        const onnx::ModelProto& envelope, std::int64_t opset);

// Does the packaged checker accept a node of the default domain at an opset.
[[nodiscard]] bool is_valid_at(const onnx::NodeProto& node, std::int64_t opset);

// Operators that the checker of opset 17 accepts although a later opset gave them another meaning.
[[nodiscard]] bool changed_silently(const onnx::NodeProto& node);

[[nodiscard]] const typed_input* input_named(std::span<const typed_input> inputs, std::string_view name);

// Effects: removes an attribute if it says what the export opset takes for granted.
void drop_default(onnx::NodeProto& node, std::string_view name, std::int64_t integer, std::string_view word);

// Forms that changed by notation alone, stated as the export opset states them: axes of reductions as an attribute,
// Resize without what it can do since, Upsample as the Resize that it became.
[[nodiscard]] onnx::NodeProto restated(onnx::NodeProto node, std::span<const typed_input> inputs, std::int64_t opset);

// A node of the default domain as the export opset states it: unchanged where the operator has not changed since,
// converted by the packaged converter where it has. Nothing where that opset cannot express it.
[[nodiscard]] std::optional<onnx::NodeProto> node_at_export_opset(const onnx::NodeProto& node,
                                                                  std::span<const typed_input> inputs,
                                                                  const onnx::ModelProto& envelope, std::int64_t opset);

// The types of a node's results by name, as far as the packaged shape inference finds them. `problem`: what it
// complained about, if it did.
[[nodiscard]] std::map<std::string, tensor::tensor_type> infer_results(const onnx::NodeProto& node,
                                                                       std::span<const typed_input> inputs,
                                                                       const onnx::ModelProto& envelope,
                                                                       std::int64_t opset, std::string& problem);

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_OPAQUE)

#include <exception>
#include <unordered_map>
#include <vector>

#include <fmt/core.h>

#include <unity/core/printable.hpp>
#include <unity/io/onnx/graph_writer.hpp>
#include <unity/io/onnx/isolated.hpp>
#include <unity/io/onnx/proto.hpp>

namespace unity::io::detail {

UNITY_INLINE std::optional<tensor::tensor_type> concrete_type(
    const onnx::TypeProto& type, const std::map<std::string, std::int64_t, std::less<>>& dims) {
  if (!type.has_tensor_type() || !type.tensor_type().has_shape()) {
    return std::nullopt;
  }
  const auto element = from_onnx_type(type.tensor_type().elem_type());
  if (!element) {
    return std::nullopt;
  }
  tensor::tensor_type t;
  t.element = *element;
  for (const auto& d : type.tensor_type().shape().dim()) {
    const auto bound = dims.find(d.dim_param());
    if (d.has_dim_value()) {
      t.dims.push_back(d.dim_value());
    } else if (d.has_dim_param() && bound != dims.end()) {
      t.dims.push_back(bound->second);
    } else {
      return std::nullopt;
    }
  }
  return tensor::checked_element_count(t.dims) ? std::optional{t} : std::nullopt;
}

UNITY_INLINE void fill_type(onnx::ValueInfoProto& info, std::string_view name, const tensor::tensor_type& type) {
  info.set_name(std::string{name});
  auto& t = *info.mutable_type()->mutable_tensor_type();
  t.set_elem_type(to_onnx_type(type.element));
  t.mutable_shape();
  for (const auto d : type.dims) {
    t.mutable_shape()->add_dim()->set_dim_value(d);
  }
}

UNITY_INLINE onnx::ModelProto model_of(const onnx::NodeProto& node, std::span<const typed_input> inputs,
                                       const onnx::ModelProto& envelope, std::int64_t opset) {
  onnx::ModelProto m;
  m.set_ir_version(export_ir_version);
  for (const auto& import : envelope.opset_import()) {
    auto& copy = *m.add_opset_import();
    copy = import;
    if (is_default_domain(import.domain())) {
      copy.set_version(opset);
    }
  }
  *m.mutable_functions() = envelope.functions();
  auto& g = *m.mutable_graph();
  g.set_name("one");
  *g.add_node() = node;
  for (const auto& in : inputs) {
    if (in.known != nullptr) {
      fill_tensor(*g.add_initializer(), data_from(*in.known), in.name);
    } else {
      fill_type(*g.add_input(), in.name, in.type);
    }
  }
  return m;
}

UNITY_INLINE bool is_valid_at(const onnx::NodeProto& node, std::int64_t opset) {
  onnx::checker::CheckerContext context;
  context.set_ir_version(static_cast<int>(export_ir_version));
  context.set_opset_imports({{"", static_cast<int>(opset)}});
  onnx::checker::LexicalScopeContext names;
  for (const auto& in : node.input()) {
    names.add(in);
  }
  try {
    onnx::checker::check_node(node, context, names);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

UNITY_INLINE bool changed_silently(const onnx::NodeProto& node) {
  const auto reduces_to_extreme = [&] {
    for (const auto& a : node.attribute()) {
      if (a.name() == "reduction" && (a.s() == "max" || a.s() == "min")) {
        return true;
      }
    }
    return false;
  };
  return node.op_type() == "GridSample" ||
         ((node.op_type() == "ScatterND" || node.op_type() == "ScatterElements") && reduces_to_extreme());
}

UNITY_INLINE const typed_input* input_named(std::span<const typed_input> inputs, std::string_view name) {
  for (const auto& in : inputs) {
    if (in.name == name) {
      return &in;
    }
  }
  return nullptr;
}

UNITY_INLINE void drop_default(onnx::NodeProto& node, std::string_view name, std::int64_t integer,
                               std::string_view word) {
  auto& all = *node.mutable_attribute();
  for (auto a = all.begin(); a != all.end(); ++a) {
    if (a->name() == name && a->i() == integer && a->s() == word) {
      all.erase(a);
      return;
    }
  }
}

UNITY_INLINE onnx::NodeProto restated(onnx::NodeProto node, std::span<const typed_input> inputs, std::int64_t opset) {
  const auto& type = node.op_type();
  if (opset >= 18 && type.starts_with("Reduce") && node.input_size() == 2) {
    const auto* axes = input_named(inputs, node.input(1));
    if (axes != nullptr && axes->known != nullptr && axes->known->size() > 0) {
      fill_attribute(*node.add_attribute(), {"axes", axes->known->integers});
      node.mutable_input()->RemoveLast();
    }
  }
  if (opset >= 18 && type.starts_with("Reduce")) {
    drop_default(node, "noop_with_empty_axes", 0, "");
  }
  if (opset >= 18 && type == "Resize") {
    drop_default(node, "antialias", 0, "");
    drop_default(node, "keep_aspect_ratio_policy", 0, "stretch");
  }
  if (opset == 9 && type == "Upsample" && node.input_size() == 2) {
    const std::string inputs_now[] = {node.input(0), "", node.input(1)};
    node.set_op_type("Resize");
    node.clear_input();
    for (const auto& in : inputs_now) {
      node.add_input(in);
    }
    fill_attribute(*node.add_attribute(), {"coordinate_transformation_mode", std::string{"asymmetric"}});
    fill_attribute(*node.add_attribute(), {"nearest_mode", std::string{"floor"}});
  }
  return node;
}

UNITY_INLINE std::optional<onnx::NodeProto> node_at_export_opset(const onnx::NodeProto& node,
                                                                 std::span<const typed_input> inputs,
                                                                 const onnx::ModelProto& envelope, std::int64_t opset) {
  if (opset == export_opset || !is_default_domain(node.domain())) {
    return node;
  }
  const auto stated = restated(node, inputs, opset);
  if (opset > export_opset || stated.op_type() != node.op_type()) {
    return is_valid_at(stated, export_opset) && !changed_silently(stated) ? std::optional{stated} : std::nullopt;
  }
  const auto version = [&](std::int64_t at) {
    const auto* schema = onnx::OpSchemaRegistry::Schema(node.op_type(), static_cast<int>(at), "");
    return schema == nullptr || schema->deprecated() ? -1 : schema->since_version();
  };
  if (version(opset) == version(export_opset)) {
    return node;
  }
  const auto bytes = isolated([&] {
    auto m = model_of(node, inputs, envelope, opset);
    for (const auto& out : node.output()) {
      if (!out.empty()) {
        m.mutable_graph()->add_output()->set_name(out);
      }
    }
    onnx::shape_inference::InferShapes(m);
    const auto converted = onnx::version_conversion::ConvertVersion(m, static_cast<int>(export_opset));
    return converted.graph().node_size() == 1 ? converted.graph().node(0).SerializeAsString() : std::string{};
  });
  onnx::NodeProto converted;
  if (bytes && !bytes->empty() && converted.ParseFromString(*bytes)) {
    return converted;
  }
  return std::nullopt;
}

UNITY_INLINE std::map<std::string, tensor::tensor_type> infer_results(const onnx::NodeProto& node,
                                                                      std::span<const typed_input> inputs,
                                                                      const onnx::ModelProto& envelope,
                                                                      std::int64_t opset, std::string& problem) {
  // Forms that the package does not know would be inferred wrongly: they are restated, or left to what the file says.
  const auto known =
      opset > newest_checked_opset ? node_at_export_opset(node, inputs, envelope, opset) : std::optional{node};
  if (!known) {
    problem = fmt::format("it is newer than opset {}", newest_checked_opset);
    return {};
  }
  const auto bytes = isolated([&] {
    auto m = model_of(*known, inputs, envelope, std::min(opset, newest_checked_opset));
    try {
      onnx::shape_inference::InferShapes(m, onnx::OpSchemaRegistry::Instance(), {false, 1, true});
    } catch (const std::exception& e) {
      return fmt::format("!{}", printable(e.what(), 300));
    }
    onnx::GraphProto types;
    types.mutable_value_info()->Swap(m.mutable_graph()->mutable_value_info());
    return fmt::format(" {}", types.SerializeAsString());
  });
  std::map<std::string, tensor::tensor_type> types;
  onnx::GraphProto inferred;
  if (!bytes || bytes->empty() || bytes->front() == '!' || !inferred.ParseFromString(bytes->substr(1))) {
    problem = bytes && !bytes->empty() ? bytes->substr(1) : "the packaged shape inference fails on it";
    return types;
  }
  for (const auto& info : inferred.value_info()) {
    if (const auto t = concrete_type(info.type(), {})) {
      types.emplace(info.name(), *t);
    }
  }
  return types;
}

}  // namespace unity::io::detail

#endif
