// conv2d_input_gradient on oneDNN.
#pragma once

#include <memory>
#include <utility>

#include <unity/backend/cpu/onednn.hpp>
#include <unity/backend/cpu/routine.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::backend::cpu {

// Inputs: cotangent and weights, float32, row-major. Memory formats as in convolution_routine.
// Throws: dnnl::error if the library has no such convolution.
[[nodiscard]] std::unique_ptr<routine> convolution_input_gradient_routine(const onednn& library,
                                                                          const tensor::attribute_reader& a,
                                                                          types inputs, types outputs);

}  // namespace unity::backend::cpu

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_CPU_CONVOLUTION_GRADIENT)

#include <dnnl.hpp>

#include <unity/backend/cpu/convolution_geometry.hpp>

namespace unity::backend::cpu {

UNITY_INLINE std::unique_ptr<routine> convolution_input_gradient_routine(const onednn& library,
                                                                         const tensor::attribute_reader& a,
                                                                         types inputs, types outputs) {
  const convolution_geometry g{a, inputs, outputs[0].dims, inputs[1].dims};
  const auto image = plain_desc(outputs[0].dims);
  const auto result = plain_desc(inputs[0].dims);
  const auto weights = plain_desc(g.weights());
  using backward = dnnl::convolution_backward_data;
  const backward::desc d{dnnl::algorithm::convolution_direct,
                         g.free(image),
                         any_desc(weights.dims()),
                         g.free(result),
                         g.stride,
                         g.dilates,
                         g.before,
                         g.after};
  const backward::primitive_desc pd{d, onednn_routine::user_scratch(), library.engine,
                                    g.forward(library, image, weights, result)};

  auto r = std::make_unique<onednn_routine>(library);
  const bool in_place = pd.diff_src_desc() == image;
  const auto target = in_place ? place::output(0) : r->reserve(pd.diff_src_desc().get_size());
  const auto cotangent = r->take(0, result, pd.diff_dst_desc(), false);
  const auto kernel = r->take(1, weights, pd.weights_desc(), inputs[1].constant);
  r->add(backward{pd}, pd.scratchpad_desc(),
         {{DNNL_ARG_DIFF_DST, pd.diff_dst_desc(), cotangent},
          {DNNL_ARG_WEIGHTS, pd.weights_desc(), kernel},
          {DNNL_ARG_DIFF_SRC, pd.diff_src_desc(), target}});
  if (!in_place) {
    r->add_reorder(pd.diff_src_desc(), target, image, place::output(0));
  }
  return r;
}

}  // namespace unity::backend::cpu

#endif
