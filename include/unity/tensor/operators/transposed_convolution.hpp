// Transposed convolution: each element of the operand adds to all elements that a convolution would read for it.
#pragma once

#include <vector>

#include <unity/tensor/definition.hpp>

namespace unity::tensor::operators {

// The adjoint of conv2d with respect to its image, as an operator of models. dims: the shape of the result.
// Shapes: x[n, oc, oh, ow], w[oc, c / groups, kh, kw] -> [n, c, h, w].
[[nodiscard]] definition conv2d_transpose();

// Along each spatial dimension the result has stride * (size - 1) + output_padding + dilation * (kernel - 1) + 1
// elements, minus the pads, which are cropped. One or two spatial dimensions; pads before all, then after all.
// Shapes: x[n, c, s...], w[c, o / groups, k...], optional bias[o] -> [n, o, s'...].
// Source: ONNX's ConvTranspose.
[[nodiscard]] definition conv_transpose();

[[nodiscard]] inline std::vector<definition> transposed_convolutions() {
  return {conv2d_transpose(), conv_transpose()};
}

}  // namespace unity::tensor::operators

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_OPERATORS_TRANSPOSED_CONVOLUTION)

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>

#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/tensor/adjoint_rule.hpp>
#include <unity/tensor/attributes.hpp>
#include <unity/tensor/body_builder.hpp>
#include <unity/tensor/detail/adjoint_movement.hpp>
#include <unity/tensor/judgement.hpp>
#include <unity/tensor/operators/convolution.hpp>
#include <unity/tensor/operators/sliding.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor::operators {

UNITY_INLINE definition conv2d_transpose() {
  const auto adjoint = [](body_builder& b, const attribute_reader& a, const adjoint_problem& p) {
    const auto attributes = [&](std::initializer_list<named_attribute> more) {
      return shared_attributes(a, {"stride", "padding", "pads", "dilation", "groups"}, more);
    };
    const auto y = p.cotangents[0];
    std::vector<value_id> all(2);
    if (p.wanted[0]) {
      all[0] = b.add("conv2d", std::array{y, p.operand(1)}, attributes({}));
    }
    if (p.wanted[1]) {
      all[1] = b.add("conv2d_weight_gradient", std::array{y, p.operand(0)}, attributes({{"dims", p.inputs[1].dims}}));
    }
    return all;
  };
  return convolution_gradient("conv2d_transpose", convolved::image).with_adjoint(adjoint);
}

namespace detail {

// The size of one spatial dimension of the result; 0 if it is invalid.
[[nodiscard]] inline std::int64_t transposed_size(const attribute_reader& a, std::size_t d, std::size_t spatial,
                                                  std::int64_t size, std::int64_t kernel) {
  const auto stride = a.integers("stride")[d];
  const auto dilation = a.integers("dilation")[d];
  const auto more = a.integers("output_padding")[d];
  const auto before = a.integers("pads")[d];
  const auto after = a.integers("pads")[spatial + d];
  const auto bounded = [](std::int64_t n, std::int64_t least) { return n >= least && n <= max_slide; };
  if (!bounded(stride, 1) || !bounded(dilation, 1) || !bounded(more, 0) || !bounded(before, 0) || !bounded(after, 0) ||
      !bounded(size, 1) || !bounded(kernel, 1) || more >= stride) {
    return 0;
  }
  const auto all = stride * (size - 1) + more + dilation * (kernel - 1) + 1 - before - after;
  return all > 0 ? all : 0;
}

}  // namespace detail

UNITY_INLINE definition conv_transpose() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    if (!j.require_operands(2, 3) || !j.require_floating() ||
        !j.require(j.rank(0) == 3 || j.rank(0) == 4, "an operand of rank 3 or 4", 0) ||
        !j.require(j.rank(1) == j.rank(0), "the rank of operand 0", 1)) {
      return;
    }
    const auto& x = j.dims(0);
    const auto& w = j.dims(1);
    const auto spatial = x.size() - 2;
    const auto groups = a.integer("groups");
    if (!j.require(a.integers("stride").size() == spatial && a.integers("dilation").size() == spatial &&
                       a.integers("output_padding").size() == spatial && a.integers("pads").size() == 2 * spatial,
                   "a stride, dilation, output padding and two pads per spatial dimension") ||
        !j.require(groups > 0 && w[0] > 0 && w[0] % groups == 0, "input channels that are a multiple of groups", 1) ||
        !j.require(w[0] == x[1], "as many input channels as the image", 1) ||
        !j.require(w[1] > 0 && w[1] <= max_elements / groups, "output channels of sensible number", 1)) {
      return;
    }
    shape dims{x[0], w[1] * groups};
    for (std::size_t d = 0; d < spatial; ++d) {
      dims.push_back(detail::transposed_size(a, d, spatial, x[2 + d], w[2 + d]));
      if (!j.require(dims.back() > 0, "strides, pads and kernel that leave a result")) {
        return;
      }
    }
    if (j.inputs().size() == 2 || j.require(j.dims(2) == shape{dims[1]}, "a bias per output channel", 2)) {
      j.result(std::move(dims));
    }
  };
  // A single spatial dimension becomes the second of two.
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    const auto planar = [](const shape& s) { return s.size() == 4 ? s : shape{s[0], s[1], 1, s[2]}; };
    const auto from = b.type(x[0]).dims;
    const auto kernel = b.type(x[1]).dims;
    const auto spatial = from.size() - 2;
    shape dims{from[0], kernel[1] * a.integer("groups")};
    for (std::size_t d = 0; d < spatial; ++d) {
      dims.push_back(detail::transposed_size(a, d, spatial, from[2 + d], kernel[2 + d]));
    }
    const auto both = [&](const char* name, std::int64_t otherwise) {
      shape values(2 - spatial, otherwise);
      values.append(a.integers(name).begin(), a.integers(name).end());
      return values;
    };
    const auto pads = a.integers("pads");
    const auto all_pads = spatial == 2 ? shape(pads) : shape{0, pads[0], 0, pads[1]};
    auto y = b.add("conv2d_transpose",
                   {tensor::detail::reshaped(b, x[0], planar(from)), tensor::detail::reshaped(b, x[1], planar(kernel))},
                   {{"stride", both("stride", 1)},
                    {"pads", all_pads},
                    {"dilation", both("dilation", 1)},
                    {"groups", a.integer("groups")},
                    {"dims", planar(dims)}});
    y = tensor::detail::reshaped(b, y, dims);
    if (x.size() == 3) {
      shape along(dims.size(), 1);
      along[1] = dims[1];
      y = b.add("add", {y, tensor::detail::reshaped(b, x[2], along)});
    }
    return std::vector{y};
  };
  return define("conv_transpose", op_signature::any, 1,
                {integers_field("stride"), integers_field("pads"), integers_field("dilation"),
                 integers_field("output_padding"), integer_field("groups", 1)},
                composite{body, types});
}

}  // namespace unity::tensor::operators

#endif
