// Removes rules that follow from other rules by a few rewrites.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include <unity/rewrite/algebra.hpp>
#include <unity/rewrite/generation/expressions.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/rewrite/verification/entailment.hpp>
#include <unity/rewrite/verification/theory.hpp>

namespace unity {

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

}  // namespace unity

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_REWRITE_GENERATION_DERIVABILITY)

#include <string>

#include <unity/rewrite/generation/term_graph.hpp>
#include <unity/rewrite/print.hpp>

namespace unity {

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

#endif
