// The kinds of parallelism that correspond to the indices of an operator.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <unity/parallel/dimensions.hpp>
#include <unity/tensor/algebra.hpp>

namespace unity::parallel {

// data: samples. model: an index that divides weights. spatial: another dimension of results, such as the rows of
// images. reduction: parts of a sum. special: an index of particular operators, such as heads of attention and of
// batched matrix products. placement: no index; operators run side by side on their own devices, or all on some of the
// devices. pipeline: no index either; stages work on different samples at a time.
// Source: Unger et al., Unity (OSDI 2022), section 2.1.
enum class index_use : std::uint8_t { data, model, spatial, reduction, special, placement, pipeline };
inline constexpr std::array<std::string_view, 7> index_use_names{"data",    "model",     "spatial", "reduction",
                                                                 "special", "placement", "pipeline"};

// A bit set of kinds.
using index_uses = std::uint32_t;
inline constexpr index_uses all_index_uses = 127;

[[nodiscard]] constexpr bool has(index_uses set, index_use use) noexcept {
  return (set >> static_cast<unsigned>(use) & 1U) != 0;
}

[[nodiscard]] index_use use_of(const tensor::algebra& a, const operator_dimensions& o, std::size_t index);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_PARALLELISM_KINDS)

#include <algorithm>
#include <variant>

#include <unity/tensor/definition.hpp>
#include <unity/tensor/space.hpp>

namespace unity::parallel {

UNITY_INLINE index_use use_of(const tensor::algebra& a, const operator_dimensions& o, std::size_t index) {
  const auto& s = o.structure;
  const bool is_primitive = std::holds_alternative<tensor::primitive>(a.definition_of(o.op.kind).body);
  if (s.indices[index].kind == tensor::index_kind::reduction) {
    return is_primitive ? index_use::reduction : index_use::special;
  }
  const auto is_at = [&](const tensor::dimension_index& d) {
    return std::find(d.indices.begin(), d.indices.end(), index) != d.indices.end();
  };
  const auto& result = s.results[0];
  const auto at = static_cast<std::size_t>(std::find_if(result.begin(), result.end(), is_at) - result.begin());
  if (detail::divides_parameters(o, {&index, 1})) {
    return index_use::model;
  }
  if (at == 0) {
    return index_use::data;
  }
  // An index of all operands and results of an operator that sums over another index: a batch of problems.
  const bool is_batch =
      !o.reductions.empty() && std::all_of(s.operands.begin(), s.operands.end(),
                                           [&](const auto& dims) { return detail::has_index(s, dims, index); });
  return is_batch ? index_use::special : index_use::spatial;
}

}  // namespace unity::parallel

#endif
