// Substitutions written as C++ expressions: the syntax of rule text, by operator overloading.
//
//   const variable x{"x"}, y{"y"}, z{"z"}, w = indexed("w");
//   rule("assoc", matmul(x, matmul(y, z)) == matmul(matmul(x, y), z)).when(rank(x) == 2).tested(60)
//   rule("merge", all(matmul(x, w)) >> split(matmul(x, concat(all(w), axis = 1)), axis = 1, sizes = {all(size(w, 1))}))
//
// == states both directions and >> one. An algebra supplies functions named after its operators, built with apply(),
// and attribute_names; those of the tensor algebra are in tensor/terms.hpp.
#pragma once

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/rewrite/syntax.hpp>

namespace unity::terms {

// ?name: a value in place of a term, an attribute in place of an expression.
struct variable {
  std::string name;
  bool is_indexed = false;
};

// ??name: one value per repetition.
[[nodiscard]] inline variable indexed(std::string name) { return {std::move(name), true}; }

// An attribute or a condition. Numbers, words and variables convert to it.
struct expression {
  using form = syntax::expression::form;

  syntax::expression tree;

  explicit expression(syntax::expression e) : tree(std::move(e)) {}
  expression(const variable& v) : tree{v.is_indexed ? form::indexed_variable : form::variable, 0, v.name, {}} {}
  // Precondition: not the least 64-bit integer, which rule text cannot express either.
  template <std::integral Integer>
  expression(Integer value) : tree{integer(static_cast<std::int64_t>(value))} {}
  template <std::floating_point Real>
  expression(Real value) : tree{real(static_cast<double>(value))} {}
  expression(const char* word) : tree{form::word, 0, word, {}} {}
  expression(const std::string& word) : tree{form::word, 0, word, {}} {}

 private:
  // Rule text has no negative literals, only negation.
  static syntax::expression integer(std::int64_t value) {
    return value < 0 ? negation({form::integer, -value, {}, {}}) : syntax::expression{form::integer, value, {}, {}};
  }
  static syntax::expression real(double value) {
    const syntax::expression number{form::real, std::bit_cast<std::int64_t>(std::abs(value)), {}, {}};
    return std::signbit(value) ? negation(number) : number;
  }
  static syntax::expression negation(syntax::expression e) { return {form::call, 0, "-", {std::move(e)}}; }
};

template <class T>
concept expressible = std::convertible_to<const T&, expression>;

// A function of rule expressions or a measure of the algebra, by name.
template <expressible... Arguments>
[[nodiscard]] expression call(std::string name, const Arguments&... arguments) {
  return expression(syntax::expression{expression::form::call, 0, std::move(name), {expression(arguments).tree...}});
}

// [a, b]
template <expressible... Elements>
[[nodiscard]] expression list(const Elements&... elements) {
  return expression(syntax::expression{expression::form::list, 0, {}, {expression(elements).tree...}});
}

[[nodiscard]] inline expression operator+(const expression& a, const expression& b) { return call("+", a, b); }
[[nodiscard]] inline expression operator-(const expression& a, const expression& b) { return call("-", a, b); }
[[nodiscard]] inline expression operator*(const expression& a, const expression& b) { return call("*", a, b); }
[[nodiscard]] inline expression operator/(const expression& a, const expression& b) { return call("/", a, b); }
[[nodiscard]] inline expression operator%(const expression& a, const expression& b) { return call("%", a, b); }
[[nodiscard]] inline expression operator-(const expression& a) { return call("-", a); }
[[nodiscard]] inline expression operator!(const expression& a) { return call("!", a); }
[[nodiscard]] inline expression operator==(const expression& a, const expression& b) { return call("==", a, b); }
[[nodiscard]] inline expression operator!=(const expression& a, const expression& b) { return call("!=", a, b); }
[[nodiscard]] inline expression operator<(const expression& a, const expression& b) { return call("<", a, b); }
[[nodiscard]] inline expression operator<=(const expression& a, const expression& b) { return call("<=", a, b); }
[[nodiscard]] inline expression operator>(const expression& a, const expression& b) { return call(">", a, b); }
[[nodiscard]] inline expression operator>=(const expression& a, const expression& b) { return call(">=", a, b); }
[[nodiscard]] inline expression operator&&(const expression& a, const expression& b) { return call("&&", a, b); }
[[nodiscard]] inline expression operator||(const expression& a, const expression& b) { return call("||", a, b); }
// Comparison of two plain variables: compares attributes, since a rule cannot have a variable as a side.
[[nodiscard]] inline expression operator==(const variable& a, const variable& b) { return call("==", a, b); }
[[nodiscard]] inline expression operator!=(const variable& a, const variable& b) { return call("!=", a, b); }

// The functions of rewrite/substitution.hpp. Between two plain variables, write call("concat", p, q) if there is also
// an operator named concat.
[[nodiscard]] inline expression min(const expression& a, const expression& b) { return call("min", a, b); }
[[nodiscard]] inline expression max(const expression& a, const expression& b) { return call("max", a, b); }
[[nodiscard]] inline expression at(const expression& list, const expression& i) { return call("at", list, i); }
[[nodiscard]] inline expression length(const expression& list) { return call("length", list); }
[[nodiscard]] inline expression sum(const expression& list) { return call("sum", list); }
[[nodiscard]] inline expression product(const expression& list) { return call("product", list); }
[[nodiscard]] inline expression concat(const expression& a, const expression& b) { return call("concat", a, b); }
[[nodiscard]] inline expression prefix(const expression& list, const expression& n) { return call("prefix", list, n); }
[[nodiscard]] inline expression suffix(const expression& list, const expression& n) { return call("suffix", list, n); }
[[nodiscard]] inline expression insert(const expression& list, const expression& i, const expression& value) {
  return call("insert", list, i, value);
}
[[nodiscard]] inline expression remove(const expression& list, const expression& i) { return call("remove", list, i); }
[[nodiscard]] inline expression replace(const expression& list, const expression& i, const expression& value) {
  return call("replace", list, i, value);
}
[[nodiscard]] inline expression compose(const expression& p, const expression& q) { return call("compose", p, q); }
[[nodiscard]] inline expression inverse(const expression& p) { return call("inverse", p); }
[[nodiscard]] inline expression iota(const expression& n) { return call("iota", n); }
[[nodiscard]] inline expression repeat(const expression& value, const expression& n) {
  return call("repeat", value, n);
}

// term[each]: the i-th result in the i-th repetition, `.*` in text.
inline constexpr struct each_result {
} each{};

// A value: a variable, or an operator applied to terms.
struct term {
  syntax::term tree;

  explicit term(syntax::term t) : tree(std::move(t)) {}
  term(const variable& v) {
    tree.kind = v.is_indexed ? syntax::term::form::indexed_variable : syntax::term::form::variable;
    tree.name = v.name;
  }

  // One result of an operator with several.
  [[nodiscard]] term operator[](int result) const { return selected(result); }
  [[nodiscard]] term operator[](each_result) const { return selected(syntax::term::each); }

 private:
  [[nodiscard]] term selected(int result) const;
};

// `...`: one per repetition.
[[nodiscard]] inline term all(term t) {
  t.tree.repeated = true;
  return t;
}
[[nodiscard]] inline term all(const variable& v) { return all(term{v}); }
[[nodiscard]] inline expression all(const expression& e) {
  return expression(syntax::expression{expression::form::pack, 0, {}, {e.tree}});
}

// axis = 1 or sizes = {2, 3}, passed to an operator's function.
struct binding {
  syntax::attribute_binding tree;
};
struct attribute_name {
  const char* name;

  [[nodiscard]] binding operator=(const expression& value) const { return {{name, value.tree}}; }
  [[nodiscard]] binding operator=(std::initializer_list<expression> elements) const;
};

// `..`, passed to an operator's function: omitted attributes match anything.
inline constexpr struct any_others_t {
} any_others{};

template <class A>
concept operand_term = std::convertible_to<const A&, term>;
template <class A>
concept argument = operand_term<A> || std::same_as<A, binding> || std::same_as<A, any_others_t>;

namespace detail {

inline void add(syntax::term& t, const term& operand) { t.operands.push_back(operand.tree); }
inline void add(syntax::term& t, const binding& attribute) { t.attributes.push_back(attribute.tree); }
inline void add(syntax::term& t, any_others_t) { t.open = true; }

}  // namespace detail

// An operator by name, applied to the terms among the arguments.
template <argument... Arguments>
[[nodiscard]] term apply(std::string_view name, const Arguments&... arguments) {
  syntax::term t;
  t.name = name;
  (detail::add(t, arguments), ...);
  return term(std::move(t));
}

// One side of a rule. outputs(a, b): several values at once.
struct outputs {
  std::vector<syntax::term> terms;

  template <operand_term... Terms>
    requires(sizeof...(Terms) > 0)
  outputs(const Terms&... all_terms) : terms{term(all_terms).tree...} {}
};

// A syntax::rule with modifiers.
struct statement : syntax::rule {
  template <expressible... Conditions>
  [[nodiscard]] statement when(const Conditions&... all_conditions) const {
    auto s = *this;
    (s.conditions.push_back(expression(all_conditions).tree), ...);
    return s;
  }
  // Holds in that use alone, which the algebra knows by this name.
  [[nodiscard]] statement only_for(std::string use) const;
  // Relies on order or on identities of exp.
  [[nodiscard]] statement over_reals() const;
  [[nodiscard]] statement tested(int bits) const;
  [[nodiscard]] statement proved(std::string by, std::vector<std::string> from_axioms = {}) const;

 private:
  // If several standings are given, only the last one counts.
  [[nodiscard]] statement standing(syntax::standing known_as) const;
};

// Both directions.
[[nodiscard]] statement operator==(const outputs& source, const outputs& target);
// Source to target only.
[[nodiscard]] statement operator>>(const outputs& source, const outputs& target);

[[nodiscard]] inline statement rule(std::string name, statement s) {
  s.name = std::move(name);
  return s;
}

}  // namespace unity::terms

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_REWRITE_TERMS)

#include <unity/core/config.hpp>

namespace unity::terms {

UNITY_INLINE term term::selected(int result) const {
  auto t = *this;
  t.tree.selector = result;
  return t;
}

UNITY_INLINE binding attribute_name::operator=(std::initializer_list<expression> elements) const {
  binding b{{name, list().tree}};
  for (const auto& e : elements) {
    b.tree.value.arguments.push_back(e.tree);
  }
  return b;
}

UNITY_INLINE statement statement::only_for(std::string use) const {
  auto s = *this;
  s.safe_for = std::move(use);
  return s;
}

UNITY_INLINE statement statement::over_reals() const {
  auto s = *this;
  s.real_only = true;
  return s;
}

UNITY_INLINE statement statement::tested(int bits) const {
  auto s = standing(syntax::standing::tested);
  s.tested_bits = bits;
  return s;
}

UNITY_INLINE statement statement::proved(std::string by, std::vector<std::string> from_axioms) const {
  auto s = standing(syntax::standing::proved);
  s.prover = std::move(by);
  s.axioms = std::move(from_axioms);
  return s;
}

UNITY_INLINE statement statement::standing(syntax::standing known_as) const {
  auto s = *this;
  s.known = known_as;
  s.tested_bits = 0;
  s.prover.clear();
  s.axioms.clear();
  return s;
}

UNITY_INLINE statement operator==(const outputs& source, const outputs& target) {
  statement s;
  s.source = source.terms;
  s.target = target.terms;
  s.both_ways = true;
  return s;
}

UNITY_INLINE statement operator>>(const outputs& source, const outputs& target) {
  auto s = source == target;
  s.both_ways = false;
  return s;
}

}  // namespace unity::terms

#endif
