// Rules that divide an operator, for all ranks and degrees, generalized from divided examples.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/small_vector.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/parallel/pcg/chains.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/parallel/rules/operator_forms.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/tensor/index_types.hpp>

namespace unity::parallel {

// All divisions of an operator on example operands by one parallelization operator per operand, found by enumeration.

// An operator behind at most one parallelization operator per operand, with the chains that restore its results.
struct divided_example {
  std::vector<std::optional<parallel_operator>> operands{};
  std::vector<parallel_chain> results{};
  operator_grid grid{};
};

namespace detail {

class division_finder {
 public:
  division_finder(const pcg_algebra& a, const operator_example& e, std::int64_t degree);

  [[nodiscard]] std::vector<divided_example> run() &&;

 private:
  void choose(std::size_t x, bool steps);
  void put(std::size_t x, const parallel_operator& p, bool steps);
  void take(bool steps);

  const pcg_algebra& algebra_;
  const operator_example& example_;
  std::int64_t degree_;
  std::vector<parallel_type> whole_{};
  std::vector<parallel_type> types_{};
  std::vector<std::optional<parallel_operator>> chosen_;
  std::vector<divided_example> found_{};
};

}  // namespace detail

// All divisions into `degree` tasks, then all into `degree` steps. All compute what the operator computes (the law of
// erasure), so only types are checked. Complexity: an inference per combination of choices for the operands.
[[nodiscard]] inline std::vector<divided_example> divided_examples(const pcg_algebra& a, const operator_example& e,
                                                                   std::int64_t degree) {
  return detail::division_finder{a, e, degree}.run();
}

namespace detail {

// Names of operands in rules.
inline constexpr std::array<const char*, 7> operand_names{"x", "y", "z", "u", "v", "w", "s"};

// The dimensions that one instance of a rule contains, and the quantities that they can depend on.
struct division_instance {
  std::vector<std::int64_t> ranks{};  // of operands
  // the index's dimension in the first result; for a transpose, or if the result lacks the index: e
  std::int64_t d = 0;
  std::int64_t e = 0;                // the index's dimension in the first operand that has it
  attribute permutation{};           // of a transpose
  std::vector<std::int64_t> axes{};  // axes of the parallelization operators, operands first
};

// An expression that gives axes[place] in all instances. any_dimension: the index is one of several alike, so that d is
// preferred to ranks.
// Throws: unity::error if none of the known forms fits.
[[nodiscard]] syntax::expression expression_for(const std::vector<division_instance>& all, std::size_t place,
                                                bool any_dimension, const std::string& rule);

class rule_family_writer {
 public:
  rule_family_writer(const pcg_algebra& a, const operator_form& f);

  [[nodiscard]] std::vector<syntax::rule> rules() const;

 private:
  struct family {
    std::string label;
    std::vector<std::optional<parallel_kind>> operands{};
    std::vector<std::optional<parallel_kind>> results{};
    std::vector<division_instance> instances{};
    const operator_example* example = nullptr;
  };

  [[nodiscard]] static std::size_t divided_axes(const operator_grid& g);
  // The divided axis of a grid: its part of the rule's name, and its index if it is one.
  struct divided_axis {
    std::string label;
    std::optional<std::size_t> index{};
  };
  [[nodiscard]] divided_axis axis_of(const operator_dimensions& o, const operator_grid& g) const;
  // The index's own name if it has one, otherwise d.
  [[nodiscard]] std::string name_of(const operator_dimensions& o, std::size_t i) const;

  void add(const operator_example& e, const divided_example& d);

  // The operator with each attribute bound to a variable of the attribute's name.
  [[nodiscard]] syntax::term operation(std::vector<syntax::term> operands) const;

  [[nodiscard]] syntax::rule written(const family& f, bool is_variant) const;

  const pcg_algebra& algebra_;
  const operator_form& form_;
  std::vector<family> families_{};
};

}  // namespace detail

// One rule per operator and axis of its grids. Its parameters are the degree k and, if the operator has several
// dimensions alike, the dimension d of its first result (of an operand if the result lacks it) and e of an operand.
// Throws: unity::error if no expression fits the examples of all ranks.
[[nodiscard]] inline std::vector<syntax::rule> dividing_rules(const pcg_algebra& a, const operator_form& form) {
  return detail::rule_family_writer{a, form}.rules();
}

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RULES_DIVIDING_RULES)

#include <algorithm>

#include <fmt/core.h>
#include <range/v3/view/zip.hpp>

#include <unity/core/error.hpp>
#include <unity/parallel/rules/rule_terms.hpp>
#include <unity/tensor/index_structure.hpp>

namespace unity::parallel::detail {

UNITY_INLINE division_finder::division_finder(const pcg_algebra& a, const operator_example& e, std::int64_t degree)
    : algebra_{a}, example_{e}, degree_{degree}, chosen_(e.inputs.size()) {
  for (const auto& t : e.inputs) {
    whole_.push_back(undivided(t));
  }
}

UNITY_INLINE std::vector<divided_example> division_finder::run() && {
  types_ = whole_;
  choose(0, false);
  choose(0, true);
  return std::move(found_);
}

UNITY_INLINE void division_finder::choose(std::size_t x, bool steps) {
  if (x == whole_.size()) {
    take(steps);
    return;
  }
  const auto rank = static_cast<std::int64_t>(whole_[x].global.rank());
  if (steps) {
    choose(x + 1, steps);
  }
  for (std::int64_t d = 0; d < rank; ++d) {
    put(x, {steps ? parallel_kind::pipeline : parallel_kind::partition, d, degree_}, steps);
  }
  if (!steps) {
    put(x, {parallel_kind::replicate, 0, degree_}, steps);
    put(x, {parallel_kind::inject, 0, degree_}, steps);
  }
}

UNITY_INLINE void division_finder::put(std::size_t x, const parallel_operator& p, bool steps) {
  if (auto t = result_type(p, {&whole_[x], 1})) {
    types_[x] = *std::move(t);
    chosen_[x] = p;
    choose(x + 1, steps);
    types_[x] = whole_[x];
    chosen_[x].reset();
  }
}

UNITY_INLINE void division_finder::take(bool steps) {
  const auto g = algebra_.grid(example_.op, types_);
  const auto results = g ? algebra_.infer(example_.op, types_) : std::nullopt;
  if (!results || (steps && types_ == whole_)) {
    return;
  }
  divided_example e{chosen_, {}, *g};
  for (const auto& t : *results) {
    e.results.push_back(canonical_chain(t, undivided(t.global)));
  }
  found_.push_back(std::move(e));
}

UNITY_INLINE syntax::expression expression_for(const std::vector<division_instance>& all, std::size_t place,
                                               bool any_dimension, const std::string& rule) {
  const auto fits = [&](auto value) {
    return std::all_of(all.begin(), all.end(),
                       [&](const division_instance& i) { return value(i) == std::optional{i.axes[place]}; });
  };
  using number_type = std::optional<std::int64_t>;
  const auto& first = all[0];
  const auto axis = first.axes[place];
  if (fits([&](const division_instance&) { return number_type{axis}; })) {
    return number(axis);
  }
  const auto is_d = fits([](const division_instance& i) { return number_type{i.d}; });
  if (is_d && any_dimension) {
    return attribute_variable("d");
  }
  for (std::size_t x = 0; x < first.ranks.size(); ++x) {
    const auto back = axis - first.ranks[x];
    if (fits([&](const division_instance& i) { return number_type{i.ranks[x] + back}; })) {
      return plus(rank_of(operand_names[x]), back);
    }
  }
  if (is_d) {
    return attribute_variable("d");
  }
  for (std::size_t x = 1; x < first.ranks.size(); ++x) {
    if (fits([&](const division_instance& i) { return number_type{i.d + i.ranks[x] - i.ranks[0]}; })) {
      return call("-", {call("+", {attribute_variable("d"), rank_of(operand_names[x])}), rank_of(operand_names[0])});
    }
  }
  if (fits([](const division_instance& i) {
        const auto found = std::find(i.permutation.begin(), i.permutation.end(), i.d);
        return found == i.permutation.end() ? std::nullopt : number_type{found - i.permutation.begin()};
      })) {
    return call("at", {call("inverse", {attribute_variable("permutation")}), attribute_variable("d")});
  }
  if (fits([](const division_instance& i) { return number_type{i.e}; })) {
    return attribute_variable("e");
  }
  throw error{fmt::format("rule {}", rule), "a dimension that depends on ranks in no known way",
              "a constant, or an expression of ranks, d, e and the permutation"};
}

UNITY_INLINE rule_family_writer::rule_family_writer(const pcg_algebra& a, const operator_form& f)
    : algebra_{a}, form_{f} {
  for (const auto& e : f.examples) {
    for (const auto& d : divided_examples(a, e, 2)) {
      if (divided_axes(d.grid) == 1) {  // steps along two axes are two divisions along one
        add(e, d);
      }
    }
  }
}

UNITY_INLINE std::vector<syntax::rule> rule_family_writer::rules() const {
  std::map<std::string, std::size_t> plain;
  for (const auto& f : families_) {
    ++plain[f.label];
  }
  std::vector<syntax::rule> all;
  for (const auto& f : families_) {
    all.push_back(written(f, plain[f.label] > 1));
  }
  return all;
}

UNITY_INLINE std::size_t rule_family_writer::divided_axes(const operator_grid& g) {
  std::size_t count = g.copies > 1 ? 1 : 0;
  for (const auto* degrees : {&g.indices, &g.steps, &g.partials}) {
    count += static_cast<std::size_t>(std::count_if(degrees->begin(), degrees->end(), [](auto k) { return k > 1; }));
  }
  return count;
}

UNITY_INLINE auto rule_family_writer::axis_of(const operator_dimensions& o, const operator_grid& g) const
    -> divided_axis {
  const auto& indices = o.structure.indices;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (g.indices[i] * g.steps[i] > 1) {
      return {fmt::format("{}{}", g.steps[i] > 1 ? "_in_steps_over_" : "_over_", name_of(o, i)), i};
    }
  }
  for (std::size_t p = 0; p < g.partials.size(); ++p) {
    if (g.partials[p] > 1) {
      std::string label = "_of_terms_in";
      for (const auto x : o.groups[p]) {
        label += form_.any_operands ? "" : fmt::format("_{}", operand_names[x]);
      }
      return {form_.any_operands ? "_of_terms" : label, {}};
    }
  }
  return {"_repeated", {}};
}

UNITY_INLINE std::string rule_family_writer::name_of(const operator_dimensions& o, std::size_t i) const {
  const auto& known = algebra_.operators().definition_of(o.op.kind).index_names;
  if (!known.empty()) {
    return i < known.size() ? known[i] : "d";
  }
  const std::string name{o.structure.indices[i].name};
  return name == "i" || name == "b" ? "d" : name;
}

UNITY_INLINE void rule_family_writer::add(const operator_example& e, const divided_example& d) {
  std::vector<parallel_type> types;
  for (const auto& t : e.inputs) {
    types.push_back(undivided(t));
  }
  const auto& o = *algebra_.dimensions(e.op, types);
  const auto axis = axis_of(o, d.grid);
  family f{axis.label, {}, {}, {}, &e};
  division_instance i;
  for (const auto& t : e.inputs) {
    i.ranks.push_back(static_cast<std::int64_t>(t.rank()));
  }
  for (const auto& [field, value] :
       ranges::views::zip(algebra_.operators().signature(e.op.kind).attributes, e.op.attributes)) {
    i.permutation = field.name == "permutation" ? value : i.permutation;
  }
  if (axis.index) {
    i.e = -1;
    for (std::size_t x = 0; x < e.inputs.size() && i.e < 0; ++x) {
      i.e = detail::dimension_with(o.structure, o.structure.operands[x], *axis.index).value_or(-1);
    }
    i.d = i.permutation.empty() ? detail::dimension_with(o.structure, o.structure.results[0], *axis.index).value_or(i.e)
                                : i.e;
  }
  const auto note = [&](auto& kinds, const std::optional<parallel_operator>& p) {
    kinds.push_back(p ? std::optional{p->kind} : std::nullopt);
    if (p && has_axis(p->kind)) {
      i.axes.push_back(p->axis);
    }
  };
  for (const auto& p : d.operands) {
    note(f.operands, p);
  }
  for (const auto& chain : d.results) {
    note(f.results, chain.empty() ? std::nullopt : std::optional{chain[0]});
  }
  if (form_.any_operands) {
    f.operands.resize(1);
    if (i.axes.size() > 1) {
      i.axes.erase(i.axes.begin() + 1, i.axes.begin() + static_cast<std::ptrdiff_t>(e.inputs.size()));
    }
    i.ranks.resize(1);
  }
  const auto same = std::find_if(families_.begin(), families_.end(), [&](const family& g) {
    return g.label == f.label && g.operands == f.operands && g.results == f.results;
  });
  auto& home = same == families_.end() ? families_.emplace_back(std::move(f)) : *same;
  home.instances.push_back(std::move(i));
}

UNITY_INLINE syntax::term rule_family_writer::operation(std::vector<syntax::term> operands) const {
  const auto& s = algebra_.operators().signature(form_.examples[0].op.kind);
  std::vector<syntax::attribute_binding> attributes;
  for (const auto& a : s.attributes) {
    attributes.push_back({a.name, attribute_variable(a.name)});
  }
  return applied(s.name, std::move(attributes), std::move(operands));
}

UNITY_INLINE syntax::rule rule_family_writer::written(const family& f, bool is_variant) const {
  syntax::rule r;
  r.name = fmt::format("{}{}", form_.name, f.label);
  std::vector<syntax::term> plain;
  std::vector<syntax::term> divided;
  std::size_t place = 0;
  const auto behind = [&](const std::optional<parallel_kind>& kind, syntax::term t) {
    if (!kind) {
      return t;
    }
    auto axis = has_axis(*kind) ? expression_for(f.instances, place++, f.label.ends_with("_d"), r.name) : number(0);
    return applied(*kind, std::move(axis), attribute_variable("k"), std::move(t));
  };
  std::string kept;
  for (std::size_t x = 0; x < f.operands.size(); ++x) {
    auto v = value_variable(operand_names[x]);
    v.kind = form_.any_operands ? syntax::term::form::indexed_variable : v.kind;
    plain.push_back(v);
    divided.push_back(behind(f.operands[x], v));
    plain.back().repeated = divided.back().repeated = form_.any_operands;
    kept += f.operands[x].value_or(parallel_kind::replicate) == parallel_kind::replicate
                ? fmt::format("_{}", operand_names[x])
                : "";
  }
  r.name += is_variant && !kept.empty() ? fmt::format("_with_whole{}", kept) : "";
  const auto from = operation(std::move(plain));
  const auto to = operation(std::move(divided));
  for (std::size_t i = 0; i < f.results.size(); ++i) {
    auto root = from;
    auto made = to;
    root.selector = made.selector = f.results.size() > 1 ? static_cast<int>(i) : syntax::term::whole;
    r.source.push_back(std::move(root));
    r.target.push_back(behind(f.results[i], std::move(made)));
  }
  r.both_ways = true;
  r.known = syntax::standing::proved;
  r.prover = "erasure";
  return r;
}

}  // namespace unity::parallel::detail

#endif
