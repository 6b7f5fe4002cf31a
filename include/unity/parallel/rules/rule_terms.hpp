// Constructors for terms of rules that divide tensors.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/rewrite/syntax.hpp>

namespace unity::parallel {

[[nodiscard]] inline syntax::expression number(std::int64_t value) {
  return {syntax::expression::form::integer, value, {}, {}};
}
[[nodiscard]] inline syntax::expression attribute_variable(std::string name) {
  return {syntax::expression::form::variable, 0, std::move(name), {}};
}
[[nodiscard]] inline syntax::expression call(std::string name, std::vector<syntax::expression> arguments) {
  return {syntax::expression::form::call, 0, std::move(name), std::move(arguments)};
}
[[nodiscard]] inline syntax::expression rank_of(std::string variable) {
  return call("rank", {attribute_variable(std::move(variable))});
}
// left + value in its shortest form.
[[nodiscard]] inline syntax::expression plus(syntax::expression left, std::int64_t value) {
  return value == 0 ? left : call(value < 0 ? "-" : "+", {std::move(left), number(value < 0 ? -value : value)});
}

[[nodiscard]] inline syntax::term value_variable(std::string name) {
  return {syntax::term::form::variable, std::move(name), {}, false, {}, syntax::term::whole, false};
}
[[nodiscard]] inline syntax::term applied(std::string name, std::vector<syntax::attribute_binding> attributes,
                                          std::vector<syntax::term> operands) {
  return {syntax::term::form::application,
          std::move(name),
          std::move(attributes),
          false,
          std::move(operands),
          syntax::term::whole,
          false};
}
// A parallelization operator of one operand; axis is ignored if the kind has none.
[[nodiscard]] syntax::term applied(parallel_kind kind, syntax::expression axis, syntax::expression degree,
                                   syntax::term operand);

// Rules between chains of parallelization operators: which operators cancel, fuse, or commute.

// The order of canonical chains.
inline constexpr std::array<parallel_kind, 8> canonical_order{
    parallel_kind::reduce,   parallel_kind::discard,   parallel_kind::combine,   parallel_kind::batch,
    parallel_kind::pipeline, parallel_kind::partition, parallel_kind::replicate, parallel_kind::inject};
[[nodiscard]] inline std::size_t canonical_place(parallel_kind k) {
  return static_cast<std::size_t>(std::find(canonical_order.begin(), canonical_order.end(), k) -
                                  canonical_order.begin());
}

[[nodiscard]] inline std::string name_of(parallel_kind k) {
  return std::string{parallel_names[static_cast<std::size_t>(k)]};
}
// The operator that restores the type, unlike the adjoint, which maps dual types to dual types.
[[nodiscard]] constexpr parallel_kind inverse_kind(parallel_kind k) noexcept {
  constexpr std::array<parallel_kind, 8> inverses{
      parallel_kind::combine,   parallel_kind::partition, parallel_kind::discard, parallel_kind::inject,
      parallel_kind::replicate, parallel_kind::reduce,    parallel_kind::batch,   parallel_kind::pipeline};
  return inverses[static_cast<std::size_t>(k)];
}

// Names of rules, such as combine_of_partition, partition_twice, combine_past_replicate.
[[nodiscard]] inline std::string cancelling_rule(parallel_kind last) {
  return fmt::format("{}_of_{}", name_of(last), name_of(inverse_kind(last)));
}
[[nodiscard]] inline std::string fusing_rule(parallel_kind k) { return fmt::format("{}_twice", name_of(k)); }
[[nodiscard]] inline std::string swapping_rule(parallel_kind last, parallel_kind first) {
  return fmt::format("{}_past_{}", name_of(last), name_of(first));
}

// The rules between consecutive parallelization operators: per kind, one that cancels it with its inverse and one that
// fuses two into one; per pair of kinds, one that swaps them. Together they bring every chain into canonical form.
// Parameters: degree k and dimension d of the last operator, j and e of the first.
[[nodiscard]] std::vector<syntax::rule> chain_rules();

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RULES_RULE_TERMS)

namespace unity::parallel {

UNITY_INLINE syntax::term applied(parallel_kind kind, syntax::expression axis, syntax::expression degree,
                                  syntax::term operand) {
  const auto s = signature_of(kind);
  std::vector<syntax::attribute_binding> attributes;
  if (has_axis(kind)) {
    attributes.push_back({"axis", std::move(axis)});
  }
  if (has_degree(kind)) {
    attributes.push_back({s.attributes.back().name, std::move(degree)});
  }
  return applied(s.name, std::move(attributes), {std::move(operand)});
}

UNITY_INLINE std::vector<syntax::rule> chain_rules() {
  const auto k = attribute_variable("k");
  const auto j = attribute_variable("j");
  const auto d = attribute_variable("d");
  const auto e = attribute_variable("e");
  const auto x = value_variable("x");
  std::vector<syntax::rule> all;
  const auto add = [&](std::string name, syntax::term from, syntax::term to, bool both_ways) -> syntax::rule& {
    syntax::rule r;
    r.name = std::move(name);
    r.source = {std::move(from)};
    r.target = {std::move(to)};
    r.both_ways = both_ways;
    r.known = syntax::standing::proved;
    r.prover = "erasure";
    return all.emplace_back(std::move(r));
  };
  for (const auto last : canonical_order) {
    add(cancelling_rule(last), applied(last, d, k, applied(inverse_kind(last), d, k, x)), x, false);
  }
  for (const auto kind : canonical_order) {
    add(fusing_rule(kind), applied(kind, d, k, applied(kind, d, j, x)), applied(kind, d, call("*", {j, k}), x), true);
  }
  for (const auto last : canonical_order) {
    for (const auto first : canonical_order) {
      if (canonical_place(last) > canonical_place(first) || (last == first && !has_axis(last))) {
        continue;
      }
      auto& r = add(swapping_rule(last, first), applied(last, d, k, applied(first, e, j, x)),
                    applied(first, e, j, applied(last, d, k, x)), true);
      if (last == first) {
        r.conditions.push_back(call("<", {d, e}));
      }
    }
  }
  return all;
}

}  // namespace unity::parallel

#endif
