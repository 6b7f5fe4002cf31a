// Operators that rearrange, repeat or drop elements and are not expressible as one index map: composites of movements
// (movement.hpp) and of lookups at known indices (indexing.hpp).
#pragma once

#include <vector>

#include <unity/tensor/definition.hpp>

namespace unity::tensor::operators {

// Repeats the operand repeats[d] times along dimension d.
[[nodiscard]] definition tile();

// counts[i] elements along axes[i], from starts[i], with step steps[i], which may be negative but not 0.
[[nodiscard]] definition strided_slice();

// pads: before all dimensions, then after all; negative pads crop first. New elements are `value` (constant), the
// mirror image without the border (reflect), the border (edge), or the opposite end (wrap).
// Source: ONNX's Pad.
[[nodiscard]] definition border_pad();

// Moves blocks of channels to blocks of pixels. order: whether the block (dcr) or the channel (crd) is outermost in the
// channel dimension.
// Shapes: x[n, c * block^2, h, w] -> [n, c, h * block, w * block].
// Source: ONNX's DepthToSpace.
[[nodiscard]] definition depth_to_space();

// Shapes: x[n, c, h * block, w * block] -> [n, block^2 * c, h, w].
// Source: ONNX's SpaceToDepth.
[[nodiscard]] definition space_to_depth();

// Elements at or above diagonal k of the last two dimensions (upper) or at or below it; 0 elsewhere.
[[nodiscard]] definition trilu();

// 1 on diagonal k, 0 elsewhere, with the sizes of the operand. Shapes: x[n, m] -> [n, m].
[[nodiscard]] definition eye_like();

[[nodiscard]] inline std::vector<definition> rearrangements() {
  return {tile(), strided_slice(), border_pad(), depth_to_space(), space_to_depth(), trilu(), eye_like()};
}

}  // namespace unity::tensor::operators

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_OPERATORS_REARRANGEMENT)

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/tensor/detail/adjoint_movement.hpp>
#include <unity/tensor/judgement.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/operators/indexing.hpp>
#include <unity/tensor/operators/reduction.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/work.hpp>

namespace unity::tensor::operators {

namespace detail {

// Work: reads the selected elements and writes them.
[[nodiscard]] inline definition moving(definition d) {
  d.own_work = [](const attribute_reader&, auto in, auto out) { return work_of_reading(in, out); };
  return d;
}

// x with parts of its dimensions permuted. Shapes: x -> parts, permuted -> dims.
[[nodiscard]] inline value_id rearranged(body_builder& b, value_id x, const shape& parts, const shape& permutation,
                                         const shape& dims) {
  const auto apart = tensor::detail::reshaped(b, x, parts);
  return tensor::detail::reshaped(b, b.add("transpose", {apart}, {{"permutation", permutation}}), dims);
}

enum class border : std::uint8_t { constant, reflect, edge, wrap };

// The source position of each element of a padded dimension.
[[nodiscard]] inline value_id border_numbers(body_builder& b, border mode, std::int64_t before, std::int64_t size,
                                             std::int64_t padded) {
  const index_writer w{b};
  const auto at = w.positions({padded}, {1}, -before);
  if (mode == border::edge) {
    return w.clamp(at, 0, size - 1);
  }
  if (mode == border::reflect) {
    const auto last = w.number(size - 1);
    return w.sub(last, b.add("abs", {w.sub(last, b.add("abs", {at}))}));
  }
  const auto past = w.clamp(w.sub(at, w.number(size - 1)), 0, 1);
  return w.sub(w.from_front(at, size), w.times(past, size));
}

// Bounds counts and pads, so that sizes cannot overflow.
[[nodiscard]] inline bool is_sensible(std::int64_t n) { return n >= -max_elements && n <= max_elements; }

}  // namespace detail

UNITY_INLINE definition tile() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    const auto repeats = a.integers("repeats");
    if (!j.require(repeats.size() == j.rank(0), "one count per dimension")) {
      return;
    }
    auto dims = j.dims(0);
    std::size_t repeated = 0;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (!j.require(repeats[d] >= 1 && repeats[d] <= max_elements && dims[d] <= max_elements / repeats[d],
                     "positive counts of sensible size")) {
        return;
      }
      dims[d] *= repeats[d];
      repeated += repeats[d] > 1 ? 1 : 0;
    }
    if (j.require(dims.size() + repeated <= max_rank, "a rank of sensible size")) {
      j.result(std::move(dims));
    }
  };
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    const auto repeats = a.integers("repeats");
    auto dims = b.type(x[0]).dims;
    shape apart;
    shape all;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (repeats[d] > 1) {
        apart.push_back(1);
        all.push_back(repeats[d]);
      }
      apart.push_back(dims[d]);
      all.push_back(dims[d]);
      dims[d] *= repeats[d];
    }
    const auto copies = b.add("expand", {tensor::detail::reshaped(b, x[0], apart)}, {{"dims", all}});
    return std::vector{tensor::detail::reshaped(b, copies, dims)};
  };
  return detail::moving(define("tile", 1, 1, {integers_field("repeats")}, composite{body, types}));
}

UNITY_INLINE definition strided_slice() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    const auto axes = a.integers("axes");
    const auto starts = a.integers("starts");
    const auto counts = a.integers("counts");
    const auto steps = a.integers("steps");
    if (!require_axes(j, axes, j.rank(0)) ||
        !j.require(starts.size() == axes.size() && counts.size() == axes.size() && steps.size() == axes.size(),
                   "one start, count and step per axis")) {
      return;
    }
    auto dims = j.dims(0);
    for (std::size_t i = 0; i < axes.size(); ++i) {
      auto& size = dims[static_cast<std::size_t>(axes[i])];
      const bool known = starts[i] >= 0 && starts[i] < size && counts[i] >= 1 && counts[i] <= size && steps[i] != 0 &&
                         detail::is_sensible(steps[i]) && size <= max_elements;
      if (!j.require(known, "elements that the operand has")) {
        return;
      }
      const auto room = steps[i] > 0 ? size - 1 - starts[i] : starts[i];
      const auto step = steps[i] > 0 ? steps[i] : -steps[i];
      if (!j.require(counts[i] == 1 || counts[i] - 1 <= room / step, "elements that the operand has")) {
        return;
      }
      size = counts[i];
    }
    j.result(std::move(dims));
  };
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    const auto axes = a.integers("axes");
    auto v = x[0];
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const auto numbers =
          index_writer{b}.positions({a.integers("counts")[i]}, {a.integers("steps")[i]}, a.integers("starts")[i]);
      v = taken_along(b, v, static_cast<std::size_t>(axes[i]), numbers);
    }
    return std::vector{axes.empty() ? b.add("identity", {v}) : v};
  };
  return detail::moving(
      define("strided_slice", 1, 1,
             {integers_field("axes"), integers_field("starts"), integers_field("counts"), integers_field("steps")},
             composite{body, types}));
}

UNITY_INLINE definition border_pad() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    const auto pads = a.integers("pads");
    const auto mode = a.choice<detail::border>("mode");
    const auto rank = j.rank(0);
    if (!j.require(pads.size() == 2 * rank, "two pads per dimension")) {
      return;
    }
    auto dims = j.dims(0);
    for (std::size_t d = 0; d < rank; ++d) {
      const auto before = pads[d];
      const auto after = pads[rank + d];
      if (!j.require(detail::is_sensible(before) && detail::is_sensible(after) && detail::is_sensible(dims[d]),
                     "pads of sensible size")) {
        return;
      }
      const auto kept = dims[d] + std::min(before, std::int64_t{0}) + std::min(after, std::int64_t{0});
      const auto most = mode == detail::border::reflect ? kept - 1 : kept;
      const bool comes =
          mode == detail::border::constant || mode == detail::border::edge || std::max(before, after) <= most;
      if (!j.require(comes, "pads within what the operand has") || !j.require(kept > 0, "cuts that leave something")) {
        return;
      }
      dims[d] += before + after;
    }
    j.result(std::move(dims));
  };
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    const auto pads = a.integers("pads");
    const auto mode = a.choice<detail::border>("mode");
    const auto rank = b.type(x[0]).rank();
    auto v = b.add("identity", {x[0]});
    shape added(pads.size(), 0);
    for (std::size_t d = 0; d < rank; ++d) {
      const auto size = b.type(v).dims[d];
      const auto start = std::max(-pads[d], std::int64_t{0});
      const auto end = size - std::max(-pads[rank + d], std::int64_t{0});
      const auto axis = static_cast<std::int64_t>(d);
      if (end - start < size) {
        v = b.add("slice", {v}, {{"axes", {axis}}, {"starts", {start}}, {"ends", {end}}, {"steps", {1}}});
      }
      added[d] = std::max(pads[d], std::int64_t{0});
      added[rank + d] = std::max(pads[rank + d], std::int64_t{0});
      if (mode != detail::border::constant && (added[d] != 0 || added[rank + d] != 0)) {
        const auto kept = end - start;
        const auto padded = added[d] + kept + added[rank + d];
        v = taken_along(b, v, d, detail::border_numbers(b, mode, added[d], kept, padded));
      }
    }
    if (mode != detail::border::constant) {
      return std::vector{v};
    }
    return std::vector{b.add("pad", {v}, {{"pads", added}, {"value", a.real("value")}})};
  };
  return detail::moving(define(
      "border_pad", 1, 1,
      {choice_field("mode", {"constant", "reflect", "edge", "wrap"}), integers_field("pads"), real_field("value", 0.0)},
      composite{body, types}));
}

UNITY_INLINE definition depth_to_space() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    const auto block = a.integer("block");
    if (!j.require_rank(0, 4) || !j.require(block >= 1 && block <= 4096, "a positive block of sensible size")) {
      return;
    }
    const auto& x = j.dims(0);
    if (j.require(x[1] > 0 && x[1] % (block * block) == 0, "channels that are a multiple of the block's elements", 0) &&
        j.require(detail::is_sensible(x[2]) && detail::is_sensible(x[3]), "an image of sensible size", 0)) {
      j.result({x[0], x[1] / (block * block), x[2] * block, x[3] * block});
    }
  };
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    const auto s = a.integer("block");
    const auto dims = b.type(x[0]).dims;
    const auto c = dims[1] / (s * s);
    const bool block_first = a.integer("order") == 0;
    const auto parts =
        block_first ? shape{dims[0], s, s, c, dims[2], dims[3]} : shape{dims[0], c, s, s, dims[2], dims[3]};
    const auto permutation = block_first ? shape{0, 3, 4, 1, 5, 2} : shape{0, 1, 4, 2, 5, 3};
    return std::vector{detail::rearranged(b, x[0], parts, permutation, {dims[0], c, dims[2] * s, dims[3] * s})};
  };
  return detail::moving(define("depth_to_space", 1, 1, {integer_field("block"), choice_field("order", {"dcr", "crd"})},
                               composite{body, types}));
}

UNITY_INLINE definition space_to_depth() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    const auto block = a.integer("block");
    if (!j.require_rank(0, 4) || !j.require(block >= 1 && block <= 4096, "a positive block of sensible size")) {
      return;
    }
    const auto& x = j.dims(0);
    if (j.require(x[2] > 0 && x[3] > 0 && x[2] % block == 0 && x[3] % block == 0, "an image of whole blocks", 0) &&
        j.require(detail::is_sensible(x[1]), "channels of sensible number", 0)) {
      j.result({x[0], x[1] * block * block, x[2] / block, x[3] / block});
    }
  };
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    const auto s = a.integer("block");
    const auto dims = b.type(x[0]).dims;
    const auto h = dims[2] / s;
    const auto w = dims[3] / s;
    return std::vector{detail::rearranged(b, x[0], {dims[0], dims[1], h, s, w, s}, {0, 3, 5, 1, 2, 4},
                                          {dims[0], dims[1] * s * s, h, w})};
  };
  return detail::moving(define("space_to_depth", 1, 1, {integer_field("block")}, composite{body, types}));
}

namespace detail {

// 1 if column - row - k is at least 0, 0 elsewhere; `below`: at most 0. Shapes: -> [n, m].
[[nodiscard]] inline value_id beyond_diagonal(body_builder& b, std::int64_t n, std::int64_t m, std::int64_t k,
                                              bool below) {
  const index_writer w{b};
  const auto distance = below ? w.positions({n, m}, {1, -1}, k + 1) : w.positions({n, m}, {-1, 1}, 1 - k);
  return w.clamp(distance, 0, 1);
}

}  // namespace detail

// Gives each element that stays an index from 0; the others get -1, which looks up 0.
UNITY_INLINE definition trilu() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    if (j.require(j.rank(0) >= 2, "rank 2 or more", 0) &&
        j.require(detail::is_sensible(a.integer("k")), "a diagonal of sensible number")) {
      j.result(j.dims(0));
    }
  };
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    const index_writer w{b};
    const auto dims = b.type(x[0]).dims;
    const auto rank = dims.size();
    const auto n = dims[rank - 2];
    const auto m = dims[rank - 1];
    const auto stays = detail::beyond_diagonal(b, n, m, a.integer("k"), !a.flag("upper"));
    const auto from_one = w.mul(stays, w.positions({n, m}, {m, 1}, 1));
    const auto numbers = tensor::detail::reshaped(b, w.sub(from_one, w.number(1)), {n * m});
    const auto flat = tensor::detail::reshaped(b, x[0], {element_count(dims) / (n * m), n * m});
    return std::vector{tensor::detail::reshaped(b, taken_along(b, flat, 1, numbers), dims)};
  };
  return detail::moving(
      define("trilu", 1, 1, {flag_field("upper", true), integer_field("k", 0)}, composite{body, types}));
}

UNITY_INLINE definition eye_like() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    if (j.require_rank(0, 2) && j.require(detail::is_sensible(a.integer("k")), "a diagonal of sensible number")) {
      j.result(j.dims(0), a.choice<dtype>("element"));
    }
  };
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    const auto dims = b.type(x[0]).dims;
    const auto k = a.integer("k");
    const auto on = index_writer{b}.mul(detail::beyond_diagonal(b, dims[0], dims[1], k, false),
                                        detail::beyond_diagonal(b, dims[0], dims[1], k, true));
    return std::vector{b.add("cast", {on}, {{"element", name_of(a.choice<dtype>("element"))}})};
  };
  auto d = define("eye_like", 1, 1, {integer_field("k", 0), dtype_field("element")}, composite{body, types});
  d.own_work = [](const attribute_reader&, auto, auto out) { return operator_work{flops{}, total_bytes(out)}; };
  return d;
}

}  // namespace unity::tensor::operators

#endif
