// The work of an operator, derived from its definition: floating-point operations, and bytes read and written at least
// once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include <unity/core/small_vector.hpp>
#include <unity/core/units.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/space.hpp>

namespace unity::tensor {

// The position of a result in memory: an operand, and an offset in it.
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

// The positions of all results in operands; nothing if one of them must be written, or would begin inside a cache line.
[[nodiscard]] std::optional<std::vector<shared_part>> shared_parts(const view_map& map,
                                                                   std::span<const tensor_type> inputs,
                                                                   std::span<const tensor_type> outputs);

// Saturating addition and multiplication of counts.
[[nodiscard]] constexpr std::int64_t saturating_add(std::int64_t a, std::int64_t b) noexcept {
  std::int64_t r = 0;
  return __builtin_add_overflow(a, b, &r) ? std::numeric_limits<std::int64_t>::max() : r;
}
[[nodiscard]] constexpr std::int64_t saturating_multiply(std::int64_t a, std::int64_t b) noexcept {
  std::int64_t r = 0;
  return __builtin_mul_overflow(a, b, &r) ? std::numeric_limits<std::int64_t>::max() : r;
}

[[nodiscard]] inline bytes size_in_bytes(const tensor_type& t) noexcept {
  return bytes{element_count(t.dims) * size_of(t.element)};
}

[[nodiscard]] bytes total_bytes(std::span<const tensor_type> types) noexcept;

// The index that a factor equal(operand, coordinate(index)) of a sum fixes: only one of its points contributes.
[[nodiscard]] std::optional<std::size_t> selected_index(const scalar_kernel& k) noexcept;

[[nodiscard]] std::int64_t arithmetic_count(const scalar_program& p) noexcept;

// Whether the index runs along a dimension of the result, other than in a window.
[[nodiscard]] bool is_of_result(const space& s, std::size_t index);

// The number of points of a space if the index `selected` is fixed to one point: the terms of a lookup.
[[nodiscard]] std::int64_t terms_of(const space& s, std::size_t selected);

// Counts one operation per arithmetic instruction and point of the space, and one per reduced point; for lookups whose
// terms are added, one addition per term.
[[nodiscard]] flops arithmetic_of(const space& s, const scalar_kernel& k);

// The bytes of a lookup table that no term can read.
[[nodiscard]] bytes untouched_bytes(const space& s, const scalar_kernel& k);

// The bytes that a view reads and writes; zero if no element changes its address (then memory can be shared).
[[nodiscard]] bytes moved_by(const view_map& map, std::span<const tensor_type> inputs,
                             std::span<const tensor_type> outputs);

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_WORK)

#include <algorithm>

#include <unity/rewrite/algebra.hpp>
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

UNITY_INLINE bytes total_bytes(std::span<const tensor_type> types) noexcept {
  bytes sum{};
  for (const auto& t : types) {
    sum += size_in_bytes(t);
  }
  return sum;
}

UNITY_INLINE std::optional<std::size_t> selected_index(const scalar_kernel& k) noexcept {
  const auto& p = k.inner;
  const bool selects = k.reduce == reduction::sum && p.size() == 5 && p[0].op == scalar_op::operand &&
                       p[1].op == scalar_op::coordinate && p[2].op == scalar_op::equal &&
                       p[3].op == scalar_op::operand && p[4].op == scalar_op::mul;
  return selects ? std::optional{static_cast<std::size_t>(p[1].number)} : std::nullopt;
}

UNITY_INLINE std::int64_t arithmetic_count(const scalar_program& p) noexcept {
  std::int64_t count = 0;
  for (const auto& i : p) {
    count += is_leaf(i.op) ? 0 : 1;
  }
  return count;
}

UNITY_INLINE bool is_of_result(const space& s, std::size_t index) {
  for (const auto& a : s.result_accesses(0)) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i] == index) {
        return true;
      }
    }
  }
  return false;
}

UNITY_INLINE std::int64_t terms_of(const space& s, std::size_t selected) {
  std::int64_t terms = 1;
  for (std::size_t i = 0; i < s.indices().size(); ++i) {
    terms = i == selected ? terms : saturating_multiply(terms, s.indices()[i].size);
  }
  return terms;
}

UNITY_INLINE flops arithmetic_of(const space& s, const scalar_kernel& k) {
  std::int64_t points = 1;
  for (const auto& i : s.indices()) {
    points = saturating_multiply(points, i.size);
  }
  const auto results = element_count(s.results()[0].dims);
  const auto finishing = saturating_multiply(results, arithmetic_count(k.outer));
  if (const auto selected = selected_index(k)) {
    const auto terms = terms_of(s, *selected);
    return flops{saturating_add(is_of_result(s, *selected) || terms > results ? terms : 0, finishing)};
  }
  const auto per_point = k.reduce == reduction::none ? 0 : arithmetic_count(k.inner) + 1;
  return flops{saturating_add(saturating_multiply(points, per_point), finishing)};
}

UNITY_INLINE bytes untouched_bytes(const space& s, const scalar_kernel& k) {
  const auto selected = selected_index(k);
  if (!selected || is_of_result(s, *selected)) {
    return bytes{};
  }
  const auto& table = s.inputs()[static_cast<std::size_t>(k.inner[3].number)];
  const auto rest = element_count(table.dims) - terms_of(s, *selected);
  return bytes{std::max(rest, std::int64_t{0}) * size_of(table.element)};
}

UNITY_INLINE bytes moved_by(const view_map& map, std::span<const tensor_type> inputs,
                            std::span<const tensor_type> outputs) {
  if (shared_parts(map, inputs, outputs)) {
    return bytes{};
  }
  if (map.relabels()) {
    return total_bytes(inputs) + total_bytes(outputs);
  }
  bytes moved = total_bytes(outputs);
  for (const auto& p : map.pieces()) {
    const auto& from = inputs[p.operand];
    moved += bytes{std::min(element_count(p.sizes), element_count(from.dims)) * size_of(from.element)};
  }
  return moved;
}

}  // namespace unity::tensor

#endif
