// Building and taking apart expressions of rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <unity/rewrite/algebra.hpp>
#include <unity/rewrite/syntax.hpp>

namespace unity::syntax {

[[nodiscard]] inline expression integer(std::int64_t value) { return {expression::form::integer, value, {}, {}}; }
[[nodiscard]] inline expression variable(std::string name) {
  return {expression::form::variable, 0, std::move(name), {}};
}
[[nodiscard]] inline expression call(std::string name, std::vector<expression> arguments) {
  return {expression::form::call, 0, std::move(name), std::move(arguments)};
}
[[nodiscard]] inline expression list(std::vector<expression> elements) {
  return {expression::form::list, 0, {}, std::move(elements)};
}
[[nodiscard]] inline expression equal(expression a, expression b) { return call("==", {std::move(a), std::move(b)}); }
// A measure of a value: size(?x, 1).
[[nodiscard]] inline expression measure(std::string name, const std::string& value,
                                        std::vector<expression> arguments = {}) {
  arguments.insert(arguments.begin(), variable(value));
  return call(std::move(name), std::move(arguments));
}
// The conjunction of all; 1 if empty.
[[nodiscard]] expression conjunction(const std::vector<expression>& all);

[[nodiscard]] inline bool is_call(const expression& e, const char* name, std::size_t arguments) {
  return e.kind == expression::form::call && e.name == name && e.arguments.size() == arguments;
}
// Whether nothing in it depends on a match.
[[nodiscard]] bool is_literal(const expression& e);

// A stored attribute as written in rule text.
[[nodiscard]] expression literal(const attribute_signature& a, const attribute& value);

// Calls f(e) for the expression and all its parts, outer ones first.
template <class Expression, class F>
void for_each_part(Expression& e, F&& f) {
  f(e);
  for (auto& a : e.arguments) {
    for_each_part(a, f);
  }
}

}  // namespace unity::syntax

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_REWRITE_GENERATION_EXPRESSIONS)

#include <bit>

namespace unity::syntax {

UNITY_INLINE expression conjunction(const std::vector<expression>& all) {
  auto joint = all.empty() ? integer(1) : all[0];
  for (std::size_t i = 1; i < all.size(); ++i) {
    joint = call("&&", {std::move(joint), all[i]});
  }
  return joint;
}

UNITY_INLINE bool is_literal(const expression& e) {
  if (e.kind == expression::form::list) {
    for (const auto& a : e.arguments) {
      if (!is_literal(a)) {
        return false;
      }
    }
    return true;
  }
  return e.kind == expression::form::integer || e.kind == expression::form::real || e.kind == expression::form::word ||
         (is_call(e, "-", 1) && is_literal(e.arguments[0]));
}

UNITY_INLINE expression literal(const attribute_signature& a, const attribute& value) {
  switch (a.form) {
    case attribute_form::integer: return integer(value[0]);
    case attribute_form::real: return {expression::form::real, value[0], {}, {}};
    case attribute_form::choice: return {expression::form::word, 0, a.choices[static_cast<std::size_t>(value[0])], {}};
    case attribute_form::word: {
      expression word{expression::form::word, 0, {}, {}};
      for (const auto byte : value) {
        word.name += static_cast<char>(byte);
      }
      return word;
    }
    case attribute_form::integers: break;
  }
  std::vector<expression> elements;
  for (const auto i : value) {
    elements.push_back(integer(i));
  }
  return list(std::move(elements));
}

}  // namespace unity::syntax

#endif
