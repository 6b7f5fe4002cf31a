// Pools, reductions and normalizations of ONNX.
#pragma once

#include <cstddef>
#include <cstdint>

#include <unity/io/onnx/export_node.hpp>
#include <unity/io/onnx/family.hpp>
#include <unity/io/onnx/graph_writer.hpp>
#include <unity/io/onnx/import_node.hpp>
#include <unity/tensor/attributes.hpp>

namespace unity::io::detail {

import_result import_pool(import_node& n);

// Over images one operator; over other ranks a reduction.
import_result import_global_pool(import_node& n);

// Axes became an input: of ReduceSum at opset 13, of the others at 18.
import_result import_reduction(import_node& n);

// Before opset 13 all dimensions from the axis on are one.
import_result import_softmax(import_node& n);

import_result import_layer_norm(import_node& n);

// The inference form; in training form it computes statistics, which is another operator.
import_result import_batch_norm(import_node& n);

void export_pool(export_node& n);
inline void export_global_pool(export_node& n) {
  n.emit(n.kind() == "global_max_pool" ? "GlobalMaxPool" : "GlobalAveragePool", n.inputs(), n.result());
}
void export_reduction(export_node& n);
void export_softmax(export_node& n);
// Before opset 17 its parts, as PyTorch writes them: engines know the form, with a power of 2, and run it as one
// kernel.
void export_layer_norm(export_node& n);
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

UNITY_INLINE import_result import_reduction(import_node& n) {
  const auto list = n.list("axes", 1, n.type() == "ReduceSum" ? 13 : 18);
  if (!list.found) {
    return std::nullopt;
  }
  tensor::shape axes(n.rank(0), 0);
  std::iota(axes.begin(), axes.end(), 0);
  if (list.values && !list.values->empty()) {
    axes = n.axes(*list.values, n.rank(0));
  } else if (n.attributes.integer("noop_with_empty_axes", 0) != 0) {
    return one(n.input(0));
  }
  const auto name = n.type() == "ReduceSum" ? "reduce_sum" : n.type() == "ReduceMean" ? "reduce_mean" : "reduce_max";
  return axes.empty()
             ? one(n.input(0))
             : one(n.emit(name, {n.input(0)}, {{"axes", axes}, {"keep_dims", n.attributes.integer("keepdims", 1)}}));
}

UNITY_INLINE import_result import_softmax(import_node& n) {
  const auto rank = n.rank(0);
  const auto axis = n.axis(n.attributes.integer("axis", n.opset() < 13 ? 1 : -1), rank == 0 ? 1 : rank);
  if (n.opset() >= 13 || axis + 1 == static_cast<std::int64_t>(rank)) {
    return one(n.emit("softmax", {n.input(0)}, {{"axis", axis}}));
  }
  const auto dims = n.type(0).dims;
  tensor::shape flat{1, 1};
  for (std::size_t d = 0; d < rank; ++d) {
    flat[static_cast<std::int64_t>(d) < axis ? 0 : 1] *= dims[d];
  }
  return one(n.reshape(n.emit("softmax", {n.reshape(n.input(0), flat)}, {{"axis", 1}}), dims));
}

UNITY_INLINE import_result import_layer_norm(import_node& n) {
  if (n.wants(1) || n.wants(2)) {
    return std::nullopt;
  }
  const auto axis = n.axis(n.attributes.integer("axis", -1), n.rank(0));
  const auto& dims = n.type(0).dims;
  const tensor::shape normalized(std::span<const std::int64_t>{dims}.subspan(static_cast<std::size_t>(axis)));
  // Scale and shift broadcast in ONNX; here they have the normalized dimensions.
  const auto whole = [&](value_id v) {
    return n.type_of(v).dims == normalized ? v : n.emit("expand", {v}, {{"dims", normalized}});
  };
  const auto shift = n.has(2) ? n.input(2) : n.fill(0, n.type(0).element, normalized);
  return one(n.emit("layer_norm", {n.input(0), whole(n.input(1)), whole(shift)},
                    {{"axis", axis}, {"epsilon", n.attributes.real("epsilon", 1e-5)}}));
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
  // What says no more than that it is absent is left out: older opsets do not know it.
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

UNITY_INLINE void export_layer_norm(export_node& n) {
  const auto axis = n.attributes.integer("axis");
  const auto epsilon = n.attributes.real("epsilon");
  if (n.opset() >= 17) {
    n.emit("LayerNormalization", n.inputs(), n.result(), {{"axis", axis}, {"epsilon", epsilon}});
    return;
  }
  std::vector<std::int64_t> axes(n.type(0).dims.size() - static_cast<std::size_t>(axis));
  std::iota(axes.begin(), axes.end(), axis);
  const auto element = n.type(0).element;
  const auto mean_of = [&](const std::string& x) {
    auto to = n.step();
    n.emit_with_list("ReduceMean", x, to, {"axes", 18, axes}, {{"keepdims", std::int64_t{1}}});
    return to;
  };
  const auto apply = [&](std::string_view type, std::initializer_list<std::string> from) {
    auto to = n.step();
    n.emit(type, from, to);
    return to;
  };
  const auto centred = apply("Sub", {n.input(0), mean_of(n.input(0))});
  const auto variance = mean_of(apply("Pow", {centred, n.scalar(2, element)}));
  const auto deviation = apply("Sqrt", {apply("Add", {variance, n.scalar(epsilon, element)})});
  const auto scaled = apply("Mul", {apply("Div", {centred, deviation}), n.input(1)});
  n.emit("Add", {scaled, n.input(2)}, n.result());
}

UNITY_INLINE void export_reduction(export_node& n) {
  const bool sums = n.kind() == "reduce_sum";
  n.emit_with_list(sums                        ? "ReduceSum"
                   : n.kind() == "reduce_mean" ? "ReduceMean"
                                               : "ReduceMax",
                   n.input(0), n.result(), {"axes", sums ? 13 : 18, n.integers("axes")},
                   {{"keepdims", n.attributes.integer("keep_dims")}});
}

UNITY_INLINE void export_softmax(export_node& n) {
  const auto axis = n.attributes.integer("axis");
  const auto last = static_cast<std::int64_t>(n.type(0).rank()) - 1;
  if (n.opset() >= 13 || axis == last) {
    n.emit("Softmax", n.inputs(), n.result(), {{"axis", axis}});
    return;
  }
  // Older opsets sum over all dimensions from the axis on.
  std::vector<std::int64_t> exchanged(n.type(0).rank());
  std::iota(exchanged.begin(), exchanged.end(), 0);
  std::swap(exchanged[static_cast<std::size_t>(axis)], exchanged.back());
  const std::string steps[] = {n.step(), n.step()};
  n.emit("Transpose", n.inputs(), steps[0], {{"perm", exchanged}});
  n.emit("Softmax", {steps[0]}, steps[1], {{"axis", last}});
  n.emit("Transpose", {steps[1]}, n.result(), {{"perm", exchanged}});
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
           {"ReduceSum", import_reduction},
           {"ReduceMean", import_reduction},
           {"ReduceMax", import_reduction},
           {"Softmax", import_softmax},
           {"LayerNormalization", import_layer_norm},
           {"BatchNormalization", import_batch_norm}},
          {{"max_pool", export_pool},
           {"average_pool", export_pool},
           {"global_average_pool", export_global_pool},
           {"global_max_pool", export_global_pool},
           {"reduce_sum", export_reduction},
           {"reduce_mean", export_reduction},
           {"reduce_max", export_reduction},
           {"softmax", export_softmax},
           {"layer_norm", export_layer_norm},
           {"batch_norm", export_batch_norm}}};
}

}  // namespace unity::io::detail

#endif
