// The start of generalizing a rule: the rule with as few conditions as possible.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include <unity/rewrite/generation/expressions.hpp>
#include <unity/rewrite/generation/term_graph.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/generation/generality.hpp>

namespace unity::tensor::detail {

struct start_rule {
  syntax::rule rule{};
  std::vector<syntax::expression> relations{};  // conditions of the specific rule that relate operands
};

void replace_in_target(rule_graph& g, const syntax::attribute_binding& same, const syntax::expression& by);

class start_search {
 public:
  start_search(const algebra& a, const generalize_options& o) : algebra_{a}, options_{o} {}

  // Redundant conditions make random instances hard to find. So none, one or two of the conditions that relate operands
  // are tried before all of them.
  [[nodiscard]] std::optional<start_rule> run(const syntax::rule& specific) const;

 private:
  [[nodiscard]] std::vector<std::vector<syntax::expression>> choices_among(
      const std::vector<syntax::expression>& relations) const;
  // Whether the rule holds in instances that violate one of the dropped relations, and in those that violate all of
  // them: most random instances do not.
  [[nodiscard]] bool holds_beyond(const syntax::rule& r, const std::vector<syntax::expression>& kept,
                                  const std::vector<syntax::expression>& relations) const;
  // Replaces an attribute of the source that is computed from operands bound later by a variable with a condition.
  [[nodiscard]] syntax::rule name_unbound(const syntax::rule& r) const;
  [[nodiscard]] bool compiles(const syntax::rule& r) const;

  const algebra& algebra_;
  const generalize_options& options_;
};

}  // namespace unity::tensor::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_GENERATION_START_RULE)

#include <algorithm>
#include <string>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/tensor/generation/places.hpp>
#include <unity/tensor/generation/rank_expressions.hpp>
#include <unity/tensor/generation/widened_rule.hpp>
#include <unity/tensor/generation/widening.hpp>

namespace unity::tensor::detail {

UNITY_INLINE void replace_in_target(rule_graph& g, const syntax::attribute_binding& same,
                                    const syntax::expression& by) {
  for (auto& n : g.target.nodes) {
    for (auto& b : n.attributes) {
      b.value = b == same ? by : b.value;
    }
  }
}

UNITY_INLINE std::optional<start_rule> start_search::run(const syntax::rule& specific) const {
  auto r = specific;
  r.both_ways = false;
  std::vector<syntax::expression> relations;
  std::erase_if(r.conditions, [&](const syntax::expression& c) {
    const bool relates = !read_rank(c) && !fixes_size(c);
    if (relates) {
      relations.push_back(c);
    }
    return relates;
  });
  for (const auto& c : choices_among(relations)) {
    auto with = name_unbound(r);
    with.conditions.insert(with.conditions.end(), c.begin(), c.end());
    if (passes(algebra_, with, options_.quick) && passes(algebra_, with, options_.last) &&
        holds_beyond(with, c, relations)) {
      return start_rule{with, relations};
    }
  }
  return std::nullopt;
}

UNITY_INLINE std::vector<std::vector<syntax::expression>> start_search::choices_among(
    const std::vector<syntax::expression>& relations) const {
  if (options_.wanted != generality::most) {
    return {relations};
  }
  std::vector<std::vector<syntax::expression>> choices{{}};
  for (const auto& c : relations) {
    choices.push_back({c});
  }
  for (std::size_t i = 0; i < relations.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      choices.push_back({relations[j], relations[i]});
    }
  }
  choices.push_back(relations);
  return choices;
}

UNITY_INLINE bool start_search::holds_beyond(const syntax::rule& r, const std::vector<syntax::expression>& kept,
                                             const std::vector<syntax::expression>& relations) const {
  auto o = options_.thorough;
  o.attempts = options_.quick.attempts;
  const widening_test test{algebra_, o};
  const auto g = to_graph(algebra_, r);
  auto none = g;
  for (const auto& c : relations) {
    if (std::find(kept.begin(), kept.end(), c) != kept.end()) {
      continue;
    }
    if (test(g, {c}).found == widening::verdict::false_there) {
      return false;
    }
    if (syntax::is_call(c.arguments[0], "shape", 1)) {
      none.rest.conditions.push_back(syntax::call("!", {c}));
    }
  }
  return test(none, {syntax::integer(0)}).found != widening::verdict::false_there;
}

UNITY_INLINE syntax::rule start_search::name_unbound(const syntax::rule& r) const {
  if (compiles(r)) {
    return r;
  }
  auto g = to_graph(algebra_, r);
  std::size_t named = 0;
  for (auto& n : g.source.nodes) {
    for (auto& a : n.attributes) {
      if (is_computed(a.value)) {
        const auto v = syntax::variable(fmt::format("_n{}", named++));
        g.rest.conditions.push_back(syntax::equal(v, a.value));
        replace_in_target(g, a, v);
        a.value = v;
      }
    }
  }
  return to_rule(algebra_, std::move(g));
}

UNITY_INLINE bool start_search::compiles(const syntax::rule& r) const {
  try {
    static_cast<void>(compile_rule(algebra_, r));
    return true;
  } catch (const error&) {
    return false;
  }
}

}  // namespace unity::tensor::detail

#endif
