// Views and layout changes as loops over strided positions, which each backend runs in its own way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <unity/tensor/shape.hpp>
#include <unity/tensor/space.hpp>

namespace unity::backend::detail {

// Units: elements.
struct strided_loop {
  std::int64_t size = 1;
  std::int64_t to = 0;
  std::int64_t from = 0;
};

// A copy of a box of elements between two strided tensors: the offset of its first element in each, and a loop per
// dimension.
struct strided_box {
  std::int64_t to = 0;
  std::int64_t from = 0;
  std::vector<strided_loop> loops{};
};

// The same loops, outermost first in the target, without those of one step; adjacent loops that continue each other are
// merged.
[[nodiscard]] std::vector<strided_loop> in_order_of_target(std::vector<strided_loop> loops);

// From one layout to the other.
[[nodiscard]] strided_box relayout_box(const tensor::shape& dims, tensor::layout to, tensor::layout from);

// The elements of a piece of a view.
[[nodiscard]] strided_box piece_box(const tensor::piece& p, const tensor::tensor_type& input,
                                    const tensor::tensor_type& output);

// What a view copies from which operand to which result, and which results have elements that nothing is copied to.
struct view_copies {
  struct copy {
    std::size_t operand = 0;
    std::size_t result = 0;
    strided_box box{};
  };
  std::vector<copy> copies{};
  std::vector<bool> has_gaps{};  // by result

  view_copies(const tensor::view_map& map, std::span<const tensor::tensor_type> inputs,
              std::span<const tensor::tensor_type> outputs);
};

}  // namespace unity::backend::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_DETAIL_VIEW_COPIES)

#include <algorithm>

namespace unity::backend::detail {

UNITY_INLINE std::vector<strided_loop> in_order_of_target(std::vector<strided_loop> loops) {
  std::erase_if(loops, [](const strided_loop& l) { return l.size == 1; });
  // No two steps are equal there.
  std::sort(loops.begin(), loops.end(), [](const strided_loop& a, const strided_loop& b) { return a.to > b.to; });
  std::vector<strided_loop> joined;
  for (const auto& l : loops) {
    if (!joined.empty() && joined.back().to == l.to * l.size && joined.back().from == l.from * l.size) {
      joined.back() = {joined.back().size * l.size, l.to, l.from};
    } else {
      joined.push_back(l);
    }
  }
  return joined;
}

UNITY_INLINE strided_box relayout_box(const tensor::shape& dims, tensor::layout to, tensor::layout from) {
  strided_box b;
  const auto write = tensor::strides_of(dims, to);
  const auto read = tensor::strides_of(dims, from);
  for (std::size_t d = 0; d < dims.size(); ++d) {
    b.loops.push_back({dims[d], write[d], read[d]});
  }
  return b;
}

UNITY_INLINE strided_box piece_box(const tensor::piece& p, const tensor::tensor_type& input,
                                   const tensor::tensor_type& output) {
  strided_box b;
  const auto read = tensor::strides_of(input.dims, input.order);
  const auto write = tensor::strides_of(output.dims, output.order);
  for (std::size_t d = 0; d < p.sizes.size(); ++d) {
    b.to += p.origin[d] * write[d];
    b.loops.push_back({p.sizes[d], write[d], 0});
  }
  for (std::size_t d = 0; d < p.source.size(); ++d) {
    b.from += p.source[d].start * read[d];
    if (p.source[d].along >= 0) {
      b.loops[static_cast<std::size_t>(p.source[d].along)].from += p.source[d].step * read[d];
    }
  }
  return b;
}

UNITY_INLINE view_copies::view_copies(const tensor::view_map& map, std::span<const tensor::tensor_type> inputs,
                                      std::span<const tensor::tensor_type> outputs) {
  std::vector<std::int64_t> covered(outputs.size(), 0);
  if (map.relabels()) {
    // Row-major order is what stays; the result is row-major.
    copies.push_back({0, 0, relayout_box(inputs[0].dims, tensor::layout::row_major, inputs[0].order)});
    covered[0] = tensor::element_count(outputs[0].dims);
  }
  for (const auto& p : map.pieces()) {
    copies.push_back({p.operand, p.result, piece_box(p, inputs[p.operand], outputs[p.result])});
    covered[p.result] += tensor::element_count(p.sizes);
  }
  for (std::size_t r = 0; r < outputs.size(); ++r) {
    has_gaps.push_back(covered[r] < tensor::element_count(outputs[r].dims));
  }
}

}  // namespace unity::backend::detail

#endif
