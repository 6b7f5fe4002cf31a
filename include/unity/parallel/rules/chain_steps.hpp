// From a chain of parallelization operators to its canonical form, rule by rule.
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

// A rule of chain_rules at one place of a chain: the operators from `first` on, one or two, become `made`.
struct chain_step {
  std::string rule;
  rule_values values{};
  bool reversed = false;  // the rule, which goes both ways, from its right side to its left
  std::size_t first = 0;
  std::size_t count = 0;
  parallel_chain made{};
};

namespace detail {

// What of a type an operator changes: 0 terms, 1 copies, 2 + d dimension d.
[[nodiscard]] inline std::int64_t quantity_of(const parallel_operator& p) noexcept {
  return has_axis(p.kind) ? 2 + p.axis : p.kind == parallel_kind::reduce || p.kind == parallel_kind::inject ? 0 : 1;
}
[[nodiscard]] inline bool comes_before(const parallel_operator& p, const parallel_operator& q) {
  return std::pair{canonical_place(p.kind), p.axis} < std::pair{canonical_place(q.kind), q.axis};
}

[[nodiscard]] rule_values values_of(const parallel_operator& p, const char* dimension, const char* degree);

// The operators i and i + 1 change places.
[[nodiscard]] chain_step swap_at(std::span<const parallel_operator> chain, std::size_t i);
// Operator i becomes two, of which the one that comes first has that degree.
[[nodiscard]] chain_step divide_at(std::span<const parallel_operator> chain, std::size_t i, std::int64_t degree);

// Of neighbours that change the same.
[[nodiscard]] chain_step merge_at(std::span<const parallel_operator> chain, std::size_t i);

// Can the two, which change the same, not stay as they are.
[[nodiscard]] inline bool interact(const parallel_operator& first, const parallel_operator& last) {
  return first.kind == last.kind || comes_before(last, first) ||
         (inverse_kind(first.kind) == last.kind && std::gcd(first.degree, last.degree) > 1);
}

// Brings operators that `meet` next to each other, and merges them: of the first pair between which nothing changes the
// same.
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

// The next step; nothing where the chain is canonical. Any number of steps computes the same, and they come to an end:
// what cancels goes first, so that what was divided to cancel is not joined again.
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
