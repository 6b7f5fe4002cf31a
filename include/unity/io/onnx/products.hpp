// ONNX's matrix products, convolutions, pooling and batch normalization, and those of quantized numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/io/onnx/family.hpp>
#include <unity/io/onnx/graph_writer.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::io::detail {

// As in NumPy: a vector on the left is a row, on the right a column, and that dimension is dropped from the result.
import_result import_matmul(import_node& n);

inline value_id scaled(import_node& n, value_id v, double factor) {
  return factor == 1 ? v : n.emit("scalar_multiply", {v, n.scalar(factor, v)});
}

// alpha * A' * B' + beta * C
import_result import_gemm(import_node& n);

// ONNX's attributes of a sliding window over two dimensions, or over one: as on images of height 1.
struct window2 {
  std::vector<std::int64_t> stride{1, 1};
  std::string padding = "explicit";
  std::vector<std::int64_t> pads{0, 0, 0, 0};
  std::vector<std::int64_t> dilation{1, 1};
};
window2 read_window(const import_node& n);

// Along two dimensions, or along one: as on images of height 1.
import_result import_conv(import_node& n);

std::string auto_pad_of(const export_node& n);
std::vector<onnx_attribute> window_attributes(const export_node& n);
// For Conv and similar operators, whose weights are operand `weights`.
std::vector<onnx_attribute> conv_attributes(const export_node& n, std::size_t weights);

void export_matmul(export_node& n);
// A Gemm if the operand is a matrix; else a product and a sum.
void export_linear(export_node& n);
void export_conv2d(export_node& n);

[[nodiscard]] inline onnx_family product_family() {
  return {{{"MatMul", import_matmul}, {"Gemm", import_gemm}, {"Conv", import_conv}},
          {{"matmul", export_matmul}, {"linear", export_linear}, {"conv2d", export_conv2d}}};
}

// As import_conv.
import_result import_pool(import_node& n);

// One operator for images; a reduction for other ranks.
import_result import_global_pool(import_node& n);

// The inference form; the training form computes statistics, which is another operator.
import_result import_batch_norm(import_node& n);

void export_pool(export_node& n);
inline void export_global_pool(export_node& n) {
  n.emit(n.kind() == "global_max_pool" ? "GlobalMaxPool" : "GlobalAveragePool", n.inputs(), n.result());
}
void export_batch_norm(export_node& n);

[[nodiscard]] onnx_family pooling_family();

// ONNX's quantized operators: one operator each, as in indexing.hpp. 8 bits only; others stay opaque.

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

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_PRODUCTS)

#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include <unity/io/onnx/graph_maker.hpp>
#include <unity/io/onnx/indexing.hpp>
#include <unity/io/onnx/logic.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::io::detail {

UNITY_INLINE import_result import_matmul(import_node& n) {
  auto a = n.input(0);
  auto b = n.input(1);
  const bool row = n.rank(0) == 1;
  const bool column = n.rank(1) == 1;
  if (row) {
    a = n.emit("unsqueeze", {a}, {{"axes", {0}}});
  }
  if (column) {
    b = n.emit("unsqueeze", {b}, {{"axes", {1}}});
  }
  auto v = n.emit("matmul", {a, b});
  if (row || column) {
    tensor::shape axes;
    const auto rank = static_cast<std::int64_t>(n.type_of(v).rank());
    if (row) {
      axes.push_back(rank - 2);
    }
    if (column) {
      axes.push_back(rank - 1);
    }
    v = n.emit("squeeze", {v}, {{"axes", axes}});
  }
  return one(v);
}

UNITY_INLINE import_result import_gemm(import_node& n) {
  const auto operand = [&](std::size_t i, std::string_view transposed) {
    return n.attributes.integer(transposed, 0) != 0 ? n.emit("transpose", {n.input(i)}, {{"permutation", {1, 0}}})
                                                    : n.input(i);
  };
  if (n.rank(0) != 2 || n.rank(1) != 2) {
    n.refuse(fmt::format("operands of rank {} and {}", n.rank(0), n.rank(1)), "matrices");
  }
  const auto alpha = n.attributes.real("alpha", 1);
  const auto beta = n.attributes.real("beta", 1);
  const auto x = operand(0, "transA");
  const auto w = operand(1, "transB");
  const auto columns = n.type_of(w).dims[1];
  if (!n.has(2)) {
    return one(scaled(n, n.emit("linear", {x, w}), alpha));
  }
  const auto& c = n.type(2).dims;
  const bool is_bias = (c.size() == 1 && c[0] == columns) || (c.size() == 2 && c[0] == 1 && c[1] == columns);
  if (alpha == 1 && is_bias) {
    return one(n.emit("linear", {x, w, scaled(n, n.reshape(n.input(2), {columns}), beta)}));
  }
  return one(n.emit("add", {scaled(n, n.emit("linear", {x, w}), alpha), scaled(n, n.input(2), beta)}));
}

UNITY_INLINE window2 read_window(const import_node& n) {
  const std::size_t dimensions = n.rank(0) == 3 ? 1 : 2;
  auto stride = n.attributes.integers("strides", std::vector<std::int64_t>(dimensions, 1));
  auto dilation = n.attributes.integers("dilations", std::vector<std::int64_t>(dimensions, 1));
  auto pads = n.attributes.integers("pads", std::vector<std::int64_t>(2 * dimensions, 0));
  const auto automatic = n.attributes.word("auto_pad", "NOTSET");
  window2 w;
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER" || automatic == "VALID") {
    w.padding = automatic == "VALID" ? "valid" : automatic == "SAME_UPPER" ? "same" : "same_lower";
    pads.assign(2 * dimensions, 0);
  } else if (automatic != "NOTSET" && !automatic.empty()) {
    n.refuse(fmt::format("auto_pad {}", automatic), "NOTSET, SAME_UPPER, SAME_LOWER or VALID");
  }
  if (stride.size() != dimensions || dilation.size() != dimensions || pads.size() != 2 * dimensions) {
    n.refuse("a window of other dimensions than the operand's",
             fmt::format("strides and dilations for {}, and pads for both sides", dimensions));
  }
  if (dimensions == 1) {
    stride = {1, stride[0]};
    dilation = {1, dilation[0]};
    pads = {0, pads[0], 0, pads[1]};
  }
  w.stride = std::move(stride);
  w.dilation = std::move(dilation);
  w.pads = std::move(pads);
  return w;
}

// The dimension of height, which lines lack.
UNITY_INLINE value_id with_height(import_node& n, value_id line) {
  return n.emit("unsqueeze", {line}, {{"axes", {2}}});
}
UNITY_INLINE value_id without_height(import_node& n, value_id image) {
  return n.emit("squeeze", {image}, {{"axes", {2}}});
}

UNITY_INLINE import_result import_conv(import_node& n) {
  const bool is_line = n.rank(0) == 3;
  if (n.rank(0) != 4 && !is_line) {
    return std::nullopt;
  }
  const auto w = read_window(n);
  const auto kernel = n.attributes.integers("kernel_shape");
  const auto& dims = n.type(1).dims;
  if (kernel && (dims.size() != n.rank(0) || *kernel != std::vector<std::int64_t>(dims.begin() + 2, dims.end()))) {
    n.refuse(fmt::format("kernel_shape that is not that of the weights {}", tensor::to_string(n.type(1))),
             "the same kernel");
  }
  std::vector<value_id> operands{n.input(0), n.input(1)};
  if (is_line) {
    operands = {with_height(n, operands[0]), with_height(n, operands[1])};
  }
  if (n.has(2)) {
    operands.push_back(n.input(2));
  }
  const auto v = n.emit_all("conv2d", operands,
                            {{"stride", w.stride},
                             {"padding", w.padding},
                             {"pads", w.pads},
                             {"dilation", w.dilation},
                             {"groups", n.attributes.integer("group", 1)}});
  return is_line ? one(without_height(n, v.front())) : import_result{v};
}

UNITY_INLINE std::string auto_pad_of(const export_node& n) {
  const auto padding = n.choice("padding");
  return padding == "same"         ? "SAME_UPPER"
         : padding == "same_lower" ? "SAME_LOWER"
         : padding == "valid"      ? "VALID"
                                   : "NOTSET";
}

UNITY_INLINE std::vector<onnx_attribute> window_attributes(const export_node& n) {
  std::vector<onnx_attribute> all{{"strides", n.integers("stride")}};
  if (const auto automatic = auto_pad_of(n); automatic != "NOTSET") {
    all.push_back({"auto_pad", automatic});
  } else {
    all.push_back({"pads", n.integers("pads")});
  }
  return all;
}

UNITY_INLINE void export_matmul(export_node& n) {
  const auto product = n.before_activation();
  n.emit("MatMul", n.inputs(), product);
  n.activate(product);
}

UNITY_INLINE void export_linear(export_node& n) {
  const auto sum = n.before_activation();
  const bool biased = n.input_count() == 3;
  if (n.type(0).rank() == 2 && biased && n.opset() < 7) {
    n.emit("Gemm", n.inputs(), sum, {{"broadcast", std::int64_t{1}}});
  } else if (n.type(0).rank() == 2 && (biased || n.opset() >= 11)) {
    n.emit("Gemm", n.inputs(), sum);
  } else if (!biased) {
    n.emit("MatMul", n.inputs(), sum);
  } else {
    const auto product = n.step();
    n.emit("MatMul", {n.input(0), n.input(1)}, product);
    if (n.opset() < 7) {
      n.emit("Add", {product, n.input(2)}, sum, {{"broadcast", std::int64_t{1}}});
    } else {
      n.emit("Add", {product, n.input(2)}, sum);
    }
  }
  n.activate(sum);
}

UNITY_INLINE std::vector<onnx_attribute> conv_attributes(const export_node& n, std::size_t weights) {
  auto attributes = window_attributes(n);
  const auto& dims = n.type(weights).dims;
  attributes.push_back({"dilations", n.integers("dilation")});
  attributes.push_back({"group", n.attributes.integer("groups")});
  attributes.push_back({"kernel_shape", std::vector<std::int64_t>{dims[2], dims[3]}});
  return attributes;
}

UNITY_INLINE void export_conv2d(export_node& n) {
  const auto sum = n.before_activation();
  const std::string outputs[] = {sum};
  n.out.node("Conv", n.inputs(), outputs, conv_attributes(n, 1));
  n.activate(sum);
}

UNITY_INLINE import_result import_pool(import_node& n) {
  const bool largest = n.type() == "MaxPool";
  const bool is_line = n.rank(0) == 3;
  if ((n.rank(0) != 4 && !is_line) || n.wants(1)) {
    return std::nullopt;
  }
  const auto w = read_window(n);
  auto kernel = n.attributes.integers("kernel_shape", {});
  const auto ceil_mode = n.attributes.integer("ceil_mode", 0);
  if (kernel.size() != n.rank(0) - 2) {
    n.refuse(fmt::format("a kernel_shape of {} sizes", kernel.size()), fmt::format("{}", n.rank(0) - 2));
  }
  if (!largest && w.dilation != std::vector<std::int64_t>{1, 1}) {
    return std::nullopt;
  }
  if (is_line) {
    kernel = {1, kernel[0]};
  }
  const auto x = is_line ? with_height(n, n.input(0)) : n.input(0);
  const auto v = largest ? n.emit("max_pool", {x},
                                  {{"kernel", kernel},
                                   {"stride", w.stride},
                                   {"padding", w.padding},
                                   {"pads", w.pads},
                                   {"dilation", w.dilation},
                                   {"ceil_mode", ceil_mode}})
                         : n.emit("average_pool", {x},
                                  {{"kernel", kernel},
                                   {"stride", w.stride},
                                   {"padding", w.padding},
                                   {"pads", w.pads},
                                   {"ceil_mode", ceil_mode},
                                   {"count_include_pad", n.attributes.integer("count_include_pad", 0)}});
  return one(is_line ? without_height(n, v) : v);
}

UNITY_INLINE import_result import_global_pool(import_node& n) {
  const bool largest = n.type() == "GlobalMaxPool";
  if (n.rank(0) == 4) {
    return one(n.emit(largest ? "global_max_pool" : "global_average_pool", {n.input(0)}));
  }
  tensor::shape axes(n.rank(0) > 2 ? n.rank(0) - 2 : 0, 0);
  std::iota(axes.begin(), axes.end(), 2);
  return one(n.emit(largest ? "reduce_max" : "reduce_mean", {n.input(0)}, {{"axes", axes}, {"keep_dims", 1}}));
}

UNITY_INLINE import_result import_batch_norm(import_node& n) {
  const bool trains = n.attributes.integer("training_mode", 0) != 0 || n.attributes.integer("spatial", 1) == 0 ||
                      (n.opset() < 7 && n.attributes.integer("is_test", 0) == 0);
  if (trains || n.wants(1)) {
    return std::nullopt;
  }
  return one(n.emit("batch_norm", {n.input(0), n.input(1), n.input(2), n.input(3), n.input(4)},
                    {{"epsilon", n.attributes.real("epsilon", 1e-5)}}));
}

UNITY_INLINE void export_pool(export_node& n) {
  const bool largest = n.kind() == "max_pool";
  auto attributes = window_attributes(n);
  attributes.push_back({"kernel_shape", n.integers("kernel")});
  // Default values are left out, because older opsets do not know these attributes.
  if (n.attributes.integer("ceil_mode") != 0) {
    attributes.push_back({"ceil_mode", std::int64_t{1}});
  }
  if (largest && n.integers("dilation") != std::vector<std::int64_t>{1, 1}) {
    attributes.push_back({"dilations", n.integers("dilation")});
  }
  if (!largest && n.attributes.integer("count_include_pad") != 0) {
    attributes.push_back({"count_include_pad", std::int64_t{1}});
  }
  const std::string outputs[] = {n.result()};
  n.out.node(largest ? "MaxPool" : "AveragePool", n.inputs(), outputs, attributes);
}

UNITY_INLINE void export_batch_norm(export_node& n) {
  const onnx_attribute epsilon{"epsilon", n.attributes.real("epsilon")};
  const onnx_attribute tests{"is_test", std::int64_t{1}};
  if (n.opset() < 6) {
    n.emit("BatchNormalization", n.inputs(), n.result(),
           {epsilon, tests, {"consumed_inputs", std::vector<std::int64_t>{0, 0, 0, 1, 1}}});
  } else if (n.opset() < 7) {
    n.emit("BatchNormalization", n.inputs(), n.result(), {epsilon, tests});
  } else {
    n.emit("BatchNormalization", n.inputs(), n.result(), {epsilon});
  }
}

UNITY_INLINE onnx_family pooling_family() {
  return {{{"MaxPool", import_pool},
           {"AveragePool", import_pool},
           {"GlobalAveragePool", import_global_pool},
           {"GlobalMaxPool", import_global_pool},
           {"BatchNormalization", import_batch_norm}},
          {{"max_pool", export_pool},
           {"average_pool", export_pool},
           {"global_average_pool", export_global_pool},
           {"global_max_pool", export_global_pool},
           {"batch_norm", export_batch_norm}}};
}

UNITY_INLINE import_result import_scaled(import_node& n) {
  if (n.attributes.integer("output_dtype", 0) != 0 || n.attributes.integer("precision", 0) != 0) {
    return std::nullopt;
  }
  const auto stated = n.attributes.integer("axis", 1);
  const auto dims = n.type(0).dims;
  const auto rank = static_cast<std::int64_t>(dims.size());
  const auto has_one = [&] {
    return stated >= -rank && stated < rank && dims[static_cast<std::size_t>(stated < 0 ? stated + rank : stated)] == 1;
  };
  // Engines take a scale of one element as that of the whole tensor, whatever the axis.
  const bool is_whole = n.rank(1) == 0 || (n.type(1).dims == tensor::shape{1} && !has_one());
  const auto axis = is_whole ? 0 : n.axis(stated, dims.size());
  const auto block = n.rank(1) > 1 ? n.attributes.integer("block_size", 0) : 0;
  std::vector<value_id> operands{n.input(0)};
  for (std::size_t i = 1; i < (n.has(2) ? 3U : 2U); ++i) {
    operands.push_back(is_whole ? n.reshape(n.input(i), {}) : n.input(i));
  }
  try {
    if (n.type() == "DequantizeLinear") {
      return n.emit_all("dequantize", operands, {{"axis", axis}, {"block", block}});
    }
    const auto element = n.has(2) ? n.type(2).element : tensor::dtype::uint8;
    return n.emit_all("quantize", operands, {{"axis", axis}, {"block", block}, {"element", tensor::name_of(element)}});
  } catch (const not_accepted&) {
    return std::nullopt;
  }
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
