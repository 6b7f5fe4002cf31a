// Removes what both sides of a rule have in common: the remaining rule is more general.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <fmt/core.h>
#include <range/v3/view/zip.hpp>

#include <unity/core/error.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/generation/term_graph.hpp>
#include <unity/rewrite/syntax.hpp>

namespace unity {

namespace detail {

// Removes the nodes that no root needs.
void drop_unused(term_graph& g);

template <pattern_algebra Algebra, class Valid>
class subterm_removal {
 public:
  subterm_removal(const Algebra& algebra, Valid& valid) : algebra_{algebra}, valid_{valid} {}

  syntax::rule run(const syntax::rule& r) {
    rule_ = to_graph(algebra_, r);
    spread_outputs(rule_);
    for (auto* side : {&rule_.source, &rule_.target}) {
      sort_operands(*side);
    }
    bool changed = false;
    while (remove_operator() || replace_subterm()) {
      changed = true;
    }
    return changed ? text_form(rule_) : r;
  }

 private:
  // Sorts the operands of commutative operators, so that equal terms are equal objects.
  void sort_operands(term_graph& g) const {
    for (auto& n : g.nodes) {
      const auto kind = algebra_.find_kind(n.name);
      if (kind && algebra_.signature(*kind).commutative && n.operands.size() == 2 &&
          text(g, n.operands[1]) < text(g, n.operands[0])) {
        std::swap(n.operands[0], n.operands[1]);
      }
    }
  }
  static std::string text(const term_graph& g, const graph_operand& o) { return to_text(to_term(g, o)); }
  static bool equal(const term_graph& a, const graph_operand& x, const term_graph& b, const graph_operand& y) {
    return to_term(a, x) == to_term(b, y);
  }

  // First form: replaces a subterm of both sides by a variable. Largest subterms first: parts of them may be needed.
  bool replace_subterm() {
    const auto& s = rule_.source.nodes;
    const auto& t = rule_.target.nodes;
    for (std::size_t i = s.size(); i-- > 0;) {
      for (std::size_t j = t.size(); j-- > 0;) {
        const graph_operand x{syntax::term::form::application, {}, i, syntax::term::whole, false};
        const graph_operand y{syntax::term::form::application, {}, j, syntax::term::whole, false};
        if (equal(rule_.source, x, rule_.target, y) && accept(with_variable(i, j))) {
          return true;
        }
      }
    }
    return false;
  }
  [[nodiscard]] rule_graph with_variable(std::size_t in_source, std::size_t in_target) const {
    auto g = rule_;
    const auto name = fresh();
    replace(g.source, in_source, name);
    replace(g.target, in_target, name);
    restate(g, name, variables(rule_.source, in_source));
    return g;
  }
  static void replace(term_graph& g, std::size_t node, const std::string& name) {
    const auto become = [&](graph_operand& o) {
      if (o.is_node() && o.node == node) {
        const auto result = o.selector == syntax::term::whole ? std::string{} : fmt::format("_{}", o.selector);
        o = {syntax::term::form::variable, fmt::format("{}{}", name, result), 0, syntax::term::whole, o.repeated};
      }
    };
    for (auto& n : g.nodes) {
      std::for_each(n.operands.begin(), n.operands.end(), become);
    }
    std::for_each(g.roots.begin(), g.roots.end(), become);
  }
  // A variable name that no rule text can contain.
  [[nodiscard]] std::string fresh() const {
    std::string name = "_c";
    const auto all = names(rule_);
    while (std::any_of(all.begin(), all.end(), [&](const auto& n) { return n.starts_with(name); })) {
      name += "c";
    }
    return name;
  }

  // Second form: removes an operator that both sides end with; its operands become the outputs.
  bool remove_operator() {
    for (std::size_t i = 0; i < rule_.source.roots.size(); ++i) {
      const auto& s = rule_.source.roots[i];
      const auto& t = rule_.target.roots[i];
      if (!s.is_node() || !t.is_node() || s.selector != t.selector || !alike(s.node, t.node)) {
        continue;
      }
      const bool commutes = is_commutative(rule_.source.nodes[s.node]);
      for (const bool swapped : {false, true}) {
        if ((!swapped || commutes) && accept(with_operands(i, swapped))) {
          return true;
        }
      }
    }
    return false;
  }
  [[nodiscard]] bool is_commutative(const graph_node& n) const {
    const auto kind = algebra_.find_kind(n.name);
    return kind && algebra_.signature(*kind).commutative && n.operands.size() == 2;
  }
  [[nodiscard]] bool alike(std::size_t s, std::size_t t) const {
    const auto& a = rule_.source.nodes[s];
    const auto& b = rule_.target.nodes[t];
    return a.name == b.name && a.attributes == b.attributes && !a.open && !b.open &&
           a.operands.size() == b.operands.size();
  }
  [[nodiscard]] std::optional<rule_graph> with_operands(std::size_t root, bool swapped) const {
    auto g = rule_;
    const auto s = rule_.source.roots[root].node;
    const auto t = rule_.target.roots[root].node;
    for (std::size_t i = g.source.roots.size(); i-- > 0;) {
      const auto& x = rule_.source.roots[i];
      const auto& y = rule_.target.roots[i];
      const bool here = x.is_node() && x.node == s;
      if (here != (y.is_node() && y.node == t) || (here && x.selector != y.selector)) {
        return std::nullopt;  // the two sides do not have the same results of it
      }
      if (here) {
        g.source.roots.erase(g.source.roots.begin() + static_cast<std::ptrdiff_t>(i));
        g.target.roots.erase(g.target.roots.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    const auto& a = rule_.source.nodes[s].operands;
    auto b = rule_.target.nodes[t].operands;
    if (swapped) {
      std::swap(b[0], b[1]);
    }
    for (const auto& [source, target] : ranges::views::zip(a, b)) {
      g.source.roots.push_back(source);
      g.target.roots.push_back(target);
    }
    return g;
  }

  // Drops outputs that are equal on both sides, and duplicates: they say nothing.
  static void drop_outputs(rule_graph& g) {
    for (std::size_t i = g.source.roots.size(); i-- > 0;) {
      bool drop = equal(g.source, g.source.roots[i], g.target, g.target.roots[i]);
      for (std::size_t j = 0; j < i; ++j) {
        drop = drop || (g.source.roots[i] == g.source.roots[j] && g.target.roots[i] == g.target.roots[j]);
      }
      if (drop) {
        g.source.roots.erase(g.source.roots.begin() + static_cast<std::ptrdiff_t>(i));
        g.target.roots.erase(g.target.roots.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
  }

  bool accept(std::optional<rule_graph> g) {
    if (!g) {
      return false;
    }
    drop_outputs(*g);
    drop_unused(g->source);
    drop_unused(g->target);
    const auto known = names(*g, false);
    std::erase_if(g->rest.conditions, [&](const syntax::expression& c) {
      const auto used = names_in(c);
      return !std::includes(known.begin(), known.end(), used.begin(), used.end());
    });
    if (g->source.roots.empty() || !can_be_read(*g) || !valid_(text_form(*g))) {
      return false;
    }
    rule_ = *std::move(g);
    return true;
  }
  // Restricts the rule to one direction if the other one no longer compiles: and(?x, ?x) == ?x.
  [[nodiscard]] bool can_be_read(rule_graph& g) const {
    if (compiles(g)) {
      return true;
    }
    if (!g.rest.both_ways) {
      return false;
    }
    g.rest.both_ways = false;
    if (compiles(g)) {
      return true;
    }
    std::swap(g.source, g.target);
    return compiles(g);
  }
  [[nodiscard]] syntax::rule text_form(rule_graph g) const {
    gather_outputs(g);
    return to_rule(algebra_, std::move(g));
  }
  [[nodiscard]] bool compiles(const rule_graph& g) const {
    try {
      static_cast<void>(compile_rule(algebra_, text_form(g)));
      return true;
    } catch (const error&) {
      return false;
    }
  }

  // Restates measures of removed operands as measures of the result: size(?w, -1) of matmul(?x, ?w).
  static void restate(rule_graph& g, const std::string& by, const std::set<std::string>& gone) {
    const auto left = variables(g.source);
    for (auto* side : {&g.source, &g.target}) {
      for (auto& n : side->nodes) {
        for (auto& a : n.attributes) {
          syntax::for_each_part(a.value, [&](syntax::expression& e) {
            const bool measures = e.kind == syntax::expression::form::call && !e.arguments.empty() &&
                                  e.arguments[0].kind == syntax::expression::form::variable;
            if (measures && gone.contains(e.arguments[0].name) && !left.contains(e.arguments[0].name)) {
              e.arguments[0].name = by;
            }
          });
        }
      }
    }
  }

  static std::set<std::string> variables(const term_graph& g, std::size_t from) {
    std::set<std::string> all;
    for (const auto& o : g.nodes[from].operands) {
      if (o.is_node()) {
        all.merge(variables(g, o.node));
      } else {
        all.insert(o.variable);
      }
    }
    return all;
  }
  static std::set<std::string> variables(const term_graph& g) {
    std::set<std::string> all;
    for (const auto& r : g.roots) {
      if (r.is_node()) {
        all.merge(variables(g, r.node));
      } else {
        all.insert(r.variable);
      }
    }
    return all;
  }
  static std::set<std::string> names_in(const syntax::expression& e) {
    std::set<std::string> all;
    syntax::for_each_part(e, [&](const syntax::expression& part) {
      using form = syntax::expression::form;
      if (part.kind == form::variable || part.kind == form::indexed_variable) {
        all.insert(part.name);
      }
    });
    return all;
  }
  // Names of the source, and of conditions if `with_conditions`.
  static std::set<std::string> names(const rule_graph& g, bool with_conditions = true) {
    auto all = variables(g.source);
    for (const auto& n : g.source.nodes) {
      for (const auto& a : n.attributes) {
        all.merge(names_in(a.value));
      }
    }
    for (const auto& c : g.rest.conditions) {
      if (with_conditions) {
        all.merge(names_in(c));
      }
    }
    return all;
  }

  const Algebra& algebra_;
  Valid& valid_;
  rule_graph rule_{};
};

}  // namespace detail

// The rule without what its sides have in common, as long as valid(rule) holds for the result: a subterm of both sides
// becomes a variable, and an operator that both sides end with is replaced by its operands. In both cases the original
// rule follows from the result, so a set of rules loses nothing. Conditions on removed operands are removed too, so the
// result may be false: valid must decide. Variable names are not canonical.
// Source: Jia's dissertation (TASO, 2020), section 2.5, common subgraph.
// Complexity: quadratic in the rule's nodes, both in calls of valid and otherwise.
template <pattern_algebra Algebra, std::predicate<const syntax::rule&> Valid>
[[nodiscard]] syntax::rule without_common_subterms(const Algebra& algebra, const syntax::rule& r, Valid valid) {
  return detail::subterm_removal<Algebra, Valid>{algebra, valid}.run(r);
}

}  // namespace unity

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_REWRITE_GENERATION_COMMON_SUBTERMS)

#include <vector>

namespace unity::detail {

UNITY_INLINE void drop_unused(term_graph& g) {
  std::vector<bool> used(g.nodes.size(), false);
  for (const auto& r : g.roots) {
    if (r.is_node()) {
      used[r.node] = true;
    }
  }
  for (std::size_t n = g.nodes.size(); n-- > 0;) {
    for (const auto& o : g.nodes[n].operands) {
      if (used[n] && o.is_node()) {
        used[o.node] = true;
      }
    }
  }
  std::vector<std::size_t> number(g.nodes.size(), 0);
  std::vector<graph_node> kept;
  for (std::size_t n = 0; n < g.nodes.size(); ++n) {
    if (used[n]) {
      number[n] = kept.size();
      kept.push_back(std::move(g.nodes[n]));
    }
  }
  g.nodes = std::move(kept);
  for (auto& n : g.nodes) {
    for (auto& o : n.operands) {
      o.node = o.is_node() ? number[o.node] : 0;
    }
  }
  for (auto& r : g.roots) {
    r.node = r.is_node() ? number[r.node] : 0;
  }
}

}  // namespace unity::detail

#endif
