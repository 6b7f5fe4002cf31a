// Views that need not run, because their results lie in the memory of an operand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/view_map.hpp>

namespace unity::tensor {

// Where a result lies: in which operand, and at which offset.
struct shared_part {
  std::size_t operand = 0;
  bytes offset{};

  friend bool operator==(const shared_part&, const shared_part&) = default;
};

namespace detail {

// Vector instructions prefer operands that begin at a cache line.
inline constexpr std::int64_t shared_alignment = 64;

// The offset in the operand of a piece that is a whole result, in elements; nothing if elements change their order or
// distance.
[[nodiscard]] std::optional<std::int64_t> first_element(const piece& p, const tensor_type& from, const tensor_type& to);

}  // namespace detail

// Per result, where it lies; nothing if one of them must be written, or would begin inside a cache line.
[[nodiscard]] std::optional<std::vector<shared_part>> shared_parts(const view_map& map,
                                                                   std::span<const tensor_type> inputs,
                                                                   std::span<const tensor_type> outputs);

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_SHARED_MEMORY)

#include <unity/tensor/dtype.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::tensor::detail {

UNITY_INLINE std::optional<std::int64_t> first_element(const piece& p, const tensor_type& from, const tensor_type& to) {
  const auto source = strides_of(from.dims, from.order);
  const auto target = strides_of(to.dims, to.order);
  shape reached(to.dims.size(), 0);
  std::int64_t first = 0;
  for (std::size_t d = 0; d < p.source.size(); ++d) {
    first += p.source[d].start * source[d];
    if (p.source[d].along >= 0) {
      reached[static_cast<std::size_t>(p.source[d].along)] = p.source[d].step * source[d];
    }
  }
  bool stays = p.sizes == to.dims;
  for (std::size_t d = 0; d < reached.size(); ++d) {
    stays = stays && (to.dims[d] == 1 || reached[d] == target[d]);
  }
  return stays ? std::optional{first} : std::nullopt;
}

}  // namespace unity::tensor::detail

namespace unity::tensor {

UNITY_INLINE std::optional<std::vector<shared_part>> shared_parts(const view_map& map,
                                                                  std::span<const tensor_type> inputs,
                                                                  std::span<const tensor_type> outputs) {
  if (map.relabels()) {
    const bool is_list = inputs[0].order == layout::row_major || inputs[0].rank() < 2;
    return is_list ? std::optional{std::vector<shared_part>(1)} : std::nullopt;
  }
  std::vector<shared_part> parts;
  for (std::size_t i = 0; i < map.pieces().size(); ++i) {
    const auto& p = map.pieces()[i];
    if (p.result != i || i >= outputs.size()) {  // several pieces make one result
      return std::nullopt;
    }
    const auto first = detail::first_element(p, inputs[p.operand], outputs[i]);
    if (!first || *first * size_of(outputs[i].element) % detail::shared_alignment != 0) {
      return std::nullopt;
    }
    parts.push_back({p.operand, bytes{*first * size_of(outputs[i].element)}});
  }
  return parts.size() == outputs.size() ? std::optional{std::move(parts)} : std::nullopt;
}

}  // namespace unity::tensor

#endif
