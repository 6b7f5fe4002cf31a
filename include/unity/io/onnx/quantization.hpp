// ONNX's quantized operators: one operator each, as in indexing.hpp. 8 bits only; others stay opaque.
#pragma once

#include <unity/io/onnx/export_node.hpp>
#include <unity/io/onnx/family.hpp>
#include <unity/io/onnx/import_node.hpp>

namespace unity::io::detail {

// QuantizeLinear and DequantizeLinear: per tensor, per position along an axis, or per block of it.
import_result import_scaled(import_node& n);
import_result import_dynamic_quantize(import_node& n);
// MatMulInteger and ConvInteger, QLinearMatMul and QLinearConv.
import_result import_quantized_product(import_node& n);

void export_scaled(export_node& n);
void export_dynamic_quantize(export_node& n);
void export_quantized_product(export_node& n);

[[nodiscard]] onnx_family quantization_family();

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_QUANTIZATION)

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/io/onnx/graph_maker.hpp>
#include <unity/io/onnx/graph_writer.hpp>
#include <unity/io/onnx/indexing.hpp>
#include <unity/io/onnx/logic.hpp>
#include <unity/io/onnx/products.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::io::detail {

UNITY_INLINE import_result import_scaled(import_node& n) {
  if (n.attributes.integer("output_dtype", 0) != 0 || n.attributes.integer("precision", 0) != 0) {
    return std::nullopt;
  }
  const auto axis = n.rank(1) == 0 ? 0 : n.axis(n.attributes.integer("axis", 1), n.rank(0));
  const auto block = n.rank(1) > 1 ? n.attributes.integer("block_size", 0) : 0;
  const std::size_t inputs = n.has(2) ? 3 : 2;
  if (n.type() == "DequantizeLinear") {
    return accepted(n, "dequantize", inputs, {{"axis", axis}, {"block", block}});
  }
  const auto element = n.has(2) ? n.type(2).element : tensor::dtype::uint8;
  return accepted(n, "quantize", inputs, {{"axis", axis}, {"block", block}, {"element", tensor::name_of(element)}});
}

UNITY_INLINE import_result import_dynamic_quantize(import_node& n) { return accepted(n, "dynamic_quantize", 1, {}); }

// If the second operand has a zero point and the first has none, the latter is 0.
UNITY_INLINE import_result import_quantized_product(import_node& n) {
  const bool of_matrices = n.type() == "MatMulInteger" || n.type() == "QLinearMatMul";
  const bool is_whole = n.type() == "MatMulInteger" || n.type() == "ConvInteger";
  std::vector<value_id> operands;
  for (std::size_t i = 0; i < n.input_count(); ++i) {
    if (n.has(i)) {
      operands.push_back(n.input(i));
    } else if (is_whole && i == 2 && n.has(3)) {
      operands.push_back(n.fill(0, n.type(0).element, {}));
    }
  }
  try {
    if (of_matrices) {
      return n.emit_all(is_whole ? "integer_matmul" : "quantized_matmul", operands);
    }
    if (n.rank(0) != 4) {
      return std::nullopt;
    }
    const auto w = read_window(n);
    return n.emit_all(is_whole ? "integer_conv2d" : "quantized_conv2d", operands,
                      {{"stride", w.stride},
                       {"padding", w.padding},
                       {"pads", w.pads},
                       {"dilation", w.dilation},
                       {"groups", n.attributes.integer("group", 1)}});
  } catch (const not_accepted&) {
    return std::nullopt;
  }
}

UNITY_INLINE void export_scaled(export_node& n) {
  const bool quantizes = n.kind() == "quantize";
  const auto& scale = n.type(1).dims;
  const auto block = n.attributes.integer("block");
  require_opset(n, block != 0 ? 21 : scale.empty() ? 10 : 13, "scales like these");
  auto inputs = n.inputs();
  if (quantizes && inputs.size() == 2 && n.result_type().element != tensor::dtype::uint8) {
    inputs.push_back(n.out.filled(0, n.result_type().element, scale));
  }
  std::vector<onnx_attribute> with;
  if (!scale.empty()) {
    with.push_back({"axis", n.attributes.integer("axis")});
  }
  if (block != 0) {
    with.push_back({"block_size", block});
  }
  const std::string outputs[] = {n.result()};
  n.out.node(quantizes ? "QuantizeLinear" : "DequantizeLinear", inputs, outputs, with);
}

UNITY_INLINE void export_dynamic_quantize(export_node& n) {
  require_opset(n, 11, "DynamicQuantizeLinear");
  n.out.node("DynamicQuantizeLinear", n.inputs(), n.results(), {});
}

UNITY_INLINE void export_quantized_product(export_node& n) {
  require_opset(n, 10, "products of integers");
  const auto& kind = n.kind();
  const std::string outputs[] = {n.result()};
  if (kind == "integer_matmul" || kind == "quantized_matmul") {
    return static_cast<void>(
        n.out.node(kind == "integer_matmul" ? "MatMulInteger" : "QLinearMatMul", n.inputs(), outputs, {}));
  }
  const bool is_whole = kind == "integer_conv2d";
  n.out.node(is_whole ? "ConvInteger" : "QLinearConv", n.inputs(), outputs, conv_attributes(n, is_whole ? 1 : 3));
}

UNITY_INLINE onnx_family quantization_family() {
  return {{{"DequantizeLinear", import_scaled},
           {"QuantizeLinear", import_scaled},
           {"DynamicQuantizeLinear", import_dynamic_quantize},
           {"MatMulInteger", import_quantized_product},
           {"ConvInteger", import_quantized_product},
           {"QLinearMatMul", import_quantized_product},
           {"QLinearConv", import_quantized_product}},
          {{"dequantize", export_scaled},
           {"quantize", export_scaled},
           {"dynamic_quantize", export_dynamic_quantize},
           {"integer_matmul", export_quantized_product},
           {"integer_conv2d", export_quantized_product},
           {"quantized_matmul", export_quantized_product},
           {"quantized_conv2d", export_quantized_product}}};
}

}  // namespace unity::io::detail

#endif
