// Quantization, dequantization, and products of quantized numbers, as in ONNX.
//
// A real x is stored as round(x / scale) + zero point, with halves rounded to even, clamped to the range of int8 or
// uint8. Scale and zero point are given per tensor, per position along an axis, or per block of a fixed number of
// elements along it. Integer results have no cotangents.
#pragma once

#include <vector>

#include <unity/tensor/definition.hpp>

namespace unity::tensor::operators {

// (x - zero point) * scale.
// Shapes: x[d...], integers; scale[], [n] along `axis`, or the shape of x with n / block there if `block` is not 0;
// optional zero point of the same shape as scale and the type of x -> [d...], of the type of scale.
// Source: ONNX's DequantizeLinear.
[[nodiscard]] definition dequantize();

// Shapes: x[d...], scale and optional zero point as in dequantize -> [d...], int8 or uint8.
// Source: ONNX's QuantizeLinear.
[[nodiscard]] definition quantize();

// Chooses scale and zero point so that uint8 covers the range from the smallest to the largest element, and 0. The
// scale of zeros is 1. Shapes: x[d...] -> [d...], scale[], zero point[]. Source: ONNX's DynamicQuantizeLinear.
[[nodiscard]] definition dynamic_quantize();

// The exact product in int32 after subtracting the zero points.
// Shapes: a[..., m, k], b[..., k, n], optional zero point of a: [] or [m], optional zero point of b: [] or [n] -> [...,
// m, n].
// Source: ONNX's MatMulInteger.
[[nodiscard]] definition integer_matmul();

// The exact convolution in int32 after subtracting the zero points.
// Shapes: x[n, c, h, w], w[oc, c / groups, kh, kw], optional zero point of x: [], optional zero point of w: [] or [oc]
// -> [n, oc, oh, ow].
// Source: ONNX's ConvInteger.
[[nodiscard]] definition integer_conv2d();

// A product of quantized matrices with quantized result.
// Shapes: a[..., m, k], its scale and zero point[] or [m], b[..., k, n], its scale and zero point[] or [n], those of
// the result[] -> [..., m, n], with the type of the last operand.
// Source: ONNX's QLinearMatMul.
[[nodiscard]] definition quantized_matmul();

// A convolution of quantized images with quantized result.
// Shapes: x[n, c, h, w], its scale and zero point[], w[oc, c / groups, kh, kw], its scale and zero point[] or [oc],
// those of the result[], optional int32 bias[oc] -> [n, oc, oh, ow], with the type of the zero point of the result.
// Source: ONNX's QLinearConv.
[[nodiscard]] definition quantized_conv2d();

// dequantize comes first because standard_operators() had it before the others.
[[nodiscard]] inline std::vector<definition> quantizations() {
  return {dequantize(),     quantize(),         dynamic_quantize(), integer_matmul(),
          integer_conv2d(), quantized_matmul(), quantized_conv2d()};
}

}  // namespace unity::tensor::operators

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_OPERATORS_QUANTIZATION)

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string_view>

#include <unity/core/id.hpp>
#include <unity/tensor/detail/adjoint_movement.hpp>
#include <unity/tensor/judgement.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/operators/convolution.hpp>
#include <unity/tensor/operators/functions.hpp>
#include <unity/tensor/operators/parts.hpp>
#include <unity/tensor/operators/reduction.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/space.hpp>

namespace unity::tensor::operators {

namespace detail {

[[nodiscard]] inline bool is_small(dtype t) { return t == dtype::int8 || t == dtype::uint8; }

[[nodiscard]] inline value_id cast_to(body_builder& b, value_id v, dtype element) {
  return b.type(v).element == element ? v : b.add("cast", {v}, {{"element", name_of(element)}});
}

// Requires one scale in all, per position along the axis, or per block along it; a zero point must have the same shape.
bool require_scale(judgement& j, const attribute_reader& a);

// The shapes to which x and the scales are reshaped so that the scales broadcast to x.
struct scale_form {
  shape x{};
  shape scale{};
};
[[nodiscard]] scale_form scale_form_of(const attribute_reader& a, const shape& x, const shape& scale);

// round(x) + zero point, clamped to the range of the type. A null zero point is 0.
[[nodiscard]] value_id saturated(body_builder& b, value_id x, value_id zero_point, dtype element);

// x - zero point, exact in float64. A null zero point is 0.
[[nodiscard]] value_id distance_from(body_builder& b, value_id x, value_id zero_point, const shape& as);

// Appends `behind` dimensions of size 1 to a vector, so that one number per row or channel broadcasts; a scalar stays
// as it is.
[[nodiscard]] inline shape standing(const shape& dims, std::size_t behind) {
  shape all = dims;
  for (std::size_t i = 0; i < behind && !dims.empty(); ++i) {
    all.push_back(1);
  }
  return all;
}

// Requires that operand `i` is one number or `each` numbers, of type `element`.
inline bool require_each(judgement& j, std::size_t i, std::int64_t each, dtype element) {
  return j.require(j.rank(i) == 0 || j.dims(i) == shape{each}, "one number, or one each", static_cast<int>(i)) &&
         j.require(j.inputs()[i].element == element, name_of(element).data(), static_cast<int>(i));  // a literal
}
// Requires one floating-point scale or `each` scales in operand `i`, and such a zero point in operand i + 1.
inline bool require_quantized(judgement& j, std::size_t i, std::int64_t each, dtype element) {
  return j.require(is_floating(j.inputs()[i].element), "floating-point elements", static_cast<int>(i)) &&
         require_each(j, i, each, j.inputs()[1].element) && require_each(j, i + 1, each, element) &&
         j.require(j.dims(i) == j.dims(i + 1), "a zero point per scale", static_cast<int>(i) + 1);
}

// The result shapes of products and convolutions; empty, with a reported error, if the operands do not fit.
[[nodiscard]] shape product_dims(judgement& j, std::size_t a, std::size_t b);
[[nodiscard]] shape convolution_dims(judgement& j, const attribute_reader& a, std::size_t x, std::size_t w);

// Quantizes again the numbers that an int32 product represents. Scales broadcast to it.
struct requantization {
  value_id first_scale{};
  value_id second_scale{};
  value_id scale{};
  value_id zero_point{};
};
[[nodiscard]] value_id requantized(body_builder& b, value_id product, const requantization& r);

[[nodiscard]] std::vector<attribute_field> convolution_fields();
[[nodiscard]] definition resized_convolution(definition d, std::size_t weights);

UNITY_INLINE bool require_scale(judgement& j, const attribute_reader& a) {
  const auto axis = a.integer("axis");
  const auto block = a.integer("block");
  j.allow_mixed_elements();
  if (!j.require(is_floating(j.inputs()[1].element), "floating-point elements", 1)) {
    return false;
  }
  const bool within = axis >= 0 && axis < static_cast<std::int64_t>(j.rank(0));
  const auto size = within ? j.dims(0)[static_cast<std::size_t>(axis)] : 0;
  if (block != 0) {
    auto dims = j.dims(0);
    if (!j.require(within && block > 0 && size > 0 && size % block == 0, "whole blocks along an axis within the rank",
                   0)) {
      return false;
    }
    dims[static_cast<std::size_t>(axis)] = size / block;
    j.require(j.dims(1) == dims, "one scale per block", 1);
  } else {
    j.require(j.rank(1) == 0 || (within && j.dims(1) == shape{size}), "one scale, or one per position along the axis",
              1);
  }
  return j.require(j.inputs().size() == 2 || j.dims(2) == j.dims(1), "a zero point per scale", 2) && !j.failed();
}

UNITY_INLINE scale_form scale_form_of(const attribute_reader& a, const shape& x, const shape& scale) {
  if (scale.empty()) {
    return {x, scale};
  }
  const auto axis = static_cast<std::size_t>(a.integer("axis"));
  const auto block = a.integer("block");
  if (block == 0) {
    shape along(x.size(), 1);
    along[axis] = x[axis];
    return {x, along};
  }
  scale_form f{x, scale};
  const auto behind = static_cast<std::ptrdiff_t>(axis) + 1;
  f.x[axis] = scale[axis];
  f.x.insert(f.x.begin() + behind, block);
  f.scale.insert(f.scale.begin() + behind, 1);
  return f;
}

UNITY_INLINE value_id saturated(body_builder& b, value_id x, value_id zero_point, dtype element) {
  auto v = b.add("round", {x});
  if (zero_point.valid()) {
    v = b.add("add", {v, cast_to(b, zero_point, b.type(x).element)});
  }
  const auto low = element == dtype::int8 ? -128.0 : 0.0;
  return cast_to(b, b.add("clip", {v}, {{"low", low}, {"high", low + 255}}), element);
}

UNITY_INLINE value_id distance_from(body_builder& b, value_id x, value_id zero_point, const shape& as) {
  const auto wide = cast_to(b, x, dtype::float64);
  if (!zero_point.valid()) {
    return wide;
  }
  return b.add("sub", {wide, cast_to(b, tensor::detail::reshaped(b, zero_point, as), dtype::float64)});
}

UNITY_INLINE shape product_dims(judgement& j, std::size_t a, std::size_t b) {
  if (!j.require(j.rank(a) >= 2 && j.rank(b) >= 2, "operands of rank 2 or more")) {
    return {};
  }
  const auto batch_of = [&](std::size_t operand) {
    return std::span<const std::int64_t>{j.dims(operand)}.first(j.rank(operand) - 2);
  };
  auto dims = broadcast(batch_of(a), batch_of(b));
  if (!j.require(dims.has_value(), "leading dimensions that broadcast") ||
      !j.require(j.dims(a).back() == j.dims(b)[j.rank(b) - 2], "as many rows as operand 0 has columns",
                 static_cast<int>(b))) {
    return {};
  }
  dims->push_back(j.dims(a)[j.rank(a) - 2]);
  dims->push_back(j.dims(b).back());
  return *dims;
}

UNITY_INLINE shape convolution_dims(judgement& j, const attribute_reader& a, std::size_t x, std::size_t w) {
  if (!j.require_rank(x, 4) || !j.require_rank(w, 4)) {
    return {};
  }
  const tensor_type operands[] = {{dtype::float32, layout::row_major, false, j.dims(x)},
                                  {dtype::float32, layout::row_major, false, j.dims(w)}};
  space s{operands};
  const auto c = declare_convolution(s, a, j.dims(x), j.dims(w), convolved::result);
  s.read(c.image);
  s.read(c.kernel);
  s.write(c.result);
  return j.require(!s.failed(), s.failed() ? s.why_not().expected : "") ? s.results()[0].dims : shape{};
}

UNITY_INLINE value_id requantized(body_builder& b, value_id product, const requantization& r) {
  const auto real = b.type(r.scale).element;
  const auto factor = b.add("div", {b.add("mul", {r.first_scale, r.second_scale}), r.scale});
  return saturated(b, b.add("mul", {cast_to(b, product, real), factor}), r.zero_point, b.type(r.zero_point).element);
}

UNITY_INLINE std::vector<attribute_field> convolution_fields() {
  return {integers_field("stride", {1, 1}), padding_field(), integers_field("pads", {0, 0, 0, 0}),
          integers_field("dilation", {1, 1}), integer_field("groups", 1)};
}

UNITY_INLINE definition resized_convolution(definition d, std::size_t weights) {
  return without_derivative(std::move(d)).resized_by([weights](const attribute_writer& w, const resizing& r) {
    w.set("groups", {r.new_inputs[0][1] / r.new_inputs[weights][1]});
  });
}

}  // namespace detail

UNITY_INLINE definition dequantize() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    if (detail::require_scale(j, a) && j.require(is_integral(j.inputs()[0].element), "integers", 0) &&
        j.require(j.inputs().size() == 2 || j.inputs()[2].element == j.inputs()[0].element, "the type of operand 0",
                  2)) {
      j.result(j.dims(0), j.inputs()[1].element);
    }
  };
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    const auto element = b.type(x[1]).element;
    const auto dims = b.type(x[0]).dims;
    const auto f = detail::scale_form_of(a, dims, b.type(x[1]).dims);
    auto v = tensor::detail::reshaped(b, detail::cast_to(b, x[0], element), f.x);
    if (x.size() == 3) {
      v = b.add("sub", {v, tensor::detail::reshaped(b, detail::cast_to(b, x[2], element), f.scale)});
    }
    return std::vector{
        tensor::detail::reshaped(b, b.add("mul", {v, tensor::detail::reshaped(b, x[1], f.scale)}), dims)};
  };
  return define("dequantize", {2, 3}, 1, {integer_field("axis", 1), integer_field("block", 0)}, composite{body, types})
      .with_elements({dtype::int8, dtype::float32, dtype::int8});
}

UNITY_INLINE definition quantize() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    const auto element = a.choice<dtype>("element");
    if (detail::require_scale(j, a) &&
        j.require(j.inputs()[0].element == j.inputs()[1].element, "the type of operand 0", 1) &&
        j.require(detail::is_small(element), "int8 or uint8 as result") &&
        j.require(j.inputs().size() == 2 || j.inputs()[2].element == element, "the type of the result", 2)) {
      j.result(j.dims(0), element);
    }
  };
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    const auto dims = b.type(x[0]).dims;
    const auto f = detail::scale_form_of(a, dims, b.type(x[1]).dims);
    const auto steps =
        b.add("div", {tensor::detail::reshaped(b, x[0], f.x), tensor::detail::reshaped(b, x[1], f.scale)});
    const auto zero_point = x.size() == 3 ? tensor::detail::reshaped(b, x[2], f.scale) : value_id{};
    return std::vector{
        tensor::detail::reshaped(b, detail::saturated(b, steps, zero_point, a.choice<dtype>("element")), dims)};
  };
  return without_derivative(define("quantize", {2, 3}, 1,
                                   {integer_field("axis", 1), integer_field("block", 0), dtype_field("element")},
                                   composite{body, types})
                                .with_elements({dtype::float32, dtype::float32, dtype::int8}));
}

UNITY_INLINE definition dynamic_quantize() {
  const auto types = [](judgement& j, const attribute_reader&) {
    if (j.require_floating() && j.require(checked_element_count(j.dims(0)).has_value(), "positive sizes")) {
      const auto element = j.inputs()[0].element;
      j.result(j.dims(0), dtype::uint8);
      j.result({}, element);
      j.result({}, dtype::uint8);
    }
  };
  const auto body = [](body_builder& b, const attribute_reader&, std::span<const value_id> x) {
    const auto t = b.type(x[0]);
    shape axes(t.rank(), 0);
    std::iota(axes.begin(), axes.end(), std::int64_t{0});
    const auto number = [&](double value) {
      return b.add("fill", {}, {{"value", value}, {"element", name_of(t.element)}, {"dims", shape{}}});
    };
    const auto extreme = [&](std::string_view reduce) {
      return axes.empty() ? x[0] : b.add(reduce, {x[0]}, {{"axes", axes}, {"keep_dims", 0}});
    };
    const auto most = b.add("maximum", {extreme("reduce_max"), number(0)});
    const auto least = b.add("minimum", {extreme("reduce_min"), number(0)});
    const auto scale = nonzero_or_one(b, b.add("div", {b.add("sub", {most, least}), number(255)}));
    const auto from = b.add("negate", {b.add("div", {least, scale})});
    const auto zero_point = detail::saturated(b, from, {}, dtype::uint8);
    return std::vector{detail::saturated(b, b.add("div", {x[0], scale}), zero_point, dtype::uint8), scale, zero_point};
  };
  return without_derivative(define("dynamic_quantize", 1, 3, {}, composite{body, types}));
}

UNITY_INLINE definition integer_matmul() {
  const auto types = [](judgement& j, const attribute_reader&) {
    j.allow_mixed_elements();
    if (!j.require(detail::is_small(j.inputs()[0].element) && detail::is_small(j.inputs()[1].element), "bytes")) {
      return;
    }
    auto dims = detail::product_dims(j, 0, 1);
    for (std::size_t i = 2; !j.failed() && i < j.inputs().size(); ++i) {
      detail::require_each(j, i, dims[dims.size() - (i == 2 ? 2 : 1)], j.inputs()[i - 2].element);
    }
    j.result(std::move(dims), dtype::int32);
  };
  const auto body = [](body_builder& b, const attribute_reader&, std::span<const value_id> x) {
    const auto zero_point = [&](std::size_t i) { return x.size() > i ? x[i] : value_id{}; };
    const auto dims = [&](std::size_t i, std::size_t behind) {
      return x.size() > i ? detail::standing(b.type(x[i]).dims, behind) : shape{};
    };
    const auto product = b.add("matmul", {detail::distance_from(b, x[0], zero_point(2), dims(2, 1)),
                                          detail::distance_from(b, x[1], zero_point(3), dims(3, 0))});
    return std::vector{detail::cast_to(b, product, dtype::int32)};
  };
  return without_derivative(define("integer_matmul", {2, 4}, 1, {}, composite{body, types})
                                .with_elements({dtype::int8, dtype::int8, dtype::int8, dtype::int8}));
}

UNITY_INLINE definition integer_conv2d() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    j.allow_mixed_elements();
    if (!j.require(detail::is_small(j.inputs()[0].element) && detail::is_small(j.inputs()[1].element), "bytes")) {
      return;
    }
    auto dims = detail::convolution_dims(j, a, 0, 1);
    for (std::size_t i = 2; !j.failed() && i < j.inputs().size(); ++i) {
      j.require(i == 3 || j.rank(2) == 0, "one number", 2);
      detail::require_each(j, i, dims[1], j.inputs()[i - 2].element);
    }
    j.result(std::move(dims), dtype::int32);
  };
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    const auto image = detail::distance_from(b, x[0], x.size() > 2 ? x[2] : value_id{}, {});
    const auto dims = x.size() > 3 ? detail::standing(b.type(x[3]).dims, 3) : shape{};
    const auto weights = detail::distance_from(b, x[1], x.size() > 3 ? x[3] : value_id{}, dims);
    const auto sums = b.add("conv2d", std::vector{image, weights},
                            shared_attributes(a, {"stride", "padding", "pads", "dilation", "groups"}, {}));
    return std::vector{detail::cast_to(b, sums, dtype::int32)};
  };
  return detail::resized_convolution(
      define("integer_conv2d", {2, 4}, 1, detail::convolution_fields(), composite{body, types})
          .with_elements({dtype::int8, dtype::int8, dtype::int8, dtype::int8}),
      1);
}

UNITY_INLINE definition quantized_matmul() {
  const auto types = [](judgement& j, const attribute_reader&) {
    j.allow_mixed_elements();
    const auto element = [&](std::size_t i) { return j.inputs()[i].element; };
    if (!j.require(detail::is_small(element(0)) && detail::is_small(element(3)) && detail::is_small(element(7)),
                   "bytes")) {
      return;
    }
    auto dims = detail::product_dims(j, 0, 3);
    if (!j.failed() && detail::require_quantized(j, 1, dims[dims.size() - 2], element(0)) &&
        detail::require_quantized(j, 4, dims.back(), element(3)) &&
        detail::require_quantized(j, 6, dims.back(), element(7)) && j.require(j.rank(6) == 0, "one number", 6)) {
      j.result(std::move(dims), element(7));
    }
  };
  const auto body = [](body_builder& b, const attribute_reader&, std::span<const value_id> x) {
    const auto product = b.add("integer_matmul", {x[0], x[3], x[2], x[5]});
    const auto rows = tensor::detail::reshaped(b, x[1], detail::standing(b.type(x[1]).dims, 1));
    return std::vector{detail::requantized(b, product, {rows, x[4], x[6], x[7]})};
  };
  return without_derivative(define("quantized_matmul", 8, 1, {}, composite{body, types})
                                .with_elements({dtype::int8, dtype::float32, dtype::int8, dtype::int8, dtype::float32,
                                                dtype::int8, dtype::float32, dtype::int8}));
}

UNITY_INLINE definition quantized_conv2d() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    j.allow_mixed_elements();
    const auto element = [&](std::size_t i) { return j.inputs()[i].element; };
    if (!j.require(detail::is_small(element(0)) && detail::is_small(element(3)) && detail::is_small(element(7)),
                   "bytes")) {
      return;
    }
    auto dims = detail::convolution_dims(j, a, 0, 3);
    if (!j.failed() && detail::require_quantized(j, 1, dims[1], element(0)) &&
        detail::require_quantized(j, 4, dims[1], element(3)) && detail::require_quantized(j, 6, dims[1], element(7)) &&
        j.require(j.rank(1) == 0, "one number", 1) && j.require(j.rank(6) == 0, "one number", 6) &&
        j.require(j.inputs().size() == 8 || (j.dims(8) == shape{dims[1]} && element(8) == dtype::int32),
                  "an int32 per channel", 8)) {
      j.result(std::move(dims), element(7));
    }
  };
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    auto sums = b.add("integer_conv2d", std::vector{x[0], x[3], x[2], x[5]},
                      shared_attributes(a, {"stride", "padding", "pads", "dilation", "groups"}, {}));
    const auto channels = [&](value_id v) {
      return tensor::detail::reshaped(b, v, detail::standing(b.type(v).dims, 2));
    };
    if (x.size() == 9) {
      sums = b.add("add", {sums, channels(x[8])});
    }
    return std::vector{detail::requantized(b, sums, {x[1], channels(x[4]), x[6], x[7]})};
  };
  return detail::resized_convolution(
      define("quantized_conv2d", {8, 9}, 1, detail::convolution_fields(), composite{body, types})
          .with_elements({dtype::int8, dtype::float32, dtype::int8, dtype::int8, dtype::float32, dtype::int8,
                          dtype::float32, dtype::int8, dtype::int32}),
      3);
}

}  // namespace unity::tensor::operators

#endif
