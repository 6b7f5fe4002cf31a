// Adjoints of views, from their index maps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/tensor/adjoint_rule.hpp>
#include <unity/tensor/body_builder.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/view_map.hpp>

namespace unity::tensor::detail {

// The part of a result that the piece writes.
[[nodiscard]] value_id piece_of(body_builder& b, value_id v, const piece& p);

// Pads with zeros: `before` and `after` along every dimension.
[[nodiscard]] value_id padded(body_builder& b, value_id v, const shape& before, const shape& after);

// Element i along dimension d moves to position i * step of a dimension of this size; the others are zero.
[[nodiscard]] value_id spread(body_builder& b, value_id v, std::size_t d, std::int64_t step, std::int64_t size);

// Puts the elements of a piece back to where they were read, with zeros elsewhere.
[[nodiscard]] value_id unread(body_builder& b, value_id cotangent, const piece& p, const shape& dims);

// The dimension along which the operand is cut into consecutive pieces that are whole results; -1 if it is not.
[[nodiscard]] int cut_along(const view_map& map);

[[nodiscard]] std::vector<value_id> view_adjoint(body_builder& b, const view_map& map, const adjoint_problem& p);

}  // namespace unity::tensor::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_DETAIL_ADJOINT_VIEW)

#include <unity/tensor/detail/adjoint_movement.hpp>

namespace unity::tensor::detail {

UNITY_INLINE value_id piece_of(body_builder& b, value_id v, const piece& p) {
  shape axes;
  shape starts;
  shape ends;
  for (std::size_t d = 0; d < p.sizes.size(); ++d) {
    if (p.sizes[d] != b.type(v).dims[d]) {
      axes.push_back(static_cast<std::int64_t>(d));
      starts.push_back(p.origin[d]);
      ends.push_back(p.origin[d] + p.sizes[d]);
    }
  }
  return axes.empty() ? v
                      : b.add("slice", {v},
                              {{"axes", axes}, {"starts", starts}, {"ends", ends}, {"steps", shape(axes.size(), 1)}});
}

UNITY_INLINE value_id padded(body_builder& b, value_id v, const shape& before, const shape& after) {
  auto pads = before;
  bool none = true;
  for (const auto n : after) {
    pads.push_back(n);
  }
  for (const auto n : pads) {
    none = none && n == 0;
  }
  return none ? v : b.add("pad", {v}, {{"pads", pads}});
}

UNITY_INLINE value_id spread(body_builder& b, value_id v, std::size_t d, std::int64_t step, std::int64_t size) {
  const auto dims = b.type(v).dims;
  shape apart;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    apart.push_back(dims[i]);
    if (i == d) {
      apart.push_back(1);
    }
  }
  shape after(apart.size(), 0);
  after[d + 1] = step - 1;
  v = padded(b, reshaped(b, v, apart), shape(apart.size(), 0), after);
  auto joined = dims;
  joined[d] *= step;
  v = reshaped(b, v, joined);
  if (joined[d] <= size) {
    return v;
  }
  const auto axis = static_cast<std::int64_t>(d);
  return b.add("slice", {v}, {{"axes", {axis}}, {"starts", {0}}, {"ends", {size}}, {"steps", {1}}});
}

UNITY_INLINE value_id unread(body_builder& b, value_id cotangent, const piece& p, const shape& dims) {
  labelled x{piece_of(b, cotangent, p), {}};
  for (std::size_t r = 0; r < p.sizes.size(); ++r) {
    x.labels.push_back({r});
  }
  dimension_labels to;
  for (const auto& s : p.source) {
    to.push_back(s.along < 0 ? dimension_label{} : dimension_label{static_cast<std::size_t>(s.along)});
  }
  auto v = carried(b, x, to);
  shape before;
  shape after;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const auto& s = p.source[d];
    if (s.along >= 0 && s.step > 1 && b.type(v).dims[d] > 1) {
      v = spread(b, v, d, s.step, dims[d] - s.start);
    }
    before.push_back(s.start);
    after.push_back(dims[d] - s.start - b.type(v).dims[d]);
  }
  return padded(b, v, before, after);
}

UNITY_INLINE int cut_along(const view_map& map) {
  const auto pieces = map.pieces();
  if (map.inputs().size() != 1 || pieces.size() < 2 || pieces.size() != map.results().size()) {
    return -1;
  }
  int axis = -1;
  std::int64_t at = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto& p = pieces[i];
    for (std::size_t d = 0; d < p.source.size(); ++d) {
      const bool same = p.result == i && p.source[d].along == static_cast<int>(d) && p.source[d].step == 1;
      if (!same || p.sizes.size() != p.source.size()) {
        return -1;
      }
      const bool cut = p.sizes[d] != map.dims(0)[d];
      if (cut && axis >= 0 && axis != static_cast<int>(d)) {
        return -1;
      }
      axis = cut ? static_cast<int>(d) : axis;
    }
    if (axis < 0 || p.source[static_cast<std::size_t>(axis)].start != at) {
      return -1;
    }
    at += p.sizes[static_cast<std::size_t>(axis)];
  }
  return at == map.dims(0)[static_cast<std::size_t>(axis)] ? axis : -1;
}

UNITY_INLINE std::vector<value_id> view_adjoint(body_builder& b, const view_map& map, const adjoint_problem& p) {
  std::vector<value_id> all(p.inputs.size());
  if (map.relabels()) {
    all[0] = reshaped(b, p.cotangents[0], p.inputs[0].dims);
    return all;
  }
  if (const auto axis = cut_along(map); axis >= 0) {
    std::vector<value_id> parts;
    for (std::size_t r = 0; r < p.outputs.size(); ++r) {
      parts.push_back(or_zeros(b, p.cotangents[r], p.outputs[r]));
    }
    all[0] = b.add("concat", parts, std::vector{named_attribute{"axis", axis}});
    return all;
  }
  for (const auto& piece : map.pieces()) {
    if (p.wanted[piece.operand] && p.cotangents[piece.result].valid()) {
      const auto& dims = p.inputs[piece.operand].dims;
      all[piece.operand] = added(b, all[piece.operand], unread(b, p.cotangents[piece.result], piece, dims));
    }
  }
  return all;
}

}  // namespace unity::tensor::detail

#endif
