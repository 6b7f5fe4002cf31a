// Strides, padding and dilation of a convolution and its adjoints, in oneDNN's form.
#pragma once

#include <cstddef>
#include <cstdint>

#include <dnnl.hpp>

#include <unity/backend/cpu/onednn.hpp>
#include <unity/backend/cpu/routine.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::cpu {

// For an image [n, c, h, w] and a kernel [oc, c / groups, kh, kw], from the attributes of conv2d and its adjoints.
struct convolution_geometry {
  dnnl_dims stride;
  dnnl_dims dilates;  // oneDNN's convention: 0 means adjacent taps
  dnnl_dims before;
  dnnl_dims after;
  tensor::shape kernel;
  std::int64_t groups;

  convolution_geometry(const tensor::attribute_reader& a, types inputs, const tensor::shape& image,
                       const tensor::shape& weights);

  // Whether it is a matrix product per image: one tap, which visits every point once.
  [[nodiscard]] bool is_product() const;
  // The dimensions of the part of the kernel for `filters` outputs. These must be whole groups: oneDNN has groups as a
  // separate dimension.
  [[nodiscard]] tensor::shape weights(std::int64_t filters) const;
  [[nodiscard]] tensor::shape weights() const { return weights(kernel[0]); }
  // The memory format of an image or a result: the library's choice, except for products, which use the plain format.
  [[nodiscard]] dnnl_desc free(const dnnl_desc& plain) const { return is_product() ? plain : any_desc(plain.dims()); }
  // The forward convolution of an adjoint: the library needs it as a hint. image, weights, result: plain.
  // Throws: dnnl::error if the library has no such convolution.
  [[nodiscard]] dnnl::convolution_forward::primitive_desc forward(const onednn& library, const dnnl_desc& image,
                                                                  const dnnl_desc& weights,
                                                                  const dnnl_desc& result) const;
};

}  // namespace unity::backend::cpu

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_CPU_CONVOLUTION_GEOMETRY)

#include <unity/tensor/operators/parts.hpp>
#include <unity/tensor/space.hpp>

namespace unity::backend::cpu {

UNITY_INLINE convolution_geometry::convolution_geometry(const tensor::attribute_reader& a, types inputs,
                                                        const tensor::shape& image, const tensor::shape& weights)
    : kernel{weights}, groups{a.integer("groups")} {
  tensor::space s{inputs};
  for (std::size_t d = 0; d < 2; ++d) {
    const auto w =
        tensor::operators::slide_over(s, a, d, image[2 + d], weights[2 + d], a.integers("dilation")[d], false);
    stride.push_back(w.stride);
    dilates.push_back(w.dilation - 1);
    before.push_back(w.before);
    after.push_back(w.after);
  }
}

UNITY_INLINE bool convolution_geometry::is_product() const {
  const dnnl_dims once{1, 1};
  const dnnl_dims nothing{0, 0};
  return groups == 1 && kernel[2] * kernel[3] == 1 && stride == once && before == nothing && after == nothing;
}

UNITY_INLINE tensor::shape convolution_geometry::weights(std::int64_t filters) const {
  const auto each = kernel[0] / groups;
  return groups == 1 ? tensor::shape{filters, kernel[1], kernel[2], kernel[3]}
                     : tensor::shape{filters / each, each, kernel[1], kernel[2], kernel[3]};
}

UNITY_INLINE auto convolution_geometry::forward(const onednn& library, const dnnl_desc& image, const dnnl_desc& weights,
                                                const dnnl_desc& result) const
    -> dnnl::convolution_forward::primitive_desc {
  return {{dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, free(image),
           any_desc(weights.dims()), free(result), stride, dilates, before, after},
          onednn_routine::user_scratch(),
          library.engine};
}

}  // namespace unity::backend::cpu

#endif
