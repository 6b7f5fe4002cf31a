// ONNX operators that move elements without changing them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <unity/io/onnx/family.hpp>
#include <unity/io/onnx/graph_writer.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::io::detail {

import_result import_concat(import_node& n);

// The sizes are an attribute, an input from opset 13 on, or equal parts, the last of which may be smaller from opset 18
// on.
import_result import_split(import_node& n);

// Attributes before opset 10, inputs since. A negative step reverses, which this operator cannot do.
import_result import_slice(import_node& n);

// Pads and value: attributes before opset 11, inputs since; axes from opset 18.
import_result import_pad(import_node& n);

import_result import_transpose(import_node& n);

import_result import_reshape(import_node& n);

import_result import_flatten(import_node& n);

import_result import_squeeze(import_node& n);

import_result import_unsqueeze(import_node& n);

import_result import_expand(import_node& n);

// If it only repeats dimensions of size 1, it becomes expand.
import_result import_tile(import_node& n);

// Embedding lookups; one known index along any axis is a slice.
import_result import_gather(import_node& n);

// For tensors too large to be known as a list.
import_result import_constant_of_shape(import_node& n);

inline void export_concat(export_node& n) {
  n.emit("Concat", n.inputs(), n.result(), {{"axis", n.attributes.integer("axis")}});
}
void export_split(export_node& n);
void export_slice(export_node& n);
void emit_pad(export_node& n, const std::vector<std::int64_t>& pads, double value);
inline void export_pad(export_node& n) { emit_pad(n, n.integers("pads"), n.attributes.real("value")); }
void export_enlarge(export_node& n);
inline void export_transpose(export_node& n) {
  n.emit("Transpose", n.inputs(), n.result(), {{"perm", n.integers("permutation")}});
}
// One open size is written as the inferred dimension. `from_dims`: known dimensions of `from`; the same open size at
// the same position is copied.
void emit_reshape(export_node& n, const std::string& from, const std::string& to, const tensor::shape& dims,
                  const tensor::shape& from_dims = {});
inline void export_reshape(export_node& n) {
  emit_reshape(n, n.input(0), n.result(), n.result_type().dims, n.type(0).dims);
}
void export_expand(export_node& n);
inline void export_with_axes(export_node& n) {
  n.emit_with_list(n.kind() == "squeeze" ? "Squeeze" : "Unsqueeze", n.input(0), n.result(),
                   {"axes", 13, n.integers("axes")});
}
// The name of an operand of an element-wise operator, aligned to the others. Operands may have different dimensions
// from opset `since` on; before, they are repeated to the dimensions of the result.
[[nodiscard]] std::string aligned(export_node& n, std::size_t operand, std::int64_t since);
// Repeats an operand to the dimensions of the result.
void emit_repeated(export_node& n, std::size_t operand, const std::string& to);
inline void export_embedding(export_node& n) { n.emit("Gather", n.inputs(), n.result(), {{"axis", std::int64_t{0}}}); }
// ONNX has no operator that sums over bags.
void export_embedding_bag(export_node& n);
// Computes for each edge and vertex whether the edge belongs to the vertex, by clamping the differences between edge
// numbers and limits to 0 and 1.
void export_incidence(export_node& n);

[[nodiscard]] onnx_family movement_family();

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_MOVEMENT)

#include <algorithm>
#include <numeric>
#include <optional>
#include <string_view>

#include <fmt/core.h>

#include <unity/io/onnx/graph_maker.hpp>
#include <unity/io/onnx/read_tensor.hpp>

namespace unity::io::detail {

UNITY_INLINE import_result import_concat(import_node& n) {
  const auto axis = n.attributes.integer("axis", 1);
  const auto parts = n.inputs_with_elements(axis);
  if (parts.size() < 2) {
    return parts.empty() ? import_result{} : one(parts.front());
  }
  return n.emit_all("concat", parts, {{"axis", n.axis(axis, n.type_of(parts.front()).rank())}});
}

UNITY_INLINE import_result import_split(import_node& n) {
  const auto list = n.list("split", 1, 13);
  if (!list.found || (n.opset() < 13 && n.has(1))) {  // opset 1 allowed both forms
    return std::nullopt;
  }
  const auto axis = n.axis(n.attributes.integer("axis", 0), n.rank(0));
  const auto size = n.type(0).dims[static_cast<std::size_t>(axis)];
  std::vector<std::int64_t> sizes = list.values.value_or(std::vector<std::int64_t>{});
  if (sizes.empty()) {
    const std::int64_t count = n.output_count();
    if (n.attributes.integer("num_outputs", count) != count || count < 1 || count > size ||
        (n.opset() < 18 && size % count != 0)) {
      n.refuse(fmt::format("a split of {} into {} results", size, count), "parts that fit");
    }
    const auto part = (size + count - 1) / count;
    for (std::int64_t at = 0; at < size; at += part) {
      sizes.push_back(std::min(part, size - at));
    }
  }
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) {
    throw no_counterpart{n.where(), "a part without elements", "at least one element"};
  }
  if (static_cast<int>(sizes.size()) != n.output_count()) {
    n.refuse(fmt::format("{} sizes for {} results", sizes.size(), n.output_count()), "one each");
  }
  const value_id operands[] = {n.input(0)};
  return n.emit_all("split", operands, {{"axis", axis}, {"sizes", sizes}});
}

UNITY_INLINE import_result import_slice(import_node& n) {
  const auto starts = n.list("starts", 1, 10);
  const auto ends = n.list("ends", 2, 10);
  const auto axes = n.list("axes", 3, 10);
  const auto steps = n.opset() < 10 ? import_node::list_or_input{} : n.list("", 4, 10);
  if (!starts.found || !ends.found || !axes.found || !steps.found) {
    return std::nullopt;
  }
  const auto count = starts.values ? starts.values->size() : 0;
  const auto fits = [&](const import_node::list_or_input& l, bool required) {
    return l.values ? l.values->size() == count : !required;
  };
  if (!fits(starts, true) || !fits(ends, true) || !fits(axes, false) || !fits(steps, false)) {
    n.refuse("starts, ends, axes and steps of different lengths", "as many of each");
  }
  struct cut {
    std::int64_t axis, start, end, step;
  };
  std::vector<cut> cuts;
  for (std::size_t i = 0; i < count; ++i) {
    const auto axis = n.axis(axes.values ? (*axes.values)[i] : static_cast<std::int64_t>(i), n.rank(0));
    const auto size = n.type(0).dims[static_cast<std::size_t>(axis)];
    const auto range = clamp_slice((*starts.values)[i], (*ends.values)[i], steps.values ? (*steps.values)[i] : 1, size);
    if (!range || range->step < 1) {
      return std::nullopt;
    }
    if (range->count == 0) {
      throw no_counterpart{n.where(), fmt::format("a slice without elements along axis {}", axis),
                           "at least one element"};
    }
    const auto end = range->from + (range->count - 1) * range->step + 1;
    if (range->count < size) {
      cuts.push_back({axis, range->from, end, range->step});
    }
  }
  std::sort(cuts.begin(), cuts.end(), [](const cut& a, const cut& b) { return a.axis < b.axis; });
  const auto column = [&](std::int64_t cut::* member) {
    tensor::shape all;
    for (const auto& c : cuts) {
      all.push_back(c.*member);
    }
    return all;
  };
  return cuts.empty() ? one(n.input(0))
                      : one(n.emit("slice", {n.input(0)},
                                   {{"axes", column(&cut::axis)},
                                    {"starts", column(&cut::start)},
                                    {"ends", column(&cut::end)},
                                    {"steps", column(&cut::step)}}));
}

UNITY_INLINE import_result import_pad(import_node& n) {
  const auto list = n.list(n.opset() < 2 ? "paddings" : "pads", 1, 11);
  const auto value = n.opset() < 11 ? n.attributes.real("value", 0) : n.has(2) ? n.known_real(2) : 0.0;
  const auto rank = n.rank(0);
  if (!list.found || !value || n.attributes.word("mode", "constant") != "constant" ||
      (n.has(3) && !n.known_integers(3))) {
    return std::nullopt;
  }
  auto pads = list.values.value_or(std::vector<std::int64_t>{});
  if (n.has(3)) {
    const auto axes = *n.known_integers(3);
    if (pads.size() != 2 * axes.size()) {
      n.refuse(fmt::format("{} pads for {} axes", pads.size(), axes.size()), "two each");
    }
    std::vector<std::int64_t> all(2 * rank, 0);
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const auto axis = static_cast<std::size_t>(n.axis(axes[i], rank));
      all[axis] = pads[i];
      all[axis + rank] = pads[i + axes.size()];
    }
    pads = all;
  }
  if (std::any_of(pads.begin(), pads.end(), [](std::int64_t p) { return p < 0; })) {
    return std::nullopt;
  }
  return one(n.emit("pad", {n.input(0)}, {{"pads", pads}, {"value", *value}}));
}

UNITY_INLINE import_result import_transpose(import_node& n) {
  std::vector<std::int64_t> reversed(n.rank(0));
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  return one(n.emit("transpose", {n.input(0)}, {{"permutation", n.attributes.integers("perm", reversed)}}));
}

UNITY_INLINE import_result import_reshape(import_node& n) {
  const auto wanted = n.list("shape", 1, 5).values;
  if (!wanted) {
    return std::nullopt;
  }
  const auto dims = reshaped(n.type(0).dims, *wanted, n.attributes.integer("allowzero", 0) != 0);
  if (!dims) {
    std::string text;
    for (const auto d : *wanted) {
      text += fmt::format("{}{}", text.empty() ? "" : ",", d);
    }
    n.refuse(fmt::format("a reshape of {} to [{}]", tensor::to_string(n.type(0)), text), "the same number of elements");
  }
  return one(n.emit("reshape", {n.input(0)}, {{"dims", *dims}}));
}

UNITY_INLINE import_result import_flatten(import_node& n) {
  const auto rank = static_cast<std::int64_t>(n.rank(0));
  const auto given = n.attributes.integer("axis", 1);
  const auto axis = given < 0 ? given + rank : given;
  if (axis < 0 || axis > rank) {
    n.refuse(fmt::format("has axis {}", given), fmt::format("one within rank {}", rank));
  }
  tensor::shape dims{1, 1};
  for (std::int64_t d = 0; d < rank; ++d) {
    dims[d < axis ? 0 : 1] *= n.type(0).dims[static_cast<std::size_t>(d)];
  }
  return one(n.emit("reshape", {n.input(0)}, {{"dims", dims}}));
}

UNITY_INLINE import_result import_squeeze(import_node& n) {
  const auto list = n.list("axes", 1, 13);
  if (!list.found) {
    return std::nullopt;
  }
  tensor::shape axes;
  if (list.values) {
    axes = n.axes(*list.values, n.rank(0));
  } else {
    for (std::size_t d = 0; d < n.rank(0); ++d) {
      if (n.type(0).dims[d] == 1) {
        axes.push_back(static_cast<std::int64_t>(d));
      }
    }
  }
  return one(n.emit("squeeze", {n.input(0)}, {{"axes", axes}}));
}

UNITY_INLINE import_result import_unsqueeze(import_node& n) {
  const auto list = n.list("axes", 1, 13);
  if (!list.values) {
    return std::nullopt;
  }
  return one(n.emit("unsqueeze", {n.input(0)}, {{"axes", n.axes(*list.values, n.rank(0) + list.values->size())}}));
}

UNITY_INLINE import_result import_expand(import_node& n) {
  const auto dims = n.known_integers(1);
  if (!dims) {
    return std::nullopt;
  }
  return one(n.emit("expand", {n.input(0)}, {{"dims", *dims}}));
}

UNITY_INLINE import_result import_tile(import_node& n) {
  const auto repeats = n.known_integers(1);
  auto dims = n.type(0).dims;
  if (!repeats || n.opset() < 6 || repeats->size() != dims.size()) {
    return std::nullopt;
  }
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if ((*repeats)[d] != 1 && dims[d] != 1) {
      return std::nullopt;
    }
    dims[d] *= (*repeats)[d];
  }
  return one(dims == n.type(0).dims ? n.input(0) : n.emit("expand", {n.input(0)}, {{"dims", dims}}));
}

UNITY_INLINE import_result import_gather(import_node& n) {
  const auto axis = n.axis(n.attributes.integer("axis", 0), n.rank(0));
  const auto index = n.known_integers(1);
  if (index && index->size() == 1 && n.rank(1) <= 1) {
    const auto size = n.type(0).dims[static_cast<std::size_t>(axis)];
    const auto at = index->front() < 0 ? index->front() + size : index->front();
    if (at < 0 || at >= size) {
      n.refuse(fmt::format("index {}", index->front()), fmt::format("one within size {}", size));
    }
    const auto v =
        n.emit("slice", {n.input(0)}, {{"axes", {axis}}, {"starts", {at}}, {"ends", {at + 1}}, {"steps", {1}}});
    return one(n.rank(1) == 1 ? v : n.emit("squeeze", {v}, {{"axes", {axis}}}));
  }
  const bool counts_back = index && std::any_of(index->begin(), index->end(), [](std::int64_t i) { return i < 0; });
  // Row numbers of an embedding never count back. Those of a constant that is not known here might.
  const bool may_count_back = counts_back || (!index && n.type(1).constant);
  if (axis != 0 || !tensor::is_floating(n.type(0).element) || may_count_back) {
    return std::nullopt;
  }
  return one(n.emit("embedding", {n.input(0), n.input(1)}));
}

UNITY_INLINE import_result import_constant_of_shape(import_node& n) {
  const auto dims = n.known_integers(0);
  const auto value = n.attributes.known("value");
  if (!dims || (value && value->size() != 1)) {
    return std::nullopt;
  }
  return one(n.fill(value ? value->real(0) : 0, value ? value->element : tensor::dtype::float32,
                    tensor::shape(std::span<const std::int64_t>{*dims})));
}

UNITY_INLINE void emit_reshape(export_node& n, const std::string& from, const std::string& to,
                               const tensor::shape& dims, const tensor::shape& from_dims) {
  std::vector<std::int64_t> wanted(dims.begin(), dims.end());
  const auto is_open = [&](std::int64_t d) { return n.out.is_open({&d, 1}); };
  const auto open_count = [&] { return std::count_if(wanted.begin(), wanted.end(), is_open); };
  for (std::size_t d = 0; open_count() > 1 && d < dims.size(); ++d) {
    if (d < from_dims.size() && from_dims[d] == dims[d] && is_open(dims[d])) {
      wanted[d] = 0;
    }
  }
  if (open_count() == 1) {
    *std::find_if(wanted.begin(), wanted.end(), is_open) = -1;
  }
  n.emit_with_list("Reshape", from, to, {"shape", 5, wanted});
}

UNITY_INLINE void export_split(export_node& n) {
  std::vector<std::string> inputs{n.input(0)};
  std::vector<onnx_attribute> attributes{{"axis", n.attributes.integer("axis")}};
  if (n.opset() < 13) {
    attributes.push_back({"split", n.integers("sizes")});
  } else {
    inputs.push_back(n.out.integers(n.integers("sizes")));
  }
  n.out.node("Split", inputs, n.results(), attributes);
}

UNITY_INLINE void export_slice(export_node& n) {
  if (n.opset() < 10) {
    const auto steps = n.integers("steps");
    if (std::any_of(steps.begin(), steps.end(), [](std::int64_t s) { return s != 1; })) {
      n.refuse("a slice with steps", "opset 10 or later");
    }
    n.emit("Slice", n.inputs(), n.result(),
           {{"starts", n.integers("starts")}, {"ends", n.integers("ends")}, {"axes", n.integers("axes")}});
    return;
  }
  const auto list = [&](std::string_view name) { return n.out.integers(n.integers(name)); };
  n.emit("Slice", {n.input(0), list("starts"), list("ends"), list("axes"), list("steps")}, n.result());
}

UNITY_INLINE void emit_pad(export_node& n, const std::vector<std::int64_t>& pads, double value) {
  if (n.opset() < 11) {
    n.emit("Pad", n.inputs(), n.result(), {{n.opset() < 2 ? "paddings" : "pads", pads}, {"value", value}});
  } else {
    n.emit("Pad", {n.input(0), n.out.integers(pads), n.scalar(value, n.type(0).element)}, n.result());
  }
}

UNITY_INLINE void export_expand(export_node& n) {
  if (n.opset() < 8) {
    emit_repeated(n, 0, n.result());
  } else {
    n.emit("Expand", {n.input(0), n.out.integers(n.integers("dims"))}, n.result());
  }
}

UNITY_INLINE std::string aligned(export_node& n, std::size_t operand, std::int64_t since) {
  if (n.opset() >= since || n.type(operand).dims == n.result_type().dims) {
    return n.input(operand);
  }
  auto to = n.step();
  emit_repeated(n, operand, to);
  return to;
}

UNITY_INLINE void emit_repeated(export_node& n, std::size_t operand, const std::string& to) {
  if (n.opset() < 6) {
    n.refuse("operands of different dimensions", "opset 6 or later");
  }
  const auto& from = n.type(operand).dims;
  const auto& dims = n.result_type().dims;
  const auto skipped = dims.size() - from.size();
  tensor::shape whole(dims.size(), 1);
  std::vector<std::int64_t> repeats;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    whole[d] = d < skipped ? 1 : from[d - skipped];
    repeats.push_back(dims[d] / whole[d]);
  }
  auto name = n.input(operand);
  if (skipped > 0) {
    name = n.step();
    emit_reshape(n, n.input(operand), name, whole);
  }
  n.emit("Tile", {name, n.out.integers(repeats)}, to);
}

UNITY_INLINE void export_enlarge(export_node& n) {
  const auto& from = n.type(0).dims;
  const auto& to = n.result_type().dims;
  const std::int64_t rows = (to[2] - from[2]) / 2;
  const std::int64_t columns = (to[3] - from[3]) / 2;
  emit_pad(n, {0, 0, rows, columns, 0, 0, to[2] - from[2] - rows, to[3] - from[3] - columns}, 0);
}

UNITY_INLINE void export_embedding_bag(export_node& n) {
  const auto rows = n.step();
  n.emit("Gather", n.inputs(), rows, {{"axis", std::int64_t{0}}});
  n.emit_with_list("ReduceSum", rows, n.result(), {"axes", 13, {static_cast<std::int64_t>(n.type(1).rank()) - 1}},
                   {{"keepdims", std::int64_t{0}}});
}

UNITY_INLINE void export_incidence(export_node& n) {
  if (n.opset() < 12) {
    n.refuse("Max and Min of integers", "opset 12 or later");
  }
  std::vector<std::int64_t> behind(static_cast<std::size_t>(n.attributes.integer("edges")));
  std::iota(behind.begin(), behind.end(), std::int64_t{1});
  const auto zero = n.scalar(0, tensor::dtype::int64);
  const auto one = n.scalar(1, tensor::dtype::int64);
  const auto has_come = [&](std::size_t operand) {
    auto limit = n.input(operand);
    if (n.type(operand).element != tensor::dtype::int64) {
      limit = n.step();
      n.emit("Cast", {n.input(operand)}, limit,
             {{"to", static_cast<std::int64_t>(to_onnx_type(tensor::dtype::int64))}});
    }
    const std::string steps[] = {n.step(), n.step(), n.step(), n.step()};
    n.emit_with_list("Unsqueeze", limit, steps[0], {"axes", 13, {1}});
    n.emit("Sub", {n.out.integers(behind), steps[0]}, steps[1]);
    n.emit("Max", {steps[1], zero}, steps[2]);
    n.emit("Min", {steps[2], one}, steps[3]);
    return steps[3];
  };
  const auto begun = has_come(0);
  const auto ended = has_come(1);
  const std::string steps[] = {n.step(), n.step()};
  n.emit("Mul", {begun, ended}, steps[0]);
  n.emit("Sub", {begun, steps[0]}, steps[1]);
  n.emit("Cast", {steps[1]}, n.result(), {{"to", static_cast<std::int64_t>(to_onnx_type(n.result_type().element))}});
}

UNITY_INLINE onnx_family movement_family() {
  return {{{"Concat", import_concat},
           {"Split", import_split},
           {"Slice", import_slice},
           {"Pad", import_pad},
           {"Transpose", import_transpose},
           {"Reshape", import_reshape},
           {"Flatten", import_flatten},
           {"Squeeze", import_squeeze},
           {"Unsqueeze", import_unsqueeze},
           {"Expand", import_expand},
           {"Tile", import_tile},
           {"Gather", import_gather},
           {"ConstantOfShape", import_constant_of_shape}},
          {{"concat", export_concat},
           {"split", export_split},
           {"slice", export_slice},
           {"pad", export_pad},
           {"enlarge", export_enlarge},
           {"transpose", export_transpose},
           {"expand", export_expand},
           {"reshape", export_reshape},
           {"squeeze", export_with_axes},
           {"unsqueeze", export_with_axes},
           {"embedding", export_embedding},
           {"embedding_bag", export_embedding_bag},
           {"incidence", export_incidence}}};
}

}  // namespace unity::io::detail

#endif
