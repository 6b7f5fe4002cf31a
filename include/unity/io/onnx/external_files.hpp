// Lists the files beside a model that hold its tensors.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include <onnx/onnx_pb.h>

namespace unity::io {

// Paths relative to the model's file.
[[nodiscard]] std::set<std::string> external_files(const onnx::ModelProto& model);

// For a serialized model.
// Throws: unity::error if the bytes are not a model.
[[nodiscard]] std::set<std::string> external_files(std::string_view model);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_EXTERNAL_FILES)

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>

namespace unity::io {

namespace detail {

UNITY_INLINE void add_external_files(const onnx::TensorProto& t, std::set<std::string>& to) {
  for (const auto& entry : t.external_data()) {
    if (t.data_location() == onnx::TensorProto::EXTERNAL && entry.key() == "location") {
      to.insert(entry.value());
    }
  }
}

UNITY_INLINE void add_external_files(const onnx::GraphProto& g, std::set<std::string>& to) {
  for (const auto& t : g.initializer()) {
    add_external_files(t, to);
  }
  for (const auto& node : g.node()) {
    for (const auto& a : node.attribute()) {
      add_external_files(a.t(), to);
      for (const auto& t : a.tensors()) {
        add_external_files(t, to);
      }
      add_external_files(a.g(), to);
      for (const auto& inner : a.graphs()) {
        add_external_files(inner, to);
      }
    }
  }
}

}  // namespace detail

UNITY_INLINE std::set<std::string> external_files(const onnx::ModelProto& model) {
  std::set<std::string> all;
  detail::add_external_files(model.graph(), all);
  return all;
}

UNITY_INLINE std::set<std::string> external_files(std::string_view model) {
  onnx::ModelProto proto;
  if (!proto.ParseFromArray(model.data(), static_cast<int>(model.size()))) {
    throw error{"model", "bytes that are none", "a serialized ModelProto"};
  }
  return external_files(proto);
}

}  // namespace unity::io

#endif
