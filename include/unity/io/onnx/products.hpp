// ONNX's matrix products and convolutions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/io/onnx/export_node.hpp>
#include <unity/io/onnx/family.hpp>
#include <unity/io/onnx/graph_writer.hpp>
#include <unity/io/onnx/import_node.hpp>

namespace unity::io::detail {

// As in NumPy: a vector on the left is a row, on the right a column, and that dimension is dropped from the result.
import_result import_matmul(import_node& n);

inline value_id scaled(import_node& n, value_id v, double factor) {
  return factor == 1 ? v : n.emit("scalar_multiply", {v, n.scalar(factor, v)});
}

// alpha * A' * B' + beta * C
import_result import_gemm(import_node& n);

// ONNX's attributes of a sliding window over two dimensions.
struct window2 {
  std::vector<std::int64_t> stride{1, 1};
  std::string padding = "explicit";
  std::vector<std::int64_t> pads{0, 0, 0, 0};
  std::vector<std::int64_t> dilation{1, 1};
};
window2 read_window(const import_node& n);

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

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_PRODUCTS)

#include <optional>

#include <fmt/core.h>

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
  window2 w;
  w.stride = n.attributes.integers("strides", w.stride);
  w.dilation = n.attributes.integers("dilations", w.dilation);
  w.pads = n.attributes.integers("pads", w.pads);
  const auto automatic = n.attributes.word("auto_pad", "NOTSET");
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER" || automatic == "VALID") {
    w.padding = automatic == "VALID" ? "valid" : automatic == "SAME_UPPER" ? "same" : "same_lower";
    w.pads = {0, 0, 0, 0};
  } else if (automatic != "NOTSET" && !automatic.empty()) {
    n.refuse(fmt::format("auto_pad {}", automatic), "NOTSET, SAME_UPPER, SAME_LOWER or VALID");
  }
  if (w.stride.size() != 2 || w.dilation.size() != 2 || w.pads.size() != 4) {
    n.refuse("a window that is not of two dimensions", "2 strides, 2 dilations, 4 pads");
  }
  return w;
}

UNITY_INLINE import_result import_conv(import_node& n) {
  if (n.rank(0) != 4) {
    return std::nullopt;
  }
  const auto w = read_window(n);
  const auto kernel = n.attributes.integers("kernel_shape");
  const auto& dims = n.type(1).dims;
  if (kernel && (dims.size() != 4 || *kernel != std::vector<std::int64_t>{dims[2], dims[3]})) {
    n.refuse(fmt::format("kernel_shape that is not that of the weights {}", tensor::to_string(n.type(1))),
             "the same kernel");
  }
  std::vector<value_id> operands{n.input(0), n.input(1)};
  if (n.has(2)) {
    operands.push_back(n.input(2));
  }
  return n.emit_all("conv2d", operands,
                    {{"stride", w.stride},
                     {"padding", w.padding},
                     {"pads", w.pads},
                     {"dilation", w.dilation},
                     {"groups", n.attributes.integer("group", 1)}});
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

}  // namespace unity::io::detail

#endif
