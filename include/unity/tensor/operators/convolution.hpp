// Convolution of images, and the two convolutions that are its adjoint.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/tensor/adjoint_rule.hpp>
#include <unity/tensor/attributes.hpp>
#include <unity/tensor/body_builder.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/resizing.hpp>
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

}  // namespace unity::tensor::operators

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_OPERATORS_CONVOLUTION)

#include <unity/tensor/operators/activation.hpp>
#include <unity/tensor/operators/sliding.hpp>

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
    if (!s.require_operands(2, 3) || !s.require_floating() || !s.require(s.rank(0) == 4, "an operand of rank 4", 0) ||
        !s.require(s.rank(1) == 4, "an operand of rank 4", 1)) {
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
  return define("conv2d", op_signature::any, 1,
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
    if (!s.require_floating() || !s.require(s.rank(0) == 4, "an operand of rank 4", 0) ||
        !s.require(s.rank(1) == 4, "an operand of rank 4", 1) || !s.require(dims.size() == 4, "a shape of rank 4")) {
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

}  // namespace unity::tensor::operators

#endif
