// Operators that move elements without changing them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <unity/tensor/definition.hpp>
#include <unity/tensor/judgement.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/space.hpp>

namespace unity::tensor::operators {

[[nodiscard]] inline bool require_axis(judgement& j, std::int64_t axis) {
  return j.require(axis >= 0 && axis < static_cast<std::int64_t>(j.rank(0)), "an axis within the rank");
}

// Concatenates along an existing axis.
[[nodiscard]] definition concat();

// One result per size.
[[nodiscard]] definition split();

void resize_slice(const attribute_writer& w, const resizing& r);

// 0 <= start < end <= size and step >= 1 along every named axis.
[[nodiscard]] definition slice();

// Places the operand at `origin` in a result of shape `dims`.
void place(view_map& v, shape dims, shape origin);

// pads: before all dimensions, then after all dimensions.
[[nodiscard]] definition pad();

// Pads the kernel of a convolution with zeros and keeps it centred.
// Source: TASO's enlarge.
[[nodiscard]] definition enlarge();

// Dimension d of the result is dimension permutation[d] of the operand.
[[nodiscard]] definition transpose();

// Broadcasts the operand with shape dims as in NumPy.
[[nodiscard]] definition expand();

[[nodiscard]] definition reshape();

// Drops axes of size 1.
[[nodiscard]] definition squeeze();

// Inserts axes of size 1; `axes` are positions in the result.
[[nodiscard]] definition unsqueeze();

[[nodiscard]] inline std::vector<definition> movements() {
  return {concat(), split(), slice(), pad(), enlarge(), transpose(), expand(), reshape(), squeeze(), unsqueeze()};
}

}  // namespace unity::tensor::operators

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_OPERATORS_MOVEMENT)

#include <algorithm>
#include <span>

#include <unity/core/small_vector.hpp>
#include <unity/tensor/operators/reduction.hpp>

namespace unity::tensor::operators {

UNITY_INLINE definition concat() {
  const auto map = [](view_map& v, const attribute_reader& a) {
    const auto axis = static_cast<std::size_t>(a.integer("axis"));
    if (!require_axis(v, a.integer("axis"))) {
      return;
    }
    auto joint = v.dims(0);
    for (std::size_t i = 1; i < v.inputs().size(); ++i) {
      bool agrees = v.rank(i) == joint.size();
      for (std::size_t d = 0; agrees && d < joint.size(); ++d) {
        agrees = d == axis || v.dims(i)[d] == joint[d];
      }
      if (!v.require(agrees, "sizes that agree outside of the axis", static_cast<int>(i))) {
        return;
      }
      joint[axis] = std::min(joint[axis] + v.dims(i)[axis], max_elements + 1);  // saturates above the limit
    }
    v.result(std::move(joint));
    std::int64_t at = 0;
    for (std::size_t i = 0; !v.failed() && i < v.inputs().size(); ++i) {
      auto p = v.box(i, 0);
      p.sizes[axis] = v.dims(i)[axis];
      p.origin[axis] = at;
      at += p.sizes[axis];
      v.add(std::move(p));
    }
  };
  return define("concat", {1, operand_count::unlimited}, 1, {integer_field("axis")}, view{map});
}

UNITY_INLINE definition split() {
  const auto map = [](view_map& v, const attribute_reader& a) {
    const auto sizes = a.integers("sizes");
    if (!require_axis(v, a.integer("axis")) || !v.require(!sizes.empty(), "at least one size")) {
      return;
    }
    const auto axis = static_cast<std::size_t>(a.integer("axis"));
    std::int64_t at = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (!v.require(sizes[i] > 0 && sizes[i] <= v.dims(0)[axis] - at, "sizes that sum to the size of the axis")) {
        return;
      }
      auto dims = v.dims(0);
      dims[axis] = sizes[i];
      v.result(std::move(dims));
      auto p = v.box(0, i);
      p.source[axis].start = at;
      v.add(std::move(p));
      at += sizes[i];
    }
    v.require(at == v.dims(0)[axis], "sizes that sum to the size of the axis");
  };
  const auto resize = [](const attribute_writer& w, const resizing& r) {
    const auto axis = static_cast<std::size_t>(w["axis"][0]);
    attribute sizes;
    for (const auto& s : r.new_outputs) {
      sizes.push_back(s[axis]);
    }
    w.set("sizes", std::move(sizes));
  };
  return define("split", 1, op_signature::any, {integer_field("axis"), integers_field("sizes")}, view{map})
      .resized_by(resize);
}

UNITY_INLINE void resize_slice(const attribute_writer& w, const resizing& r) {
  const auto& axes = w["axes"];
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto d = static_cast<std::size_t>(axes[i]);
    auto& start = w["starts"][i];
    auto& end = w["ends"][i];
    if (w["steps"][i] == 1) {
      start = !r.before.empty() ? r.before[d] : r.new_inputs[0][d] == r.inputs[0].dims[d] ? start : 0;
      end = start + r.new_outputs[0][d];
    } else {
      end += r.new_inputs[0][d] - r.inputs[0].dims[d];
    }
  }
}

UNITY_INLINE definition slice() {
  const auto map = [](view_map& v, const attribute_reader& a) {
    const auto axes = a.integers("axes");
    const auto starts = a.integers("starts");
    const auto ends = a.integers("ends");
    const auto steps = a.integers("steps");
    if (!require_axes(v, axes, v.rank(0)) ||
        !v.require(starts.size() == axes.size() && ends.size() == axes.size() && steps.size() == axes.size(),
                   "one start, end and step per axis")) {
      return;
    }
    auto dims = v.dims(0);
    for (std::size_t i = 0; i < axes.size(); ++i) {
      auto& size = dims[static_cast<std::size_t>(axes[i])];
      if (!v.require(
              starts[i] >= 0 && starts[i] < ends[i] && ends[i] <= size && steps[i] >= 1 && steps[i] <= max_elements,
              "0 <= start < end <= size and step >= 1")) {
        return;
      }
      size = (ends[i] - starts[i] - 1) / steps[i] + 1;
    }
    v.result(std::move(dims));
    auto p = v.box(0, 0);
    for (std::size_t i = 0; i < axes.size(); ++i) {
      auto& s = p.source[static_cast<std::size_t>(axes[i])];
      s.start = starts[i];
      s.step = steps[i] < ends[i] - starts[i] ? steps[i] : 1;  // 1 if only one element is selected
    }
    v.add(std::move(p));
  };
  return define("slice", 1, 1,
                {integers_field("axes"), integers_field("starts"), integers_field("ends"), integers_field("steps")},
                view{map})
      .resized_by(resize_slice);
}

UNITY_INLINE void place(view_map& v, shape dims, shape origin) {
  v.result(std::move(dims));
  if (!v.failed()) {
    auto p = v.box(0, 0);
    p.origin = std::move(origin);
    p.sizes = v.dims(0);
    v.add(std::move(p));
  }
}

UNITY_INLINE definition pad() {
  const auto map = [](view_map& v, const attribute_reader& a) {
    const auto pads = a.integers("pads");
    const auto rank = v.rank(0);
    if (!v.require(pads.size() == 2 * rank, "two pads per dimension")) {
      return;
    }
    auto dims = v.dims(0);
    shape origin(pads.first(rank));
    for (std::size_t d = 0; d < rank; ++d) {
      if (!v.require(std::min(pads[d], pads[rank + d]) >= 0 && std::max(pads[d], pads[rank + d]) <= max_elements,
                     "non-negative pads of sensible size")) {
        return;
      }
      dims[d] += pads[d] + pads[rank + d];
    }
    v.fill_with(a.real("value"));
    place(v, std::move(dims), std::move(origin));
  };
  const auto resize = [](const attribute_writer& w, const resizing& r) {
    auto& pads = w["pads"];
    for (std::size_t d = 0; d < r.before.size(); ++d) {
      pads[d] = r.before[d];
      pads[pads.size() / 2 + d] = r.after[d];
    }
  };
  return define("pad", 1, 1, {integers_field("pads"), real_field("value", 0.0)}, view{map}).resized_by(resize);
}

UNITY_INLINE definition enlarge() {
  const auto map = [](view_map& v, const attribute_reader& a) {
    if (!v.require_rank(0, 4)) {
      return;
    }
    auto dims = v.dims(0);
    shape origin(4, 0);
    for (std::size_t d = 0; d < 2; ++d) {
      const auto size = a.integers("kernel")[d];
      if (!v.require(size >= dims[2 + d] && (size - dims[2 + d]) % 2 == 0, "a kernel larger by an even number")) {
        return;
      }
      origin[2 + d] = (size - dims[2 + d]) / 2;
      dims[2 + d] = size;
    }
    place(v, std::move(dims), std::move(origin));
  };
  return define("enlarge", 1, 1, {integers_field("kernel", 2)}, view{map});
}

UNITY_INLINE definition transpose() {
  const auto map = [](view_map& v, const attribute_reader& a) {
    const auto permutation = a.integers("permutation");
    if (!v.require(permutation.size() == v.rank(0), "one axis per dimension")) {
      return;
    }
    shape dims;
    small_vector<int, 6> along(permutation.size(), -1);
    for (std::size_t d = 0; d < permutation.size(); ++d) {
      const auto axis = static_cast<std::size_t>(permutation[d]);
      if (!v.require(axis < along.size() && along[axis] < 0, "a permutation of the axes")) {
        return;
      }
      along[axis] = static_cast<int>(d);
      dims.push_back(v.dims(0)[axis]);
    }
    v.result(std::move(dims));
    v.whole(0, 0, along);
  };
  return define("transpose", 1, 1, {integers_field("permutation")}, view{map}).with_layouts();
}

UNITY_INLINE definition expand() {
  const auto map = [](view_map& v, const attribute_reader& a) {
    const auto joint = broadcast(v.dims(0), a.integers("dims"));
    if (!v.require(joint.has_value(), "dimensions that broadcast")) {
      return;
    }
    v.result(*joint);
    small_vector<int, 6> along;
    const auto skipped = joint->size() - v.rank(0);
    for (std::size_t d = 0; d < v.rank(0); ++d) {
      along.push_back(v.dims(0)[d] == (*joint)[d + skipped] ? static_cast<int>(d + skipped) : -1);
    }
    v.whole(0, 0, along);
  };
  // Entries of 1 stay 1: the size comes from the operand.
  const auto resize = [](const attribute_writer& w, const resizing& r) {
    auto& dims = w["dims"];
    const auto skipped = r.new_outputs[0].size() - dims.size();
    for (std::size_t d = 0; d < dims.size(); ++d) {
      dims[d] = dims[d] == 1 ? 1 : r.new_outputs[0][d + skipped];
    }
  };
  return define("expand", 1, 1, {integers_field("dims")}, view{map}).resized_by(resize);
}

UNITY_INLINE definition reshape() {
  const auto map = [](view_map& v, const attribute_reader& a) {
    const auto dims = a.integers("dims");
    const auto count = checked_element_count(dims);
    if (v.require(count.has_value() && *count == element_count(v.dims(0)), "the same number of elements")) {
      v.result(shape(dims));
      v.relabel();
    }
  };
  return define("reshape", 1, 1, {integers_field("dims")}, view{map})
      .resized_by(resize_dims)
      .running_in(runs_in::no_mode);
}

UNITY_INLINE definition squeeze() {
  const auto map = [](view_map& v, const attribute_reader& a) {
    const auto axes = a.integers("axes");
    if (!require_axes(v, axes, v.rank(0))) {
      return;
    }
    shape dims;
    for (std::size_t d = 0; d < v.rank(0); ++d) {
      if (!contains(axes, d)) {
        dims.push_back(v.dims(0)[d]);
      } else if (!v.require(v.dims(0)[d] == 1, "axes of size 1")) {
        return;
      }
    }
    v.result(std::move(dims));
    v.relabel();
  };
  return define("squeeze", 1, 1, {integers_field("axes")}, view{map}).running_in(runs_in::no_mode);
}

UNITY_INLINE definition unsqueeze() {
  const auto map = [](view_map& v, const attribute_reader& a) {
    const auto axes = a.integers("axes");
    const auto rank = v.rank(0) + axes.size();
    if (!v.require(rank <= max_rank, "a rank of sensible size") || !require_axes(v, axes, rank)) {
      return;
    }
    shape dims;
    for (std::size_t d = 0, next = 0; d < rank; ++d) {
      dims.push_back(contains(axes, d) ? 1 : v.dims(0)[next++]);
    }
    v.result(std::move(dims));
    v.relabel();
  };
  return define("unsqueeze", 1, 1, {integers_field("axes")}, view{map}).running_in(runs_in::no_mode);
}

}  // namespace unity::tensor::operators

#endif
