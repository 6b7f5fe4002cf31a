// Finds the shipped rule that divides an operator along an axis of its grid, and instantiates it: parallel rules are
// written for all degrees and dimensions, and get numbers before they rewrite.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <range/v3/view/cartesian_product.hpp>
#include <range/v3/view/indices.hpp>
#include <range/v3/view/zip.hpp>

#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/index_types.hpp>

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

// The rule for every choice of degrees, and of dimensions below most_rank.
[[nodiscard]] std::vector<syntax::rule> with_all_values(const syntax::rule& rule, std::span<const std::int64_t> degrees,
                                                        std::int64_t most_rank);

// An axis of a grid: an index, its steps, a linear group, or the tasks that compute the same.
struct grid_axis {
  enum class kinds : std::uint8_t { index, steps, partial, copies };

  kinds kind = kinds::index;
  std::size_t number = 0;  // of the index or group
  std::int64_t degree = 1;

  friend bool operator==(const grid_axis&, const grid_axis&) = default;
};

// The parallelization operators around an operator that create the axis, at most one before each operand and behind
// each result.
struct axis_operators {
  std::vector<std::optional<parallel_operator>> operands{};
  std::vector<std::optional<parallel_operator>> results{};
};

namespace detail {

// Evaluates the expression of a dimension in a shipped rule for an operator; nothing if it has no value.
struct rule_environment {
  const rule_values& values;
  const std::map<std::string, std::int64_t>& ranks;
  const std::map<std::string, attribute>& attributes;

  [[nodiscard]] std::optional<std::int64_t> operator()(const syntax::expression& e) const;

 private:
  // at(inverse(?permutation), n)
  [[nodiscard]] std::optional<std::int64_t> place_in_inverse(const syntax::expression& inverse, std::int64_t n) const;
};

}  // namespace detail

// Complexity: linear in operands and results.
[[nodiscard]] axis_operators operators_along(const operator_dimensions& o, const grid_axis& axis);

// Finds rules that divide operators. A value type.
class rule_lookup {
 public:
  // rules: those of parallel.rules, or others of the same form; rules of other forms are ignored.
  explicit rule_lookup(const std::vector<syntax::rule>& rules);

  struct found_rule {
    std::string name;
    rule_values values{};
  };
  // The rule whose target has operators_along(o, axis) around the operator; nothing if there is none. The operands of a
  // commutative operator may be in either order.
  // Complexity: linear in the rules of the operator.
  [[nodiscard]] std::optional<found_rule> find(const tensor::algebra& a, const operator_dimensions& o,
                                               const grid_axis& axis) const;

 private:
  [[nodiscard]] std::optional<found_rule> find_in_order(const tensor::algebra& a, const operator_dimensions& o,
                                                        const grid_axis& axis) const;

  static constexpr std::int64_t most_rank = 8;

  // Whether the term is `inner` (the name of a variable or an operator), wrapped in `p` if given.
  [[nodiscard]] static bool is_around(const syntax::term& t, const std::optional<parallel_operator>& p,
                                      const std::string& inner, const detail::rule_environment& number);
  [[nodiscard]] static bool fits(const tensor::algebra& a, const operator_dimensions& o, const syntax::rule& r,
                                 const rule_values& values, const axis_operators& wanted);

  struct known_rule {
    syntax::rule rule;
    std::vector<std::string> parameters{};
  };

  std::map<std::string, std::vector<known_rule>> by_operator_{};
};

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RULES_RULE_LOOKUP)

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/tensor/index_structure.hpp>

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

namespace unity::parallel::detail {

UNITY_INLINE std::optional<std::int64_t> rule_environment::operator()(const syntax::expression& e) const {
  using form = syntax::expression::form;
  if (e.kind == form::integer) {
    return e.integer;
  }
  if (e.kind == form::variable) {
    const auto found = values.find(e.name);
    return found == values.end() ? std::nullopt : std::optional{found->second};
  }
  if (e.name == "rank") {
    const auto found = ranks.find(e.arguments[0].name);
    return found == ranks.end() ? std::nullopt : std::optional{found->second};
  }
  const auto right = (*this)(e.arguments[1]);
  if (e.name == "at") {
    return right ? place_in_inverse(e.arguments[0], *right) : std::nullopt;
  }
  const auto left = (*this)(e.arguments[0]);
  if (!left || !right) {
    return std::nullopt;
  }
  return e.name == "+" ? *left + *right : *left - *right;
}

UNITY_INLINE std::optional<std::int64_t> rule_environment::place_in_inverse(const syntax::expression& inverse,
                                                                            std::int64_t n) const {
  const auto& p = attributes.at(inverse.arguments[0].name);
  const auto found = std::find(p.begin(), p.end(), n);
  return found == p.end() ? std::nullopt : std::optional<std::int64_t>{found - p.begin()};
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE axis_operators operators_along(const operator_dimensions& o, const grid_axis& axis) {
  using kinds = grid_axis::kinds;
  const auto& s = o.structure;
  axis_operators all;
  for (std::size_t x = 0; x < o.inputs.size(); ++x) {
    const bool is_index = axis.kind == kinds::index || axis.kind == kinds::steps;
    const auto view = axis.kind == kinds::copies    ? axis_view::copies
                      : axis.kind == kinds::partial ? view_of_group(o, x, axis.number)
                                                    : view_of_index(o, x, axis.number);
    const auto at = is_index ? detail::dimension_with(s, s.operands[x], axis.number).value_or(0) : 0;
    if (axis.kind == kinds::steps) {
      all.operands.push_back(view == axis_view::dimension
                                 ? std::optional{parallel_operator{parallel_kind::pipeline, at, axis.degree}}
                                 : std::nullopt);
      continue;
    }
    const auto kind = view == axis_view::dimension ? parallel_kind::partition
                      : view == axis_view::copies  ? parallel_kind::replicate
                                                   : parallel_kind::inject;
    all.operands.push_back(parallel_operator{kind, at, axis.degree});
  }
  for (const auto& dims : s.results) {
    const auto at = axis.kind == kinds::index || axis.kind == kinds::steps
                        ? detail::dimension_with(s, dims, axis.number)
                        : std::nullopt;
    if (axis.kind == kinds::steps) {
      all.results.push_back(at ? std::optional{parallel_operator{parallel_kind::batch, *at, axis.degree}}
                               : std::nullopt);
      continue;
    }
    const auto kind = at                           ? parallel_kind::combine
                      : axis.kind == kinds::copies ? parallel_kind::discard
                                                   : parallel_kind::reduce;
    all.results.push_back(parallel_operator{kind, at.value_or(0), axis.degree});
  }
  return all;
}

UNITY_INLINE rule_lookup::rule_lookup(const std::vector<syntax::rule>& rules) {
  for (const auto& r : rules) {
    if (r.source[0].kind == syntax::term::form::application) {
      by_operator_[r.source[0].name].push_back({r, parameters_of(r)});
    }
  }
}

UNITY_INLINE auto rule_lookup::find(const tensor::algebra& a, const operator_dimensions& o, const grid_axis& axis) const
    -> std::optional<found_rule> {
  auto found = find_in_order(a, o, axis);
  if (!found && o.inputs.size() == 2 && a.signature(o.op.kind).commutative) {
    auto turned = o;
    std::swap(turned.inputs[0], turned.inputs[1]);
    std::swap(turned.structure.operands[0], turned.structure.operands[1]);
    for (auto& group : turned.groups) {
      for (auto& operand : group) {
        operand = 1 - operand;
      }
      std::sort(group.begin(), group.end());
    }
    found = find_in_order(a, turned, axis);
  }
  return found;
}

UNITY_INLINE auto rule_lookup::find_in_order(const tensor::algebra& a, const operator_dimensions& o,
                                             const grid_axis& axis) const -> std::optional<found_rule> {
  const auto wanted = operators_along(o, axis);
  const auto rules = by_operator_.find(a.signature(o.op.kind).name);
  for (std::size_t i = 0; rules != by_operator_.end() && i < rules->second.size(); ++i) {
    const auto& [r, given] = rules->second[i];
    const auto has = [&parameters = given](const char* p) {
      return std::find(parameters.begin(), parameters.end(), p) != parameters.end();
    };
    const auto choices = [&](const char* p) { return ranges::views::indices(has(p) ? most_rank : 1); };
    for (const auto& [d, e] : ranges::views::cartesian_product(choices("d"), choices("e"))) {
      rule_values values{{"k", axis.degree}};
      if (has("d")) {
        values["d"] = d;
      }
      if (has("e")) {
        values["e"] = e;
      }
      if (fits(a, o, r, values, wanted)) {
        return found_rule{r.name, std::move(values)};
      }
    }
  }
  return std::nullopt;
}

UNITY_INLINE bool rule_lookup::is_around(const syntax::term& t, const std::optional<parallel_operator>& p,
                                         const std::string& inner, const detail::rule_environment& number) {
  if (!p) {
    return t.name == inner;
  }
  if (t.kind != syntax::term::form::application || t.name != parallel_names[static_cast<std::size_t>(p->kind)] ||
      t.operands[0].name != inner) {
    return false;
  }
  return !has_axis(p->kind) || number(t.attributes[0].value) == std::optional{p->axis};
}

UNITY_INLINE bool rule_lookup::fits(const tensor::algebra& a, const operator_dimensions& o, const syntax::rule& r,
                                    const rule_values& values, const axis_operators& wanted) {
  const auto& from = r.source[0];
  const bool any = !from.operands.empty() && from.operands[0].repeated;
  if (r.target.size() != wanted.results.size() || (!any && from.operands.size() != o.inputs.size())) {
    return false;
  }
  std::map<std::string, std::int64_t> ranks;
  for (const auto& [operand, type] : ranges::views::zip(from.operands, o.inputs)) {
    ranks[operand.name] = static_cast<std::int64_t>(type.rank());
  }
  std::map<std::string, attribute> attributes;
  const auto& fields = a.signature(o.op.kind).attributes;
  for (const auto& [field, value] : ranges::views::zip(fields, o.op.attributes)) {
    attributes[field.name] = value;
  }
  const detail::rule_environment number{values, ranks, attributes};
  for (std::size_t i = 0; i < wanted.results.size(); ++i) {
    if (!is_around(r.target[i], wanted.results[i], from.name, number)) {
      return false;
    }
  }
  const auto& made = wanted.results[0] ? r.target[0].operands[0] : r.target[0];
  if (made.operands.size() != from.operands.size()) {
    return false;
  }
  for (std::size_t x = 0; x < wanted.operands.size(); ++x) {
    const auto at = any ? 0 : x;
    if (!is_around(made.operands[at], wanted.operands[x], from.operands[at].name, number)) {
      return false;
    }
  }
  return true;
}

}  // namespace unity::parallel

#endif
