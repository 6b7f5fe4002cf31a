// Element-wise operators of ONNX.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <onnx/onnx_pb.h>

#include <unity/core/id.hpp>
#include <unity/io/onnx/family.hpp>
#include <unity/io/onnx/graph_writer.hpp>
#include <unity/io/onnx/proto.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::io::detail {

// An ONNX operator and the operator of the tensor algebra that differs only in its name.
struct namesake {
  std::string_view onnx;
  std::string_view tensor;
};
inline constexpr namesake elementwise_namesakes[] = {
    {"Relu", "relu"},   {"Tanh", "tanh"},      {"Sigmoid", "sigmoid"},   {"Exp", "exp"},
    {"Log", "log"},     {"Erf", "erf"},        {"Sqrt", "sqrt"},         {"Reciprocal", "reciprocal"},
    {"Neg", "negate"},  {"Abs", "abs"},        {"Identity", "identity"}, {"Add", "add"},
    {"Sub", "sub"},     {"Mul", "mul"},        {"Div", "div"},           {"Max", "maximum"},
    {"Min", "minimum"}, {"Div", "integer_div"}};

[[nodiscard]] std::string_view tensor_name(std::string_view onnx);
[[nodiscard]] std::string_view onnx_name(std::string_view tensor);

inline import_result import_unary(import_node& n) { return one(n.emit(tensor_name(n.type()), {n.input(0)})); }
// Before opset 7, a node may state that the dimensions of the second operand start at an axis of the first.
value_id second_operand(import_node& n);
inline import_result import_binary(import_node& n) {
  return one(n.emit(tensor_name(n.type()), {n.input(0), second_operand(n)}));
}
inline import_result import_div(import_node& n) {
  const bool truncates = tensor::is_integral(n.type(0).element);
  return one(n.emit(truncates ? "integer_div" : "div", {n.input(0), second_operand(n)}));
}
// Any number of operands, combined from the left.
import_result import_fold(import_node& n);
// The exponent may have another element type than the base.
import_result import_pow(import_node& n);
import_result import_clip(import_node& n);
import_result import_gelu(import_node& n);
import_result import_cast(import_node& n);
import_result import_cast_like(import_node& n);
// The sum of all operands divided by their number.
import_result import_mean(import_node& n);
import_result import_dropout(import_node& n);

inline void export_namesake(export_node& n) { n.emit(onnx_name(n.kind()), n.inputs(), n.result()); }
// Operands may have different dimensions from opset 7 on, for Max and Min from opset 8 on.
void export_broadcast(export_node& n);
inline void export_gelu(export_node& n) { emit_gelu(n, n.input(0), n.result(), n.type(0).element); }
// Before opset 6, the type was stated by its name.
void export_cast(export_node& n);
// Exports dropout in inference mode, which files are meant for; keeps the rate for further training.
void export_dropout(export_node& n);

[[nodiscard]] onnx_family elementwise_family();

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_ELEMENTWISE)

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include <unity/io/onnx/movement.hpp>
#include <unity/tensor/element.hpp>

namespace unity::io::detail {

UNITY_INLINE std::string_view tensor_name(std::string_view onnx) {
  for (const auto& n : elementwise_namesakes) {
    if (n.onnx == onnx) {
      return n.tensor;
    }
  }
  return onnx == "Sum" ? "add" : "";
}

UNITY_INLINE std::string_view onnx_name(std::string_view tensor) {
  for (const auto& n : elementwise_namesakes) {
    if (n.tensor == tensor) {
      return n.onnx;
    }
  }
  return tensor == "scalar_multiply" ? "Mul" : tensor == "pow" ? "Pow" : "";
}

UNITY_INLINE value_id second_operand(import_node& n) {
  const auto v = n.input(1);
  const auto rank = static_cast<std::int64_t>(n.rank(0));
  const auto own = static_cast<std::int64_t>(n.rank(1));
  const auto after = rank - own - n.attributes.integer("axis", rank - own);
  if (n.opset() >= 7 || after <= 0) {
    return v;
  }
  auto dims = n.type(1).dims;
  for (std::int64_t i = 0; i < after; ++i) {
    dims.push_back(1);
  }
  return n.reshape(v, dims);
}

UNITY_INLINE import_result import_fold(import_node& n) {
  auto joint = n.input(0);
  for (std::size_t i = 1; i < n.input_count(); ++i) {
    joint = n.emit(tensor_name(n.type()), {joint, n.input(i)});
  }
  return one(joint);
}

UNITY_INLINE import_result import_pow(import_node& n) {
  const auto base = n.type(0).element;
  if (n.type(1).element == base) {
    return one(n.emit("pow", {n.input(0), second_operand(n)}));
  }
  const auto constant = n.known_real(1);
  const auto exponent = constant ? n.fill(*constant, base, n.type(1).dims)
                                 : n.emit("cast", {n.input(1)}, {{"element", tensor::name_of(base)}});
  return one(n.emit("pow", {n.input(0), exponent}));
}

UNITY_INLINE import_result import_clip(import_node& n) {
  const bool is_real = tensor::is_floating(n.type(0).element);
  constexpr auto infinity = std::numeric_limits<double>::infinity();
  const auto bound = [&](std::string_view name, std::size_t place, double otherwise) -> std::optional<double> {
    const auto at = n.opset() < 11 ? n.attributes.real(name, otherwise)
                    : n.has(place) ? n.known_real(place)
                                   : otherwise;
    if (const auto* k = n.known(place); at && k != nullptr && !is_real) {
      return tensor::to_integer<std::int64_t>(*at) == k->integers[0] ? at : std::nullopt;
    }
    const double most = n.type(0).element == tensor::dtype::float64 ? std::numeric_limits<double>::max()
                                                                    : std::numeric_limits<float>::max();
    return at && is_real && std::abs(*at) >= most ? std::copysign(infinity, *at) : at;  // no bound
  };
  const auto low = bound("min", 1, -infinity);
  const auto high = bound("max", 2, infinity);
  if (low && high && !(is_real && (*low == 0 || (*low == -infinity && *high == infinity)))) {
    return one(n.emit("clip", {n.input(0)}, {{"low", *low}, {"high", *high}}));
  }
  if (!is_real) {
    return std::nullopt;
  }
  auto v = n.input(0);
  if (!low || *low == 0) {
    v = low ? n.emit("relu", {v}) : n.emit("maximum", {v, n.input(1)});
  } else if (*low != -infinity) {
    v = n.emit("maximum", {v, n.scalar(*low, v)});
  }
  if (!high) {
    v = n.emit("minimum", {v, n.input(2)});
  } else if (*high != infinity) {
    v = n.emit("minimum", {v, n.scalar(*high, v)});
  }
  return one(v);
}

UNITY_INLINE import_result import_gelu(import_node& n) {
  const auto approximation = n.attributes.word("approximate", "none");
  return approximation == "none" || approximation == "tanh"
             ? one(n.emit(approximation == "none" ? "gelu" : "gelu_tanh", {n.input(0)}))
             : import_result{};
}

UNITY_INLINE import_result import_cast(import_node& n) {
  const auto element = cast_target(n.attributes, n.opset());
  if (!element) {
    return std::nullopt;
  }
  return one(n.type(0).element == *element ? n.input(0)
                                           : n.emit("cast", {n.input(0)}, {{"element", tensor::name_of(*element)}}));
}

UNITY_INLINE import_result import_cast_like(import_node& n) {
  const auto element = n.type(1).element;
  return one(n.type(0).element == element ? n.input(0)
                                          : n.emit("cast", {n.input(0)}, {{"element", tensor::name_of(element)}}));
}

UNITY_INLINE import_result import_mean(import_node& n) {
  auto sum = n.input(0);
  for (std::size_t i = 1; i < n.input_count(); ++i) {
    sum = n.emit("add", {sum, n.input(i)});
  }
  const auto count = static_cast<double>(n.input_count());
  return one(count == 1 ? sum : n.emit("div", {sum, n.scalar(count, sum)}));
}

UNITY_INLINE import_result import_dropout(import_node& n) {
  const bool trains =
      (n.has(2) && n.known_real(2) != 0.0) || (n.opset() < 7 && n.attributes.integer("is_test", 0) == 0);
  if (n.wants(1) || trains) {
    return std::nullopt;
  }
  const auto rate = n.opset() < 12 ? n.attributes.real("ratio", 0.5) : n.has(1) ? n.known_real(1) : 0.5;
  if (!rate) {
    return std::nullopt;
  }
  return one(n.emit("dropout", {n.input(0)}, {{"rate", *rate}, {"seed", n.attributes.integer("seed", 0)}}));
}

UNITY_INLINE void export_broadcast(export_node& n) {
  const bool is_extreme = n.kind() == "maximum" || n.kind() == "minimum";
  const std::int64_t since = is_extreme ? 8 : 7;
  const auto& a = n.type(0).dims;
  const auto& b = n.type(1).dims;
  if (n.opset() < since && n.kind() == "add" && a == b) {
    n.emit("Sum", n.inputs(), n.result());  // engines that begin with opset 7 have the form of opset 6
    return;
  }
  const bool ends_alike = b.size() <= a.size() && std::equal(b.begin(), b.end(), a.end() - b.size());
  if (n.opset() < since && !is_extreme && a == n.result_type().dims && a != b && ends_alike) {
    n.emit(onnx_name(n.kind()), n.inputs(), n.result(), {{"broadcast", std::int64_t{1}}});
    return;
  }
  n.emit(onnx_name(n.kind()), {aligned(n, 0, since), aligned(n, 1, since)}, n.result());
}

UNITY_INLINE void export_cast(export_node& n) {
  const auto type = to_onnx_type(n.result_type().element);
  if (n.opset() < 6) {
    n.emit("Cast", n.inputs(), n.result(), {{"to", onnx_type_name(type)}});
  } else {
    n.emit("Cast", n.inputs(), n.result(), {{"to", static_cast<std::int64_t>(type)}});
  }
}

UNITY_INLINE void export_dropout(export_node& n) {
  const auto rate = n.attributes.real("rate");
  if (n.opset() < 7) {
    n.emit("Dropout", n.inputs(), n.result(), {{"ratio", rate}, {"is_test", std::int64_t{1}}});
  } else if (n.opset() < 12) {
    n.emit("Dropout", n.inputs(), n.result(), {{"ratio", rate}});
  } else {
    n.emit("Dropout", {n.input(0), n.scalar(rate, n.type(0).element)}, n.result(),
           {{"seed", n.attributes.integer("seed")}});
  }
}

UNITY_INLINE onnx_family elementwise_family() {
  return {{{"Relu", import_unary},         {"Tanh", import_unary},       {"Sigmoid", import_unary},
           {"Exp", import_unary},          {"Log", import_unary},        {"Erf", import_unary},
           {"Sqrt", import_unary},         {"Reciprocal", import_unary}, {"Neg", import_unary},
           {"Abs", import_unary},          {"Add", import_binary},       {"Sub", import_binary},
           {"Mul", import_binary},         {"Div", import_div},          {"Max", import_fold},
           {"Min", import_fold},           {"Sum", import_fold},         {"Pow", import_pow},
           {"Clip", import_clip},          {"Gelu", import_gelu},        {"Cast", import_cast},
           {"CastLike", import_cast_like}, {"Mean", import_mean},        {"Dropout", import_dropout}},
          {{"relu", export_namesake},     {"tanh", export_namesake},
           {"sigmoid", export_namesake},  {"exp", export_namesake},
           {"log", export_namesake},      {"erf", export_namesake},
           {"sqrt", export_namesake},     {"reciprocal", export_namesake},
           {"negate", export_namesake},   {"abs", export_namesake},
           {"identity", export_namesake}, {"add", export_broadcast},
           {"sub", export_broadcast},     {"mul", export_broadcast},
           {"div", export_broadcast},     {"integer_div", export_broadcast},
           {"maximum", export_broadcast}, {"minimum", export_broadcast},
           {"pow", export_broadcast},     {"scalar_multiply", export_broadcast},
           {"gelu", export_gelu},         {"cast", export_cast},
           {"dropout", export_dropout}}};
}

}  // namespace unity::io::detail

#endif
