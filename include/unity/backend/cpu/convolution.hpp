// conv2d on oneDNN.
#pragma once

#include <memory>
#include <utility>

#include <unity/backend/cpu/onednn.hpp>
#include <unity/backend/cpu/routine.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::backend::cpu {

// Inputs: float32, row-major.
// Throws: dnnl::error if the library has no such convolution.
//
// A 1x1 convolution of stride 1 is a matrix product on plain images. All others are fastest on images in the library's
// own format, even including the time for conversion: 1.2 to 4 times on layers of ResNeXt-50 and on depthwise ones
// (bench/onednn_overhead.cpp).
[[nodiscard]] std::unique_ptr<routine> convolution_routine(const onednn& library, const tensor::attribute_reader& a,
                                                           types inputs, types outputs);

}  // namespace unity::backend::cpu

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_CPU_CONVOLUTION)

#include <vector>

#include <dnnl.hpp>

#include <unity/backend/cpu/convolution_geometry.hpp>
#include <unity/tensor/operators/parts.hpp>

namespace unity::backend::cpu {

UNITY_INLINE std::unique_ptr<routine> convolution_routine(const onednn& library, const tensor::attribute_reader& a,
                                                          types inputs, types outputs) {
  const convolution_geometry g{a, inputs, inputs[0].dims, inputs[1].dims};
  const bool product = g.is_product();
  const auto image = plain_desc(inputs[0].dims);
  const auto result = plain_desc(outputs[0].dims);
  const auto weights = plain_desc(g.weights());
  const auto free = [&](const dnnl_desc& d) { return product ? d : any_desc(d.dims()); };
  const bool biased = inputs.size() == 3;
  const auto bias = biased ? plain_desc(inputs[2].dims) : dnnl_desc{};
  using convolution = dnnl::convolution_forward;
  const auto kind = dnnl::prop_kind::forward_inference;
  const auto direct = dnnl::algorithm::convolution_direct;
  const auto any_weights = any_desc(weights.dims());
  const auto d = biased ? convolution::desc{kind,         direct,   free(image), any_weights, bias,
                                            free(result), g.stride, g.dilates,   g.before,    g.after}
                        : convolution::desc{kind,     direct,    free(image), any_weights, free(result),
                                            g.stride, g.dilates, g.before,    g.after};
  // The library applies the activation of a product element by element: up to 5 times slower than a second pass.
  const auto ending = a.choice<tensor::operators::activation>("activation");
  const bool ends_later = product && ending != tensor::operators::activation::none;
  const convolution::primitive_desc pd{d, ends_later ? onednn_routine::user_scratch() : ending_with(ending),
                                       library.engine};

  auto r = std::make_unique<onednn_routine>(library);
  const bool in_place = pd.dst_desc() == result;
  const auto target = in_place ? place::output(0) : r->reserve(pd.dst_desc().get_size());
  std::vector<argument> arguments{
      {DNNL_ARG_SRC, pd.src_desc(), r->take(0, image, pd.src_desc(), false)},
      {DNNL_ARG_WEIGHTS, pd.weights_desc(), r->take(1, weights, pd.weights_desc(), inputs[1].constant)},
      {DNNL_ARG_DST, pd.dst_desc(), target}};
  if (biased) {
    arguments.push_back({DNNL_ARG_BIAS, bias, place::input(2)});
  }
  r->add(convolution{pd}, pd.scratchpad_desc(), std::move(arguments));
  if (ends_later) {
    const auto of_results = dnnl::eltwise_forward::desc{kind, eltwise_of(ending), pd.dst_desc(), 0, 0};
    const dnnl::eltwise_forward::primitive_desc last{of_results, onednn_routine::user_scratch(), library.engine};
    r->add(dnnl::eltwise_forward{last}, last.scratchpad_desc(),
           {{DNNL_ARG_SRC, pd.dst_desc(), target}, {DNNL_ARG_DST, pd.dst_desc(), target}});
  }
  if (!in_place) {
    r->add_reorder(pd.dst_desc(), target, result, place::output(0));
  }
  return r;
}

}  // namespace unity::backend::cpu

#endif
