// Parallel rules are written for all degrees and dimensions; a rule is instantiated with numbers before it rewrites.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/rewrite/syntax.hpp>

namespace unity::parallel {

// Attribute variables that get numbers before a rule is compiled, because matching does not determine the number of
// parts. Degrees: k, and j, l, m if there are several. Dimensions: d and e.
inline constexpr std::array<std::string_view, 4> degree_parameters{"k", "j", "l", "m"};
inline constexpr std::array<std::string_view, 2> dimension_parameters{"d", "e"};

// Values of the parameters of one rule, by name.
using rule_values = std::map<std::string, std::int64_t, std::less<>>;

namespace detail {

[[nodiscard]] inline bool is_parameter(std::string_view name) {
  return std::find(degree_parameters.begin(), degree_parameters.end(), name) != degree_parameters.end() ||
         std::find(dimension_parameters.begin(), dimension_parameters.end(), name) != dimension_parameters.end();
}

template <class Visit>
void visit_expressions(syntax::expression& e, const Visit& visit) {
  visit(e);
  for (auto& x : e.arguments) {
    visit_expressions(x, visit);
  }
}
template <class Visit>
void visit_expressions(syntax::term& t, const Visit& visit) {
  for (auto& a : t.attributes) {
    visit_expressions(a.value, visit);
  }
  for (auto& o : t.operands) {
    visit_expressions(o, visit);
  }
}
template <class Visit>
void visit_expressions(syntax::rule& r, const Visit& visit) {
  for (auto* side : {&r.source, &r.target}) {
    for (auto& t : *side) {
      visit_expressions(t, visit);
    }
  }
  for (auto& c : r.conditions) {
    visit_expressions(c, visit);
  }
}

}  // namespace detail

// The parameters of a rule, ascending.
[[nodiscard]] std::vector<std::string> parameters_of(syntax::rule rule);

// "matmul_over_d d=0 k=2"
[[nodiscard]] std::string name_with(std::string_view rule, const rule_values& values);

// The rule with numbers for its parameters, which are added to its name. Parameters without a value stay.
[[nodiscard]] syntax::rule with_values(syntax::rule rule, const rule_values& values);

// The rule for every choice of degrees and of dimensions below the rank.
[[nodiscard]] std::vector<syntax::rule> with_all_values(const syntax::rule& rule, std::span<const std::int64_t> degrees,
                                                        std::int64_t most_rank);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RULES_RULE_PARAMETERS)

#include <fmt/core.h>

#include <unity/core/config.hpp>

namespace unity::parallel {

UNITY_INLINE std::vector<std::string> parameters_of(syntax::rule rule) {
  std::vector<std::string> names;
  detail::visit_expressions(rule, [&](const syntax::expression& e) {
    if (e.kind == syntax::expression::form::variable && detail::is_parameter(e.name)) {
      names.push_back(e.name);
    }
  });
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

UNITY_INLINE std::string name_with(std::string_view rule, const rule_values& values) {
  std::string text{rule};
  for (const auto& [name, value] : values) {
    text += fmt::format(" {}={}", name, value);
  }
  return text;
}

UNITY_INLINE syntax::rule with_values(syntax::rule rule, const rule_values& values) {
  rule.name = name_with(rule.name, values);
  detail::visit_expressions(rule, [&](syntax::expression& e) {
    const auto found = e.kind == syntax::expression::form::variable ? values.find(e.name) : values.end();
    if (found != values.end()) {
      e = {syntax::expression::form::integer, found->second, {}, {}};
    }
  });
  return rule;
}

UNITY_INLINE std::vector<syntax::rule> with_all_values(const syntax::rule& rule, std::span<const std::int64_t> degrees,
                                                       std::int64_t most_rank) {
  std::vector<rule_values> all{{}};
  for (const auto& name : parameters_of(rule)) {
    std::vector<std::int64_t> choices{degrees.begin(), degrees.end()};
    if (std::find(dimension_parameters.begin(), dimension_parameters.end(), name) != dimension_parameters.end()) {
      choices.clear();
      for (std::int64_t d = 0; d < most_rank; ++d) {
        choices.push_back(d);
      }
    }
    std::vector<rule_values> longer;
    for (const auto& values : all) {
      for (const auto c : choices) {
        longer.push_back(values);
        longer.back()[name] = c;
      }
    }
    all = std::move(longer);
  }
  std::vector<syntax::rule> rules;
  for (const auto& values : all) {
    rules.push_back(with_values(rule, values));
  }
  return rules;
}

}  // namespace unity::parallel

#endif
