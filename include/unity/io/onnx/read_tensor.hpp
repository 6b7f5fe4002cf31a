// Reads the tensors of an ONNX file from typed fields, raw bytes or external files.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <onnx/onnx_pb.h>

#include <unity/core/error.hpp>
#include <unity/io/tensor_data.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::io {

// Paths relative to the model's file.
[[nodiscard]] std::set<std::string> external_files(const onnx::ModelProto& model);

// For a serialized model.
// Throws: unity::error if the bytes are not a model.
[[nodiscard]] std::set<std::string> external_files(std::string_view model);

}  // namespace unity::io

namespace unity::io::detail {

// A valid construct that has no counterpart here, such as a string, NaN or a result of unknown size.
struct no_counterpart : error {
  using error::error;
};

// Reads the TensorProtos of one file. Errors name the file and the tensor.
class tensor_reader {
 public:
  tensor_reader(std::string file, std::filesystem::path directory)
      : file_{std::move(file)}, directory_{std::move(directory)} {}

  // Effects: may move raw bytes out of `proto`.
  // Throws: no_counterpart for other element types and NaN, which leaves `proto` unchanged; unity::error for sizes that
  // do not match the data, and external files that are missing or too short.
  [[nodiscard]] tensor_data read(onnx::TensorProto& proto, std::string_view name) const;
  // Effects: brings external data of initializers of the graph's inner graphs into them. Element types without
  // counterpart stay as they are.
  // Throws: as read.
  void load_inner(onnx::GraphProto& g) const;

 private:
  void load(onnx::GraphProto& g) const;
  static std::string known_types();
  static std::uint64_t element_count(const onnx::TensorProto& proto, const std::string& where);

  template <class Stored, class Field>
  static void append(const Field& field, std::string& bytes) {
    bytes.resize(static_cast<std::size_t>(field.size()) * sizeof(Stored));
    auto* to = bytes.data();
    for (const auto value : field) {
      const auto stored = static_cast<Stored>(value);
      std::memcpy(to, &stored, sizeof stored);
      to += sizeof stored;
    }
  }
  // Narrow types are stored in the field of 32-bit integers, narrow floats as their bits.
  static void typed(const onnx::TensorProto& proto, tensor::dtype element, std::string& bytes);

  [[nodiscard]] std::string external(const onnx::TensorProto& proto, std::uint64_t size,
                                     const std::string& where) const;
  // File names must not contain zero bytes, and messages must be one line.
  static bool is_name(const std::string& text) {
    return !text.empty() && std::ranges::none_of(text, [](unsigned char c) { return c < ' ' || c == 127; });
  }
  static bool leaves(const std::filesystem::path& relative);
  static std::uint64_t number(const std::string& text, const std::string& where);

  std::string file_;
  std::filesystem::path directory_;
};

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_READ_TENSOR)

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/file.hpp>
#include <unity/core/printable.hpp>
#include <unity/io/onnx/proto.hpp>

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

namespace unity::io::detail {

UNITY_INLINE tensor_data tensor_reader::read(onnx::TensorProto& proto, std::string_view name) const {
  const auto where = fmt::format("{}: tensor {}", file_, in_quotes(name));
  const auto element = from_onnx_type(proto.data_type());
  if (!element) {
    throw no_counterpart{where, fmt::format("has element type {}", onnx_type_name(proto.data_type())),
                         fmt::format("one of {}", known_types())};
  }
  tensor_data data{*element, {}, {}};
  const auto count = element_count(proto, where);
  for (const auto d : proto.dims()) {
    data.dims.push_back(d);
  }
  const auto size = count * static_cast<std::uint64_t>(tensor::size_of(*element));
  std::string bytes;
  if (proto.data_location() == onnx::TensorProto::EXTERNAL) {
    bytes = external(proto, size, where);
  } else if (proto.has_raw_data()) {
    bytes = std::move(*proto.mutable_raw_data());
  } else {
    typed(proto, *element, bytes);
  }
  if (bytes.size() != size) {
    throw error{where, fmt::format("holds {} bytes", bytes.size()),
                fmt::format("{} for {} elements of {}", size, count, tensor::name_of(*element))};
  }
  data.bytes = std::move(bytes);
  if (const auto bad = find_nan(data)) {
    if (proto.has_raw_data()) {
      proto.set_raw_data(data.bytes.text());
    }
    throw no_counterpart{where, fmt::format("element {} is NaN", *bad), "numbers"};
  }
  return data;
}

UNITY_INLINE std::string tensor_reader::known_types() {
  std::string all;
  for (const auto name : tensor::dtype_names) {
    all += fmt::format("{}{}", all.empty() ? "" : ", ", name);
  }
  return all;
}

UNITY_INLINE std::uint64_t tensor_reader::element_count(const onnx::TensorProto& proto, const std::string& where) {
  std::int64_t count = 1;
  bool empty = false;
  for (const auto d : proto.dims()) {
    empty = empty || d == 0;
    if (d < 0 || (d > 0 && count > tensor::max_elements / d)) {
      throw error{where, fmt::format("has a dimension of {}", d), "sizes that can be counted"};
    }
    count *= d == 0 ? 1 : d;
  }
  if (proto.dims_size() > static_cast<int>(tensor::max_rank)) {
    throw error{where, fmt::format("has {} dimensions", proto.dims_size()),
                fmt::format("at most {}", tensor::max_rank)};
  }
  return empty ? 0 : static_cast<std::uint64_t>(count);
}

UNITY_INLINE void tensor_reader::typed(const onnx::TensorProto& proto, tensor::dtype element, std::string& bytes) {
  switch (element) {
    case tensor::dtype::float32: return append<float>(proto.float_data(), bytes);
    case tensor::dtype::float64: return append<double>(proto.double_data(), bytes);
    case tensor::dtype::int64: return append<std::int64_t>(proto.int64_data(), bytes);
    case tensor::dtype::int32: return append<std::int32_t>(proto.int32_data(), bytes);
    case tensor::dtype::float16:
    case tensor::dtype::bfloat16: return append<std::uint16_t>(proto.int32_data(), bytes);
    case tensor::dtype::int8: return append<std::int8_t>(proto.int32_data(), bytes);
    case tensor::dtype::uint8:
    case tensor::dtype::boolean: return append<std::uint8_t>(proto.int32_data(), bytes);
  }
}

UNITY_INLINE void tensor_reader::load_inner(onnx::GraphProto& g) const {
  for (auto& node : *g.mutable_node()) {
    for (auto& a : *node.mutable_attribute()) {
      if (a.has_g()) {
        load(*a.mutable_g());
      }
      for (auto& inner : *a.mutable_graphs()) {
        load(inner);
      }
    }
  }
}

UNITY_INLINE void tensor_reader::load(onnx::GraphProto& g) const {
  for (auto& t : *g.mutable_initializer()) {
    if (t.data_location() == onnx::TensorProto::EXTERNAL && from_onnx_type(t.data_type())) {
      t.set_raw_data(read(t, t.name()).bytes.text());
      t.clear_external_data();
      t.clear_data_location();
    }
  }
  load_inner(g);
}

UNITY_INLINE std::string tensor_reader::external(const onnx::TensorProto& proto, std::uint64_t size,
                                                 const std::string& where) const {
  std::string location;
  std::uint64_t offset = 0;
  std::uint64_t length = size;
  for (const auto& entry : proto.external_data()) {
    if (entry.key() == "location") {
      location = entry.value();
    } else if (entry.key() == "offset") {
      offset = number(entry.value(), where);
    } else if (entry.key() == "length") {
      length = number(entry.value(), where);
    }
  }
  if (length != size) {
    throw error{where, fmt::format("says that its external data has {} bytes", length), fmt::format("{}", size)};
  }
  const std::filesystem::path relative{location};
  if (!is_name(location) || relative.is_absolute() || leaves(relative)) {
    throw error{where, fmt::format("keeps its data in {}", in_quotes(location)),
                "a file in the model's folder or below"};
  }
  try {
    return read_file(directory_ / relative, offset, length);
  } catch (const error& e) {
    throw error{fmt::format("{}: external data: {}", where, e.what())};
  }
}

UNITY_INLINE bool tensor_reader::leaves(const std::filesystem::path& relative) {
  for (const auto& part : relative) {
    if (part == "..") {
      return true;
    }
  }
  return false;
}

UNITY_INLINE std::uint64_t tensor_reader::number(const std::string& text, const std::string& where) {
  const auto value = to_number<std::uint64_t>(text);
  if (!value) {
    throw error{where, fmt::format("external data has {}", in_quotes(text)), "a number of bytes"};
  }
  return *value;
}

}  // namespace unity::io::detail

#endif
