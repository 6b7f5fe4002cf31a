// The largest or smallest elements along an axis, in order.
#pragma once

#include <vector>

#include <unity/tensor/definition.hpp>

namespace unity::tensor::operators {

// The `count` largest or smallest elements along an axis and their positions; equal elements keep their order. Defined
// by comparing all pairs; its work is that of a sort.
// Shapes: x[..., n, ...] -> [..., count, ...], and int64 of the same shape.
// Source: ONNX's TopK.
[[nodiscard]] definition top_elements();

[[nodiscard]] inline std::vector<definition> orders() { return {top_elements()}; }

}  // namespace unity::tensor::operators

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_OPERATORS_ORDER)

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/tensor/attributes.hpp>
#include <unity/tensor/body_builder.hpp>
#include <unity/tensor/detail/adjoint_movement.hpp>
#include <unity/tensor/dtype.hpp>
#include <unity/tensor/judgement.hpp>
#include <unity/tensor/operators/indexing.hpp>
#include <unity/tensor/operators/movement.hpp>
#include <unity/tensor/resizing.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/work.hpp>

namespace unity::tensor::operators {

namespace detail {

// The rank of each element along the axis: the number of larger (or smaller) elements, plus equal elements before it.
// Shapes: x[..., n, ...] -> the shape of x, int64.
[[nodiscard]] value_id order_places(body_builder& b, value_id x, std::size_t axis, bool largest);

// For each of the first `count` ranks, the position of the element with that rank.
// Shapes: places[..., n, ...] -> [..., count, ...], int64.
[[nodiscard]] value_id elements_in_order(body_builder& b, value_id places, std::size_t axis, std::int64_t count);

// The sum over a dimension, which is dropped.
[[nodiscard]] inline value_id counted(body_builder& b, value_id v, std::size_t axis) {
  return b.add("reduce_sum", {v}, {{"axes", {static_cast<std::int64_t>(axis)}}, {"keep_dims", 0}});
}

// Shapes: [..., n, ...] -> [..., 1, n, ...], with the 1 at position `at`.
[[nodiscard]] inline value_id opened(body_builder& b, value_id v, std::size_t at) {
  auto dims = b.type(v).dims;
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(at), 1);
  return tensor::detail::reshaped(b, v, dims);
}

// 0, 1, ... along dimension d; all other dimensions have size 1.
[[nodiscard]] inline value_id numbered(body_builder& b, std::int64_t count, std::size_t d, std::size_t rank) {
  shape dims(rank, 1);
  dims[d] = count;
  return tensor::detail::reshaped(b, index_writer{b}.positions({count}, {1}), dims);
}

UNITY_INLINE value_id order_places(body_builder& b, value_id x, std::size_t axis, bool largest) {
  const auto rank = b.type(x).rank() + 1;
  const auto size = b.type(x).dims[axis];
  const auto own = opened(b, x, axis + 1);
  const auto other = opened(b, x, axis);
  const auto is_before = largest ? b.add("less", {own, other}) : b.add("less", {other, own});
  const auto stands_before = b.add("less", {numbered(b, size, axis + 1, rank), numbered(b, size, axis, rank)});
  const auto is_first = b.add("logical_and", {b.add("equal", {own, other}), stands_before});
  const auto comes_first = b.add("logical_or", {is_before, is_first});
  return counted(b, b.add("cast", {comes_first}, {{"element", "int64"}}), axis + 1);
}

UNITY_INLINE value_id elements_in_order(body_builder& b, value_id places, std::size_t axis, std::int64_t count) {
  const auto rank = b.type(places).rank() + 1;
  const auto size = b.type(places).dims[axis];
  const auto is_there = b.add("equal", {opened(b, places, axis), numbered(b, count, axis, rank)});
  const auto ones = b.add("cast", {is_there}, {{"element", "int64"}});
  return counted(b, b.add("mul", {ones, numbered(b, size, axis + 1, rank)}), axis + 1);
}

}  // namespace detail

UNITY_INLINE definition top_elements() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    if (!j.require_numeric() || !require_axis(j, a.integer("axis")) ||
        !j.require(j.rank(0) < max_rank, "a rank of sensible size", 0)) {
      return;
    }
    auto dims = j.dims(0);
    auto& size = dims[static_cast<std::size_t>(a.integer("axis"))];
    if (j.require(a.integer("count") > 0 && a.integer("count") <= size, "as many elements as there are at most")) {
      size = a.integer("count");
      j.result(dims);
      j.result(dims, dtype::int64);
    }
  };
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    const auto axis = a.integer("axis");
    const auto along = static_cast<std::size_t>(axis);
    const auto places = detail::order_places(b, x[0], along, a.flag("largest"));
    const auto from = detail::elements_in_order(b, places, along, a.integer("count"));
    return std::vector{b.add("gather_elements", {x[0], from}, {{"axis", axis}}), from};
  };
  auto d = define("top_elements", 1, 2, {integer_field("axis"), integer_field("count"), flag_field("largest", true)},
                  composite{body, types})
               .resized_by([](const attribute_writer& w, const resizing& r) {
                 w.set("count", {r.new_outputs[0][static_cast<std::size_t>(w["axis"][0])]});
               });
  d.own_work = [](const attribute_reader& a, std::span<const tensor_type> inputs,
                  std::span<const tensor_type> outputs) {
    const auto size = inputs[0].dims[static_cast<std::size_t>(a.integer("axis"))];
    const auto rounds = static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(size)));
    return work{flops{saturating_multiply(element_count(inputs[0].dims), rounds)},
                total_bytes(inputs) + total_bytes(outputs)};
  };
  return d;
}

}  // namespace unity::tensor::operators

#endif
