// Infers the result types of operators that this library does not know.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <onnx/defs/schema.h>
#include <onnx/onnx_pb.h>
#include <onnx/shape_inference/implementation.h>

#include <unity/core/file.hpp>
#include <unity/io/onnx/graph_maker.hpp>
#include <unity/io/onnx_model.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::io::detail {

// Marks the end of a complete result.
inline constexpr char end_mark = '.';

// The child process: runs `work` and exits in any case.
template <class Work>
[[noreturn]] void run_and_exit(int out, Work& work) noexcept {
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
    ::signal(number, SIG_DFL);  // handlers of the parent would report its end
  }
  try {
    const std::string result = work() + end_mark;
    std::string_view rest_of_it = result;
    while (!rest_of_it.empty()) {
      const auto put = ::write(out, rest_of_it.data(), rest_of_it.size());
      if (put <= 0) {
        break;
      }
      rest_of_it.remove_prefix(static_cast<std::size_t>(put));
    }
  } catch (...) {
    // A result without its end mark is discarded.
  }
  ::_exit(0);
}

// Reads until the other end closes; empty if that takes too long.
[[nodiscard]] std::optional<std::string> read_all(int in, std::chrono::milliseconds limit);

// The result of work(), a std::string; empty if it throws, crashes or takes longer than `limit`. Needed because the
// packaged shape inference reads out of bounds on models that it should reject. Effects: work() runs in a copy of this
// process, without its other threads, and changes nothing here.
template <class Work>
[[nodiscard]] std::optional<std::string> isolated(Work work,
                                                  std::chrono::milliseconds limit = std::chrono::seconds{10}) {
  int ends[2];
  if (::pipe(ends) != 0) {
    return std::nullopt;
  }
  unity::file_descriptor in{ends[0]};
  unity::file_descriptor out{ends[1]};
  const auto child = ::fork();
  if (child < 0) {
    return std::nullopt;
  }
  if (child == 0) {
    run_and_exit(out.get(), work);
  }
  (void)out.close();
  auto result = read_all(in.get(), limit);
  if (!result) {
    ::kill(child, SIGKILL);
  }
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (!result || !result->ends_with(end_mark)) {
    return std::nullopt;
  }
  result->pop_back();
  return result;
}

// The type of a value if it is a tensor of known sizes. `dims`: sizes of named dimensions.
[[nodiscard]] std::optional<tensor::tensor_type> concrete_type(
    const onnx::TypeProto& type, const std::map<std::string, std::int64_t, std::less<>>& dims);

void fill_type(onnx::ValueInfoProto& info, std::string_view name, const tensor::tensor_type& type);
// Effects: dimensions that change with open sizes lose their size, and get the name of the open axis that they equal,
// if any.
void leave_open(onnx::ValueInfoProto& info, const open_sizes& open);

// An input of a node, with what is known about it.
struct typed_input {
  std::string name;
  tensor::tensor_type type;
  const known_tensor* known = nullptr;
};

// A model of one node, for the packaged inference, with the actual sizes.
[[nodiscard]] onnx::ModelProto model_of(const onnx::NodeProto& node, std::span<const typed_input> inputs,
                                        const onnx::ModelProto& envelope, std::int64_t opset);

[[nodiscard]] const typed_input* input_named(std::span<const typed_input> inputs, std::string_view name);

// Rewrites a reduction of opset 18 or later in the form of opset 17 if its axes are known: they are an attribute there.
[[nodiscard]] onnx::NodeProto restated(onnx::NodeProto node, std::span<const typed_input> inputs);

// The type of the only result of operators whose form the packaged inference does not know, if it is obvious from the
// inputs.
[[nodiscard]] std::optional<tensor::tensor_type> plain_result(const onnx::NodeProto& node,
                                                              std::span<const typed_input> inputs);

// The types of a node's results by name, as far as the packaged shape inference finds them. `problem`: its complaint,
// if any.
[[nodiscard]] std::map<std::string, tensor::tensor_type> infer_results(const onnx::NodeProto& node,
                                                                       std::span<const typed_input> inputs,
                                                                       const onnx::ModelProto& envelope,
                                                                       std::int64_t opset, std::string& problem);

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_OPAQUE)

#include <algorithm>
#include <array>
#include <exception>
#include <initializer_list>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/printable.hpp>
#include <unity/io/onnx/check.hpp>
#include <unity/io/onnx/graph_writer.hpp>
#include <unity/io/onnx/proto.hpp>

namespace unity::io::detail {

UNITY_INLINE std::optional<std::string> read_all(int in, std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  std::string all;
  std::array<char, 4096> buffer{};
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    pollfd ready{in, POLLIN, 0};
    const int count = left.count() > 0 ? ::poll(&ready, 1, static_cast<int>(left.count())) : 0;
    if (count < 0 && errno == EINTR) {
      continue;
    }
    const auto got = count > 0 ? ::read(in, buffer.data(), buffer.size()) : -1;
    if (got <= 0) {
      return got == 0 ? std::optional{all} : std::nullopt;
    }
    all.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

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

UNITY_INLINE void leave_open(onnx::ValueInfoProto& info, const open_sizes& open) {
  for (auto& d : *info.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim()) {
    const auto number = d.dim_value();
    if (open.is_open(number)) {
      d.clear_dim_value();
      const auto axis =
          std::find_if(open.axes.begin(), open.axes.end(), [&](const auto& a) { return a.size == number; });
      if (axis != open.axes.end() && axis->is_named) {
        d.set_dim_param(axis->name);
      }
    }
  }
}

UNITY_INLINE onnx::ModelProto model_of(const onnx::NodeProto& node, std::span<const typed_input> inputs,
                                       const onnx::ModelProto& envelope, std::int64_t opset) {
  onnx::ModelProto m;
  m.set_ir_version(packaged_ir_version);
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

UNITY_INLINE const typed_input* input_named(std::span<const typed_input> inputs, std::string_view name) {
  for (const auto& in : inputs) {
    if (in.name == name) {
      return &in;
    }
  }
  return nullptr;
}

UNITY_INLINE onnx::NodeProto restated(onnx::NodeProto node, std::span<const typed_input> inputs) {
  const auto* axes = node.op_type().starts_with("Reduce") && node.op_type() != "ReduceSum" && node.input_size() == 2
                         ? input_named(inputs, node.input(1))
                         : nullptr;
  if (axes != nullptr && axes->known != nullptr && axes->known->size() > 0) {
    fill_attribute(*node.add_attribute(), {"axes", axes->known->integers});
    node.mutable_input()->RemoveLast();
    auto& all = *node.mutable_attribute();
    const auto noop = [](const onnx::AttributeProto& a) { return a.name() == "noop_with_empty_axes"; };
    all.erase(std::remove_if(all.begin(), all.end(), noop), all.end());
  }
  return node;
}

UNITY_INLINE std::optional<tensor::tensor_type> plain_result(const onnx::NodeProto& node,
                                                             std::span<const typed_input> inputs) {
  const auto input = [&](int i) -> const tensor::tensor_type* {
    const auto* in = i < node.input_size() ? input_named(inputs, node.input(i)) : nullptr;
    return in == nullptr || (in->known != nullptr && in->known->size() == 0) ? nullptr : &in->type;
  };
  const auto is = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), node.op_type()) != names.end();
  };
  const auto& attributes = node.attribute();
  const bool states_type = std::any_of(attributes.begin(), attributes.end(),
                                       [](const auto& a) { return a.name() == "output_dtype" && a.i() != 0; });
  const auto* first = input(0);
  const auto* second = input(1);
  const auto* third = input(2);
  if (first == nullptr || states_type) {
    return std::nullopt;
  }
  auto type = *first;
  if (is({"DequantizeLinear"}) && second != nullptr) {
    type.element = second->element;
  } else if (is({"QuantizeLinear"}) && third != nullptr) {
    type.element = third->element;
  } else if (const auto dims = second == nullptr ? std::nullopt : tensor::broadcast(first->dims, second->dims);
             is({"BitwiseAnd", "BitwiseOr", "BitwiseXor"}) && dims) {
    type.dims = *dims;
  } else if (!is({"BitwiseNot", "CumProd", "Gelu", "GroupNormalization", "Mish", "RMSNormalization", "RotaryEmbedding",
                  "Swish", "TensorScatter"})) {
    return std::nullopt;
  }
  return type;
}

UNITY_INLINE std::map<std::string, tensor::tensor_type> infer_results(const onnx::NodeProto& node,
                                                                      std::span<const typed_input> inputs,
                                                                      const onnx::ModelProto& envelope,
                                                                      std::int64_t opset, std::string& problem) {
  const bool is_newer = opset > packaged_opset && is_default_domain(node.domain());
  if (const auto plain = is_newer && node.output_size() == 1 ? plain_result(node, inputs) : std::nullopt) {
    return {{node.output(0), *plain}};
  }
  const auto known = is_newer ? restated(node, inputs) : node;
  // The package would infer forms that it does not know wrongly.
  if (is_newer && (!is_valid_at(known, packaged_opset) || known.op_type() == "GridSample")) {
    problem = fmt::format("it is newer than opset {}", packaged_opset);
    return {};
  }
  const auto bytes = isolated([&] {
    auto m = model_of(known, inputs, envelope, std::min(opset, packaged_opset));
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
