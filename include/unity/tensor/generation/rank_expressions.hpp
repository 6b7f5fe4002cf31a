// Ranks, and expressions that depend on them, in the notation of rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <unity/rewrite/generation/expressions.hpp>
#include <unity/rewrite/generation/term_graph.hpp>
#include <unity/rewrite/syntax.hpp>

namespace unity::tensor::detail {

// A condition rank(?v) == r.
struct known_rank {
  std::string variable;
  std::int64_t rank = 0;
  syntax::expression condition{};
};

[[nodiscard]] std::optional<known_rank> read_rank(const syntax::expression& c);

// Replaces [size(?v, 0), .., size(?v, r - 1)] by shape(?v) if rank(?v) == r is known.
[[nodiscard]] rule_graph with_whole_shapes(rule_graph r);

// concat(iota(rank(?v) - 2), [rank(?v) - 1, rank(?v) - 2])
[[nodiscard]] inline syntax::expression below_rank(const std::string& v, std::int64_t less) {
  return syntax::call("-", {syntax::measure("rank", v), syntax::integer(less)});
}
[[nodiscard]] inline syntax::expression last_two_swapped(const std::string& v) {
  return syntax::call("concat",
                      {syntax::call("iota", {below_rank(v, 2)}), syntax::list({below_rank(v, 1), below_rank(v, 2)})});
}
[[nodiscard]] bool swaps_last_two(const syntax::expression& permutation);

}  // namespace unity::tensor::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_GENERATION_RANK_EXPRESSIONS)

#include <vector>

namespace unity::tensor::detail {

UNITY_INLINE std::optional<known_rank> read_rank(const syntax::expression& c) {
  const bool is_rank = syntax::is_call(c, "==", 2) && syntax::is_call(c.arguments[0], "rank", 1) &&
                       c.arguments[0].arguments[0].kind == syntax::expression::form::variable &&
                       c.arguments[1].kind == syntax::expression::form::integer;
  return is_rank ? std::optional{known_rank{c.arguments[0].arguments[0].name, c.arguments[1].integer, c}}
                 : std::nullopt;
}

UNITY_INLINE rule_graph with_whole_shapes(rule_graph r) {
  std::vector<known_rank> ranks;
  for (const auto& c : r.rest.conditions) {
    if (auto known = read_rank(c)) {
      ranks.push_back(*std::move(known));
    }
  }
  for_each_expression(r, [&](syntax::expression& e) {
    for (const auto& k : ranks) {
      std::vector<syntax::expression> sizes;
      for (std::int64_t d = 0; d < k.rank; ++d) {
        sizes.push_back(syntax::measure("size", k.variable, {syntax::integer(d)}));
      }
      const auto whole = syntax::list(std::move(sizes));
      syntax::for_each_part(e, [&](syntax::expression& part) {
        part = k.rank > 0 && part == whole ? syntax::measure("shape", k.variable) : part;
      });
    }
  });
  return r;
}

UNITY_INLINE bool swaps_last_two(const syntax::expression& permutation) {
  const auto n = permutation.arguments.size();
  for (std::size_t i = 0; i < n; ++i) {
    const auto expected = i + 2 < n ? i : i + 1 == n ? i - 1 : i + 1;
    if (permutation.arguments[i] != syntax::integer(static_cast<std::int64_t>(expected))) {
      return false;
    }
  }
  return n >= 2;
}

}  // namespace unity::tensor::detail

#endif
