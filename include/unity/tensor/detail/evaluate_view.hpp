// Reference evaluation of views.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/tensor/dense.hpp>
#include <unity/tensor/detail/loop_nest.hpp>
#include <unity/tensor/scalar.hpp>
#include <unity/tensor/view_map.hpp>

namespace unity::tensor::detail {

template <class Scalar>
void copy_piece(const piece& p, const shape& from_dims, const Scalar* from, dense<Scalar>& to) {
  const auto source = strides_of(from_dims);
  const auto target = strides_of(to.dims);
  affine_form read{0, std::vector<std::int64_t>(to.dims.size(), 0)};
  affine_form write{0, {target.begin(), target.end()}};
  for (std::size_t d = 0; d < to.dims.size(); ++d) {
    write.base += p.origin[d] * target[d];
  }
  for (std::size_t d = 0; d < source.size(); ++d) {
    read.base += p.source[d].start * source[d];
    if (p.source[d].along >= 0) {
      read.steps[static_cast<std::size_t>(p.source[d].along)] = p.source[d].step * source[d];
    }
  }
  const std::vector forms{write, read};
  loop_nest nest{forms};
  for (std::size_t d = 0; d < to.dims.size(); ++d) {
    nest.add(p.sizes[d], forms, d);
  }
  nest.coalesce();
  nest.deepen(1);
  const auto inner = nest.depth() - 1;
  nest.for_each(1, [&](std::span<const std::int64_t> at) {
    for (std::int64_t i = 0; i < nest.size(inner); ++i) {
      to.data[static_cast<std::size_t>(at[0] + i * nest.step(inner, 0))] = from[at[1] + i * nest.step(inner, 1)];
    }
  });
}

template <class Scalar>
[[nodiscard]] std::vector<dense<Scalar>> evaluate_view(const view_map& map, std::span<const Scalar* const> operands) {
  std::vector<dense<Scalar>> results;
  for (const auto& t : map.results()) {
    results.emplace_back(t.dims);
  }
  if (map.relabels()) {
    std::copy_n(operands[0], results[0].data.size(), results[0].data.begin());
    return results;
  }
  if (map.fill() != 0) {
    for (auto& r : results) {
      std::fill(r.data.begin(), r.data.end(), scalar_traits<Scalar>::literal(map.fill()));
    }
  }
  for (const auto& p : map.pieces()) {
    copy_piece(p, map.dims(p.operand), operands[p.operand], results[p.result]);
  }
  return results;
}

}  // namespace unity::tensor::detail
