// The parts of a rule: its expressions, built and taken apart; and one side as a graph, in which shared subterms are
// one node, so a change of it is one change.
#pragma once

#include <algorithm>
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

namespace unity {

// An operand of a node or an output of a side: a variable, or a result of a node.
struct graph_operand {
  using form = syntax::term::form;

  form kind = form::variable;
  std::string variable{};
  std::size_t node = 0;
  int selector = syntax::term::whole;
  bool repeated = false;

  [[nodiscard]] bool is_node() const noexcept { return kind == form::application; }
  friend bool operator==(const graph_operand&, const graph_operand&) = default;
};

struct graph_node {
  std::string name;
  std::vector<syntax::attribute_binding> attributes{};
  bool open = false;
  std::vector<graph_operand> operands{};

  friend bool operator==(const graph_node&, const graph_node&) = default;
};

// Operands come before their users. No two nodes are equal.
struct term_graph {
  std::vector<graph_node> nodes{};
  std::vector<graph_operand> roots{};

  friend bool operator==(const term_graph&, const term_graph&) = default;
};

namespace detail {

graph_operand add_term(term_graph& g, const syntax::term& t);

syntax::term to_term(const term_graph& g, const graph_operand& o);

}  // namespace detail

[[nodiscard]] term_graph to_graph(const std::vector<syntax::term>& side);
[[nodiscard]] std::vector<syntax::term> to_terms(const term_graph& g);

// Adds attributes that are omitted and have a default, in the order of the signature.
template <has_signatures Algebra>
void write_defaults(const Algebra& algebra, term_graph& g) {
  for (auto& n : g.nodes) {
    const auto kind = algebra.find_kind(n.name);
    if (!kind) {
      continue;
    }
    std::vector<syntax::attribute_binding> all;
    for (const auto& a : algebra.signature(*kind).attributes) {
      const auto written =
          std::find_if(n.attributes.begin(), n.attributes.end(), [&](const auto& b) { return b.name == a.name; });
      if (written != n.attributes.end()) {
        all.push_back(*written);
      } else if (!n.open && !a.default_value.empty()) {
        all.push_back({a.name, syntax::literal(a, a.default_value)});
      }
    }
    n.attributes = std::move(all);
  }
}
// The opposite: omits attributes that have their default value.
template <has_signatures Algebra>
void omit_defaults(const Algebra& algebra, term_graph& g) {
  for (auto& n : g.nodes) {
    const auto kind = algebra.find_kind(n.name);
    if (!kind || n.open) {
      continue;
    }
    const auto& signature = algebra.signature(*kind);
    std::erase_if(n.attributes, [&](const auto& b) {
      const auto a = std::find_if(signature.attributes.begin(), signature.attributes.end(),
                                  [&](const auto& s) { return s.name == b.name; });
      return a != signature.attributes.end() && !a->default_value.empty() &&
             b.value == syntax::literal(*a, a->default_value);
    });
  }
}

// A rule as two graphs. `rest` is the rule without its sides.
struct rule_graph {
  term_graph source{};
  term_graph target{};
  syntax::rule rest{};

  friend bool operator==(const rule_graph&, const rule_graph&) = default;
};

namespace detail {

// A single operator as a side stands for as many of its results as the other side has values.
void spread(term_graph& side, const term_graph& other);
void gather(term_graph& side);

}  // namespace detail

// Lists every output separately, equally many on both sides: split(?x) as a side becomes (split(?x).0, split(?x).1).
void spread_outputs(rule_graph& g);
// The opposite, for at most one side.
void gather_outputs(rule_graph& g);

// With all attributes written out.
template <has_signatures Algebra>
[[nodiscard]] rule_graph to_graph(const Algebra& algebra, const syntax::rule& r) {
  rule_graph g{to_graph(r.source), to_graph(r.target), r};
  write_defaults(algebra, g.source);
  write_defaults(algebra, g.target);
  g.rest.source.clear();
  g.rest.target.clear();
  return g;
}
template <has_signatures Algebra>
[[nodiscard]] syntax::rule to_rule(const Algebra& algebra, rule_graph g) {
  omit_defaults(algebra, g.source);
  omit_defaults(algebra, g.target);
  auto r = std::move(g.rest);
  r.source = to_terms(g.source);
  r.target = to_terms(g.target);
  return r;
}

// Calls f(e) for the expression of every attribute and condition of the rule.
template <class Rule, class F>
void for_each_expression(Rule& r, F&& f) {
  for (auto* side : {&r.source, &r.target}) {
    for (auto& n : side->nodes) {
      for (auto& a : n.attributes) {
        f(a.value);
      }
    }
  }
  for (auto& c : r.rest.conditions) {
    f(c);
  }
}

}  // namespace unity

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_REWRITE_GENERATION_TERM_GRAPH)

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

namespace unity::detail {

UNITY_INLINE graph_operand add_term(term_graph& g, const syntax::term& t) {
  graph_operand o{t.kind, {}, 0, t.selector, t.repeated};
  if (!o.is_node()) {
    o.variable = t.name;
    return o;
  }
  graph_node n{t.name, t.attributes, t.open, {}};
  for (const auto& operand : t.operands) {
    n.operands.push_back(add_term(g, operand));
  }
  const auto known = std::find(g.nodes.begin(), g.nodes.end(), n);
  o.node = static_cast<std::size_t>(known - g.nodes.begin());
  if (known == g.nodes.end()) {
    g.nodes.push_back(std::move(n));
  }
  return o;
}

UNITY_INLINE syntax::term to_term(const term_graph& g, const graph_operand& o) {
  syntax::term t;
  t.kind = o.kind;
  t.selector = o.selector;
  t.repeated = o.repeated;
  if (!o.is_node()) {
    t.name = o.variable;
    return t;
  }
  const auto& n = g.nodes[o.node];
  t.name = n.name;
  t.attributes = n.attributes;
  t.open = n.open;
  for (const auto& operand : n.operands) {
    t.operands.push_back(to_term(g, operand));
  }
  return t;
}

}  // namespace unity::detail

namespace unity {

UNITY_INLINE term_graph to_graph(const std::vector<syntax::term>& side) {
  term_graph g;
  for (const auto& t : side) {
    g.roots.push_back(detail::add_term(g, t));
  }
  return g;
}

UNITY_INLINE std::vector<syntax::term> to_terms(const term_graph& g) {
  std::vector<syntax::term> side;
  for (const auto& root : g.roots) {
    side.push_back(detail::to_term(g, root));
  }
  return side;
}

}  // namespace unity

namespace unity::detail {

UNITY_INLINE void spread(term_graph& side, const term_graph& other) {
  const bool whole = side.roots.size() == 1 && other.roots.size() > 1 && side.roots[0].is_node() &&
                     side.roots[0].selector == syntax::term::whole;
  if (!whole) {
    return;
  }
  const auto root = side.roots[0];
  side.roots.assign(other.roots.size(), root);
  for (std::size_t i = 0; i < side.roots.size(); ++i) {
    side.roots[i].selector = static_cast<int>(i);
  }
}

UNITY_INLINE void gather(term_graph& side) {
  for (std::size_t i = 0; i < side.roots.size(); ++i) {
    if (!side.roots[i].is_node() || side.roots[i].node != side.roots[0].node ||
        side.roots[i].selector != static_cast<int>(i)) {
      return;
    }
  }
  side.roots.resize(1);
  side.roots[0].selector = syntax::term::whole;
}

}  // namespace unity::detail

namespace unity {

UNITY_INLINE void spread_outputs(rule_graph& g) {
  const auto source = g.source;
  detail::spread(g.source, g.target);
  detail::spread(g.target, source);
}

UNITY_INLINE void gather_outputs(rule_graph& g) {
  if (g.source.roots.size() < 2) {
    return;
  }
  detail::gather(g.source);
  if (g.source.roots.size() > 1) {
    detail::gather(g.target);
  }
}

}  // namespace unity

#endif
