// Syntax to substitutions: names are resolved, and a malformed rule says what is wrong with it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/core/printable.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/rewrite/print.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/rewrite/syntax.hpp>

namespace unity {
namespace detail {

// Compiles one direction of one rule. Variables are numbered in order of first appearance in the source.
template <pattern_algebra Algebra>
class rule_compiler {
 public:
  rule_compiler(const Algebra& algebra, const syntax::rule& rule, std::string name)
      : algebra_{algebra}, rule_{rule}, name_{std::move(name)} {}

  substitution direction(const std::vector<syntax::term>& source, const std::vector<syntax::term>& target) {
    substitution s;
    s.name = name_;
    s.rule = rule_;
    in_source_ = true;
    s.source = side(source, target);
    in_source_ = false;
    s.target = side(target, source);
    for (const auto& condition : rule_.conditions) {
      s.conditions.push_back(expression_of(condition, nullptr));
    }
    s.variables = variables_.size();
    s.attribute_variables = attributes_.size();
    for (const auto& v : variables_) {
      s.indexed_variables.push_back(v.indexed);
    }
    check_roots(s, source, target);
    return s;
  }

 private:
  struct variable {
    std::string name;
    bool indexed;
  };

  [[noreturn]] void fail(const std::string& found, const std::string& expected) const {
    throw error{"rule " + name_, printable(found, 200), expected};
  }

  pattern side(const std::vector<syntax::term>& terms, const std::vector<syntax::term>& other) {
    pattern p;
    made_.clear();
    for (const auto& t : terms) {
      p.roots.push_back(operand(p, t, terms.size() == 1));
    }
    if (terms.size() == 1) {
      spread_root(p, terms[0], other);
    }
    return p;
  }

  // A single root without a selector stands for all results of its operator: split(..) is (split(..).0, split(..).1).
  // Of an operator with any number of results there are as many as the other side has, or one per repetition.
  void spread_root(pattern& p, const syntax::term& t, const std::vector<syntax::term>& other) {
    auto& root = p.roots[0];
    if (root.is_variable || t.selector != syntax::term::whole || root.repeated) {
      return;
    }
    auto results = algebra_.signature(p.nodes[root.slot].kind).results;
    if (results == op_signature::any && other.size() == 1) {
      root.result = pattern_operand::each;
      root.repeated = true;
    } else if (results == op_signature::any) {
      results = static_cast<int>(other.size());
    }
    const auto slot = root.slot;  // the reference ends with the first push_back
    for (int i = 1; i < results; ++i) {
      p.roots.push_back({false, slot, i, false});
    }
  }

  // `is_side`: t is all of one side of the rule, where no selector means all results.
  pattern_operand operand(pattern& p, const syntax::term& t, bool is_side = false) {
    pattern_operand o;
    if (t.kind == syntax::term::form::application) {
      o.slot = node(p, t);
      const auto results = algebra_.signature(p.nodes[o.slot].kind).results;
      if (t.selector >= 0 && results != op_signature::any && t.selector >= results) {
        fail(to_text(t), "a result below " + std::to_string(results));
      }
      o.result = t.selector == syntax::term::whole ? 0 : t.selector;
      if (t.selector == syntax::term::whole && results != 1 && !is_side) {
        fail(to_text(t), "a selector, as in " + t.name + "(..).0, where an operator has several results");
      }
    } else {
      o.is_variable = true;
      o.slot = static_cast<std::uint32_t>(value_slot(t.name, t.kind == syntax::term::form::indexed_variable));
    }
    o.repeated = t.repeated;
    return o;
  }

  std::uint32_t node(pattern& p, const syntax::term& t) {
    auto same = t;
    same.selector = syntax::term::whole;
    same.repeated = false;
    for (const auto& [term, slot] : made_) {
      if (term == same) {
        return slot;
      }
    }
    const auto kind = algebra_.find_kind(t.name);
    if (!kind) {
      fail("operator '" + t.name + "'", "an operator of the algebra");
    }
    const auto& signature = algebra_.signature(*kind);
    pattern_node n{*kind, signature.commutative, false, {}, {}};
    for (const auto& o : t.operands) {
      n.operands.push_back(operand(p, o));
      n.indexed = n.indexed || (depends_on_index(p, n.operands.back()) && !o.repeated);
    }
    check_operands(t, signature);
    n.attributes = attributes(t, signature);
    n.indexed = n.indexed ||
                std::any_of(n.attributes.begin(), n.attributes.end(), [](const auto& a) { return a.value.indexed; });
    p.nodes.push_back(std::move(n));
    const auto slot = static_cast<std::uint32_t>(p.nodes.size() - 1);
    made_.emplace_back(std::move(same), slot);
    return slot;
  }

  bool depends_on_index(const pattern& p, const pattern_operand& o) const {
    return o.is_variable ? variables_[o.slot].indexed : o.result == pattern_operand::each || p.nodes[o.slot].indexed;
  }

  void check_operands(const syntax::term& t, const op_signature& signature) const {
    const bool repeats = std::any_of(t.operands.begin(), t.operands.end(), [](const auto& o) { return o.repeated; });
    if (signature.operands == op_signature::any) {
      return;
    }
    if (repeats || t.operands.size() != static_cast<std::size_t>(signature.operands)) {
      fail(to_text(t), std::to_string(signature.operands) + " operand(s) of " + signature.name);
    }
  }

  std::vector<pattern_attribute> attributes(const syntax::term& t, const op_signature& signature) {
    std::vector<pattern_attribute> all;
    std::size_t used = 0;
    for (const auto& a : signature.attributes) {
      const auto written =
          std::find_if(t.attributes.begin(), t.attributes.end(), [&](const auto& b) { return b.name == a.name; });
      used += written != t.attributes.end() ? 1 : 0;
      all.push_back(written != t.attributes.end() ? attribute_of(written->value, a) : omitted(t, a));
    }
    if (used != t.attributes.size()) {
      fail(to_text(t), "attributes of " + signature.name + ", each once: " + names(signature));
    }
    return all;
  }

  static std::string names(const op_signature& signature) {
    std::string all;
    for (const auto& a : signature.attributes) {
      all += (all.empty() ? "" : ", ") + a.name;
    }
    return all.empty() ? "none" : all;
  }

  pattern_attribute omitted(const syntax::term& t, const attribute_signature& a) const {
    if (in_source_ && t.open) {
      return {pattern_attribute::form::any, 0, {}};
    }
    if (!in_source_ && t.open) {
      fail(to_text(t), "no '..' on the side that is built");
    }
    if (a.default_value.empty() && a.form != attribute_form::integers && a.form != attribute_form::word) {
      fail(to_text(t), "a value for attribute '" + a.name + "', which has no default");
    }
    expression literal;
    literal.literal = a.default_value;
    return {pattern_attribute::form::value, 0, std::move(literal)};
  }

  pattern_attribute attribute_of(const syntax::expression& e, const attribute_signature& a) {
    if (in_source_ && e.kind == syntax::expression::form::variable) {
      const auto known = find_attribute(e.name);
      if (!known) {
        attributes_.push_back(e.name);
      }
      return {pattern_attribute::form::bind, known.value_or(attributes_.size() - 1), {}};
    }
    return {pattern_attribute::form::value, 0, expression_of(e, &a)};
  }

  std::optional<std::size_t> find_attribute(const std::string& name) const {
    const auto found = std::find(attributes_.begin(), attributes_.end(), name);
    return found == attributes_.end() ? std::nullopt
                                      : std::optional{static_cast<std::size_t>(found - attributes_.begin())};
  }

  std::size_t value_slot(const std::string& name, bool indexed) {
    for (std::size_t i = 0; i < variables_.size(); ++i) {
      if (variables_[i].name == name && variables_[i].indexed == indexed) {
        return i;
      }
    }
    if (!in_source_) {
      fail("unbound variable " + std::string{indexed ? "??" : "?"} + name, "a variable of the source");
    }
    variables_.push_back({name, indexed});
    return variables_.size() - 1;
  }

  expression expression_of(const syntax::expression& e, const attribute_signature* context) {
    using form = syntax::expression::form;
    expression r;
    switch (e.kind) {
      case form::integer: r.literal = attribute{real_or_integer(e, context)}; return r;
      case form::real: r.literal = real(e, context); return r;
      case form::word: r.literal = word(e, context); return r;
      case form::variable: return attribute_variable(e);
      case form::indexed_variable: fail("??" + e.name, "size(??" + e.name + ", ..) or another measure of it");
      case form::list: r.kind = expression::form::list; break;
      case form::pack: r.kind = expression::form::pack; break;
      case form::call: return call(e, context);
    }
    add_arguments(r, e, context, 0);
    r.indexed = r.indexed && e.kind != form::pack;
    return r;
  }

  static std::int64_t real_or_integer(const syntax::expression& e, const attribute_signature* context) {
    const bool real = context != nullptr && context->form == attribute_form::real;
    return real ? std::bit_cast<std::int64_t>(static_cast<double>(e.integer)) : e.integer;
  }

  attribute real(const syntax::expression& e, const attribute_signature* context) const {
    if (context != nullptr && context->form != attribute_form::real) {
      fail(to_text(e), "no real number for attribute '" + context->name + "'");
    }
    return {e.integer};
  }

  attribute word(const syntax::expression& e, const attribute_signature* context) const {
    if (context == nullptr) {
      return choice_of_any(e.name);
    }
    if (context->form == attribute_form::word) {
      attribute bytes_of_word;
      for (const char c : e.name) {
        bytes_of_word.push_back(static_cast<unsigned char>(c));
      }
      return bytes_of_word;
    }
    const auto found = std::find(context->choices.begin(), context->choices.end(), e.name);
    if (found == context->choices.end()) {
      fail("word '" + e.name + "' for attribute '" + context->name + "'", "one of its choices");
    }
    return attribute{found - context->choices.begin()};
  }

  // In a condition, `?p == same`: the word belongs to whatever attribute has such a choice.
  attribute choice_of_any(const std::string& name) const {
    std::optional<attribute> value;
    for (std::size_t k = 0; k < algebra_.kind_count(); ++k) {
      for (const auto& a : algebra_.signature(kind_id{k}).attributes) {
        const auto found = std::find(a.choices.begin(), a.choices.end(), name);
        if (found == a.choices.end()) {
          continue;
        }
        const attribute here{found - a.choices.begin()};
        if (value && *value != here) {
          fail("word '" + name + "'", "a word that stands for the same choice wherever it is one");
        }
        value = here;
      }
    }
    if (!value) {
      fail("word '" + name + "'", "a choice of some attribute");
    }
    return *value;
  }

  expression attribute_variable(const syntax::expression& e) const {
    const auto slot = find_attribute(e.name);
    if (!slot) {
      fail("unbound attribute variable ?" + e.name, "one that the source binds before this place");
    }
    expression r;
    r.kind = expression::form::attribute_variable;
    r.slot = *slot;
    return r;
  }

  expression call(const syntax::expression& e, const attribute_signature* context) {
    expression r;
    if (const auto measure = algebra_.find_measure(e.name)) {
      r.kind = expression::form::measure;
      r.measure = *measure;
      const bool indexed = !e.arguments.empty() && e.arguments[0].kind == syntax::expression::form::indexed_variable;
      if (!indexed && (e.arguments.empty() || e.arguments[0].kind != syntax::expression::form::variable)) {
        fail(to_text(e), "a variable of the source as the first argument of " + e.name);
      }
      check_measure(e, *measure);
      r.slot = measured_slot(e.arguments[0].name, indexed);
      r.indexed = indexed;
      add_arguments(r, e, nullptr, 1);
      return r;
    }
    const auto f = std::find_if(functions.begin(), functions.end(), [&](const auto& known) {
      return known.name == e.name && known.arguments == e.arguments.size();
    });
    if (context != nullptr && context->form == attribute_form::real) {
      return negated_real(e, context);
    }
    if (f == functions.end()) {
      fail(to_text(e), "a function or measure with " + std::to_string(e.arguments.size()) + " argument(s)");
    }
    if (std::any_of(e.arguments.begin(), e.arguments.end(),
                    [](const auto& a) { return a.kind == syntax::expression::form::pack; })) {
      fail(to_text(e), "a list around '...', as in [x...]");
    }
    r.kind = expression::form::call;
    r.callee = f->code;
    add_arguments(r, e, context, 0);
    return r;
  }

  // Reals are bits to the functions of rules: all that can be done to one is to write it with a sign.
  expression negated_real(const syntax::expression& e, const attribute_signature* context) const {
    using form = syntax::expression::form;
    const bool negates_number = e.name == "-" && e.arguments.size() == 1 &&
                                (e.arguments[0].kind == form::real || e.arguments[0].kind == form::integer);
    if (!negates_number) {
      fail(to_text(e), "a number or a variable for real attribute '" + context->name + "'");
    }
    const auto& number = e.arguments[0];
    const auto bits = number.kind == form::real ? number.integer : real_or_integer(number, context);
    expression r;
    r.literal = attribute{std::bit_cast<std::int64_t>(-std::bit_cast<double>(bits))};
    return r;
  }

  void check_measure(const syntax::expression& e, int measure) const {
    if constexpr (has_measure_arguments<Algebra>) {
      const auto all = 1 + algebra_.measure_arguments(measure);
      if (e.arguments.size() != all) {
        fail(to_text(e), std::to_string(all) + " argument(s) of " + e.name);
      }
    }
  }

  std::size_t measured_slot(const std::string& name, bool indexed) const {
    for (std::size_t i = 0; i < variables_.size(); ++i) {
      if (variables_[i].name == name && variables_[i].indexed == indexed) {
        return i;
      }
    }
    fail("unbound variable " + std::string{indexed ? "??" : "?"} + name, "a variable that the source binds");
  }

  void add_arguments(expression& r, const syntax::expression& e, const attribute_signature* context, std::size_t from) {
    for (std::size_t i = from; i < e.arguments.size(); ++i) {
      r.arguments.push_back(expression_of(e.arguments[i], context));
      r.indexed = r.indexed || r.arguments.back().indexed;
    }
  }

  void check_roots(const substitution& s, const std::vector<syntax::term>& source,
                   const std::vector<syntax::term>& target) const {
    const auto repeated = [](const pattern& p) {
      return std::count_if(p.roots.begin(), p.roots.end(), [](const auto& r) { return r.repeated; });
    };
    if (s.source.roots.size() != s.target.roots.size() || repeated(s.source) != repeated(s.target)) {
      fail(to_text(source) + " and " + to_text(target), "as many outputs on one side as on the other");
    }
    if (repeated(s.source) > 0 && s.source.roots.size() != 1) {
      fail(to_text(source), "a repeated output to be the only one");
    }
    for (const auto& root : s.source.roots) {
      if (root.is_variable) {
        fail(to_text(source), "an operator, not a variable, as what is replaced (write => to go one way)");
      }
    }
    for (std::size_t i = 0; i < s.source.roots.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (s.source.roots[i] == s.source.roots[j]) {
          fail(to_text(source), "each output once");
        }
      }
    }
    check_repetition(s.source, source);
    check_repetition(s.target, target);
    if (repeated(s.source) > 0 && !depends_on_index(s.source, s.source.roots[0])) {
      fail(to_text(source), "'...' only after what differs from repetition to repetition");
    }
  }
  void check_repetition(const pattern& p, const std::vector<syntax::term>& side) const {
    for (const auto& root : p.roots) {
      if (!root.repeated && depends_on_index(p, root)) {
        fail(to_text(side), "'...' after what is there once per repetition");
      }
    }
  }

  const Algebra& algebra_;
  const syntax::rule& rule_;
  std::string name_;
  bool in_source_ = true;
  std::vector<variable> variables_;
  std::vector<std::string> attributes_;
  std::vector<std::pair<syntax::term, std::uint32_t>> made_;
};

}  // namespace detail

// The one or two substitutions that `rule` states.
// Throws: unity::error that names the rule and the part of it that is unbound, unknown or does not fit.
template <pattern_algebra Algebra>
[[nodiscard]] rule_set compile_rule(const Algebra& algebra, const syntax::rule& rule) {
  rule_set all;
  all.push_back(detail::rule_compiler<Algebra>{algebra, rule, rule.name}.direction(rule.source, rule.target));
  if (rule.both_ways) {
    all.push_back(
        detail::rule_compiler<Algebra>{algebra, rule, rule.name + ".reverse"}.direction(rule.target, rule.source));
  }
  return all;
}

template <pattern_algebra Algebra>
[[nodiscard]] rule_set compile_rules(const Algebra& algebra, const std::vector<syntax::rule>& rules) {
  rule_set all;
  for (const auto& r : rules) {
    for (auto& s : compile_rule(algebra, r)) {
      all.push_back(std::move(s));
    }
  }
  return all;
}

}  // namespace unity
