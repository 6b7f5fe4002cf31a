// The packaged ONNX schema, conversions that its readers and writers share, and streams for protobuf's parser.
#pragma once

#include <fcntl.h>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include <fmt/core.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <onnx/onnx_pb.h>

#include <unity/core/file.hpp>
#include <unity/core/printable.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::io::detail {

[[nodiscard]] inline google::protobuf::io::ArrayInputStream in_memory(std::string_view bytes) {
  constexpr auto most = static_cast<std::size_t>(std::numeric_limits<int>::max());  // parse() reports longer texts
  return {bytes.data(), static_cast<int>(std::min(bytes.size(), most))};
}

// The result of f(stream, size) on a file; the file is read in pieces, except for pipes.
template <class F>
auto with_stream(const std::filesystem::path& path, const F& f) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) {
    const auto bytes = read_file(path);
    auto stream = in_memory(bytes);
    return f(stream, bytes.size());
  }
  static_cast<void>(read_file(path, 0, 0));  // reports why it cannot be read
  const unity::file_descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  google::protobuf::io::FileInputStream stream{file.get()};
  return f(stream, std::filesystem::file_size(path));
}

inline constexpr std::int64_t oldest_opset = 1;
inline constexpr std::int64_t newest_opset = 28;  // later opsets may change the meaning of operators
// The opset that the packaged checker and inference know; also used to write models that came from no file.
inline constexpr std::int64_t packaged_opset = 17;
inline constexpr std::int64_t packaged_ir_version = 8;

// The metadata under which an exported file lists the inputs that are weights without data.
inline constexpr std::string_view weights_key = "unity.weights";

[[nodiscard]] std::optional<tensor::dtype> from_onnx_type(std::int32_t type);

[[nodiscard]] onnx::TensorProto::DataType to_onnx_type(tensor::dtype element);

[[nodiscard]] std::string onnx_type_name(std::int32_t type);

[[nodiscard]] inline bool is_default_domain(std::string_view domain) { return domain.empty() || domain == "ai.onnx"; }

// "LSTM", "com.example.Fancy".
[[nodiscard]] inline std::string operator_name(const onnx::NodeProto& node) {
  return is_default_domain(node.domain()) ? node.op_type() : fmt::format("{}.{}", node.domain(), node.op_type());
}

// The first of its outputs that has a name: no other node of the graph has it. Empty if none has.
[[nodiscard]] inline std::string first_output(const onnx::NodeProto& node) {
  const auto named =
      std::find_if(node.output().begin(), node.output().end(), [](const std::string& name) { return !name.empty(); });
  return named == node.output().end() ? std::string{} : *named;
}

// Without constants, which engines treat as initializers.
[[nodiscard]] inline std::size_t node_count(const onnx::GraphProto& g) {
  return static_cast<std::size_t>(std::count_if(g.node().begin(), g.node().end(), [](const onnx::NodeProto& n) {
    return n.op_type() != "Constant" || !is_default_domain(n.domain());
  }));
}

[[nodiscard]] inline std::string in_quotes(std::string_view name) { return fmt::format("'{}'", printable(name, 120)); }

// Such as node 'encoder/add' (Add), or node 17 (Add) if it has no name.
[[nodiscard]] inline std::string node_place(const onnx::NodeProto& node, std::size_t index) {
  const auto label = !node.name().empty() ? in_quotes(node.name()) : fmt::format("{}", index);
  return fmt::format("node {} ({})", label, printable(operator_name(node), 80));
}

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_PROTO)

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>

namespace unity::io::detail {

UNITY_INLINE std::optional<tensor::dtype> from_onnx_type(std::int32_t type) {
  switch (type) {
    case onnx::TensorProto::FLOAT: return tensor::dtype::float32;
    case onnx::TensorProto::DOUBLE: return tensor::dtype::float64;
    case onnx::TensorProto::FLOAT16: return tensor::dtype::float16;
    case onnx::TensorProto::BFLOAT16: return tensor::dtype::bfloat16;
    case onnx::TensorProto::INT64: return tensor::dtype::int64;
    case onnx::TensorProto::INT32: return tensor::dtype::int32;
    case onnx::TensorProto::INT8: return tensor::dtype::int8;
    case onnx::TensorProto::UINT8: return tensor::dtype::uint8;
    case onnx::TensorProto::BOOL: return tensor::dtype::boolean;
    default: return std::nullopt;
  }
}

UNITY_INLINE onnx::TensorProto::DataType to_onnx_type(tensor::dtype element) {
  switch (element) {
    case tensor::dtype::float32: return onnx::TensorProto::FLOAT;
    case tensor::dtype::float64: return onnx::TensorProto::DOUBLE;
    case tensor::dtype::float16: return onnx::TensorProto::FLOAT16;
    case tensor::dtype::bfloat16: return onnx::TensorProto::BFLOAT16;
    case tensor::dtype::int64: return onnx::TensorProto::INT64;
    case tensor::dtype::int32: return onnx::TensorProto::INT32;
    case tensor::dtype::int8: return onnx::TensorProto::INT8;
    case tensor::dtype::uint8: return onnx::TensorProto::UINT8;
    case tensor::dtype::boolean: break;
  }
  return onnx::TensorProto::BOOL;
}

UNITY_INLINE std::string onnx_type_name(std::int32_t type) {
  return onnx::TensorProto::DataType_IsValid(type)
             ? onnx::TensorProto::DataType_Name(static_cast<onnx::TensorProto::DataType>(type))
             : fmt::format("number {}", type);
}

}  // namespace unity::io::detail

#endif
