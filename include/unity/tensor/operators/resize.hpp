// Resizing of images.
#pragma once

#include <cstdint>
#include <vector>

#include <unity/tensor/definition.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::tensor::operators {

// Source: ONNX's Resize.
enum class coordinates : std::uint8_t { half_pixel, pytorch_half_pixel, align_corners, asymmetric };

// The coordinate in a dimension of size `from` of position `at` in one of size `to`.
[[nodiscard]] double position_of(coordinates c, std::int64_t at, std::int64_t from, std::int64_t to) noexcept;

enum class nearest_rounding : std::uint8_t { prefer_floor, prefer_ceil, floor, ceil };

// The nearest input element for each of `to` positions.
[[nodiscard]] std::vector<std::int64_t> nearest_elements(coordinates c, nearest_rounding r, std::int64_t from,
                                                         std::int64_t to);

// Resizes the operand: takes the nearest element at each position, or interpolates linearly along each dimension.
// Shapes: x -> dims, of equal rank.
// Source: ONNX's Resize.
[[nodiscard]] definition resize();

[[nodiscard]] inline std::vector<definition> resizes() { return {operators::resize()}; }

}  // namespace unity::tensor::operators

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_OPERATORS_RESIZE)

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>

#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/tensor/detail/adjoint_movement.hpp>
#include <unity/tensor/judgement.hpp>
#include <unity/tensor/operators/indexing.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/work.hpp>

namespace unity::tensor::operators {

UNITY_INLINE double position_of(coordinates c, std::int64_t at, std::int64_t from, std::int64_t to) noexcept {
  const auto x = static_cast<double>(at);
  const auto n = static_cast<double>(from);
  const auto m = static_cast<double>(to);
  switch (c) {
    case coordinates::align_corners: return to == 1 ? 0 : x * (n - 1) / (m - 1);
    case coordinates::asymmetric: return x * n / m;
    case coordinates::pytorch_half_pixel: return to == 1 ? 0 : (x + 0.5) * n / m - 0.5;
    default: return (x + 0.5) * n / m - 0.5;
  }
}

UNITY_INLINE std::vector<std::int64_t> nearest_elements(coordinates c, nearest_rounding r, std::int64_t from,
                                                        std::int64_t to) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < to; ++i) {
    const auto at = position_of(c, i, from, to);
    const auto rounded = r == nearest_rounding::floor          ? std::floor(at)
                         : r == nearest_rounding::ceil         ? std::ceil(at)
                         : r == nearest_rounding::prefer_floor ? std::ceil(at - 0.5)
                                                               : std::floor(at + 0.5);
    all.push_back(std::clamp(static_cast<std::int64_t>(rounded), std::int64_t{0}, from - 1));
  }
  return all;
}

namespace detail {

// Known numbers, as arithmetic progressions.
[[nodiscard]] inline value_id known_numbers(const index_writer& w, body_builder& b,
                                            const std::vector<std::int64_t>& all) {
  std::vector<value_id> runs;
  for (std::size_t i = 0; i < all.size();) {
    std::size_t n = 1;
    const auto step = i + 1 < all.size() ? all[i + 1] - all[i] : 0;
    while (i + n < all.size() && all[i + n] - all[i + n - 1] == step) {
      ++n;
    }
    runs.push_back(w.positions({static_cast<std::int64_t>(n)}, {step}, all[i]));
    i += n;
  }
  return runs.size() == 1 ? runs[0] : b.add("concat", runs, std::vector{named_attribute{"axis", 0}});
}

[[nodiscard]] inline value_id nearest_along(body_builder& b, value_id x, std::size_t axis,
                                            const std::vector<std::int64_t>& elements) {
  const auto from = b.type(x).dims[axis];
  const auto to = static_cast<std::int64_t>(elements.size());
  const auto times = to / from;
  bool repeats = to % from == 0;
  for (std::int64_t i = 0; repeats && i < to; ++i) {
    repeats = elements[static_cast<std::size_t>(i)] == i / times;
  }
  const index_writer w{b};
  const auto numbers =
      repeats ? tensor::detail::reshaped(b, w.positions({from, times}, {1, 0}), {to}) : known_numbers(w, b, elements);
  return taken_along(b, x, axis, numbers);
}

// A product with the matrix of max(0, 1 - distance).
[[nodiscard]] inline value_id linear_along(body_builder& b, value_id x, std::size_t axis, coordinates c,
                                           std::int64_t to) {
  const auto t = b.type(x);
  const auto from = t.dims[axis];
  const auto number = [&](double value) {
    return b.add("fill", {}, {{"value", value}, {"element", name_of(t.element)}, {"dims", shape{}}});
  };
  const auto count = [&](const shape& dims) {
    const auto places = index_writer{b}.positions(dims, shape(dims.size(), 1));
    return b.add("cast", {places}, {{"element", name_of(t.element)}});
  };
  const auto start = position_of(c, 0, from, to);
  const auto step = position_of(c, 1, from, to) - start;
  const auto at = b.add("add", {b.add("mul", {count({1, to}), number(step)}), number(start)});
  const auto within = b.add("minimum", {b.add("maximum", {at, number(0)}), number(static_cast<double>(from - 1))});
  const auto distance = b.add("abs", {b.add("sub", {within, count({from, 1})})});
  const auto weights = b.add("relu", {b.add("sub", {number(1), distance})});
  shape permutation;
  for (std::size_t d = 0; d < t.rank(); ++d) {
    permutation.push_back(static_cast<std::int64_t>(d));
  }
  std::swap(permutation[axis], permutation.back());
  const bool is_last = axis + 1 == t.rank();
  auto dims = t.dims;
  std::swap(dims[axis], dims.back());
  const auto turned = is_last ? x : b.add("transpose", {x}, {{"permutation", permutation}});
  const auto rows = tensor::detail::reshaped(b, turned, {element_count(dims) / from, from});
  dims.back() = to;
  const auto product = tensor::detail::reshaped(b, b.add("matmul", {rows, weights}), dims);
  return is_last ? product : b.add("transpose", {product}, {{"permutation", permutation}});
}

}  // namespace detail

UNITY_INLINE definition resize() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    const auto dims = a.integers("dims");
    if (!j.require_floating() || !j.require(dims.size() == j.rank(0), "a size per dimension") ||
        !j.require(checked_element_count(dims) && checked_element_count(j.dims(0)), "positive sizes")) {
      return;
    }
    j.result(shape(dims));
  };
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    const auto dims = a.integers("dims");
    auto v = x[0];
    for (std::size_t d = 0; d < dims.size(); ++d) {
      const auto from = b.type(v).dims[d];
      if (from == dims[d]) {
        continue;
      }
      const auto c = a.choice<coordinates>("coordinates");
      if (a.integer("mode") == 0) {
        v = detail::nearest_along(b, v, d, nearest_elements(c, a.choice<nearest_rounding>("rounding"), from, dims[d]));
      } else {
        v = detail::linear_along(b, v, d, c, dims[d]);
      }
    }
    return std::vector{v == x[0] ? b.add("identity", {v}) : v};
  };
  // Only dimensions that keep their size are divided.
  auto d = define("resize", 1, 1,
                  {choice_field("mode", {"nearest", "linear"}),
                   choice_field("coordinates", {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"}),
                   choice_field("rounding", {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}),
                   integers_field("dims")},
                  composite{body, types})
               .divided_by(resize_dims);
  // Linear interpolation: about four elements, each weighted and added.
  d.own_work = [](const attribute_reader& a, auto in, auto out) {
    const auto operations = a.integer("mode") == 0 ? std::int64_t{0} : std::int64_t{8};
    return operator_work{flops{saturating_multiply(operations, element_count(out[0].dims))},
                         total_bytes(in) + total_bytes(out)};
  };
  return d;
}

}  // namespace unity::tensor::operators

#endif
