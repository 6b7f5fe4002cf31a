// The families of operators. Append a new operator at the end of the last family, or in a family of its own.
#pragma once

#include <utility>
#include <vector>

#include <unity/tensor/definition.hpp>
#include <unity/tensor/operators/loss.hpp>
#include <unity/tensor/operators/selection.hpp>
#include <unity/tensor/operators/sources.hpp>

namespace unity::tensor {

// The order must never change, because it numbers the kinds, on which fingerprints depend: append only.
[[nodiscard]] std::vector<definition> standard_operators();

// The operators that adjoints of standard operators use in addition. Append only, too.
[[nodiscard]] std::vector<definition> gradient_operators();

// The operators of training beyond models and their gradients. Append only, too.
[[nodiscard]] inline std::vector<definition> loss_operators() { return operators::losses(); }

// The operators of messages between ranks beyond all of these. Append only, too.
[[nodiscard]] inline std::vector<definition> message_operators() { return operators::selections(); }

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_STANDARD_OPERATORS)

#include <unity/tensor/operators/attention.hpp>
#include <unity/tensor/operators/convolution.hpp>
#include <unity/tensor/operators/elementwise.hpp>
#include <unity/tensor/operators/embedding.hpp>
#include <unity/tensor/operators/functions.hpp>
#include <unity/tensor/operators/indexing.hpp>
#include <unity/tensor/operators/matmul.hpp>
#include <unity/tensor/operators/movement.hpp>
#include <unity/tensor/operators/normalization.hpp>
#include <unity/tensor/operators/pooling.hpp>
#include <unity/tensor/operators/quantization.hpp>
#include <unity/tensor/operators/rearrangement.hpp>
#include <unity/tensor/operators/recurrent.hpp>
#include <unity/tensor/operators/reduction.hpp>
#include <unity/tensor/operators/resize.hpp>
#include <unity/tensor/operators/segment.hpp>

namespace unity::tensor {

UNITY_INLINE std::vector<definition> standard_operators() {
  std::vector<definition> all;
  for (auto family : {operators::sources,
                      operators::matrix_products,
                      operators::convolutions,
                      operators::pools,
                      operators::elementwise,
                      operators::reductions,
                      operators::movements,
                      operators::lookups,
                      operators::normalizations,
                      operators::attentions,
                      operators::recurrent_cells,
                      operators::unknowns,
                      operators::bag_lookups,
                      operators::segments,
                      operators::functions,
                      operators::logic,
                      operators::composite_reductions,
                      operators::positions,
                      operators::feature_normalizations,
                      operators::likelihood_losses,
                      operators::dot_product_attentions,
                      operators::indexings,
                      operators::rearrangements,
                      operators::recurrent_layers,
                      operators::transposed_convolutions,
                      operators::einsums,
                      operators::resizes,
                      operators::quantizations,
                      operators::orders}) {
    for (auto& d : family()) {
      all.push_back(std::move(d));
    }
  }
  return all;
}

UNITY_INLINE std::vector<definition> gradient_operators() {
  std::vector<definition> all;
  for (auto family : {operators::elementwise_gradients, operators::convolution_gradients, operators::pool_gradients,
                      operators::lookup_gradients, operators::normalization_gradients, operators::attention_gradients,
                      operators::recurrent_gradients, operators::bag_lookup_gradients, operators::segment_gradients,
                      operators::dot_product_attention_gradients}) {
    for (auto& d : family()) {
      all.push_back(std::move(d));
    }
  }
  return all;
}

}  // namespace unity::tensor

#endif
