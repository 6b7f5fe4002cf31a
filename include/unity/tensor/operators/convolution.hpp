// Convolution of images, its two adjoints, and transposed convolution.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/space.hpp>

namespace unity::tensor::operators {

// Which of the three tensors of a convolution is computed from the other two; the iteration space is the same.
// Shapes: image[n, c, h, w], kernel[oc, c / groups, kh, kw], result[n, oc, oh, ow].
enum class convolved : std::uint8_t { image, kernel, result };

struct convolution_space {
  std::array<access, 4> image{};
  std::array<access, 4> kernel{};
  std::array<access, 4> result{};
};

// Declares the space in which `made` is computed; indices that `made` lacks are summed over. `image` and `kernel` are
// the shapes of these tensors, operands or results, of rank 4.
[[nodiscard]] convolution_space declare_convolution(space& s, const attribute_reader& a,
                                                    std::span<const std::int64_t> image,
                                                    std::span<const std::int64_t> kernel, convolved made);

[[nodiscard]] std::vector<value_id> convolution_adjoint(body_builder& b, const attribute_reader& a,
                                                        const adjoint_problem& p);

// Shapes: x[n, c, h, w], w[oc, c / groups, kh, kw], optional bias[oc] -> [n, oc, oh, ow].
[[nodiscard]] definition conv2d();

// dims: the shape of the result.
[[nodiscard]] definition convolution_gradient(std::string name, convolved made);

[[nodiscard]] inline std::vector<definition> convolutions() { return {conv2d()}; }

// Shapes: cotangent[n, oc, oh, ow], w[oc, c / groups, kh, kw] -> [n, c, h, w]; and x[n, c, h, w], cotangent -> the
// shape of w.
[[nodiscard]] inline std::vector<definition> convolution_gradients() {
  return {convolution_gradient("conv2d_input_gradient", convolved::image),
          convolution_gradient("conv2d_weight_gradient", convolved::kernel)};
}

// Transposed convolution: each element of the operand adds to all elements that a convolution would read for it.

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

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_OPERATORS_CONVOLUTION)

#include <cstddef>
#include <initializer_list>

#include <unity/core/units.hpp>
#include <unity/tensor/detail/adjoint_movement.hpp>
#include <unity/tensor/judgement.hpp>
#include <unity/tensor/operators/parts.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor::operators {

UNITY_INLINE convolution_space declare_convolution(space& s, const attribute_reader& a,
                                                   std::span<const std::int64_t> image,
                                                   std::span<const std::int64_t> kernel, convolved made) {
  const auto dilation = a.integers("dilation");
  const auto groups = a.integer("groups");
  s.require(groups > 0, "positive groups");
  const auto y = slide_over(s, a, 0, image[2], kernel[2], dilation[0], false);
  const auto x = slide_over(s, a, 1, image[3], kernel[3], dilation[1], false);
  if (s.failed()) {
    return {};
  }
  const auto declare = [&](const char* name, convolved absent, std::int64_t size) {
    return made == absent ? s.reduced(name, size) : s.parallel(name, size);
  };
  const auto n = declare("n", convolved::kernel, 0);
  const auto g = s.parallel("g", groups);
  const auto oc = declare("oc", convolved::image, 0);
  const auto oh = declare("oh", convolved::kernel, y.out);
  const auto ow = declare("ow", convolved::kernel, x.out);
  const auto ic = declare("ic", convolved::result, 0);
  const bool taps = made == convolved::kernel;
  const auto kh = taps ? s.parallel("kh", y.kernel) : s.reduced("kh", y.kernel);
  const auto kw = taps ? s.parallel("kw", x.kernel) : s.reduced("kw", x.kernel);
  const auto rows = s.sliding({oh, kh, y.stride, y.dilation, y.before, y.in, 0, y.in});
  const auto columns = s.sliding({ow, kw, x.stride, x.dilation, x.before, x.in, 0, x.in});
  const access channels{g, oc};
  return {{n, {g, ic}, rows, columns}, {channels, ic, kh, kw}, {n, channels, oh, ow}};
}

UNITY_INLINE std::vector<value_id> convolution_adjoint(body_builder& b, const attribute_reader& a,
                                                       const adjoint_problem& p) {
  const auto attributes = [&](std::size_t operand) {
    return shared_attributes(a, {"stride", "padding", "pads", "dilation", "groups"},
                             {{"dims", p.inputs[operand].dims}});
  };
  const auto y = p.cotangents[0];
  std::vector<value_id> all(p.inputs.size());
  if (p.wanted[0]) {
    all[0] = b.add("conv2d_input_gradient", std::array{y, p.operand(1)}, attributes(0));
  }
  if (p.wanted[1]) {
    all[1] = b.add("conv2d_weight_gradient", std::array{p.operand(0), y}, attributes(1));
  }
  if (all.size() == 3 && p.wanted[2]) {
    all[2] = b.add("reduce_sum", {y}, {{"axes", {0, 2, 3}}, {"keep_dims", 0}});
  }
  return all;
}

UNITY_INLINE definition conv2d() {
  const auto iteration = [](space& s, const attribute_reader& a) {
    if (!s.require_floating() || !s.require_rank(0, 4) || !s.require_rank(1, 4)) {
      return;
    }
    const auto c = declare_convolution(s, a, s.dims(0), s.dims(1), convolved::result);
    s.read(c.image);
    s.read(c.kernel);
    if (s.inputs().size() == 3) {
      s.read({c.result[1]});
    }
    s.write(c.result);
  };
  const auto kernel = [](const attribute_reader& a, std::span<const tensor_type> inputs) {
    const auto product = kernels::sum(kernels::x(0) * kernels::x(1));
    return activate(a, inputs.size() == 3 ? product + kernels::x(2) : product);
  };
  return define("conv2d", {2, 3}, 1,
                {integers_field("stride", {1, 1}), padding_field(), integers_field("pads", {0, 0, 0, 0}),
                 integers_field("dilation", {1, 1}), integer_field("groups", 1), activation_field()},
                primitive{iteration, kernel})
      .with_adjoint(convolution_adjoint)
      .resized_by([](const attribute_writer& w, const resizing& r) {
        w.set("groups", {r.new_inputs[0][1] / r.new_inputs[1][1]});
      });
}

UNITY_INLINE definition convolution_gradient(std::string name, convolved made) {
  const auto iteration = [made](space& s, const attribute_reader& a) {
    const auto dims = a.integers("dims");
    if (!s.require_floating() || !s.require_rank(0, 4) || !s.require_rank(1, 4) ||
        !s.require(dims.size() == 4, "a shape of rank 4")) {
      return;
    }
    const bool image = made == convolved::image;
    const auto c =
        image ? declare_convolution(s, a, dims, s.dims(1), made) : declare_convolution(s, a, s.dims(0), dims, made);
    s.read(image ? c.result : c.image);
    s.read(image ? c.kernel : c.result);
    s.write(image ? c.image : c.kernel);
    s.require(s.failed() || s.results()[0].dims == shape(dims), "a shape that agrees with the operands");
  };
  const auto kernel = [](const attribute_reader&, std::span<const tensor_type>) {
    return kernels::sum(kernels::x(0) * kernels::x(1));
  };
  return define(std::move(name), 2, 1,
                {integers_field("stride", {1, 1}), padding_field(), integers_field("pads", {0, 0, 0, 0}),
                 integers_field("dilation", {1, 1}), integer_field("groups", 1), integers_field("dims")},
                primitive{iteration, kernel})
      .divided_by([made](const attribute_writer& w, const resizing& r) {
        const auto& image = made == convolved::image ? r.new_outputs[0] : r.new_inputs[0];
        const auto& weights = made == convolved::image ? r.new_inputs[1] : r.new_outputs[0];
        w.set("groups", {image[1] / weights[1]});
        resize_dims(w, r);
      });
}

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
    if (!j.require_floating() || !j.require(j.rank(0) == 3 || j.rank(0) == 4, "rank 3 or 4", 0) ||
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
  return define("conv_transpose", {2, 3}, 1,
                {integers_field("stride"), integers_field("pads"), integers_field("dilation"),
                 integers_field("output_padding"), integer_field("groups", 1)},
                composite{body, types})
      .divided_by([](const attribute_writer& w, const resizing& r) {
        w.set("groups", {r.new_outputs[0][1] / r.new_inputs[1][1]});
      });
}

}  // namespace unity::tensor::operators

#endif
