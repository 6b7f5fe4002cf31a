// ONNX's pooling and batch normalization.
#pragma once

#include <cstddef>
#include <cstdint>

#include <unity/io/onnx/export_node.hpp>
#include <unity/io/onnx/family.hpp>
#include <unity/io/onnx/graph_writer.hpp>
#include <unity/io/onnx/import_node.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::io::detail {

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

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_POOLING)

#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/io/onnx/products.hpp>

namespace unity::io::detail {

UNITY_INLINE import_result import_pool(import_node& n) {
  const bool largest = n.type() == "MaxPool";
  if (n.rank(0) != 4 || n.wants(1)) {
    return std::nullopt;
  }
  const auto w = read_window(n);
  const auto kernel = n.attributes.integers("kernel_shape", {});
  const auto ceil_mode = n.attributes.integer("ceil_mode", 0);
  if (kernel.size() != 2) {
    n.refuse(fmt::format("a kernel_shape of {} sizes", kernel.size()), "2");
  }
  if (largest) {
    return one(n.emit("max_pool", {n.input(0)},
                      {{"kernel", kernel},
                       {"stride", w.stride},
                       {"padding", w.padding},
                       {"pads", w.pads},
                       {"dilation", w.dilation},
                       {"ceil_mode", ceil_mode}}));
  }
  if (w.dilation != std::vector<std::int64_t>{1, 1}) {
    return std::nullopt;
  }
  return one(n.emit("average_pool", {n.input(0)},
                    {{"kernel", kernel},
                     {"stride", w.stride},
                     {"padding", w.padding},
                     {"pads", w.pads},
                     {"ceil_mode", ceil_mode},
                     {"count_include_pad", n.attributes.integer("count_include_pad", 0)}}));
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

}  // namespace unity::io::detail

#endif
