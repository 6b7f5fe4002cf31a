// Positions of extreme elements along an axis, one-hot rows of positions, and cumulative sums.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/tensor/body_builder.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/dtype.hpp>

namespace unity::tensor::operators {

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

}  // namespace unity::tensor::operators

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_OPERATORS_POSITION)

#include <cstddef>
#include <span>
#include <utility>

#include <unity/core/units.hpp>
#include <unity/tensor/judgement.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/operators/broadcasting.hpp>
#include <unity/tensor/operators/movement.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/space.hpp>
#include <unity/tensor/work.hpp>

namespace unity::tensor::operators {

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
    const auto along = s.parallel("p", s.dims(0)[axis]);
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
    return work{flops{element_count(inputs[0].dims)}, total_bytes(inputs) + total_bytes(outputs)};
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

}  // namespace unity::tensor::operators

#endif
