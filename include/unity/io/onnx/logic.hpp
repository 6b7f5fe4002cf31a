// ONNX's comparisons, logic, selection and element-wise functions.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include <unity/io/onnx/family.hpp>

namespace unity::io::detail {

// An attribute of an ONNX operator, the corresponding one of the tensor algebra, and its default in ONNX.
struct real_counterpart {
  std::string_view onnx{};
  std::string_view tensor{};
  double otherwise = 0;
};

// An ONNX operator and the operator of the tensor algebra that differs only in names.
struct counterpart {
  std::string_view onnx;
  std::string_view tensor;
  std::int64_t since;  // opset; broadcasting operators broadcast from opset 7 on
  std::array<real_counterpart, 2> reals{};
};
inline constexpr counterpart counterparts[] = {
    {"Equal", "equal", 1},
    {"Less", "less", 1},
    {"LessOrEqual", "less_or_equal", 12},
    {"Greater", "greater", 1},
    {"GreaterOrEqual", "greater_or_equal", 12},
    {"And", "logical_and", 1},
    {"Or", "logical_or", 1},
    {"Xor", "logical_xor", 1},
    {"Not", "logical_not", 1},
    {"IsNaN", "is_nan", 9},
    {"Where", "where", 9},
    {"Sign", "sign", 9},
    {"Floor", "floor", 1},
    {"Ceil", "ceil", 1},
    {"Round", "round", 11},
    {"Sin", "sin", 7},
    {"Cos", "cos", 7},
    {"Tan", "tan", 7},
    {"PRelu", "prelu", 1},
    {"Softplus", "softplus", 1},
    {"Softsign", "softsign", 1},
    {"HardSwish", "hard_swish", 14},
    {"LeakyRelu", "leaky_relu", 1, {{{"alpha", "alpha", 0.01F}}}},
    {"Elu", "elu", 1, {{{"alpha", "alpha", 1}}}},
    {"Selu",
     "selu",
     1,
     {{{"alpha", "alpha", 1.67326319217681884765625}, {"gamma", "scale", 1.05070102214813232421875}}}},
    {"Celu", "celu", 12, {{{"alpha", "alpha", 1}}}},
    {"ThresholdedRelu", "thresholded_relu", 10, {{{"alpha", "alpha", 1}}}},
    {"Shrink", "shrink", 9, {{{"bias", "bias", 0}, {"lambd", "threshold", 0.5}}}},
    {"HardSigmoid", "hard_sigmoid", 1, {{{"alpha", "alpha", 0.2F}, {"beta", "beta", 0.5}}}},
    {"Mish", "mish", 18},
    {"Swish", "swish", 24, {{{"alpha", "alpha", 1}}}}};

// Precondition: a row has that name in that column.
[[nodiscard]] const counterpart& row_of(std::string_view name, std::string_view counterpart::* column);

import_result import_counterpart(import_node& n);
import_result import_mod(import_node& n);
// Not for 16-bit floats: numbers that are infinite there may be finite in the type in which the node is computed.
import_result import_is_inf(import_node& n);

// Throws: unity::error if the model's opset is older than `since`.
void require_opset(const export_node& n, std::int64_t since, std::string_view what);

void export_counterpart(export_node& n);
void export_mod(export_node& n);
void export_is_inf(export_node& n);
void export_clip(export_node& n);
// Composed of other operators in opsets that lack them.
void export_mish(export_node& n);
void export_swish(export_node& n);
void export_gelu_tanh(export_node& n);

[[nodiscard]] onnx_family logic_family();

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_LOGIC)

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

#include <fmt/core.h>

#include <unity/core/id.hpp>
#include <unity/io/onnx/graph_writer.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::io::detail {

UNITY_INLINE const counterpart& row_of(std::string_view name, std::string_view counterpart::* column) {
  const auto* found = std::begin(counterparts);
  while (found->*column != name) {
    ++found;
  }
  return *found;
}

UNITY_INLINE import_result import_counterpart(import_node& n) {
  const auto& row = row_of(n.type(), &counterpart::onnx);
  std::vector<value_id> operands;
  std::vector<tensor::named_attribute> attributes;
  for (std::size_t i = 0; i < n.input_count(); ++i) {
    operands.push_back(n.input(i));
    if (n.opset() < 7 && i > 0 && n.type(i).dims != n.type(0).dims) {
      return std::nullopt;
    }
  }
  for (const auto& a : row.reals) {
    if (!a.tensor.empty()) {
      attributes.emplace_back(a.tensor, n.attributes.real(a.onnx, a.otherwise));
    }
  }
  return one(n.emit(row.tensor, operands, attributes));
}

UNITY_INLINE import_result import_mod(import_node& n) {
  return one(n.emit("mod", {n.input(0), n.input(1)}, {{"truncated", n.attributes.integer("fmod", 0) != 0}}));
}

UNITY_INLINE import_result import_is_inf(import_node& n) {
  if (tensor::size_of(n.type(0).element) < 4) {
    return std::nullopt;
  }
  return one(n.emit("is_inf", {n.input(0)},
                    {{"negative", n.attributes.integer("detect_negative", 1) != 0},
                     {"positive", n.attributes.integer("detect_positive", 1) != 0}}));
}

UNITY_INLINE void require_opset(const export_node& n, std::int64_t since, std::string_view what) {
  if (n.opset() < since) {
    n.refuse(fmt::format("opset {}", n.opset()), fmt::format("opset {} or later, for {}", since, what));
  }
}

UNITY_INLINE void export_counterpart(export_node& n) {
  const auto& row = row_of(n.kind(), &counterpart::tensor);
  bool stretches = false;
  for (std::size_t i = 0; i < n.input_count(); ++i) {
    stretches = stretches || n.type(i).dims != n.result_type().dims;
  }
  const auto since = stretches ? std::max<std::int64_t>(row.since, 7) : row.since;
  require_opset(n, since, row.onnx);
  std::vector<onnx_attribute> attributes;
  for (const auto& a : row.reals) {
    if (!a.onnx.empty()) {
      attributes.push_back({std::string{a.onnx}, n.attributes.real(a.tensor)});
    }
  }
  const std::string outputs[] = {n.result()};
  n.out.node(row.onnx, n.inputs(), outputs, attributes);
}

UNITY_INLINE void export_mod(export_node& n) {
  require_opset(n, 10, "Mod");
  n.emit("Mod", n.inputs(), n.result(), {{"fmod", n.attributes.integer("truncated")}});
}

UNITY_INLINE void export_is_inf(export_node& n) {
  require_opset(n, 10, "IsInf");
  n.emit(
      "IsInf", n.inputs(), n.result(),
      {{"detect_negative", n.attributes.integer("negative")}, {"detect_positive", n.attributes.integer("positive")}});
}

UNITY_INLINE void export_clip(export_node& n) {
  const auto low = n.attributes.real("low");
  const auto high = n.attributes.real("high");
  const std::string outputs[] = {n.result()};
  if (n.opset() >= 11) {
    const auto bound = [&](double at) { return std::isinf(at) ? std::string{} : n.scalar(at, n.type(0).element); };
    std::vector<std::string> inputs{n.input(0), bound(low)};
    if (!std::isinf(high)) {
      inputs.push_back(bound(high));
    }
    return static_cast<void>(n.out.node("Clip", inputs, outputs));
  }
  std::vector<onnx_attribute> attributes;
  if (!std::isinf(low)) {
    attributes.push_back({"min", low});
  }
  if (!std::isinf(high)) {
    attributes.push_back({"max", high});
  }
  n.out.node("Clip", n.inputs(), outputs, attributes);
}

UNITY_INLINE void export_mish(export_node& n) {
  if (n.opset() >= 18) {
    return export_counterpart(n);
  }
  const auto positive = n.step();
  const auto share = n.step();
  n.emit("Softplus", n.inputs(), positive);
  n.emit("Tanh", {positive}, share);
  n.emit("Mul", {n.input(0), share}, n.result());
}

UNITY_INLINE void export_swish(export_node& n) {
  if (n.opset() >= 24) {
    return export_counterpart(n);
  }
  const auto alpha = n.attributes.real("alpha");
  const auto scaled = alpha == 1 ? n.input(0) : n.step();
  const auto share = n.step();
  if (alpha != 1) {
    require_opset(n, 7, "a product with one number");
    n.emit("Mul", {n.input(0), n.scalar(alpha, n.type(0).element)}, scaled);
  }
  n.emit("Sigmoid", {scaled}, share);
  n.emit("Mul", {n.input(0), share}, n.result());
}

UNITY_INLINE void export_gelu_tanh(export_node& n) {
  const auto& x = n.input(0);
  if (n.opset() >= 20) {
    return n.emit("Gelu", {x}, n.result(), {{"approximate", std::string{"tanh"}}});
  }
  require_opset(n, 7, "a product with one number");
  const auto scalar = [&](double value) { return n.scalar(value, n.type(0).element); };
  // x / 2 * (1 + tanh(x * (sqrt(2 / pi) + 0.0357 x^2)))
  constexpr auto root = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  std::vector<std::string> steps;
  const auto step = [&](std::string_view type, std::initializer_list<std::string> from) {
    steps.push_back(n.step());
    n.emit(type, from, steps.back());
    return steps.back();
  };
  const auto square = step("Mul", {x, x});
  const auto slope = step("Add", {step("Mul", {square, scalar(root * 0.044715)}), scalar(root)});
  const auto share = step("Add", {step("Tanh", {step("Mul", {x, slope})}), scalar(1)});
  n.emit("Mul", {step("Mul", {x, scalar(0.5)}), share}, n.result());
}

UNITY_INLINE onnx_family logic_family() {
  onnx_family rows{{{"Mod", import_mod}, {"IsInf", import_is_inf}},
                   {{"mod", export_mod},
                    {"is_inf", export_is_inf},
                    {"clip", export_clip},
                    {"mish", export_mish},
                    {"swish", export_swish},
                    {"gelu_tanh", export_gelu_tanh}}};
  for (const auto& c : counterparts) {
    rows.imports.emplace_back(c.onnx, import_counterpart);
    rows.exports.emplace_back(c.tensor, export_counterpart);  // after the special rows, which take precedence
  }
  return rows;
}

}  // namespace unity::io::detail

#endif
