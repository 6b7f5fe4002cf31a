// Single tensors in files: serialized TensorProtos, such as the input_0.pb and output_0.pb of ONNX's own tests.
#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include <unity/io/tensor_data.hpp>

namespace unity::io {

struct named_tensor {
  std::string name{};  // may be empty
  tensor_data data{};
};

// Throws: unity::error that names the file if it cannot be read, is not a TensorProto, or contains something that
// tensor_data cannot represent.
[[nodiscard]] named_tensor read_onnx_tensor(const std::filesystem::path& file);

// Effects: writes the whole file or nothing.
// Throws: unity::error if it cannot be written.
void write_onnx_tensor(const std::filesystem::path& file, const named_tensor& tensor);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_TENSOR)

#include <unity/core/error.hpp>
#include <unity/core/file.hpp>
#include <unity/io/onnx/proto.hpp>
#include <unity/io/onnx/read_tensor.hpp>

namespace unity::io {

UNITY_INLINE named_tensor read_onnx_tensor(const std::filesystem::path& file) {
  const auto text = read_file(file);
  onnx::TensorProto proto;
  if (!proto.ParseFromString(text) || !proto.has_data_type()) {
    throw error{file.string(), "no tensor", "a serialized TensorProto"};
  }
  auto name = proto.name();
  auto data = detail::tensor_reader{file.string(), file.parent_path()}.read(proto, name);
  return {std::move(name), std::move(data)};
}

UNITY_INLINE void write_onnx_tensor(const std::filesystem::path& file, const named_tensor& tensor) {
  onnx::TensorProto proto;
  proto.set_name(tensor.name);
  proto.set_data_type(detail::to_onnx_type(tensor.data.element));
  for (const auto d : tensor.data.dims) {
    proto.add_dims(d);
  }
  proto.set_raw_data(tensor.data.bytes.text());
  atomic_write(file, proto.SerializeAsString());
}

}  // namespace unity::io

#endif
