// ONNX operators that read and write by index, repeat and rearrange: one operator each, written as the node that was
// read. What cannot be expressed stays opaque.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string_view>

#include <unity/io/onnx/family.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::io::detail {

// Applies the operator to the node's first inputs; empty if it does not accept them.
[[nodiscard]] import_result accepted(import_node& n, std::string_view name, std::size_t inputs,
                                     std::initializer_list<tensor::named_attribute> attributes);

// Embeddings and slices if possible (movement.hpp), else the general form.
import_result import_any_gather(import_node& n);
// Slices whose steps may be negative.
import_result import_any_slice(import_node& n);
// All pad modes, also negative pads.
import_result import_any_pad(import_node& n);
import_result import_any_tile(import_node& n);

[[nodiscard]] onnx_family indexing_family();

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_INDEXING)

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/row_major.hpp>
#include <unity/io/onnx/graph_maker.hpp>
#include <unity/io/onnx/graph_writer.hpp>
#include <unity/io/onnx/logic.hpp>
#include <unity/io/onnx/movement.hpp>
#include <unity/io/onnx/proto.hpp>
#include <unity/io/tensor_data.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::io::detail {

UNITY_INLINE import_result accepted(import_node& n, std::string_view name, std::size_t inputs,
                                    std::initializer_list<tensor::named_attribute> attributes) {
  std::vector<value_id> operands;
  for (std::size_t i = 0; i < inputs; ++i) {
    operands.push_back(n.input(i));
  }
  try {
    return n.emit_all(name, operands, attributes);
  } catch (const not_accepted&) {
    return std::nullopt;
  }
}

// A known number that is an input instead of an attribute, as a list of one.
[[nodiscard]] inline std::string known_number(export_node& n, std::int64_t value) {
  const std::int64_t values[] = {value};
  return n.out.integers(values);
}

UNITY_INLINE import_result import_any_gather(import_node& n) {
  if (auto rows = import_gather(n)) {
    return rows;
  }
  return accepted(n, "gather", 2, {{"axis", n.axis(n.attributes.integer("axis", 0), n.rank(0))}});
}

UNITY_INLINE import_result import_any_slice(import_node& n) {
  if (auto forward = import_slice(n)) {
    return forward;
  }
  const auto starts = n.known_integers(1);
  const auto ends = n.known_integers(2);
  if (n.opset() < 10 || !starts || !ends || (n.has(3) && !n.known_integers(3)) || (n.has(4) && !n.known_integers(4))) {
    return std::nullopt;
  }
  const auto axes = n.known_integers(3);
  const auto steps = n.known_integers(4);
  struct cut {
    std::int64_t axis;
    slice_range range;
  };
  std::vector<cut> cuts;
  for (std::size_t i = 0; i < starts->size(); ++i) {
    const auto axis = n.axis(axes ? (*axes)[i] : static_cast<std::int64_t>(i), n.rank(0));
    const auto size = n.type(0).dims[static_cast<std::size_t>(axis)];
    const auto range = clamp_slice((*starts)[i], (*ends)[i], steps ? (*steps)[i] : 1, size);
    if (!range || range->count == 0) {
      return std::nullopt;
    }
    cuts.push_back({axis, *range});
  }
  std::sort(cuts.begin(), cuts.end(), [](const cut& a, const cut& b) { return a.axis < b.axis; });
  tensor::shape columns[4];
  for (const auto& c : cuts) {
    columns[0].push_back(c.axis);
    columns[1].push_back(c.range.from);
    columns[2].push_back(c.range.count);
    columns[3].push_back(c.range.count == 1 ? 1 : c.range.step);
  }
  return accepted(n, "strided_slice", 1,
                  {{"axes", columns[0]}, {"starts", columns[1]}, {"counts", columns[2]}, {"steps", columns[3]}});
}

UNITY_INLINE import_result import_any_pad(import_node& n) {
  if (auto zeros = import_pad(n)) {
    return zeros;
  }
  const auto list = n.list(n.opset() < 2 ? "paddings" : "pads", 1, 11);
  const auto value = n.opset() < 11 ? n.attributes.real("value", 0) : n.has(2) ? n.known_real(2) : 0.0;
  const auto mode = n.attributes.word("mode", "constant");
  if (!list.found || !list.values || !value || (n.has(3) && !n.known_integers(3)) ||
      (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap")) {
    return std::nullopt;
  }
  auto pads = *list.values;
  if (n.has(3)) {
    const auto axes = *n.known_integers(3);
    std::vector<std::int64_t> all(2 * n.rank(0), 0);
    for (std::size_t i = 0; i < axes.size() && pads.size() == 2 * axes.size(); ++i) {
      const auto axis = static_cast<std::size_t>(n.axis(axes[i], n.rank(0)));
      all[axis] = pads[i];
      all[axis + n.rank(0)] = pads[i + axes.size()];
    }
    pads = all;
  }
  return accepted(n, "border_pad", 1, {{"mode", mode}, {"pads", pads}, {"value", mode == "constant" ? *value : 0.0}});
}

UNITY_INLINE import_result import_any_tile(import_node& n) {
  if (auto expanded = import_tile(n)) {
    return expanded;
  }
  const auto repeats = n.known_integers(1);
  return repeats && n.opset() >= 6 ? accepted(n, "tile", 1, {{"repeats", *repeats}}) : std::nullopt;
}

[[nodiscard]] inline import_result import_gather_elements(import_node& n) {
  return accepted(n, "gather_elements", 2, {{"axis", n.axis(n.attributes.integer("axis", 0), n.rank(0))}});
}

[[nodiscard]] inline import_result import_gather_nd(import_node& n) {
  return accepted(n, "gather_nd", 2, {{"batch", n.attributes.integer("batch_dims", 0)}});
}

[[nodiscard]] inline import_result import_scatter(import_node& n) {
  const auto reduction = n.attributes.word("reduction", "none");
  if (reduction != "none" && reduction != "add") {
    return std::nullopt;
  }
  return n.type() == "ScatterND"
             ? accepted(n, "scatter_nd", 3, {{"reduction", reduction}})
             : accepted(n, "scatter_elements", 3,
                        {{"axis", n.axis(n.attributes.integer("axis", 0), n.rank(0))}, {"reduction", reduction}});
}

[[nodiscard]] inline import_result import_one_hot(import_node& n) {
  const auto depth = n.known_real(1);
  if (!depth || *depth < 1 || *depth > static_cast<double>(tensor::max_elements)) {
    return std::nullopt;
  }
  const auto axis = n.axis(n.attributes.integer("axis", -1), n.rank(0) + 1);
  const value_id operands[] = {n.input(0), n.input(2)};
  try {
    return n.emit_all("one_hot_values", operands, {{"axis", axis}, {"depth", static_cast<std::int64_t>(*depth)}});
  } catch (const not_accepted&) {
    return std::nullopt;
  }
}

// Only if comparing all pairs, as the operator is defined, takes at most a second and about 100 MB.
[[nodiscard]] inline import_result import_top_k(import_node& n) {
  constexpr std::int64_t most_comparisons = std::int64_t{1} << 22;
  const auto axis = n.axis(n.attributes.integer("axis", -1), n.rank(0));
  const auto k = n.opset() < 10 ? static_cast<double>(n.attributes.integer("k", 0)) : n.known_real(1).value_or(0);
  const auto& dims = n.type(0).dims;
  const auto size = dims[static_cast<std::size_t>(axis)];
  if (k < 1 || k > static_cast<double>(size) || size > most_comparisons / tensor::element_count(dims)) {
    return std::nullopt;
  }
  return accepted(n, "top_elements", 1,
                  {{"axis", axis},
                   {"count", static_cast<std::int64_t>(k)},
                   {"largest", n.attributes.integer("largest", 1) != 0 ? 1 : 0}});
}

[[nodiscard]] inline import_result import_depth_to_space(import_node& n) {
  const auto block = n.attributes.integer("blocksize", 0);
  const auto mode = n.attributes.word("mode", "DCR");
  if (n.type() == "SpaceToDepth") {
    return mode == "DCR" ? accepted(n, "space_to_depth", 1, {{"block", block}}) : std::nullopt;
  }
  return mode == "DCR" || mode == "CRD"
             ? accepted(n, "depth_to_space", 1, {{"block", block}, {"order", mode == "DCR" ? "dcr" : "crd"}})
             : std::nullopt;
}

[[nodiscard]] inline import_result import_trilu(import_node& n) {
  const auto k = n.has(1) ? n.known_real(1) : 0.0;
  return k ? accepted(n, "trilu", 1,
                      {{"upper", n.attributes.integer("upper", 1) != 0 ? 1 : 0}, {"k", static_cast<std::int64_t>(*k)}})
           : std::nullopt;
}

[[nodiscard]] inline import_result import_eye_like(import_node& n) {
  const auto element = n.attributes.find("dtype") == nullptr
                           ? std::optional{n.type(0).element}
                           : from_onnx_type(static_cast<std::int32_t>(n.attributes.integer("dtype", 0)));
  return element
             ? accepted(n, "eye_like", 1, {{"k", n.attributes.integer("k", 0)}, {"element", tensor::name_of(*element)}})
             : std::nullopt;
}

// The numbers are known, so they are written as data.
inline void export_linear_index(export_node& n) {
  constexpr std::int64_t most = std::int64_t{1} << 24;
  const auto dims = n.result_type().dims;
  const auto strides = n.integers("strides");
  if (tensor::element_count(dims) > most) {
    n.refuse("more numbers than are written out", "fewer");
  }
  std::vector<std::int64_t> all;
  for_each_position(dims, [&](const tensor::shape& at) {
    all.push_back(std::inner_product(at.begin(), at.end(), strides.begin(), n.attributes.integer("start")));
  });
  n.out.initializer(n.result(), make_data(tensor::dtype::int64, dims, all));
}

// Adds rows to rows of zeros.
inline void export_scatter_sum(export_node& n) {
  const auto& t = n.result_type();
  const auto numbers = n.step();
  n.emit_with_list("Unsqueeze", n.input(0), numbers, {"axes", 13, {static_cast<std::int64_t>(n.type(0).rank())}});
  n.emit("ScatterND", {n.out.filled(0, t.element, t.dims), numbers, n.input(1)}, n.result(),
         {{"reduction", std::string{"add"}}});
}

inline void export_gather(export_node& n) {
  n.emit("Gather", n.inputs(), n.result(), {{"axis", n.attributes.integer("axis")}});
}

// An end before the first element is written as a number that is out of range even when counted from the end.
inline void export_strided_slice(export_node& n) {
  const auto axes = n.integers("axes");
  const auto starts = n.integers("starts");
  const auto steps = n.integers("steps");
  auto ends = n.integers("counts");
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const auto last = starts[i] + (ends[i] - 1) * steps[i];
    const auto end = last + (steps[i] > 0 ? 1 : -1);
    ends[i] = end < 0 ? -n.type(0).dims[static_cast<std::size_t>(axes[i])] - 1 : end;
  }
  n.emit("Slice",
         {n.input(0), n.out.integers(starts), n.out.integers(ends), n.out.integers(axes), n.out.integers(steps)},
         n.result());
}

inline void export_border_pad(export_node& n) {
  const auto pads = n.integers("pads");
  const auto mode = n.choice("mode");
  const auto value = n.attributes.real("value");
  if (n.opset() < 11) {
    n.emit("Pad", n.inputs(), n.result(),
           {{n.opset() < 2 ? "paddings" : "pads", pads}, {"mode", mode}, {"value", value}});
  } else if (mode == "constant" && value != 0) {
    n.emit("Pad", {n.input(0), n.out.integers(pads), n.scalar(value, n.type(0).element)}, n.result());
  } else {
    n.emit("Pad", {n.input(0), n.out.integers(pads)}, n.result(), {{"mode", mode}});
  }
}

inline void export_tile(export_node& n) {
  n.emit("Tile", {n.input(0), n.out.integers(n.integers("repeats"))}, n.result());
}

inline void export_gather_elements(export_node& n) {
  n.emit("GatherElements", n.inputs(), n.result(), {{"axis", n.attributes.integer("axis")}});
}

inline void export_gather_nd(export_node& n) {
  if (const auto batch = n.attributes.integer("batch"); batch != 0) {
    n.emit("GatherND", n.inputs(), n.result(), {{"batch_dims", batch}});
  } else {
    n.emit("GatherND", n.inputs(), n.result());
  }
}

inline void export_scatter(export_node& n) {
  const bool rows = n.kind() == "scatter_nd";
  std::vector<onnx_attribute> with;
  if (!rows) {
    with.push_back({"axis", n.attributes.integer("axis")});
  }
  if (n.choice("reduction") != "none") {
    with.push_back({"reduction", n.choice("reduction")});
  }
  const std::string outputs[] = {n.result()};
  n.out.node(rows ? "ScatterND" : n.opset() < 11 ? "Scatter" : "ScatterElements", n.inputs(), outputs, with);
}

inline void export_one_hot(export_node& n) {
  n.emit("OneHot", {n.input(0), known_number(n, n.attributes.integer("depth")), n.input(1)}, n.result(),
         {{"axis", n.attributes.integer("axis")}});
}

inline void export_top_k(export_node& n) {
  const auto count = n.attributes.integer("count");
  const bool largest = n.attributes.flag("largest");
  std::vector<onnx_attribute> with{{"axis", n.attributes.integer("axis")}};
  if (!largest) {
    require_opset(n, 11, "the smallest elements");
    with.push_back({"largest", std::int64_t{0}});
  }
  auto inputs = n.inputs();
  if (n.opset() < 10) {
    with.push_back({"k", count});
  } else {
    inputs.push_back(known_number(n, count));
  }
  n.out.node("TopK", inputs, n.results(), with);
}

inline void export_depth_to_space(export_node& n) {
  const auto block = n.attributes.integer("block");
  if (n.kind() == "space_to_depth") {
    n.emit("SpaceToDepth", n.inputs(), n.result(), {{"blocksize", block}});
  } else if (n.choice("order") == "dcr") {
    n.emit("DepthToSpace", n.inputs(), n.result(), {{"blocksize", block}});
  } else {
    n.emit("DepthToSpace", n.inputs(), n.result(), {{"blocksize", block}, {"mode", std::string{"CRD"}}});
  }
}

inline void export_trilu(export_node& n) {
  std::vector<std::string> inputs{n.input(0)};
  if (const auto k = n.attributes.integer("k"); k != 0) {
    inputs.push_back(n.out.fresh("diagonal"));
    n.out.initializer(inputs.back(), data_from(known_scalar(k)));
  }
  n.emit("Trilu", inputs, n.result(), {{"upper", n.attributes.integer("upper")}});
}

inline void export_eye_like(export_node& n) {
  n.emit(
      "EyeLike", n.inputs(), n.result(),
      {{"k", n.attributes.integer("k")}, {"dtype", static_cast<std::int64_t>(to_onnx_type(n.result_type().element))}});
}

UNITY_INLINE onnx_family indexing_family() {
  return {{{"Gather", import_any_gather},
           {"Slice", import_any_slice},
           {"Pad", import_any_pad},
           {"Tile", import_any_tile},
           {"GatherElements", import_gather_elements},
           {"GatherND", import_gather_nd},
           {"Scatter", import_scatter},
           {"ScatterElements", import_scatter},
           {"ScatterND", import_scatter},
           {"OneHot", import_one_hot},
           {"TopK", import_top_k},
           {"DepthToSpace", import_depth_to_space},
           {"SpaceToDepth", import_depth_to_space},
           {"Trilu", import_trilu},
           {"EyeLike", import_eye_like}},
          {{"linear_index", export_linear_index},
           {"scatter_sum", export_scatter_sum},
           {"gather", export_gather},
           {"strided_slice", export_strided_slice},
           {"border_pad", export_border_pad},
           {"tile", export_tile},
           {"gather_elements", export_gather_elements},
           {"gather_nd", export_gather_nd},
           {"scatter_elements", export_scatter},
           {"scatter_nd", export_scatter},
           {"one_hot_values", export_one_hot},
           {"top_elements", export_top_k},
           {"depth_to_space", export_depth_to_space},
           {"space_to_depth", export_depth_to_space},
           {"trilu", export_trilu},
           {"eye_like", export_eye_like}}};
}

}  // namespace unity::io::detail

#endif
