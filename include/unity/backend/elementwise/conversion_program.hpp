// The conversion of a tensor into another element type, and layout, as an element-wise computation.
#pragma once

#include <utility>

#include <unity/backend/elementwise/tile_program.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend {

// The types must have the same sizes. Numbers are kept as exactly as the target type allows.
[[nodiscard]] tile_program conversion_program(const tensor::tensor_type& from, const tensor::tensor_type& to);

}  // namespace unity::backend

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_ELEMENTWISE_CONVERSION_PROGRAM)

#include <unity/backend/elementwise/index_steps.hpp>

namespace unity::backend {

UNITY_INLINE tile_program conversion_program(const tensor::tensor_type& from, const tensor::tensor_type& to) {
  tile_program p;
  tile_leaf leaf{tile_leaf::origin::operand, 0, from.element, 0, {}};
  const auto strides = tensor::strides_of(from.dims, from.order);
  for (const auto d : memory_order(to.rank(), to.order)) {
    p.sizes.push_back(to.dims[d]);
    leaf.steps.push_back(strides[d]);
  }
  p.stores.push_back({p.add_leaf(std::move(leaf)), 0, to.element});
  return p;
}

}  // namespace unity::backend

#endif
