// The largest or smallest elements along an axis, in order; positions, their one-hot rows, and cumulative sums.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor::operators {

// The `count` largest or smallest elements along an axis and their positions; equal elements keep their order. Defined
// by comparing all pairs; its work is that of a sort.
// Shapes: x[..., n, ...] -> [..., count, ...], and int64 of the same shape.
// Source: ONNX's TopK.
[[nodiscard]] definition top_elements();

[[nodiscard]] inline std::vector<definition> orders() { return {top_elements()}; }

// 1 at the given position along the new axis, 0 elsewhere; all 0 if the position is out of range. The adjoint is zero.
// Shapes: positions[..., ...] -> [..., size, ...], where the new axis has `size` elements.
[[nodiscard]] definition is_position();

[[nodiscard]] value_id add_is_position(body_builder& b, value_id positions, std::int64_t axis, std::int64_t size,
                                       dtype element);

// For elements equal to the compared one: the position along the axis, counted from the end unless `last`; 0 elsewhere.
// The maximum of these gives the first or last occurrence. The adjoint is zero.
// Shapes: x[..., n, ...], of[..., 1, ...] -> the shape of x, int64.
[[nodiscard]] definition equal_positions();

// The position of the largest or smallest element along an axis; the first or last of equal ones.
// Shapes: x[..., n, ...] -> [..., 1, ...], or without the axis; int64.
[[nodiscard]] definition extreme_position(std::string name, std::string extreme);

// 1 at the first of the largest elements along an axis, 0 elsewhere. The adjoint is zero.
[[nodiscard]] definition hardmax();

// Cumulative sum along an axis; exclusive: without the element itself; reverse: from the end. Defined as log n sums
// with shifted operands; its work is one addition per element.
[[nodiscard]] definition cumulative_sum();

[[nodiscard]] std::vector<definition> positions();

// The type of indices of this many elements.
[[nodiscard]] constexpr dtype number_type(std::int64_t elements) noexcept {
  return elements <= std::numeric_limits<std::int32_t>::max() ? dtype::int32 : dtype::int64;
}

// For each y with its index, the number of elements of x that precede it by magnitude: those with larger absolute
// value, and equal ones with a lower index. A NaN is larger than all numbers and equal to another NaN, so it comes
// first and is not lost.
// Shapes: x[n], y[n] -> [n], integers.
[[nodiscard]] definition magnitude_place();

// Element r is the index of the element of places that equals r, or the sum of the indices of all that do.
// Shapes: places[n] -> [count].
[[nodiscard]] definition elements_at_places();

// The indices of the `count` elements of largest magnitude, in descending order; equal ones by lower index, NaN as in
// magnitude_place. Defined by the places of all elements in O(n^2); backends need not compute them. The adjoint is
// zero.
// Shapes: x[n] -> [count], int32, or int64 if n requires it.
[[nodiscard]] definition top_k();

[[nodiscard]] inline std::vector<definition> selections() { return {magnitude_place(), elements_at_places(), top_k()}; }

}  // namespace unity::tensor::operators

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_OPERATORS_SELECTION)

#include <bit>
#include <cstddef>
#include <span>
#include <utility>

#include <unity/core/units.hpp>
#include <unity/tensor/detail/adjoint_movement.hpp>
#include <unity/tensor/judgement.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/operators/indexing.hpp>
#include <unity/tensor/operators/movement.hpp>
#include <unity/tensor/operators/parts.hpp>
#include <unity/tensor/space.hpp>
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
    return operator_work{flops{saturating_multiply(element_count(inputs[0].dims), rounds)},
                         total_bytes(inputs) + total_bytes(outputs)};
  };
  return d;
}

UNITY_INLINE definition is_position() {
  const auto iteration = [](space& s, const attribute_reader& a) {
    const auto axis = a.integer("axis");
    const auto size = a.integer("size");
    if (!s.require(is_integral(s.inputs()[0].element), "integers", 0) ||
        !s.require(axis >= 0 && axis <= static_cast<std::int64_t>(s.rank(0)), "an axis of the result") ||
        !s.require(size > 0 && size <= max_elements, "a positive number of positions")) {
      return;
    }
    // The index of the axis must come first: the kernel refers to it by number. It is not parallel, because its size is
    // an attribute.
    const auto along = s.statistic("p", size);
    accesses in;
    accesses out;
    for (std::size_t d = 0; d <= s.rank(0); ++d) {
      if (d == static_cast<std::size_t>(axis)) {
        out.push_back(along);
      }
      if (d < s.rank(0)) {
        in.push_back(s.parallel("i"));
        out.push_back(in.back());
      }
    }
    s.read(in);
    s.write(out, a.choice<dtype>("element"));
  };
  const auto kernel = [](const attribute_reader&, std::span<const tensor_type>) {
    return kernels::equal(kernels::x(0), kernels::coordinate(0));
  };
  const auto adjoint = [](body_builder&, const attribute_reader&, const adjoint_problem&) {
    return std::vector{value_id{}};
  };
  return define("is_position", 1, 1, {integer_field("axis"), integer_field("size"), dtype_field("element")},
                primitive{iteration, kernel})
      .with_elements({dtype::int64})
      .with_adjoint(adjoint)
      .resized_by([](const attribute_writer& w, const resizing& r) {
        w.set("size", {r.new_outputs[0][static_cast<std::size_t>(w["axis"][0])]});
      });
}

UNITY_INLINE value_id add_is_position(body_builder& b, value_id positions, std::int64_t axis, std::int64_t size,
                                      dtype element) {
  return b.add("is_position", {positions}, {{"axis", axis}, {"size", size}, {"element", name_of(element)}});
}

UNITY_INLINE definition equal_positions() {
  const auto iteration = [](space& s, const attribute_reader& a) {
    if (!s.require_numeric() || !require_axis(s, a.integer("axis"))) {
      return;
    }
    const auto axis = static_cast<std::size_t>(a.integer("axis"));
    const auto along = s.whole("p", s.dims(0)[axis]);  // every part would count positions from 0
    accesses in;
    accesses of;
    for (std::size_t d = 0; d < s.rank(0); ++d) {
      in.push_back(d == axis ? along : s.parallel("i"));
      of.push_back(d == axis ? access{} : in.back());
    }
    s.read(in);
    s.read(of);
    s.write(in, dtype::int64);
  };
  const auto kernel = [](const attribute_reader& a, std::span<const tensor_type> inputs) {
    using namespace kernels;
    const auto last = inputs[0].dims[static_cast<std::size_t>(a.integer("axis"))] - 1;
    return equal(x(0), x(1)) * (a.flag("last") ? coordinate(0) : literal(static_cast<double>(last)) - coordinate(0));
  };
  const auto adjoint = [](body_builder&, const attribute_reader&, const adjoint_problem&) {
    return std::vector{value_id{}, value_id{}};
  };
  return define("equal_positions", 2, 1, {integer_field("axis"), flag_field("last", false)},
                primitive{iteration, kernel})
      .with_adjoint(adjoint);
}

UNITY_INLINE definition extreme_position(std::string name, std::string extreme) {
  const auto types = [](judgement& j, const attribute_reader& a) {
    if (!j.require_numeric() || !require_axis(j, a.integer("axis"))) {
      return;
    }
    shape dims;
    for (std::size_t d = 0; d < j.rank(0); ++d) {
      if (static_cast<std::int64_t>(d) != a.integer("axis")) {
        dims.push_back(j.dims(0)[d]);
      } else if (a.flag("keep_dims")) {
        dims.push_back(1);
      }
    }
    j.result(std::move(dims), dtype::int64);
  };
  const auto body = [extreme = std::move(extreme)](body_builder& b, const attribute_reader& a,
                                                   std::span<const value_id> x) {
    const auto axes = a.integers("axis");
    const auto last = b.type(x[0]).dims[static_cast<std::size_t>(axes[0])] - 1;
    const auto of = b.add(extreme, {x[0]}, {{"axes", axes}});
    const auto places = b.add("equal_positions", {x[0], of}, {{"axis", axes}, {"last", a.integers("last")}});
    auto place = b.add("reduce_max", {places}, {{"axes", axes}, {"keep_dims", a.integers("keep_dims")}});
    if (!a.flag("last")) {
      const auto end = b.add("fill", {}, {{"value", static_cast<double>(last)}, {"element", "int64"}, {"dims", {}}});
      place = b.add("sub", {end, place});
    }
    return std::vector{place};
  };
  const auto adjoint = [](body_builder&, const attribute_reader&, const adjoint_problem&) {
    return std::vector{value_id{}};
  };
  return define(std::move(name), 1, 1,
                {integer_field("axis"), flag_field("keep_dims", true), flag_field("last", false)},
                composite{body, types})
      .with_adjoint(adjoint);
}

UNITY_INLINE definition hardmax() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    if (j.require_floating() && require_axis(j, a.integer("axis"))) {
      j.result(j.dims(0));
    }
  };
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    const auto axis = a.integer("axis");
    const auto size = b.type(x[0]).dims[static_cast<std::size_t>(axis)];
    const auto place = b.add("arg_max", {x[0]}, {{"axis", axis}, {"keep_dims", 0}});
    return std::vector{add_is_position(b, place, axis, size, b.type(x[0]).element)};
  };
  const auto adjoint = [](body_builder&, const attribute_reader&, const adjoint_problem&) {
    return std::vector{value_id{}};
  };
  return define("hardmax", 1, 1, {integer_field("axis")}, composite{body, types}).with_adjoint(adjoint);
}

UNITY_INLINE definition cumulative_sum() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    if (j.require_numeric() && require_axis(j, a.integer("axis"))) {
      j.result(j.dims(0));
    }
  };
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    const auto axis = a.integer("axis");
    const auto rank = b.type(x[0]).rank();
    const auto size = b.type(x[0]).dims[static_cast<std::size_t>(axis)];
    const bool reverse = a.flag("reverse");
    // Shifts by this many positions and fills with zeros.
    const auto moved = [&](value_id v, std::int64_t by) {
      shape pads(2 * rank, 0);
      pads[static_cast<std::size_t>(axis) + (reverse ? rank : 0)] = by;
      const auto longer = b.add("pad", {v}, {{"pads", pads}, {"value", 0.0}});
      const auto from = reverse ? by : 0;
      return b.add("slice", {longer}, {{"axes", {axis}}, {"starts", {from}}, {"ends", {from + size}}, {"steps", {1}}});
    };
    auto sums = a.flag("exclusive") ? moved(x[0], 1) : b.add("identity", {x[0]});
    for (std::int64_t by = 1; by < size; by *= 2) {
      sums = b.add("add", {sums, moved(sums, by)});
    }
    return std::vector{sums};
  };
  auto d = define("cumulative_sum", 1, 1,
                  {integer_field("axis"), flag_field("exclusive", false), flag_field("reverse", false)},
                  composite{body, types});
  d.own_work = [](const attribute_reader&, std::span<const tensor_type> inputs, std::span<const tensor_type> outputs) {
    return operator_work{flops{element_count(inputs[0].dims)}, total_bytes(inputs) + total_bytes(outputs)};
  };
  return d;
}

UNITY_INLINE std::vector<definition> positions() {
  return {is_position(),
          equal_positions(),
          extreme_position("arg_max", "reduce_max"),
          extreme_position("arg_min", "reduce_min"),
          hardmax(),
          cumulative_sum()};
}

UNITY_INLINE definition magnitude_place() {
  const auto iteration = [](space& s, const attribute_reader&) {
    if (!s.require_floating() || !s.require(s.dims(0) == s.dims(1), "as many elements", 1)) {
      return;
    }
    const auto other = s.reduced("j");
    const auto own = s.parallel("i");
    s.read({other});
    s.read({own});
    const accesses places{own};
    s.write(places, number_type(element_count(s.dims(0))));
  };
  const auto kernel = [](const attribute_reader&, std::span<const tensor_type>) {
    using namespace kernels;
    const auto size = [](int operand) { return apply(scalar_op::abs, x(operand)); };
    const auto is_number = [](int operand) { return equal(x(operand), x(operand)); };
    const auto at_most = [](const scalar_kernel& a, const scalar_kernel& b) {
      return equal(apply(scalar_op::maximum, a, b), b);
    };
    const auto is_larger = [&](int a, int b) {
      return is_number(b) * (literal(1) - is_number(a) * at_most(size(a), size(b)));
    };
    const auto comes_first = literal(1) - at_most(coordinate(1), coordinate(0));
    return sum(is_larger(0, 1) + (literal(1) - is_larger(0, 1)) * (literal(1) - is_larger(1, 0)) * comes_first);
  };
  const auto adjoint = [](body_builder&, const attribute_reader&, const adjoint_problem&) {
    return std::vector{value_id{}, value_id{}};
  };
  return define("magnitude_place", 2, 1, {}, primitive{iteration, kernel}).with_adjoint(adjoint);
}

UNITY_INLINE definition elements_at_places() {
  const auto iteration = [](space& s, const attribute_reader& a) {
    const auto count = a.integer("count");
    if (!s.require(is_integral(s.inputs()[0].element), "integers", 0) ||
        !s.require(count > 0 && count <= max_elements, "a positive number of elements")) {
      return;
    }
    const auto place = s.parallel("r", count);
    const auto element = s.reduced("i");
    s.read({element});
    s.write({place});
  };
  const auto kernel = [](const attribute_reader&, std::span<const tensor_type>) {
    using namespace kernels;
    return sum(equal(x(0), coordinate(0)) * coordinate(1));
  };
  const auto adjoint = [](body_builder&, const attribute_reader&, const adjoint_problem&) {
    return std::vector{value_id{}};
  };
  return define("elements_at_places", 1, 1, {integer_field("count")}, primitive{iteration, kernel})
      .with_elements({dtype::int64})
      .with_adjoint(adjoint);
}

UNITY_INLINE definition top_k() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    const auto count = a.integer("count");
    if (j.require_floating() && j.require_rank(0, 1) &&
        j.require(count > 0 && count <= j.dims(0)[0], "a number of elements that the vector has")) {
      j.result({count}, number_type(j.dims(0)[0]));
    }
  };
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    return std::vector{
        b.add("elements_at_places", {b.add("magnitude_place", {x[0], x[0]})}, {{"count", a.integer("count")}})};
  };
  const auto adjoint = [](body_builder&, const attribute_reader&, const adjoint_problem&) {
    return std::vector{value_id{}};
  };
  auto d = define("top_k", 1, 1, {integer_field("count")}, composite{body, types}).with_adjoint(adjoint);
  // One comparison per element: selection takes linear time.
  d.own_work = [](const attribute_reader&, std::span<const tensor_type> inputs, std::span<const tensor_type> outputs) {
    return operator_work{flops{element_count(inputs[0].dims)}, total_bytes(inputs) + total_bytes(outputs)};
  };
  return d;
}

}  // namespace unity::tensor::operators

#endif
