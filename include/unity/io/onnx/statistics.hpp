// ONNX's reductions, arg-extrema, softmaxes and normalizations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <unity/io/onnx/family.hpp>
#include <unity/io/onnx/graph_writer.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::io::detail {

// `listed`: the first opset in which the axes are an input. `keeps`: is the identity if there is nothing to reduce.
struct reduction_form {
  std::string_view onnx;
  std::string_view tensor;
  std::int64_t listed = 18;
  bool keeps = false;
};
inline constexpr reduction_form reduction_forms[] = {{"ReduceSum", "reduce_sum", 13, true},
                                                     {"ReduceMean", "reduce_mean", 18, true},
                                                     {"ReduceMax", "reduce_max", 18, true},
                                                     {"ReduceMin", "reduce_min", 18, true},
                                                     {"ReduceProd", "reduce_prod", 18, true},
                                                     {"ReduceL1", "reduce_l1"},
                                                     {"ReduceL2", "reduce_l2"},
                                                     {"ReduceSumSquare", "reduce_sum_square"},
                                                     {"ReduceLogSum", "reduce_log_sum"},
                                                     {"ReduceLogSumExp", "reduce_log_sum_exp"}};

import_result import_reduction(import_node& n);
void export_reduction(export_node& n);

import_result import_arg_extreme(import_node& n);
void export_arg_extreme(export_node& n);

// Building blocks for operators that ONNX lacks: 1 where the difference from the positions 0, 1, ..., or from another
// tensor, is 0.
[[nodiscard]] std::string numbers_along(export_node& n, std::size_t axis, const tensor::tensor_type& of,
                                        bool descending);
void emit_equal(export_node& n, const std::string& a, const std::string& b, const std::string& to,
                tensor::dtype element);
void export_is_position(export_node& n);
void export_equal_positions(export_node& n);

// The axis is an input, which must be known.
import_result import_cumulative_sum(import_node& n);
void export_cumulative_sum(export_node& n);

// Softmax, LogSoftmax and Hardmax. Before opset 13, all dimensions from the axis on are flattened into one.
import_result import_softmax(import_node& n);
void export_softmax(export_node& n);
void export_flat_softmax(export_node& n);

import_result import_layer_norm(import_node& n);
// Before opset 17, composed as PyTorch does, with a power of 2: engines recognize this form and run it as one kernel.
void export_layer_norm(export_node& n);

inline import_result import_instance_norm(import_node& n) {
  return one(n.emit("instance_norm", {n.input(0), n.input(1), n.input(2)},
                    {{"epsilon", n.attributes.real("epsilon", double{1e-5F})}}));
}
inline void export_instance_norm(export_node& n) {
  n.emit("InstanceNormalization", n.inputs(), n.result(), {{"epsilon", n.attributes.real("epsilon")}});
}

// Scale and bias are per group before opset 21, per channel since.
import_result import_group_norm(import_node& n);
void export_group_norm(export_node& n);

import_result import_rms_norm(import_node& n);
inline void export_rms_norm(export_node& n) {
  n.emit("RMSNormalization", n.inputs(), n.result(),
         {{"axis", n.attributes.integer("axis")}, {"epsilon", n.attributes.real("epsilon")}});
}

import_result import_local_response_norm(import_node& n);
void export_local_response_norm(export_node& n);

import_result import_lp_norm(import_node& n);
inline void export_lp_norm(export_node& n) {
  n.emit("LpNormalization", n.inputs(), n.result(),
         {{"axis", n.attributes.integer("axis")}, {"p", n.attributes.integer("p")}});
}

import_result import_mean_variance_norm(import_node& n);
inline void export_mean_variance_norm(export_node& n) {
  n.emit("MeanVarianceNormalization", n.inputs(), n.result(), {{"axes", n.integers("axes")}});
}

[[nodiscard]] onnx_family statistics_family();

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_STATISTICS)

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/id.hpp>
#include <unity/io/onnx/proto.hpp>
#include <unity/io/tensor_data.hpp>

namespace unity::io::detail {

UNITY_INLINE import_result import_reduction(import_node& n) {
  const auto& form = *std::ranges::find(reduction_forms, n.type(), &reduction_form::onnx);
  const auto list = n.list("axes", 1, form.listed);
  if (!list.found) {
    return std::nullopt;
  }
  tensor::shape axes(n.rank(0), 0);
  std::iota(axes.begin(), axes.end(), 0);
  if (list.values && !list.values->empty()) {
    axes = n.axes(*list.values, n.rank(0));
  } else if (n.attributes.integer("noop_with_empty_axes", 0) != 0) {
    axes.clear();
  }
  if (axes.empty()) {
    return form.keeps ? one(n.input(0)) : std::nullopt;
  }
  return one(n.emit(form.tensor, {n.input(0)}, {{"axes", axes}, {"keep_dims", n.attributes.integer("keepdims", 1)}}));
}

UNITY_INLINE void export_reduction(export_node& n) {
  const auto kind = n.kind();
  const auto& form = *std::ranges::find(reduction_forms, std::string_view{kind}, &reduction_form::tensor);
  n.emit_with_list(form.onnx, n.input(0), n.result(), {"axes", form.listed, n.integers("axes")},
                   {{"keepdims", n.attributes.integer("keep_dims")}});
}

UNITY_INLINE import_result import_arg_extreme(import_node& n) {
  return one(n.emit(n.type() == "ArgMax" ? "arg_max" : "arg_min", {n.input(0)},
                    {{"axis", n.axis(n.attributes.integer("axis", 0), n.rank(0))},
                     {"keep_dims", n.attributes.integer("keepdims", 1)},
                     {"last", n.attributes.integer("select_last_index", 0)}}));
}

UNITY_INLINE void export_arg_extreme(export_node& n) {
  std::vector<onnx_attribute> attributes{{"axis", n.attributes.integer("axis")},
                                         {"keepdims", n.attributes.integer("keep_dims")}};
  if (n.attributes.flag("last")) {  // unknown to older opsets
    attributes.push_back({"select_last_index", std::int64_t{1}});
  }
  const std::string outputs[] = {n.result()};
  n.out.node(n.kind() == "arg_max" ? "ArgMax" : "ArgMin", n.inputs(), outputs, attributes);
}

UNITY_INLINE std::string numbers_along(export_node& n, std::size_t axis, const tensor::tensor_type& of,
                                       bool descending) {
  const auto size = of.dims[axis];
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(size));
  std::iota(numbers.begin(), numbers.end(), std::int64_t{0});
  if (descending) {
    std::ranges::reverse(numbers);
  }
  tensor::shape dims(of.rank(), 1);
  dims[axis] = size;
  const auto name = n.out.fresh("positions");
  n.out.initializer(name, make_data(of.element, dims, numbers));
  return name;
}

UNITY_INLINE void emit_equal(export_node& n, const std::string& a, const std::string& b, const std::string& to,
                             tensor::dtype element) {
  const std::string steps[] = {n.step(), n.step(), n.step()};
  n.emit("Sub", {a, b}, steps[0]);
  n.emit("Cast", {steps[0]}, steps[1], {{"to", static_cast<std::int64_t>(to_onnx_type(tensor::dtype::boolean))}});
  n.emit("Cast", {steps[1]}, steps[2], {{"to", static_cast<std::int64_t>(to_onnx_type(element))}});
  n.emit("Sub", {n.scalar(1, element), steps[2]}, to);
}

UNITY_INLINE void export_is_position(export_node& n) {
  const auto axis = n.attributes.integer("axis");
  auto numbered = n.result_type();
  numbered.element = n.type(0).element;
  const auto places = n.step();
  n.emit_with_list("Unsqueeze", n.input(0), places, {"axes", 13, {axis}});
  emit_equal(n, places, numbers_along(n, static_cast<std::size_t>(axis), numbered, false), n.result(),
             n.result_type().element);
}

UNITY_INLINE void export_equal_positions(export_node& n) {
  const auto axis = static_cast<std::size_t>(n.attributes.integer("axis"));
  const auto equal = n.step();
  emit_equal(n, n.input(0), n.input(1), equal, tensor::dtype::int64);
  n.emit("Mul", {equal, numbers_along(n, axis, n.result_type(), !n.attributes.flag("last"))}, n.result());
}

UNITY_INLINE import_result import_cumulative_sum(import_node& n) {
  const auto axis = n.known_integers(1);
  if (!axis || axis->size() != 1) {
    return std::nullopt;
  }
  return one(n.emit("cumulative_sum", {n.input(0)},
                    {{"axis", n.axis(axis->front(), n.rank(0))},
                     {"exclusive", n.attributes.integer("exclusive", 0)},
                     {"reverse", n.attributes.integer("reverse", 0)}}));
}

UNITY_INLINE void export_cumulative_sum(export_node& n) {
  n.emit("CumSum", {n.input(0), n.out.integer(n.attributes.integer("axis"))}, n.result(),
         {{"exclusive", n.attributes.integer("exclusive")}, {"reverse", n.attributes.integer("reverse")}});
}

UNITY_INLINE import_result import_softmax(import_node& n) {
  const auto* name = n.type() == "Softmax" ? "softmax" : n.type() == "LogSoftmax" ? "log_softmax" : "hardmax";
  const auto rank = n.rank(0);
  const auto axis = n.axis(n.attributes.integer("axis", n.opset() < 13 ? 1 : -1), rank == 0 ? 1 : rank);
  if (n.opset() >= 13 || axis + 1 == static_cast<std::int64_t>(rank)) {
    return one(n.emit(name, {n.input(0)}, {{"axis", axis}}));
  }
  return one(n.emit("flat_softmax", {n.input(0)}, {{"axis", axis}, {"function", name}}));
}

UNITY_INLINE void export_softmax(export_node& n) {
  const auto* type = n.kind() == "softmax" ? "Softmax" : n.kind() == "log_softmax" ? "LogSoftmax" : "Hardmax";
  const auto axis = n.attributes.integer("axis");
  const auto last = static_cast<std::int64_t>(n.type(0).rank()) - 1;
  if (n.opset() >= 13 || axis == last) {
    n.emit(type, n.inputs(), n.result(), {{"axis", axis}});
    return;
  }
  // Older opsets flatten all dimensions from the axis on into one.
  std::vector<std::int64_t> exchanged(n.type(0).rank());
  std::iota(exchanged.begin(), exchanged.end(), 0);
  std::swap(exchanged[static_cast<std::size_t>(axis)], exchanged.back());
  const std::string steps[] = {n.step(), n.step()};
  n.emit("Transpose", n.inputs(), steps[0], {{"perm", exchanged}});
  n.emit(type, {steps[0]}, steps[1], {{"axis", last}});
  n.emit("Transpose", {steps[1]}, n.result(), {{"perm", exchanged}});
}

UNITY_INLINE void export_flat_softmax(export_node& n) {
  const auto function = n.choice("function");
  n.emit(function == "softmax"       ? "Softmax"
         : function == "log_softmax" ? "LogSoftmax"
                                     : "Hardmax",
         n.inputs(), n.result(), {{"axis", n.attributes.integer("axis")}});
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
                    {{"axis", axis}, {"epsilon", n.attributes.real("epsilon", double{1e-5F})}}));
}

UNITY_INLINE import_result import_group_norm(import_node& n) {
  const auto groups = n.attributes.integer("num_groups", 0);
  if (n.attributes.integer("stash_type", 1) != 1 || n.rank(0) < 2) {
    return std::nullopt;
  }
  if (n.type(1).dims != tensor::shape{n.opset() < 21 ? groups : n.type(0).dims[1]}) {
    n.refuse(fmt::format("scale {}", tensor::to_string(n.type(1))),
             n.opset() < 21 ? "one value per group" : "one value per channel");
  }
  return one(n.emit("group_norm", {n.input(0), n.input(1), n.input(2)},
                    {{"groups", groups}, {"epsilon", n.attributes.real("epsilon", double{1e-5F})}}));
}

UNITY_INLINE void export_group_norm(export_node& n) {
  const auto groups = n.attributes.integer("groups");
  if (n.type(1).dims[0] != (n.opset() < 21 ? groups : n.type(0).dims[1])) {
    n.refuse(fmt::format("scale {} in opset {}", tensor::to_string(n.type(1)), n.opset()),
             n.opset() < 21 ? "one value per group" : "one value per channel");
  }
  n.emit("GroupNormalization", n.inputs(), n.result(),
         {{"num_groups", groups}, {"epsilon", n.attributes.real("epsilon")}});
}

UNITY_INLINE import_result import_rms_norm(import_node& n) {
  if (n.attributes.integer("stash_type", 1) != 1 || n.type(0).element != n.type(1).element) {
    return std::nullopt;
  }
  return one(n.emit("rms_norm", {n.input(0), n.input(1)},
                    {{"axis", n.axis(n.attributes.integer("axis", -1), n.rank(0))},
                     {"epsilon", n.attributes.real("epsilon", double{1e-5F})}}));
}

UNITY_INLINE import_result import_local_response_norm(import_node& n) {
  return one(n.emit("local_response_norm", {n.input(0)},
                    {{"size", n.attributes.integer("size", 1)},
                     {"alpha", n.attributes.real("alpha", double{1e-4F})},
                     {"beta", n.attributes.real("beta", 0.75)},
                     {"bias", n.attributes.real("bias", 1)}}));
}

UNITY_INLINE void export_local_response_norm(export_node& n) {
  n.emit("LRN", n.inputs(), n.result(),
         {{"size", n.attributes.integer("size")},
          {"alpha", n.attributes.real("alpha")},
          {"beta", n.attributes.real("beta")},
          {"bias", n.attributes.real("bias")}});
}

UNITY_INLINE import_result import_lp_norm(import_node& n) {
  return one(
      n.emit("lp_norm", {n.input(0)},
             {{"axis", n.axis(n.attributes.integer("axis", -1), n.rank(0))}, {"p", n.attributes.integer("p", 2)}}));
}

UNITY_INLINE import_result import_mean_variance_norm(import_node& n) {
  if (n.opset() < 9) {
    return std::nullopt;  // an experimental form with other attributes
  }
  const auto axes = n.attributes.integers("axes", {0, 2, 3});
  return one(n.emit("mean_variance_norm", {n.input(0)}, {{"axes", n.axes(axes, n.rank(0))}}));
}

UNITY_INLINE onnx_family statistics_family() {
  onnx_family f{{{"ArgMax", import_arg_extreme},
                 {"ArgMin", import_arg_extreme},
                 {"CumSum", import_cumulative_sum},
                 {"Softmax", import_softmax},
                 {"LogSoftmax", import_softmax},
                 {"Hardmax", import_softmax},
                 {"LayerNormalization", import_layer_norm},
                 {"InstanceNormalization", import_instance_norm},
                 {"GroupNormalization", import_group_norm},
                 {"RMSNormalization", import_rms_norm},
                 {"LRN", import_local_response_norm},
                 {"LpNormalization", import_lp_norm},
                 {"MeanVarianceNormalization", import_mean_variance_norm}},
                {{"arg_max", export_arg_extreme},
                 {"arg_min", export_arg_extreme},
                 {"is_position", export_is_position, 7},
                 {"equal_positions", export_equal_positions, 7},
                 {"cumulative_sum", export_cumulative_sum, 11},
                 {"softmax", export_softmax},
                 {"log_softmax", export_softmax},
                 {"hardmax", export_softmax},
                 {"flat_softmax", export_flat_softmax, 1, 12},
                 {"layer_norm", export_layer_norm, 7},
                 {"instance_norm", export_instance_norm, 6},
                 {"group_norm", export_group_norm, 18},
                 {"rms_norm", export_rms_norm, 23},
                 {"local_response_norm", export_local_response_norm},
                 {"lp_norm", export_lp_norm},
                 {"mean_variance_norm", export_mean_variance_norm, 9}}};
  for (const auto& form : reduction_forms) {
    f.imports.emplace_back(form.onnx, import_reduction);
    f.exports.push_back({form.tensor, export_reduction});
  }
  return f;
}

}  // namespace unity::io::detail

#endif
