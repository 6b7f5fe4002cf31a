// The elements of a tensor that ranges of an operator's indices access.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <unity/parallel/box.hpp>
#include <unity/tensor/index_structure.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/space.hpp>

namespace unity::parallel {

// Half-open range of positions of an index.
struct index_range {
  std::int64_t begin = 0;
  std::int64_t end = 1;
};

// dims: how indices number the dimensions of the tensor. range(i): of index i; if several indices number a dimension,
// ranges must be whole blocks of inner indices. Along windows halos are included, padding is not. is_result: a
// dimension numbered by a window is returned whole, because terms of all windows add up there.
// Complexity: linear in the indices of its dimensions.
template <class Range>
[[nodiscard]] box box_of_indices(const tensor::index_structure& s, const tensor::tensor_indices& dims,
                                 const tensor::shape& sizes, const Range& range, bool is_result = false) {
  auto b = whole(sizes);
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d].window) {
      if (is_result) {
        continue;
      }
      const auto& w = s.windows[*dims[d].window];
      const auto outer = range(static_cast<std::size_t>(w.outer));
      const auto inner = w.inner < 0 ? index_range{} : range(static_cast<std::size_t>(w.inner));
      const auto first = outer.begin * w.stride + inner.begin * w.dilation - w.before;
      const auto last = (outer.end - 1) * w.stride + (inner.end - 1) * w.dilation - w.before;
      b.begin[d] = std::clamp(first, std::int64_t{0}, sizes[d]);
      b.end[d] = std::clamp(last + 1, b.begin[d], sizes[d]);
    } else if (!dims[d].indices.empty()) {
      std::int64_t first = 0;
      std::int64_t last = 0;
      for (const auto i : dims[d].indices) {
        first = first * s.indices[i].size + range(i).begin;
        last = last * s.indices[i].size + range(i).end - 1;
      }
      b.begin[d] = first;
      b.end[d] = last + 1;
    }
  }
  return b;
}

}  // namespace unity::parallel
