// Variations of a rule, drawn from bytes. Some hold whenever the rule does; others may not.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/rewrite/algebra.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/tensor/algebra.hpp>

#include "byte_source.hpp"

namespace unity::test {

struct varied_rule {
  syntax::rule rule{};
  bool holds = true;  // whether the variation holds whenever the rule does
  bool is_changed = false;
};

namespace detail {

using term_form = syntax::term::form;

// Collects all terms of a side, outer ones first.
inline void collect_terms(std::vector<syntax::term>& side, std::vector<syntax::term*>& all) {
  for (auto& t : side) {
    all.push_back(&t);
    collect_terms(t.operands, all);
  }
}
[[nodiscard]] inline std::vector<syntax::term*> terms_of(syntax::rule& r, bool source, bool target) {
  std::vector<syntax::term*> all;
  if (source) {
    collect_terms(r.source, all);
  }
  if (target) {
    collect_terms(r.target, all);
  }
  return all;
}

// Wraps both sides in a function: f(source) => f(target).
inline bool wrap(syntax::rule& r, byte_source& in) {
  constexpr std::array<std::string_view, 4> functions{"relu", "tanh", "negate", "identity"};
  const auto is_plain = [](const std::vector<syntax::term>& side) {
    return side.size() == 1 && !side[0].repeated && side[0].selector == syntax::term::whole;
  };
  if (!is_plain(r.source) || !is_plain(r.target)) {
    return false;
  }
  const std::string name{functions[in.below(functions.size())]};
  for (auto* side : {&r.source, &r.target}) {
    syntax::term outer;
    outer.name = name;
    outer.operands = std::move(*side);
    side->assign(1, std::move(outer));
  }
  return true;
}

inline void rename(syntax::expression& e, const std::string& from, const std::string& to) {
  if (e.kind == syntax::expression::form::variable && e.name == from) {
    e.name = to;
  }
  for (auto& a : e.arguments) {
    rename(a, from, to);
  }
}
// Replaces one variable by another.
inline bool identify(syntax::rule& r, byte_source& in) {
  std::vector<std::string> names;
  for (const auto* t : terms_of(r, true, false)) {
    if (t->kind == term_form::variable && std::find(names.begin(), names.end(), t->name) == names.end()) {
      names.push_back(t->name);
    }
  }
  if (names.size() < 2) {
    return false;
  }
  const auto from = names[in.below(names.size())];
  const auto to = names[in.below(names.size())];
  for (auto* t : terms_of(r, true, true)) {
    if (t->kind == term_form::variable && t->name == from) {
      t->name = to;
    }
    for (auto& a : t->attributes) {
      rename(a.value, from, to);
    }
  }
  for (auto& c : r.conditions) {
    rename(c, from, to);
  }
  return from != to;
}

// Swaps the operands of one operator: a commutative one if `commutative`, else one that is not.
inline bool swap_operands(const tensor::algebra& a, syntax::rule& r, byte_source& in, bool commutative) {
  std::vector<syntax::term*> pairs;
  for (auto* t : terms_of(r, true, true)) {
    const auto kind = t->kind == term_form::application ? a.find_kind(t->name) : std::nullopt;
    if (kind && a.signature(*kind).commutative == commutative && t->operands.size() == 2) {
      pairs.push_back(t);
    }
  }
  if (pairs.empty()) {
    return false;
  }
  auto& chosen = *pairs[in.below(pairs.size())];
  std::swap(chosen.operands[0], chosen.operands[1]);
  return true;
}

// Replaces an operator of the target by another of the same arity.
inline bool replace_operator(const tensor::algebra& a, syntax::rule& r, byte_source& in) {
  std::vector<syntax::term*> applications;
  for (auto* t : terms_of(r, false, true)) {
    if (t->kind == term_form::application) {
      applications.push_back(t);
    }
  }
  if (applications.empty()) {
    return false;
  }
  auto& chosen = *applications[in.below(applications.size())];
  chosen.name = a.signature(kind_id{in.below(a.kind_count())}).name;
  chosen.attributes.clear();
  return true;
}

}  // namespace detail

[[nodiscard]] inline varied_rule vary(const tensor::algebra& a, const syntax::rule& rule, byte_source& in) {
  varied_rule v{rule};
  switch (in.below(8)) {
    case 1: v.is_changed = detail::wrap(v.rule, in); break;
    case 2: v.is_changed = detail::identify(v.rule, in); break;
    case 3: v.is_changed = detail::swap_operands(a, v.rule, in, true); break;
    case 4:
      v.is_changed = detail::swap_operands(a, v.rule, in, false);
      v.holds = false;
      break;
    case 5:
      v.is_changed = detail::replace_operator(a, v.rule, in);
      v.holds = false;
      break;
    case 6:
      v.is_changed = detail::wrap(v.rule, in) || detail::identify(v.rule, in);
      v.is_changed = detail::swap_operands(a, v.rule, in, true) || v.is_changed;
      break;
    default: break;
  }
  v.holds = v.holds || !v.is_changed;
  return v;
}

}  // namespace unity::test
