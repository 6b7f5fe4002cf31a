// A convolution in the form of libraries: equal padding before and after.
#pragma once

#include <cstdint>

#include <unity/backend/cuda/routine.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/operators/parts.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/space.hpp>

namespace unity::backend::cuda {

// The operand that an adjoint is taken with respect to.
enum class convolution_operand : std::uint8_t { image, weight };

struct convolution_plan {
  tensor::operators::slide y{};
  tensor::operators::slide x{};
  std::int64_t groups = 1;
  bool biased = false;
  tensor::operators::activation then = tensor::operators::activation::none;

  // Whether a library with one padding for both ends can compute it. The last window may end before the end of the
  // padding.
  [[nodiscard]] bool symmetric() const noexcept { return y.before == y.after && x.before == x.after; }
};

[[nodiscard]] inline convolution_plan plan_convolution(const tensor::attribute_reader& a, types inputs) {
  tensor::space s{inputs};
  const auto dilation = a.integers("dilation");
  const auto& w = inputs[1].dims;
  return {tensor::operators::slide_of(s, a, 0, w[2], dilation[0], false),
          tensor::operators::slide_of(s, a, 1, w[3], dilation[1], false), a.integer("groups"), inputs.size() == 3,
          a.choice<tensor::operators::activation>("activation")};
}

// For the adjoint with respect to an operand of these dims; inputs: (cotangent, weights) or (image, cotangent).
[[nodiscard]] inline convolution_plan plan_convolution_gradient(const tensor::attribute_reader& a,
                                                                convolution_operand of, types inputs,
                                                                const tensor::shape& dims) {
  tensor::space s{inputs};
  const auto dilation = a.integers("dilation");
  const bool to_image = of == convolution_operand::image;
  const auto& image = to_image ? dims : inputs[0].dims;
  const auto& w = to_image ? inputs[1].dims : dims;
  convolution_plan p;
  p.y = tensor::operators::slide_over(s, a, 0, image[2], w[2], dilation[0], false);
  p.x = tensor::operators::slide_over(s, a, 1, image[3], w[3], dilation[1], false);
  p.groups = a.integer("groups");
  return p;
}

}  // namespace unity::backend::cuda
