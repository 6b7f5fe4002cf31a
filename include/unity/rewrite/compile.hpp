// Compiles syntax to substitutions: resolves names, and reports what is wrong with a malformed rule.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/rewrite/algebra.hpp>
#include <unity/rewrite/compile_expression.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/rewrite/syntax.hpp>

namespace unity {

// Names for matched parts of a rule: ?x@const{..}() matches a const, and ?x elsewhere stands for what it matched.

namespace detail {

// Replaces the name of a part by the part. Attributes that `..` leaves open in the part get new variables, so that they
// can be repeated: their names contain a dot, which no name in rule text does.
template <pattern_algebra Algebra>
class part_name_expansion {
 public:
  part_name_expansion(const Algebra& algebra, const syntax::rule& rule) : algebra_{algebra}, rule_{rule} {}

  syntax::rule run() {
    auto plain = rule_;
    for (auto* side : {&plain.source, &plain.target}) {
      for (auto& t : *side) {
        take_names(t);
      }
    }
    if (parts_.empty()) {
      return plain;
    }
    for (const auto& [name, part] : parts_) {
      if (names_part(part)) {
        fail(fmt::format("?{}@{}", name, to_text(part)), "a part in which no part's name stands");
      }
    }
    for (auto* side : {&plain.source, &plain.target}) {
      for (auto& t : *side) {
        write_parts(t);
      }
    }
    for (const auto& c : plain.conditions) {
      check(c);
    }
    return plain;
  }

 private:
  [[noreturn]] void fail(const std::string& found, const std::string& expected) const {
    refuse_rule(rule_.place.text, rule_.name, found, expected);
  }

  // Inner parts first, so that a part contains no other part.
  void take_names(syntax::term& t) {
    for (auto& o : t.operands) {
      take_names(o);
    }
    if (t.part.empty()) {
      return;
    }
    const auto name = std::exchange(t.part, {});
    if (t.repeated || t.selector == syntax::term::each) {
      fail(fmt::format("?{}@{}", name, to_text(t)), "a name for one value");
    }
    close(t, name);
    if (!parts_.emplace(name, t).second) {
      fail(fmt::format("?{}@{}", name, to_text(t)), "a name of its own for each part");
    }
  }
  void close(syntax::term& t, const std::string& name) {
    for (std::size_t i = 0; i < t.operands.size(); ++i) {
      close(t.operands[i], fmt::format("{}.{}", name, i));
    }
    const auto kind = std::exchange(t.open, false) ? algebra_.find_kind(t.name) : std::nullopt;
    if (!kind) {
      return;  // nothing is open, or the compiler will report the unknown operator
    }
    for (const auto& a : algebra_.signature(*kind).attributes) {
      if (std::none_of(t.attributes.begin(), t.attributes.end(), [&](const auto& b) { return b.name == a.name; })) {
        syntax::expression variable;
        variable.kind = syntax::expression::form::variable;
        variable.name = fmt::format("{}.{}", name, a.name);
        t.attributes.push_back({a.name, std::move(variable)});
      }
    }
  }
  void write_parts(syntax::term& t) {
    for (auto& o : t.operands) {
      write_parts(o);
    }
    for (const auto& b : t.attributes) {
      check(b.value);
    }
    if (t.kind != syntax::term::form::variable) {
      return;
    }
    if (const auto found = parts_.find(t.name); found != parts_.end()) {
      if (t.selector != syntax::term::whole) {
        fail(to_text(t), fmt::format("?{}, which is one value", t.name));
      }
      const bool repeated = t.repeated;
      t = found->second;
      t.repeated = repeated;
    }
  }
  // Parts must not name parts, so that the expanded text is no longer than parts times names.
  [[nodiscard]] bool names_part(const syntax::term& t) const {
    return (t.kind == syntax::term::form::variable && parts_.contains(t.name)) ||
           std::any_of(t.operands.begin(), t.operands.end(), [&](const auto& o) { return names_part(o); });
  }
  void check(const syntax::expression& e) const {
    if (e.kind == syntax::expression::form::variable && parts_.contains(e.name)) {
      fail(fmt::format("?{} in an expression", e.name), "a variable; this is the name of a part");
    }
    for (const auto& a : e.arguments) {
      check(a);
    }
  }

  const Algebra& algebra_;
  const syntax::rule& rule_;
  std::map<std::string, syntax::term> parts_;
};

// Throws: unity::error if the algebra does not know the use that the rule is safe for.
template <pattern_algebra Algebra>
void check_use([[maybe_unused]] const Algebra& algebra, const syntax::rule& rule) {
  std::string known;
  if constexpr (has_uses<Algebra>) {
    for (const std::string_view use : algebra.uses()) {
      if (use == rule.safe_for) {
        return;
      }
      known += fmt::format("{}'safe {}'", known.empty() ? "" : " or ", use);
    }
  }
  if (!rule.safe_for.empty()) {
    refuse_rule(rule.place.text, rule.name, fmt::format("'safe {}'", rule.safe_for),
                known.empty() ? "a rule for all uses" : known);
  }
}

}  // namespace detail

// The same rule, with each name of a part replaced by the part. Equal terms are one node, so nothing that was matched
// is built again.
// Complexity: linear in the resulting rule.
// Throws: unity::error that names the rule and the part, if two parts have the same name, a name is used in an
// expression, or a part is not one value.
template <pattern_algebra Algebra>
[[nodiscard]] syntax::rule without_part_names(const Algebra& algebra, const syntax::rule& rule) {
  return detail::part_name_expansion<Algebra>{algebra, rule}.run();
}

namespace detail {

// Compiles one direction of one rule. Variables are numbered in order of first appearance in the source.
template <pattern_algebra Algebra>
class rule_compiler {
 public:
  rule_compiler(const Algebra& algebra, const syntax::rule& rule, std::string name)
      : algebra_{algebra}, rule_{rule}, name_{std::move(name)} {}
  rule_compiler(const rule_compiler&) = delete;  // not copyable: members refer to each other
  rule_compiler& operator=(const rule_compiler&) = delete;

  substitution direction(const std::vector<syntax::term>& source, const std::vector<syntax::term>& target) {
    substitution s;
    s.name = name_;
    s.rule = rule_;
    in_source_ = true;
    s.source = side(source, target);
    in_source_ = false;
    s.target = side(target, source);
    for (const auto& condition : rule_.conditions) {
      s.conditions.push_back(expressions_.compile(condition, nullptr));
    }
    s.variables = variables_.values.size();
    s.attribute_variables = variables_.attributes.size();
    for (const auto& v : variables_.values) {
      s.indexed_variables.push_back(v.indexed);
    }
    check_roots(s, source, target);
    return s;
  }

 private:
  [[noreturn]] void fail(const std::string& found, const std::string& expected) const {
    refuse_rule(rule_.place.text, name_, found, expected);
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

  // A single root without a selector means all results of its operator: split(..) is (split(..).0, split(..).1). For an
  // operator with any number of results, the number is that of the other side, or one per repetition.
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
    const auto slot = root.slot;  // push_back invalidates `root`
    for (int i = 1; i < results; ++i) {
      p.roots.push_back({false, slot, i, false});
    }
  }

  // `is_side`: t is a whole side of the rule, where no selector means all results.
  pattern_operand operand(pattern& p, const syntax::term& t, bool is_side = false) {
    pattern_operand o;
    if (t.kind == syntax::term::form::application) {
      o.slot = node(p, t);
      const auto results = algebra_.signature(p.nodes[o.slot].kind).results;
      if (t.selector >= 0 && results != op_signature::any && t.selector >= results) {
        fail(to_text(t), fmt::format("a result below {}", results));
      }
      o.result = t.selector == syntax::term::whole ? 0 : t.selector;
      if (t.selector == syntax::term::whole && results != 1 && !is_side) {
        fail(to_text(t), fmt::format("a selector, as in {}(..).0, where an operator has several results", t.name));
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
      fail(fmt::format("operator '{}'", t.name), "an operator of the algebra");
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
    return o.is_variable ? variables_.values[o.slot].indexed
                         : o.result == pattern_operand::each || p.nodes[o.slot].indexed;
  }

  void check_operands(const syntax::term& t, const op_signature& signature) const {
    const auto& takes = signature.operands;
    const bool repeats = std::any_of(t.operands.begin(), t.operands.end(), [](const auto& o) { return o.repeated; });
    const bool fits = repeats ? takes.least != takes.most && t.operands.size() <= static_cast<std::size_t>(takes.most)
                              : takes.accepts(t.operands.size());
    if (!fits) {
      fail(to_text(t), fmt::format("{} operand(s) of {}", to_string(takes), signature.name));
    }
  }

  std::vector<pattern_attribute> attributes(const syntax::term& t, const op_signature& signature) {
    std::vector<pattern_attribute> all;
    std::size_t used = 0;
    for (const auto& b : t.attributes) {
      if (std::ranges::find(signature.attributes, b.name, &attribute_signature::name) == signature.attributes.end()) {
        fail(fmt::format("attribute '{}' of {}", b.name, signature.name),
             fmt::format("attributes of {}: {}", signature.name, names(signature)));
      }
    }
    for (const auto& a : signature.attributes) {
      const auto written =
          std::find_if(t.attributes.begin(), t.attributes.end(), [&](const auto& b) { return b.name == a.name; });
      used += written != t.attributes.end() ? 1 : 0;
      all.push_back(written != t.attributes.end() ? attribute_of(written->value, a) : omitted(t, a));
    }
    if (used != t.attributes.size()) {
      fail(to_text(t), fmt::format("attributes of {}, each once: {}", signature.name, names(signature)));
    }
    return all;
  }

  static std::string names(const op_signature& signature) {
    std::string all;
    for (const auto& a : signature.attributes) {
      all += fmt::format("{}{}", (all.empty() ? "" : ", "), a.name);
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
      fail(to_text(t), fmt::format("a value for attribute '{}', which has no default", a.name));
    }
    compiled_expression literal;
    literal.literal = a.default_value;
    return {pattern_attribute::form::value, 0, std::move(literal)};
  }

  pattern_attribute attribute_of(const syntax::expression& e, const attribute_signature& a) {
    expressions_.check_form(e, a);
    if (in_source_ && e.kind == syntax::expression::form::variable) {
      const auto known = variables_.find_attribute(e.name);
      if (!known) {
        variables_.attributes.push_back({e.name, a});
      }
      return {pattern_attribute::form::bind, known.value_or(variables_.attributes.size() - 1), {}};
    }
    return {pattern_attribute::form::value, 0, expressions_.compile(e, &a)};
  }

  std::size_t value_slot(const std::string& name, bool indexed) {
    if (const auto known = variables_.find_value(name, indexed)) {
      return *known;
    }
    if (!in_source_) {
      const bool is_attribute = !indexed && variables_.find_attribute(name);
      fail(fmt::format("{}{}{}", is_attribute ? "" : "unbound variable ", indexed ? "??" : "?",
                       is_attribute ? fmt::format("{}, which stands for an attribute", name) : name),
           "a variable of the source");
    }
    variables_.values.push_back({name, indexed});
    return variables_.values.size() - 1;
  }

  void check_roots(const substitution& s, const std::vector<syntax::term>& source,
                   const std::vector<syntax::term>& target) const {
    const auto repeated = [](const pattern& p) {
      return std::count_if(p.roots.begin(), p.roots.end(), [](const auto& r) { return r.repeated; });
    };
    if (s.source.roots.size() != s.target.roots.size() || repeated(s.source) != repeated(s.target)) {
      fail(fmt::format("{} and {}", to_text(source), to_text(target)), "as many outputs on one side as on the other");
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
        fail(to_text(side), "'...' after roots that depend on the repetition");
      }
    }
  }

  const Algebra& algebra_;
  const syntax::rule& rule_;
  std::string name_;
  bool in_source_ = true;
  rule_variables variables_;
  expression_compiler<Algebra> expressions_{algebra_, rule_.place.text, name_, variables_};
  std::vector<std::pair<syntax::term, std::uint32_t>> made_;
};

}  // namespace detail

// The one or two substitutions that `rule` states.
// Throws: unity::error that names the rule and the part that is unbound, unknown or does not fit.
template <pattern_algebra Algebra>
[[nodiscard]] rule_set compile_rule(const Algebra& algebra, const syntax::rule& rule) {
  rule_set all;
  detail::check_use(algebra, rule);
  const auto plain = without_part_names(algebra, rule);
  all.push_back(detail::rule_compiler<Algebra>{algebra, plain, rule.name}.direction(plain.source, plain.target));
  if (rule.both_ways) {
    all.push_back(detail::rule_compiler<Algebra>{algebra, plain, fmt::format("{}.reverse", rule.name)}.direction(
        plain.target, plain.source));
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
