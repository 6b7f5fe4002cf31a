// Axes and permutations of a rule, written as variables or as expressions of ranks.
#pragma once

#include <cctype>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <unity/rewrite/generation/expressions.hpp>
#include <unity/rewrite/generation/term_graph.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/tensor/generation/places.hpp>
#include <unity/tensor/generation/rank_expressions.hpp>

namespace unity::tensor::detail {

// Groups that became variables, with their variables.
using lifted_groups = std::vector<std::pair<const place_group*, syntax::expression>>;

// The value of the group as an expression of the rank of a variable, if possible.
[[nodiscard]] std::optional<syntax::expression> by_rank(const place_group& g, const known_rank* of);

// at(?p, ?c) or at(inverse(?p), ?c), if it equals the number.
[[nodiscard]] std::optional<syntax::expression> moved_axis(const place_group& g, const lifted_groups& free);

// Counts axes from the back: size(?x, 1) of a matrix becomes size(?x, -1) for tensors of any rank.
void count_from_back(syntax::expression& e, const std::vector<known_rank>& ranks);

// Keeps axes distinct that were different numbers.
void distinguish(rule_graph& r, const lifted_groups& free);

// Replaces an axis, and the same axis in sizes along it, as in split{axis=1, sizes=[size(?x, 1), ..]}.
void write_axis(rule_graph& r, const place_group& g, const syntax::expression& axis,
                const syntax::expression& in_sizes);

[[nodiscard]] inline bool is_name_character(const std::string& text, std::size_t at) {
  return at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) != 0 || text[at] == '_');
}
// Sorts ranks by the first appearance of their variables in the text of the side.
void sort_by_appearance(const term_graph& side, std::vector<known_rank>& all);

}  // namespace unity::tensor::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_GENERATION_AXES)

#include <algorithm>

#include <fmt/core.h>

#include <unity/rewrite/print.hpp>

namespace unity::tensor::detail {

UNITY_INLINE std::optional<syntax::expression> by_rank(const place_group& g, const known_rank* of) {
  if (of == nullptr) {
    return std::nullopt;
  }
  if (g.attribute == "axis") {
    const auto less = of->rank - g.value.integer;
    return less > 0 ? std::optional{below_rank(of->variable, less)} : std::nullopt;
  }
  const bool swaps = swaps_last_two(g.value) && static_cast<std::int64_t>(g.value.arguments.size()) == of->rank;
  return swaps ? std::optional{last_two_swapped(of->variable)} : std::nullopt;
}

UNITY_INLINE std::optional<syntax::expression> moved_axis(const place_group& g, const lifted_groups& free) {
  for (const auto& [permutation, p] : free) {
    for (const auto& [axis, a] : free) {
      if (permutation->attribute != "permutation" || axis->attribute != "axis") {
        continue;
      }
      const auto& list = permutation->value.arguments;
      const auto from = static_cast<std::size_t>(axis->value.integer);
      const auto to = static_cast<std::size_t>(g.value.integer);
      if (from < list.size() && list[from] == g.value) {
        return syntax::call("at", {p, a});
      }
      if (to < list.size() && list[to] == axis->value) {
        return syntax::call("at", {syntax::call("inverse", {p}), a});
      }
    }
  }
  return std::nullopt;
}

UNITY_INLINE void count_from_back(syntax::expression& e, const std::vector<known_rank>& ranks) {
  syntax::for_each_part(e, [&](syntax::expression& part) {
    if (!syntax::is_call(part, "size", 2) || part.arguments[1].kind != syntax::expression::form::integer) {
      return;
    }
    for (const auto& k : ranks) {
      if (k.variable == part.arguments[0].name && part.arguments[1].integer < k.rank) {
        part.arguments[1] = syntax::call("-", {syntax::integer(k.rank - part.arguments[1].integer)});
        return;
      }
    }
  });
}

UNITY_INLINE void distinguish(rule_graph& r, const lifted_groups& free) {
  for (std::size_t i = 0; i < free.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (free[i].first->attribute == "axis" && free[j].first->attribute == "axis") {
        r.rest.conditions.push_back(syntax::call("!=", {free[j].second, free[i].second}));
      }
    }
  }
}

UNITY_INLINE void write_axis(rule_graph& r, const place_group& g, const syntax::expression& axis,
                             const syntax::expression& in_sizes) {
  put(r, g.source, axis);
  put(r, g.target, axis);
  if (g.attribute != "axis") {
    return;
  }
  for (const auto* places : {&g.source, &g.target}) {
    for (const auto& p : *places) {
      auto& n = (p.in_target ? r.target : r.source).nodes[p.node];
      for (auto& a : n.attributes) {
        syntax::for_each_part(a.value, [&](syntax::expression& e) {
          if (syntax::is_call(e, "size", 2) && e.arguments[1] == g.value) {
            e.arguments[1] = in_sizes;
          }
        });
      }
    }
  }
}

UNITY_INLINE void sort_by_appearance(const term_graph& side, std::vector<known_rank>& all) {
  const auto text = to_text(to_terms(side));
  const auto place = [&](const known_rank& k) {
    auto at = text.find(fmt::format("?{}", k.variable));
    while (at != std::string::npos && is_name_character(text, at + 1 + k.variable.size())) {
      at = text.find(fmt::format("?{}", k.variable), at + 1);
    }
    return at;
  };
  std::sort(all.begin(), all.end(), [&](const auto& a, const auto& b) { return place(a) < place(b); });
}

}  // namespace unity::tensor::detail

#endif
