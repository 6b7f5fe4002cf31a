// The result types of tensor/index_structure.hpp.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include <unity/tensor/space.hpp>

namespace unity::tensor {

// What runs along a dimension: indices from outer to inner (empty: size 1, or broadcast), or a window.
struct dimension_index {
  std::vector<std::size_t> indices{};
  std::optional<std::size_t> window{};

  friend bool operator==(const dimension_index&, const dimension_index&) = default;
};

using tensor_indices = std::vector<dimension_index>;

struct index_structure {
  std::vector<index> indices{};
  std::vector<window> windows{};
  std::vector<tensor_indices> operands{};
  std::vector<tensor_indices> results{};
};

}  // namespace unity::tensor

namespace unity::tensor::detail {

[[nodiscard]] tensor_indices to_indices(std::span<const access> accesses);

[[nodiscard]] index_structure structure_of(const space& s);

}  // namespace unity::tensor::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_INDEX_TYPES)

namespace unity::tensor::detail {

UNITY_INLINE tensor_indices to_indices(std::span<const access> accesses) {
  tensor_indices dims;
  for (const auto& a : accesses) {
    auto& d = dims.emplace_back();
    for (std::size_t i = 0; i < a.size(); ++i) {
      d.indices.push_back(a[i]);
    }
    if (a.is_window()) {
      d.window = a.window_number();
    }
  }
  return dims;
}

UNITY_INLINE index_structure structure_of(const space& s) {
  index_structure out;
  out.indices.assign(s.indices().begin(), s.indices().end());
  out.windows.assign(s.windows().begin(), s.windows().end());
  for (std::size_t i = 0; i < s.operand_count(); ++i) {
    out.operands.push_back(to_indices(s.operand(i)));
  }
  for (std::size_t i = 0; i < s.result_count(); ++i) {
    out.results.push_back(to_indices(s.result_accesses(i)));
  }
  return out;
}

}  // namespace unity::tensor::detail

#endif
