// Operators that read or write elements by index: gathers along any axis, and the corresponding scatters.
//
// All are defined as lookups of table rows (embedding) at indices that their bodies compute: no element is multiplied,
// so infinities stay where they are. A negative index counts from the end; results for indices out of range are
// unspecified.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/judgement.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/work.hpp>

namespace unity::tensor::operators {

// Computes element indices in bodies, in int64.
class index_writer {
 public:
  explicit index_writer(body_builder& b) : b_{b} {}

  [[nodiscard]] value_id number(std::int64_t value, const shape& dims = {}) const;
  // start + the dot product of position and strides. Shapes: -> dims.
  [[nodiscard]] value_id positions(const shape& dims, const shape& strides, std::int64_t start = 0) const;

  [[nodiscard]] value_id add(value_id x, value_id y) const { return b_.add("add", {x, y}); }
  [[nodiscard]] value_id sub(value_id x, value_id y) const { return b_.add("sub", {x, y}); }
  [[nodiscard]] value_id mul(value_id x, value_id y) const { return b_.add("mul", {x, y}); }
  [[nodiscard]] value_id times(value_id x, std::int64_t factor) const { return mul(x, number(factor)); }
  [[nodiscard]] value_id clamp(value_id x, std::int64_t least, std::int64_t most) const;

  // The indices, with negative ones counted from the end of `size` elements.
  [[nodiscard]] value_id from_front(value_id numbers, std::int64_t size) const;

 private:
  body_builder& b_;
};

// Shapes: x[a..., v, e...], numbers[i...] -> [a..., i..., e...], where v is dimension `axis`.
[[nodiscard]] value_id taken_along(body_builder& b, value_id x, std::size_t axis, value_id numbers);

// start + sum over d of position[d] * strides[d], in int64. Shapes: -> dims.
[[nodiscard]] definition linear_index();

// Row r of the result is the sum of the rows of x whose number is r.
// Shapes: numbers[i...], x[i..., e...] -> [rows, e...].
[[nodiscard]] definition scatter_sum();

// Shapes: x[a..., v, e...], numbers[i...] -> [a..., i..., e...], where v is dimension `axis`.
// Source: ONNX's Gather.
[[nodiscard]] definition gather();

// Element i of the result is the element of x at position i, except that the position along `axis` is numbers[i].
// Shapes: x[d...], numbers[n...] -> [n...], of equal rank, with n <= d except along the axis.
// Source: ONNX's GatherElements.
[[nodiscard]] definition gather_elements();

// Shapes: x[b..., d1...dk, e...], numbers[b..., i..., k] -> [b..., i..., e...], with `batch` dimensions b.
// Source: ONNX's GatherND.
[[nodiscard]] definition gather_nd();

// A copy of x in which the elements that gather_elements would read are replaced by those of updates, or increased by
// them.
// Indices must be distinct unless updates are added.
// Shapes: x[d...], numbers[n...], updates[n...] -> [d...].
// Source: ONNX's ScatterElements.
[[nodiscard]] definition scatter_elements();

// Indices must be distinct unless updates are added.
// Shapes: x[d1...dk, e...], numbers[i..., k], updates[i..., e...] -> the shape of x.
// Source: ONNX's ScatterND.
[[nodiscard]] definition scatter_nd();

// values[1] where the position along `axis` equals the number, values[0] elsewhere. Numbers outside of [-depth, depth)
// have no position.
// Shapes: numbers[i...], values[2] -> i... with depth at axis.
// Source: ONNX's OneHot.
[[nodiscard]] definition one_hot_values();

[[nodiscard]] inline std::vector<definition> indexings() {
  return {linear_index(), scatter_sum(),      gather(),     gather_elements(),
          gather_nd(),    scatter_elements(), scatter_nd(), one_hot_values()};
}

// Counts only the elements of the first operand that are read.
[[nodiscard]] operator_work work_of_reading(std::span<const tensor_type> inputs, std::span<const tensor_type> outputs);

}  // namespace unity::tensor::operators

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_OPERATORS_INDEXING)

#include <algorithm>
#include <cstddef>
#include <utility>

#include <unity/core/small_vector.hpp>
#include <unity/core/units.hpp>
#include <unity/tensor/detail/adjoint_movement.hpp>
#include <unity/tensor/operators/parts.hpp>

namespace unity::tensor::operators {

UNITY_INLINE value_id index_writer::number(std::int64_t value, const shape& dims) const {
  return b_.add("fill", {}, {{"value", static_cast<double>(value)}, {"element", "int64"}, {"dims", dims}});
}

UNITY_INLINE value_id index_writer::positions(const shape& dims, const shape& strides, std::int64_t start) const {
  return b_.add("linear_index", {}, {{"dims", dims}, {"strides", strides}, {"start", start}});
}

UNITY_INLINE value_id index_writer::clamp(value_id x, std::int64_t least, std::int64_t most) const {
  return b_.add("minimum", {b_.add("maximum", {x, number(least)}), number(most)});
}

UNITY_INLINE value_id index_writer::from_front(value_id numbers, std::int64_t size) const {
  if (b_.type(numbers).element != dtype::int64) {
    numbers = b_.add("cast", {numbers}, {{"element", "int64"}});
  }
  return sub(numbers, times(clamp(numbers, -1, 0), size));
}

UNITY_INLINE value_id taken_along(body_builder& b, value_id x, std::size_t axis, value_id numbers) {
  const auto rank = b.type(x).rank();
  const auto more = b.type(numbers).rank();
  if (axis == 0) {
    return b.add("embedding", {x, numbers});
  }
  shape there{static_cast<std::int64_t>(axis)};
  for (std::size_t d = 0; d < rank; ++d) {
    if (d != axis) {
      there.push_back(static_cast<std::int64_t>(d));
    }
  }
  shape back;
  for (std::size_t d = 0; d < rank - 1 + more; ++d) {
    const auto from = d < axis ? more + d : d < axis + more ? d - axis : d;
    back.push_back(static_cast<std::int64_t>(from));
  }
  const auto rows = b.add("transpose", {x}, {{"permutation", there}});
  return b.add("transpose", {b.add("embedding", {rows, numbers})}, {{"permutation", back}});
}

namespace detail {

inline bool require_whole_numbers(judgement& j, std::size_t operand) {
  j.allow_mixed_elements();
  return j.require(is_integral(j.inputs()[operand].element), "integers", static_cast<int>(operand));
}

// The flat indices in x of the elements that gather_elements reads.
[[nodiscard]] inline value_id numbers_of_elements(body_builder& b, const shape& x, value_id numbers, std::size_t axis) {
  const index_writer w{b};
  auto strides = strides_of(x);
  const auto step = std::exchange(strides[axis], 0);
  return w.add(w.positions(b.type(numbers).dims, strides), w.times(w.from_front(numbers, x[axis]), step));
}

// The row numbers in x, with its first batch + k dimensions flattened. Shapes: numbers[i..., k] -> [i...].
[[nodiscard]] inline value_id numbers_of_rows(body_builder& b, const shape& x, value_id numbers, std::size_t batch) {
  const index_writer w{b};
  const auto dims = b.type(numbers).dims;
  const auto last = static_cast<std::int64_t>(dims.size()) - 1;
  const auto k = static_cast<std::size_t>(dims.back());
  const shape outer(std::span<const std::int64_t>{dims}.first(dims.size() - 1));
  const auto rows = strides_of(std::span<const std::int64_t>{x}.first(batch + k));
  shape strides(outer.size(), 0);
  std::copy_n(rows.begin(), batch, strides.begin());
  auto sum = w.positions(outer, strides);
  for (std::size_t i = 0; i < k; ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const auto part =
        b.add("slice", {numbers}, {{"axes", {last}}, {"starts", {at}}, {"ends", {at + 1}}, {"steps", {1}}});
    const auto size = x[batch + i];
    sum = w.add(sum, w.times(w.from_front(tensor::detail::reshaped(b, part, outer), size), rows[batch + i]));
  }
  return sum;
}

// Flattens the first dimensions into one.
[[nodiscard]] inline shape rows_of(const shape& x, std::size_t first) {
  const std::span<const std::int64_t> all{x};
  shape dims{element_count(all.first(first))};
  dims.append(x.begin() + static_cast<std::ptrdiff_t>(first), x.end());
  return dims;
}

enum class scatter_reduction : std::uint8_t { none, add };

[[nodiscard]] inline attribute_field reduction_field() { return choice_field("reduction", {"none", "add"}); }

// Looks up each row of the result in the concatenation of x and the updates: written rows from the updates, others from
// x.
// Shapes: x[r, e...], numbers[i...], updates[i..., e...] -> [r, e...].
[[nodiscard]] value_id written(body_builder& b, value_id x, value_id numbers, value_id updates,
                               scatter_reduction reduction);

UNITY_INLINE value_id written(body_builder& b, value_id x, value_id numbers, value_id updates,
                              scatter_reduction reduction) {
  const auto rows = b.type(x).dims[0];
  if (reduction == scatter_reduction::add) {
    return b.add("add", {x, b.add("scatter_sum", {numbers, updates}, {{"rows", rows}})});
  }
  const index_writer w{b};
  const auto& dims = b.type(numbers).dims;
  const auto count = dims.size();
  const auto order = w.positions(dims, strides_of(dims), 1);
  const auto update = b.add("scatter_sum", {numbers, order}, {{"rows", rows}});  // counts from 1; 0: not written
  const auto own = w.positions({rows}, {1});
  const auto other = w.add(update, w.number(rows - 1));
  const auto row = w.add(own, w.mul(w.clamp(update, 0, 1), w.sub(other, own)));
  const auto all =
      b.add("concat", {x, tensor::detail::reshaped(b, updates, rows_of(b.type(updates).dims, count))}, {{"axis", {0}}});
  return b.add("embedding", {all, row});
}

[[nodiscard]] inline operator_work work_of_writing(const attribute_reader&, std::span<const tensor_type> inputs,
                                                   std::span<const tensor_type> outputs) {
  return {flops{element_count(inputs[2].dims)}, total_bytes(inputs) + total_bytes(outputs)};
}

[[nodiscard]] inline definition with_work(definition d, decltype(definition::own_work) w) {
  d.own_work = std::move(w);
  return d;
}

}  // namespace detail

UNITY_INLINE operator_work work_of_reading(std::span<const tensor_type> inputs, std::span<const tensor_type> outputs) {
  auto moved = total_bytes(outputs) + total_bytes(inputs.subspan(1));
  moved += std::min(total_bytes(outputs), size_in_bytes(inputs[0]));
  return {flops{}, moved};
}

UNITY_INLINE definition linear_index() {
  const auto iteration = [](space& s, const attribute_reader& a) {
    const auto dims = a.integers("dims");
    const auto strides = a.integers("strides");
    if (!s.require(strides.size() == dims.size(), "a stride per dimension") ||
        !s.require(checked_element_count(dims).has_value(), "positive sizes")) {
      return;
    }
    const auto is_small = [](std::int64_t n) { return n >= -max_elements && n <= max_elements; };
    if (s.require(std::all_of(strides.begin(), strides.end(), is_small) && is_small(a.integer("start")),
                  "strides of sensible size")) {
      s.write(declare_all(s, dims), dtype::int64);
    }
  };
  const auto kernel = [](const attribute_reader& a, std::span<const tensor_type>) {
    auto sum = kernels::literal(static_cast<double>(a.integer("start")));
    const auto strides = a.integers("strides");
    for (std::size_t d = 0; d < strides.size(); ++d) {
      if (strides[d] != 0) {
        sum = sum + kernels::literal(static_cast<double>(strides[d])) * kernels::coordinate(static_cast<int>(d));
      }
    }
    return sum;
  };
  return define("linear_index", 0, 1, {integers_field("dims"), integers_field("strides"), integer_field("start", 0)},
                primitive{iteration, kernel});
}

UNITY_INLINE definition scatter_sum() {
  const auto iteration = [](space& s, const attribute_reader& a) {
    const auto rows = a.integer("rows");
    if (!detail::require_whole_numbers(s, 0) ||
        !s.require(s.inputs()[1].element != dtype::boolean, "numeric elements", 1) ||
        !s.require(s.rank(1) >= s.rank(0), "a dimension per dimension of the numbers", 1) ||
        !s.require(rows > 0 && rows <= max_elements, "a positive number of rows")) {
      return;
    }
    accesses table{s.parallel("v", rows)};
    accesses numbers;
    accesses x;
    for (std::size_t d = 0; d < s.rank(1); ++d) {
      x.push_back(d < s.rank(0) ? s.reduced("i") : s.parallel("e"));
      (d < s.rank(0) ? numbers : table).push_back(x.back());
    }
    s.read(numbers);
    s.read(x);
    s.write(table, s.inputs()[1].element);
  };
  const auto kernel = [](const attribute_reader&, std::span<const tensor_type>) {
    using namespace kernels;
    return sum(equal(x(0), coordinate(0)) * x(1));
  };
  const auto adjoint = [](body_builder& b, const attribute_reader&, const adjoint_problem& p) {
    return std::vector{value_id{}, b.add("embedding", {p.cotangents[0], p.operand(0)})};
  };
  return define("scatter_sum", 2, 1, {integer_field("rows")}, primitive{iteration, kernel})
      .with_adjoint(adjoint)
      .with_elements({dtype::int64});
}

UNITY_INLINE definition gather() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    const auto axis = a.integer("axis");
    if (!detail::require_whole_numbers(j, 1) ||
        !j.require(axis >= 0 && axis < static_cast<std::int64_t>(j.rank(0)), "an axis within the rank")) {
      return;
    }
    const auto before = j.dims(0).begin() + static_cast<std::ptrdiff_t>(axis);
    shape dims;
    dims.append(j.dims(0).begin(), before);
    dims.append(j.dims(1).begin(), j.dims(1).end());
    dims.append(before + 1, j.dims(0).end());
    j.result(std::move(dims));
  };
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    const auto axis = static_cast<std::size_t>(a.integer("axis"));
    return std::vector{taken_along(b, x[0], axis, index_writer{b}.from_front(x[1], b.type(x[0]).dims[axis]))};
  };
  return detail::with_work(define("gather", 2, 1, {integer_field("axis", 0)}, composite{body, types})
                               .with_elements({dtype::float32, dtype::int64}),
                           [](const attribute_reader&, auto in, auto out) { return work_of_reading(in, out); });
}

namespace detail {

// Requires indices along an axis of x, whose sizes along the other dimensions do not exceed those of x.
inline bool require_element_numbers(judgement& j, std::int64_t axis) {
  if (!require_whole_numbers(j, 1) || !j.require(j.rank(1) == j.rank(0), "the rank of operand 0", 1) ||
      !j.require(axis >= 0 && axis < static_cast<std::int64_t>(j.rank(0)), "an axis within the rank")) {
    return false;
  }
  bool within = true;
  for (std::size_t d = 0; d < j.rank(0); ++d) {
    within = within && (d == static_cast<std::size_t>(axis) || j.dims(1)[d] <= j.dims(0)[d]);
  }
  return j.require(within, "sizes within those of operand 0", 1);
}

// Requires row indices: the last dimension holds one index for each indexed dimension after the first `batch`.
inline bool require_row_numbers(judgement& j, std::int64_t batch) {
  if (!require_whole_numbers(j, 1) || !j.require(j.rank(1) >= 1, "rank 1 or more", 1) ||
      !j.require(batch >= 0 && batch < static_cast<std::int64_t>(std::min(j.rank(0), j.rank(1))),
                 "batch dimensions within the ranks")) {
    return false;
  }
  const auto first = static_cast<std::size_t>(batch);
  const bool same = std::equal(j.dims(0).begin(), j.dims(0).begin() + batch, j.dims(1).begin());
  const auto most = static_cast<std::int64_t>(j.rank(0) - first);
  return j.require(same, "equal batch dimensions", 1) &&
         j.require(j.dims(1).back() >= 1 && j.dims(1).back() <= most, "a number per dimension at most", 1);
}

// i..., and the dimensions of x that are not indexed.
[[nodiscard]] inline shape dims_of_rows(const judgement& j, std::int64_t batch) {
  shape dims(std::span<const std::int64_t>{j.dims(1)}.first(j.rank(1) - 1));
  dims.append(j.dims(0).begin() + batch + j.dims(1).back(), j.dims(0).end());
  return dims;
}

}  // namespace detail

UNITY_INLINE definition gather_elements() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    if (detail::require_element_numbers(j, a.integer("axis"))) {
      j.result(j.dims(1));
    }
  };
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    const auto dims = b.type(x[0]).dims;
    const auto numbers = detail::numbers_of_elements(b, dims, x[1], static_cast<std::size_t>(a.integer("axis")));
    return std::vector{b.add("embedding", {tensor::detail::reshaped(b, x[0], {element_count(dims)}), numbers})};
  };
  return detail::with_work(define("gather_elements", 2, 1, {integer_field("axis", 0)}, composite{body, types})
                               .with_elements({dtype::float32, dtype::int64}),
                           [](const attribute_reader&, auto in, auto out) { return work_of_reading(in, out); });
}

UNITY_INLINE definition gather_nd() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    if (detail::require_row_numbers(j, a.integer("batch"))) {
      j.result(detail::dims_of_rows(j, a.integer("batch")));
    }
  };
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    const auto batch = static_cast<std::size_t>(a.integer("batch"));
    const auto dims = b.type(x[0]).dims;
    const auto k = static_cast<std::size_t>(b.type(x[1]).dims.back());
    const auto numbers = detail::numbers_of_rows(b, dims, x[1], batch);
    return std::vector{
        b.add("embedding", {tensor::detail::reshaped(b, x[0], detail::rows_of(dims, batch + k)), numbers})};
  };
  return detail::with_work(define("gather_nd", 2, 1, {integer_field("batch", 0)}, composite{body, types})
                               .with_elements({dtype::float32, dtype::int64}),
                           [](const attribute_reader&, auto in, auto out) { return work_of_reading(in, out); });
}

UNITY_INLINE definition scatter_elements() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    if (detail::require_element_numbers(j, a.integer("axis")) &&
        j.require(j.inputs()[2].element == j.inputs()[0].element, "the element type of operand 0", 2) &&
        j.require(j.dims(2) == j.dims(1), "the sizes of operand 1", 2) &&
        (a.integer("reduction") == 0 || j.require_numeric())) {
      j.result(j.dims(0));
    }
  };
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    const auto dims = b.type(x[0]).dims;
    const auto numbers = detail::numbers_of_elements(b, dims, x[1], static_cast<std::size_t>(a.integer("axis")));
    const auto flat = tensor::detail::reshaped(b, x[0], {element_count(dims)});
    const auto all = detail::written(b, flat, numbers, x[2], a.choice<detail::scatter_reduction>("reduction"));
    return std::vector{tensor::detail::reshaped(b, all, dims)};
  };
  return detail::with_work(
      define("scatter_elements", 3, 1, {integer_field("axis", 0), detail::reduction_field()}, composite{body, types})
          .with_elements({dtype::float32, dtype::int64}),
      detail::work_of_writing);
}

UNITY_INLINE definition scatter_nd() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    if (detail::require_row_numbers(j, 0) &&
        j.require(j.inputs()[2].element == j.inputs()[0].element, "the element type of operand 0", 2) &&
        j.require(j.dims(2) == detail::dims_of_rows(j, 0), "a row per number", 2) &&
        (a.integer("reduction") == 0 || j.require_numeric())) {
      j.result(j.dims(0));
    }
  };
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    const auto dims = b.type(x[0]).dims;
    const auto rows = detail::rows_of(dims, static_cast<std::size_t>(b.type(x[1]).dims.back()));
    const auto all =
        detail::written(b, tensor::detail::reshaped(b, x[0], rows), detail::numbers_of_rows(b, dims, x[1], 0), x[2],
                        a.choice<detail::scatter_reduction>("reduction"));
    return std::vector{tensor::detail::reshaped(b, all, dims)};
  };
  return detail::with_work(define("scatter_nd", 3, 1, {detail::reduction_field()}, composite{body, types})
                               .with_elements({dtype::float32, dtype::int64}),
                           detail::work_of_writing);
}

UNITY_INLINE definition one_hot_values() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    const auto axis = a.integer("axis");
    if (!detail::require_whole_numbers(j, 0) || !j.require(j.dims(1) == shape{2}, "two values", 1) ||
        !j.require(axis >= 0 && axis <= static_cast<std::int64_t>(j.rank(0)),
                   "an axis within the rank of the result") ||
        !j.require(a.integer("depth") > 0 && a.integer("depth") <= max_elements, "a positive depth")) {
      return;
    }
    auto dims = j.dims(0);
    dims.insert(dims.begin() + axis, a.integer("depth"));
    j.result(std::move(dims), j.inputs()[1].element);
  };
  // The flat position of each number in the result; none if it is out of range.
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    const index_writer w{b};
    const auto depth = a.integer("depth");
    const auto dims = b.type(x[0]).dims;
    auto all = dims;
    all.insert(all.begin() + a.integer("axis"), depth);
    auto strides = strides_of(all);
    const auto step = strides[static_cast<std::size_t>(a.integer("axis"))];
    strides.erase(strides.begin() + a.integer("axis"));
    const auto number = w.from_front(x[0], depth);
    const auto is_there = b.add("embedding", {w.number(1, {depth}), number});
    const auto place = w.add(w.positions(dims, strides, 1), w.times(number, step));
    const auto from_zero = w.sub(w.mul(is_there, place), w.number(1));
    const auto count = element_count(all);
    const auto hits = b.add("scatter_sum", {from_zero, w.number(1, dims)}, {{"rows", count}});
    return std::vector{tensor::detail::reshaped(b, b.add("embedding", {x[1], hits}), all)};
  };
  return detail::with_work(
      define("one_hot_values", 2, 1, {integer_field("axis"), integer_field("depth")}, composite{body, types})
          .with_elements({dtype::int64}),
      [](const attribute_reader&, auto in, auto out) {
        return operator_work{flops{}, total_bytes(in) + total_bytes(out)};
      });
}

}  // namespace unity::tensor::operators

#endif
