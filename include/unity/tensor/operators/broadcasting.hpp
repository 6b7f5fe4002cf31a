// Index accesses of operands that broadcast as in NumPy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <unity/core/small_vector.hpp>
#include <unity/tensor/space.hpp>

namespace unity::tensor::operators {

using accesses = small_vector<access, 8>;

// One parallel index per dimension of the joint shape.
[[nodiscard]] accesses declare_all(space& s, std::span<const std::int64_t> joint);

// The accesses of an operand of shape `dims`: none along the dimensions that are broadcast.
[[nodiscard]] accesses seen(std::span<const access> joint, std::span<const std::int64_t> sizes,
                            std::span<const std::int64_t> dims);

}  // namespace unity::tensor::operators

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_OPERATORS_BROADCASTING)

#include <optional>

#include <unity/tensor/shape.hpp>

namespace unity::tensor::operators {

UNITY_INLINE accesses declare_all(space& s, std::span<const std::int64_t> joint) {
  accesses indices;
  for (const auto size : joint) {
    indices.push_back(s.parallel("i", size));
  }
  return indices;
}

UNITY_INLINE accesses seen(std::span<const access> joint, std::span<const std::int64_t> sizes,
                           std::span<const std::int64_t> dims) {
  accesses own;
  const auto skipped = joint.size() - dims.size();
  for (std::size_t d = 0; d < dims.size(); ++d) {
    own.push_back(dims[d] == sizes[d + skipped] ? joint[d + skipped] : access{});
  }
  return own;
}

}  // namespace unity::tensor::operators

#endif
