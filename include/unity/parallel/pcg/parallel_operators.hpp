// The parallelization operators, which change how a tensor is divided among tasks, but not its value.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include <unity/parallel/parallel_type.hpp>
#include <unity/rewrite/algebra.hpp>

namespace unity::parallel {

// On shards: partition splits block b into blocks bk, ..., bk + k - 1, combine joins them again; replicate makes k
// copies of each shard, discard keeps one of k; reduce adds up k terms, inject makes k terms of one, all but the first
// zero; pipeline processes a dimension in m steps, one after another, batch processes it at once again. Terms and
// blocks move nothing: n tensors of one type become the terms of a sum, or the blocks along a dimension.
// Source: Unger et al., Unity (OSDI 2022), section 3.1 and figure 11. Discard and inject are needed to drop copies and
// to divide operands outside of a sum along with it; they are adjoints of each other.
enum class parallel_kind : std::uint8_t {
  partition,
  combine,
  replicate,
  reduce,
  discard,
  inject,
  pipeline,
  batch,
  terms,
  blocks
};
inline constexpr std::array<std::string_view, 10> parallel_names{
    "partition", "combine", "replicate", "reduce", "discard", "inject", "pipeline", "batch", "terms", "blocks"};

// Whether the operator has a dimension, and a degree (of pipeline and batch: steps).
[[nodiscard]] constexpr bool has_axis(parallel_kind k) noexcept {
  return k == parallel_kind::partition || k == parallel_kind::combine || k >= parallel_kind::pipeline
             ? k != parallel_kind::terms
             : false;
}
[[nodiscard]] constexpr bool has_degree(parallel_kind k) noexcept { return k < parallel_kind::terms; }
// Whether it takes one operand; terms and blocks take any number.
[[nodiscard]] constexpr bool is_unary(parallel_kind k) noexcept { return k < parallel_kind::terms; }

// Regular. An operator with its parameters; parameters that it lacks are 0.
struct parallel_operator {
  parallel_kind kind = parallel_kind::partition;
  std::int64_t axis = 0;
  std::int64_t degree = 0;

  friend bool operator==(const parallel_operator&, const parallel_operator&) = default;
};

// The adjoint of a unary operator, which acts on cotangents. Partition and combine, and pipeline and batch, are
// inverses; the others are not.
[[nodiscard]] constexpr parallel_operator adjoint_of(parallel_operator p) noexcept {
  constexpr std::array<parallel_kind, 8> adjoints{
      parallel_kind::combine, parallel_kind::partition, parallel_kind::reduce, parallel_kind::replicate,
      parallel_kind::inject,  parallel_kind::discard,   parallel_kind::batch,  parallel_kind::pipeline};
  p.kind = adjoints[static_cast<std::size_t>(p.kind)];
  return p;
}

namespace detail {

inline constexpr std::int64_t most_tasks = std::int64_t{1} << 30U;

// Complexity: constant.
[[nodiscard]] inline bool multiply(std::int64_t& value, std::int64_t factor) noexcept {
  return !__builtin_mul_overflow(value, factor, &value) && value <= most_tasks;
}
[[nodiscard]] bool divide(std::int64_t& value, std::int64_t factor) noexcept;

[[nodiscard]] std::optional<parallel_type> apply_unary(const parallel_operator& p, parallel_type t);

[[nodiscard]] std::optional<parallel_type> gathered(const parallel_operator& p, std::span<const parallel_type> inputs);

}  // namespace detail

// The type of the result; nothing if the operator does not accept such operands.
// Complexity: linear in operands and rank.
[[nodiscard]] std::optional<parallel_type> result_type(const parallel_operator& p,
                                                       std::span<const parallel_type> inputs);

// The signature of the kind for rules.
[[nodiscard]] op_signature signature_of(parallel_kind k);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_PCG_PARALLEL_OPERATORS)

#include <string>

#include <unity/core/small_vector.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel::detail {

UNITY_INLINE bool divide(std::int64_t& value, std::int64_t factor) noexcept {
  const bool divides = value % factor == 0;
  value /= factor;
  return divides;
}

UNITY_INLINE std::optional<parallel_type> apply_unary(const parallel_operator& p, parallel_type t) {
  if (p.degree < 2) {
    return std::nullopt;
  }
  const auto axis = static_cast<std::size_t>(p.axis);
  bool is_possible = true;
  switch (p.kind) {
    case parallel_kind::partition: is_possible = multiply(t.degrees[axis], p.degree); break;
    case parallel_kind::combine: is_possible = divide(t.degrees[axis], p.degree); break;
    case parallel_kind::replicate: is_possible = multiply(t.copies, p.degree); break;
    case parallel_kind::discard: is_possible = divide(t.copies, p.degree); break;
    case parallel_kind::inject:
      is_possible = t.global.element != tensor::dtype::boolean && multiply(t.partial, p.degree);
      break;
    case parallel_kind::reduce: is_possible = divide(t.partial, p.degree); break;
    // Steps are outside of degrees: steps of a divided dimension would change which blocks a task has.
    case parallel_kind::pipeline: is_possible = t.degrees[axis] == 1 && multiply(t.steps[axis], p.degree); break;
    case parallel_kind::batch: is_possible = t.degrees[axis] == 1 && divide(t.steps[axis], p.degree); break;
    case parallel_kind::terms:
    case parallel_kind::blocks: return std::nullopt;
  }
  return is_possible && total(t) <= most_tasks && is_valid(t) ? std::optional{std::move(t)} : std::nullopt;
}

UNITY_INLINE std::optional<parallel_type> gathered(const parallel_operator& p, std::span<const parallel_type> inputs) {
  auto t = inputs[0];
  const auto n = static_cast<std::int64_t>(inputs.size());
  bool is_constant = true;
  for (const auto& x : inputs) {
    auto same = x;
    same.global.constant = t.global.constant;
    is_constant = is_constant && x.global.constant;
    if (same != t) {
      return std::nullopt;
    }
  }
  bool is_possible = n >= 2;
  if (p.kind == parallel_kind::terms) {
    is_possible = is_possible && t.global.element != tensor::dtype::boolean && multiply(t.partial, n);
  } else {
    const auto axis = static_cast<std::size_t>(p.axis);
    std::int64_t size = 0;
    is_possible = is_possible && t.steps[axis] == 1 && multiply(t.degrees[axis], n) &&
                  !__builtin_mul_overflow(t.global.dims[axis], n, &size);
    t.global.dims[axis] = size;
  }
  t.global.constant = is_constant;
  return is_possible && total(t) <= most_tasks && is_valid(t) ? std::optional{std::move(t)} : std::nullopt;
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE std::optional<parallel_type> result_type(const parallel_operator& p,
                                                      std::span<const parallel_type> inputs) {
  if (inputs.empty() || (is_unary(p.kind) && inputs.size() != 1) || !is_valid(inputs[0])) {
    return std::nullopt;
  }
  if (has_axis(p.kind) && (p.axis < 0 || p.axis >= static_cast<std::int64_t>(inputs[0].global.rank()))) {
    return std::nullopt;
  }
  return is_unary(p.kind) ? detail::apply_unary(p, inputs[0]) : detail::gathered(p, inputs);
}

UNITY_INLINE op_signature signature_of(parallel_kind k) {
  op_signature s{
      std::string{parallel_names[static_cast<std::size_t>(k)]}, is_unary(k) ? 1 : op_signature::any, 1, false, {}};
  if (has_axis(k)) {
    s.attributes.push_back({"axis", attribute_form::integer, {}, {}});
  }
  if (has_degree(k)) {
    const bool steps = k == parallel_kind::pipeline || k == parallel_kind::batch;
    s.attributes.push_back({steps ? "steps" : "degree", attribute_form::integer, {}, {}});
  }
  return s;
}

}  // namespace unity::parallel

#endif
