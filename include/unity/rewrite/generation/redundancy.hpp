// Rules that are the same or add nothing: one text for rules that differ only in names or order, and dropping those
// that follow from others or only repeat an operator.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/rewrite/algebra.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/generation/term_graph.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/rewrite/verification/entailment.hpp>
#include <unity/rewrite/verification/theory.hpp>

namespace unity {

// One text for all rules that differ only in names, or in the order of commutative operands, outputs or sides.

// Base names of attribute variables, by attribute; attributes that are missing here use their own name.
using attribute_names = std::map<std::string, std::string, std::less<>>;

namespace detail {

// Renames variables in order of their appearance in the text.
template <pattern_algebra Algebra>
class variable_renamer {
 public:
  variable_renamer(const Algebra& algebra, const attribute_names& names) : algebra_{algebra}, names_{names} {}

  void rename(syntax::rule& r) {
    for (auto* side : {&r.source, &r.target}) {
      for (auto& t : *side) {
        term(t);
      }
    }
    for (auto& c : r.conditions) {
      expression(c, "n");
    }
  }

 private:
  void term(syntax::term& t) {
    for (auto& a : t.attributes) {
      expression(a.value, a.name);
    }
    if (t.kind != syntax::term::form::application) {
      t.name = value_name(fmt::format("{}{}", (t.kind == syntax::term::form::variable ? "" : "?"), t.name));
    }
    for (auto& o : t.operands) {
      term(o);
    }
  }
  void expression(syntax::expression& e, const std::string& attribute) {
    using form = syntax::expression::form;
    if (e.kind == form::variable) {
      e.name = attribute_name(e.name, attribute);
      return;
    }
    const bool measures = e.kind == form::call && !e.arguments.empty() && algebra_.find_measure(e.name).has_value();
    for (std::size_t i = 0; i < e.arguments.size(); ++i) {
      auto& a = e.arguments[i];
      if (measures && i == 0 && (a.kind == form::variable || a.kind == form::indexed_variable)) {
        a.name = value_name(fmt::format("{}{}", (a.kind == form::variable ? "" : "?"), a.name));
      } else {
        expression(a, attribute);
      }
    }
  }
  std::string value_name(const std::string& old) {
    static constexpr std::array<const char*, 10> usual{"x", "y", "z", "w", "v", "u", "t", "s", "r", "q"};
    const auto n = values_.size();
    return values_.emplace(old, n < usual.size() ? usual[n] : fmt::format("v{}", n)).first->second;
  }
  std::string attribute_name(const std::string& old, const std::string& attribute) {
    const auto known = attributes_.find(old);
    if (known != attributes_.end()) {
      return known->second;
    }
    const auto preferred = names_.find(attribute);
    const auto base = preferred == names_.end() ? attribute : preferred->second;
    auto name = base;
    const auto taken = [&] {
      return std::any_of(attributes_.begin(), attributes_.end(), [&](const auto& a) { return a.second == name; });
    };
    for (int i = 2; taken(); ++i) {
      name = fmt::format("{}{}", base, i);
    }
    attributes_.emplace(old, name);
    return name;
  }

  const Algebra& algebra_;
  const attribute_names& names_;
  std::map<std::string, std::string> values_{};
  std::map<std::string, std::string> attributes_{};
};

// Sorts conditions, removes duplicates, and puts the longer side of equalities first.
void sort_conditions(syntax::rule& r);

template <pattern_algebra Algebra>
class canonical_search {
 public:
  canonical_search(const Algebra& algebra, const attribute_names& names) : algebra_{algebra}, names_{names} {}

  syntax::rule run(const syntax::rule& r) {
    auto g = to_graph(algebra_, without_part_names(algebra_, r));
    spread_outputs(g);
    sides(g);
    if (r.both_ways) {
      std::swap(g.source, g.target);
      sides(g);
    }
    return std::move(best_->second);
  }

 private:
  static constexpr std::size_t most_flips = 6;
  static constexpr std::size_t most_orders = 4;  // all orders are tried for at most this many outputs

  void sides(const rule_graph& g) {
    std::vector<std::size_t> order(g.source.roots.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const bool all_orders = order.size() <= most_orders && g.source.roots.size() == g.target.roots.size();
    do {
      auto ordered = g;
      for (std::size_t i = 0; all_orders && i < order.size(); ++i) {
        ordered.source.roots[i] = g.source.roots[order[i]];
        ordered.target.roots[i] = g.target.roots[order[i]];
      }
      flips(ordered);
    } while (all_orders && std::next_permutation(order.begin(), order.end()));
  }
  void flips(rule_graph& g) {
    std::vector<graph_node*> free;
    for (auto* side : {&g.source, &g.target}) {
      for (auto& n : side->nodes) {
        const auto kind = algebra_.find_kind(n.name);
        const bool commutes = kind && algebra_.signature(*kind).commutative && n.operands.size() == 2;
        if (commutes && n.operands[0] != n.operands[1] && free.size() < most_flips) {
          free.push_back(&n);
        }
      }
    }
    for (std::size_t flipped = 0; flipped < (std::size_t{1} << free.size()); ++flipped) {
      // In Gray code order every step flips one node.
      if (flipped > 0) {
        std::size_t bit = 0;
        while ((flipped >> bit & 1U) == 0) {
          ++bit;
        }
        std::swap(free[bit]->operands[0], free[bit]->operands[1]);
      }
      propose(g);
    }
  }
  void propose(rule_graph g) {
    gather_outputs(g);
    auto r = to_rule(algebra_, g);
    variable_renamer<Algebra>{algebra_, names_}.rename(r);
    sort_conditions(r);
    const auto name = std::exchange(r.name, {});
    auto text = to_text(r);
    auto key = std::tuple{g.source.nodes.size() < g.target.nodes.size(), text.size(), std::move(text)};
    if (!best_ || key < best_->first) {
      r.name = name;
      best_.emplace(std::move(key), std::move(r));
    }
  }

  const Algebra& algebra_;
  const attribute_names& names_;
  std::optional<std::pair<std::tuple<bool, std::size_t, std::string>, syntax::rule>> best_{};
};

}  // namespace detail

// The rule with names of parts replaced by the parts, variables named in order of appearance, default values omitted,
// and every order that has no meaning (commutative operands, outputs, conditions, sides of ==) chosen so that rules
// that differ only in these are equal except for their names. The larger side of == comes first. Source: Jia's
// dissertation (TASO, 2020), section 2.5, input tensor renaming. Complexity: exponential in the number of commutative
// operators (at most six count) and outputs (at most four). Throws: as without_part_names.
template <pattern_algebra Algebra>
[[nodiscard]] syntax::rule canonical_rule(const Algebra& algebra, const syntax::rule& r,
                                          const attribute_names& names = {}) {
  return detail::canonical_search<Algebra>{algebra, names}.run(r);
}

// Equal for equal statements, regardless of names and standing.
[[nodiscard]] std::string statement_text(const syntax::rule& r);

// Removes rules that follow from other rules by a few rewrites.

struct derivability_options {
  std::size_t rewrites = 4;  // the most rewrites of a derivation
  entailment_limits limits{};
};

// Result for each rule, in order: kept, or derived from kept ones.
struct derived_rule {
  std::size_t rule = 0;             // its index among the given rules
  std::vector<std::size_t> from{};  // indices of the rules that derive it, each once
  std::size_t rewrites = 0;         // the number of rule instances used, for the question that needs the most

  friend bool operator==(const derived_rule&, const derived_rule&) = default;
};
struct pruned_rules {
  std::vector<std::size_t> kept{};  // indices of the given rules, ascending
  std::vector<derived_rule> derived{};

  friend bool operator==(const pruned_rules&, const pruned_rules&) = default;
};

// Goes through the rules and keeps those that do not follow from the ones kept before.
//
// worlds(i): questions about rule i; each is the graphs of one structure of an entailment, the outputs of one side
// first, followed by those of the other. A rule is derived if every question, in every direction in which the rule is
// read, has a derivation of at most options.rewrites steps, and the derivations use at least one rule; a rule without
// questions is kept. Greedy: rules derived from rules that are dropped later are not tried again, so the order matters;
// general rules should come first (rule_size).
// Complexity: a few questions per rule, over a theory of all kept rules.
template <pattern_algebra Algebra, class Worlds>
[[nodiscard]] pruned_rules prune_derivable(const Algebra& algebra, std::span<const syntax::rule> rules, Worlds worlds,
                                           const derivability_options& options = {}) {
  theory known{{.reading = theory_reading::rewrites}};
  entailment<Algebra> ask{algebra, known, options.limits};
  pruned_rules result;
  const auto rewritten = [&](const auto& question, bool back, derived_rule& d) {
    const auto found = ask.rewrite_outputs(std::span{question}, back);
    if (!found || found->steps.size() > options.rewrites) {
      return false;
    }
    d.rewrites = std::max(d.rewrites, found->steps.size());
    for (const auto axiom : found->axioms()) {
      d.from.push_back(result.kept[axiom]);
    }
    return true;
  };
  for (std::size_t i = 0; i < rules.size(); ++i) {
    derived_rule d{i, {}, 0};
    const auto questions = worlds(i);
    const bool follows = std::ranges::all_of(questions, [&](const auto& q) {
      return rewritten(q, false, d) && (!rules[i].both_ways || rewritten(q, true, d));
    });
    if (follows && !d.from.empty()) {
      std::ranges::sort(d.from);
      d.from.erase(std::ranges::unique(d.from).begin(), d.from.end());
      result.derived.push_back(std::move(d));
    } else {
      known.add(algebra, rules[i]);
      result.kept.push_back(i);
    }
  }
  return result;
}

// The order of rules before pruning: small and general ones first.
struct rule_size {
  std::size_t operators = 0;  // of both sides
  std::size_t conditions = 0;
  std::size_t literals = 0;   // attributes that are numbers or words
  std::size_t variables = 0;  // in descending order: more variables are more general
  std::size_t characters = 0;

  friend auto operator<=>(const rule_size&, const rule_size&) = default;
};

[[nodiscard]] rule_size size_of(const syntax::rule& r);

// Drops rewrites that only repeat an existing operator: they never pay off.

namespace detail {

// The side with `by`, an operand of node n, in place of n.
[[nodiscard]] term_graph bypassed(term_graph g, std::size_t n, const graph_operand& by);

}  // namespace detail

// Whether `to` is `from` with additional operators that `from` already contains with the same attributes:
// relu(relu(?x)) from relu(?x). An operator of another kind may pay off later: enlarging a kernel makes it as large as
// another one.
[[nodiscard]] bool only_repeats(const term_graph& from, const term_graph& to);

// The rule without directions that only repeat operators; nothing if no direction remains.
// Example: relu(relu(?x)) == relu(?x) becomes relu(relu(?x)) => relu(?x).
// Complexity: exponential in the difference of the sides' node counts, which is small.
[[nodiscard]] std::optional<syntax::rule> without_repeating(syntax::rule r);

}  // namespace unity

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_REWRITE_GENERATION_REDUNDANCY)

#include <string_view>

namespace unity::detail {

UNITY_INLINE void sort_conditions(syntax::rule& r) {
  std::vector<std::pair<std::string, syntax::expression>> all;
  for (auto& c : r.conditions) {
    if (syntax::is_call(c, "==", 2) || syntax::is_call(c, "!=", 2)) {
      const auto key = [](const syntax::expression& e) { return std::pair{syntax::is_literal(e), to_text(e)}; };
      if (key(c.arguments[1]) < key(c.arguments[0])) {
        std::swap(c.arguments[0], c.arguments[1]);
      }
    }
    auto text = to_text(c);
    all.emplace_back(std::move(text), std::move(c));
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  r.conditions.clear();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i == 0 || all[i].first != all[i - 1].first) {
      r.conditions.push_back(std::move(all[i].second));
    }
  }
}

}  // namespace unity::detail

namespace unity {

UNITY_INLINE std::string statement_text(const syntax::rule& r) {
  auto bare = r;
  bare.name.clear();
  bare.known = syntax::standing::assumed;
  return to_text(bare);
}

UNITY_INLINE rule_size size_of(const syntax::rule& r) {
  rule_size size{0, r.conditions.size(), 0, 0, to_text(r.source).size() + to_text(r.target).size()};
  std::vector<std::string> names;
  for (const auto* side : {&r.source, &r.target}) {
    const auto g = to_graph(*side);
    size.operators += g.nodes.size();
    for (const auto& n : g.nodes) {
      for (const auto& a : n.attributes) {
        size.literals += syntax::is_literal(a.value) ? 1 : 0;
      }
      for (const auto& o : n.operands) {
        if (!o.is_node() && std::ranges::find(names, o.variable) == names.end()) {
          names.push_back(o.variable);
        }
      }
    }
  }
  constexpr std::size_t many = 1000;
  size.variables = many - std::min(many, names.size());
  return size;
}

}  // namespace unity

namespace unity::detail {

UNITY_INLINE term_graph bypassed(term_graph g, std::size_t n, const graph_operand& by) {
  const auto replace = [&](graph_operand& o) {
    if (o.is_node() && o.node == n) {
      o = by;
    }
  };
  for (auto& node : g.nodes) {
    std::ranges::for_each(node.operands, replace);
  }
  std::ranges::for_each(g.roots, replace);
  return to_graph(to_terms(g));  // removes nodes that are no longer read
}

}  // namespace unity::detail

namespace unity {

UNITY_INLINE bool only_repeats(const term_graph& from, const term_graph& to) {
  const auto is_repeated = [&](const graph_node& n) {
    return std::ranges::any_of(from.nodes,
                               [&](const auto& m) { return m.name == n.name && m.attributes == n.attributes; });
  };
  for (std::size_t n = 0; n < to.nodes.size() && to.nodes.size() > from.nodes.size(); ++n) {
    for (const auto& o : is_repeated(to.nodes[n]) ? to.nodes[n].operands : std::vector<graph_operand>{}) {
      const auto less = detail::bypassed(to, n, o);
      if (less == from || only_repeats(from, less)) {
        return true;
      }
    }
  }
  return false;
}

UNITY_INLINE std::optional<syntax::rule> without_repeating(syntax::rule r) {
  const auto source = to_graph(r.source);
  const auto target = to_graph(r.target);
  const bool back = r.both_ways && !only_repeats(target, source);
  if (only_repeats(source, target)) {
    if (!back) {
      return std::nullopt;
    }
    std::swap(r.source, r.target);
    r.both_ways = false;
    return r;
  }
  r.both_ways = back;
  return r;
}

}  // namespace unity

#endif
