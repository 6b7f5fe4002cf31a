// Convolution of images.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <unity/tensor/definition.hpp>
#include <unity/tensor/operators/activation.hpp>
#include <unity/tensor/operators/sliding.hpp>

namespace unity::tensor::operators {

// Shapes: x[n, c, h, w], w[oc, c / groups, kh, kw], optional bias[oc] -> [n, oc, oh, ow].
[[nodiscard]] inline definition conv2d() {
  const auto iteration = [](space& s, const attribute_reader& a) {
    const auto groups = a.integer("groups");
    if (!s.require_operands(2, 3) || !s.require_floating() || !s.require(s.rank(0) == 4, "an operand of rank 4", 0) ||
        !s.require(s.rank(1) == 4, "an operand of rank 4", 1) || !s.require(groups > 0, "positive groups")) {
      return;
    }
    const auto dilation = a.integers("dilation");
    const auto y = slide_of(s, a, 0, s.dims(1)[2], dilation[0], false);
    const auto x = slide_of(s, a, 1, s.dims(1)[3], dilation[1], false);
    if (s.failed()) {
      return;
    }
    const auto n = s.parallel("n");
    const auto g = s.parallel("g", groups);
    const auto oc = s.parallel("oc");
    const auto oh = s.parallel("oh", y.out);
    const auto ow = s.parallel("ow", x.out);
    const auto ic = s.reduced("ic");
    const auto kh = s.reduced("kh", y.kernel);
    const auto kw = s.reduced("kw", x.kernel);
    const auto rows = s.sliding({oh, kh, y.stride, y.dilation, y.before, y.in, 0, y.in});
    const auto columns = s.sliding({ow, kw, x.stride, x.dilation, x.before, x.in, 0, x.in});
    s.read({n, {g, ic}, rows, columns});
    s.read({{g, oc}, ic, kh, kw});
    if (s.inputs().size() == 3) {
      s.read({access{g, oc}});
    }
    s.write({n, {g, oc}, oh, ow});
  };
  const auto kernel = [](const attribute_reader& a, std::span<const tensor_type> inputs) {
    const auto product = kernels::sum(kernels::x(0) * kernels::x(1));
    return activate(a, inputs.size() == 3 ? product + kernels::x(2) : product);
  };
  return define("conv2d", op_signature::any, 1,
                {integers_field("stride", {1, 1}), padding_field(), integers_field("pads", {0, 0, 0, 0}),
                 integers_field("dilation", {1, 1}), integer_field("groups", 1), activation_field()},
                primitive{iteration, kernel});
}

[[nodiscard]] inline std::vector<definition> convolutions() { return {conv2d()}; }

}  // namespace unity::tensor::operators
