// Tells the numbers that a program states from the parameters that it learns: files have both as initializers.
#pragma once

#include <set>
#include <string>

#include <google/protobuf/message_lite.h>
#include <onnx/onnx_pb.h>

#include <unity/core/config.hpp>

namespace unity::io::detail {

// Names of floating-point initializers without dimensions that are numbers of the program, such as the 0.5 of a gelu.
// In files of torch.export, metadata says which are parameters. This library and PyTorch's older exporter write numbers
// as nodes, so their initializers are parameters. Simplifiers turn such nodes of PyTorch's files into initializers:
// their names are not those of parameters. In files of other programs, all are numbers.
// Complexity: linear in the model, without other initializers.
[[nodiscard]] std::set<std::string> literals(const onnx::ModelProto& model);

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_LITERALS)

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <string_view>

#include <unity/core/error.hpp>
#include <unity/io/onnx/proto.hpp>
#include <unity/io/wire.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::io::detail {

// Calls f with key and value of the metadata of a message. The packaged schema lacks the field.
template <class F>
void for_each_metadata(const google::protobuf::MessageLite& of, std::uint32_t field, const F& f) try {
  const auto message = of.SerializeAsString();
  wire_reader fields{message, "message"};
  for (wire_reader::field entry; fields.next(entry);) {
    if (entry.number != field) {
      continue;
    }
    std::string_view key;
    std::string_view value;
    wire_reader parts{entry.bytes, "metadata"};
    for (wire_reader::field part; parts.next(part);) {
      (part.number == 1 ? key : value) = part.bytes;
    }
    f(key, value);
  }
} catch (const error&) {
  return;  // another field of that number
}

inline constexpr std::uint32_t metadata_of_node = 9;
inline constexpr std::uint32_t metadata_of_value = 4;

UNITY_INLINE bool is_of_torch_export(const onnx::NodeProto& n) {
  bool is = false;
  for_each_metadata(n, metadata_of_node,
                    [&](std::string_view key, std::string_view) { is = is || key.starts_with("pkg.torch.onnx."); });
  return is;
}

UNITY_INLINE bool is_said_parameter(const onnx::ValueInfoProto& info) {
  bool is = false;
  for_each_metadata(info, metadata_of_value, [&](std::string_view key, std::string_view value) {
    is = is || (key == "pkg.torch.export.graph_signature.InputSpec.kind" && value == "PARAMETER");
  });
  return is;
}

// "encoder.layers.0.scale", unlike "/encoder/Constant_output_0", "onnx::Mul_12" and "12", or as torch.export names
// numbers: "val_3", "scalar_tensor_default".
UNITY_INLINE bool is_module_path(std::string_view name) {
  const auto number = name.substr(name.starts_with("val_") ? 4 : 0);
  return !number.empty() && std::isdigit(static_cast<unsigned char>(number.front())) == 0 &&
         name.find_first_of("/:") == std::string_view::npos && !name.starts_with("scalar_tensor_default");
}

UNITY_INLINE std::set<std::string> literals(const onnx::ModelProto& model) {
  std::set<std::string> all;
  for (const auto& t : model.graph().initializer()) {
    const auto element = from_onnx_type(t.data_type());
    if (t.dims_size() == 0 && element && tensor::is_floating(*element)) {
      all.insert(t.name());
    }
  }
  if (all.empty()) {
    return all;
  }
  const auto& nodes = model.graph().node();
  if (std::any_of(nodes.begin(), nodes.end(), is_of_torch_export)) {
    for (const auto& info : model.graph().value_info()) {
      if (all.contains(info.name()) && is_said_parameter(info)) {
        all.erase(info.name());
      }
    }
  } else if (model.producer_name() == "unity") {
    all.clear();
  } else if (model.producer_name() == "pytorch") {
    std::erase_if(all, is_module_path);
  }
  return all;
}

}  // namespace unity::io::detail

#endif
