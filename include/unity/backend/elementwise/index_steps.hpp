// How the loops of an element-wise operator walk through tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/small_vector.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/space.hpp>

namespace unity::backend {

// The dimensions in the order in which the elements are stored, outermost first.
[[nodiscard]] small_vector<std::size_t, 6> memory_order(std::size_t rank, tensor::layout order);

// How far every index of an iteration space moves in a tensor of the type; nothing if windows slide over it.
[[nodiscard]] std::optional<std::vector<std::int64_t>> index_steps(const tensor::space& s,
                                                                   std::span<const tensor::access> accesses,
                                                                   const tensor::tensor_type& type);

// The indices of the results in the order in which these are stored.
[[nodiscard]] std::vector<std::size_t> result_indices(const tensor::space& s, tensor::layout order);

}  // namespace unity::backend

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_ELEMENTWISE_INDEX_STEPS)

#include <unity/tensor/operation.hpp>

namespace unity::backend {

UNITY_INLINE small_vector<std::size_t, 6> memory_order(std::size_t rank, tensor::layout order) {
  small_vector<std::size_t, 6> dims;
  for (std::size_t d = 0; d < rank; ++d) {
    dims.push_back(d);
  }
  if (rank >= 2 && order == tensor::layout::column_major) {
    std::swap(dims[rank - 1], dims[rank - 2]);
  }
  return dims;
}

UNITY_INLINE std::optional<std::vector<std::int64_t>> index_steps(const tensor::space& s,
                                                                  std::span<const tensor::access> accesses,
                                                                  const tensor::tensor_type& type) {
  std::vector<std::int64_t> steps(s.indices().size(), 0);
  const auto strides = tensor::strides_of(type.dims, type.order);
  for (std::size_t d = 0; d < accesses.size(); ++d) {
    if (accesses[d].is_window()) {
      return std::nullopt;
    }
    auto stride = strides[d];
    for (std::size_t i = accesses[d].size(); i-- > 0;) {
      steps[accesses[d][i]] += stride;
      stride *= s.indices()[accesses[d][i]].size;
    }
  }
  return steps;
}

UNITY_INLINE std::vector<std::size_t> result_indices(const tensor::space& s, tensor::layout order) {
  std::vector<std::size_t> indices;
  const auto accesses = s.result_accesses(0);
  for (const auto d : memory_order(accesses.size(), order)) {
    for (std::size_t i = 0; i < accesses[d].size(); ++i) {
      indices.push_back(accesses[d][i]);
    }
  }
  return indices;
}

}  // namespace unity::backend

#endif
