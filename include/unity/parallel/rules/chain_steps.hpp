// Rewrites a chain of parallelization operators to its canonical form, rule by rule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <unity/parallel/pcg/chains.hpp>
#include <unity/parallel/pcg/parallel_operators.hpp>
#include <unity/parallel/rules/chain_rules.hpp>
#include <unity/parallel/rules/rule_parameters.hpp>

namespace unity::parallel {

// A rule of chain_rules applied at one position of a chain: one or two operators from `first` on are replaced by
// `made`.
struct chain_step {
  std::string rule;
  rule_values values{};
  bool reversed = false;  // a two-way rule is applied from right to left
  std::size_t first = 0;
  std::size_t count = 0;
  parallel_chain made{};
};

namespace detail {

// The quantity of a type that an operator changes: 0 terms, 1 copies, 2 + d dimension d.
[[nodiscard]] inline std::int64_t quantity_of(const parallel_operator& p) noexcept {
  return has_axis(p.kind) ? 2 + p.axis : p.kind == parallel_kind::reduce || p.kind == parallel_kind::inject ? 0 : 1;
}
[[nodiscard]] inline bool comes_before(const parallel_operator& p, const parallel_operator& q) {
  return std::pair{canonical_place(p.kind), p.axis} < std::pair{canonical_place(q.kind), q.axis};
}

[[nodiscard]] rule_values values_of(const parallel_operator& p, const char* dimension, const char* degree);

// Swaps the operators i and i + 1.
[[nodiscard]] chain_step swap_at(std::span<const parallel_operator> chain, std::size_t i);
// Splits operator i into two; the first of them gets that degree.
[[nodiscard]] chain_step divide_at(std::span<const parallel_operator> chain, std::size_t i, std::int64_t degree);

// Merges adjacent operators that change the same quantity.
[[nodiscard]] chain_step merge_at(std::span<const parallel_operator> chain, std::size_t i);

// Whether two operators that change the same quantity can be rewritten: fused, cancelled or reordered.
[[nodiscard]] inline bool interact(const parallel_operator& first, const parallel_operator& last) {
  return first.kind == last.kind || comes_before(last, first) ||
         (inverse_kind(first.kind) == last.kind && std::gcd(first.degree, last.degree) > 1);
}

// A step that brings together, and then merges, the first pair of operators that `meet`, change the same quantity, and
// have no operator between them that changes it.
template <class Meet>
[[nodiscard]] std::optional<chain_step> step_between(std::span<const parallel_operator> chain, const Meet& meet) {
  for (std::size_t j = 1; j < chain.size(); ++j) {
    auto i = j;
    while (i > 0 && quantity_of(chain[i - 1]) != quantity_of(chain[j])) {
      --i;
    }
    if (i > 0 && meet(chain[i - 1], chain[j])) {
      return i == j ? merge_at(chain, i - 1) : swap_at(chain, j - 1);
    }
  }
  return std::nullopt;
}

}  // namespace detail

// The next step; nothing if the chain is canonical. Steps preserve the value and terminate: cancelling steps come
// first, so that what was split for cancelling is not fused again.
// Complexity: quadratic in the chain.
[[nodiscard]] std::optional<chain_step> next_chain_step(std::span<const parallel_operator> chain);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RULES_CHAIN_STEPS)

namespace unity::parallel::detail {

UNITY_INLINE rule_values values_of(const parallel_operator& p, const char* dimension, const char* degree) {
  rule_values values{{degree, p.degree}};
  if (has_axis(p.kind)) {
    values[dimension] = p.axis;
  }
  return values;
}

UNITY_INLINE chain_step swap_at(std::span<const parallel_operator> chain, std::size_t i) {
  const auto& first = chain[i];
  const auto& last = chain[i + 1];
  const bool forward = comes_before(last, first);
  const auto& outer = forward ? last : first;
  const auto& inner = forward ? first : last;
  auto values = values_of(outer, "d", "k");
  values.merge(values_of(inner, "e", "j"));
  return {swapping_rule(outer.kind, inner.kind), std::move(values), !forward, i, 2, {last, first}};
}

UNITY_INLINE chain_step divide_at(std::span<const parallel_operator> chain, std::size_t i, std::int64_t degree) {
  auto first = chain[i];
  auto last = chain[i];
  first.degree = degree;
  last.degree /= degree;
  auto values = values_of(last, "d", "k");
  values["j"] = degree;
  return {fusing_rule(first.kind), std::move(values), true, i, 1, {first, last}};
}

UNITY_INLINE chain_step merge_at(std::span<const parallel_operator> chain, std::size_t i) {
  const auto& first = chain[i];
  const auto& last = chain[i + 1];
  if (first.kind == last.kind) {
    auto values = values_of(last, "d", "k");
    values["j"] = first.degree;
    return {fusing_rule(first.kind),
            std::move(values),
            false,
            i,
            2,
            {{first.kind, first.axis, first.degree * last.degree}}};
  }
  const auto common = std::gcd(first.degree, last.degree);
  if (common == 1) {
    return swap_at(chain, i);
  }
  if (last.degree > common) {
    return divide_at(chain, i + 1, common);
  }
  if (first.degree > common) {
    return divide_at(chain, i, first.degree / common);
  }
  return {cancelling_rule(last.kind), values_of(last, "d", "k"), false, i, 2, {}};
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE std::optional<chain_step> next_chain_step(std::span<const parallel_operator> chain) {
  const auto cancel = [](const parallel_operator& first, const parallel_operator& last) {
    return inverse_kind(first.kind) == last.kind && first.degree == last.degree;
  };
  if (auto step = detail::step_between(chain, cancel)) {
    return step;
  }
  if (auto step = detail::step_between(chain, detail::interact)) {
    return step;
  }
  for (std::size_t i = 0; i + 1 < chain.size(); ++i) {
    if (detail::comes_before(chain[i + 1], chain[i])) {
      return detail::swap_at(chain, i);
    }
  }
  return std::nullopt;
}

}  // namespace unity::parallel

#endif
