// The content of a proof by entailment, and how it is extracted from an equality graph.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include <range/v3/view/zip.hpp>

#include <unity/core/id.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/rewrite/verification/equality_graph.hpp>
#include <unity/rewrite/verification/instantiation.hpp>
#include <unity/rewrite/verification/prover.hpp>
#include <unity/rewrite/verification/theory.hpp>
#include <unity/rewrite/verification/worlds.hpp>

namespace unity {

// The ground instances of axioms that a proof uses.
struct derivation {
  struct step {
    std::uint32_t axiom = 0;  // in the theory
    bool reversed = false;    // used from its right side to its left

    friend bool operator==(const step&, const step&) = default;
  };

  std::vector<step> steps{};  // in order of discovery, each instance once
  ground_problem ground{};    // its equalities are those of the steps
  std::size_t rounds = 0;     // number of rounds needed

  // The axioms used, each once, ascending.
  [[nodiscard]] std::vector<std::uint32_t> axioms() const;
};

namespace detail {

// Turns the instances that a proof needs into terms and equalities.
template <pattern_algebra Algebra>
class proof_writer {
 public:
  proof_writer(const world_tables<Algebra>& tables, const equality_graph<Algebra>& graph, const theory& t,
               const std::vector<axiom_instance>& instances)
      : tables_{tables}, graph_{graph}, theory_{t}, instances_{instances} {}

  derivation write(const std::vector<std::pair<term_id, term_id>>& goals) {
    derivation d;
    for (const auto& [a, b] : goals) {
      d.ground.goals.emplace_back(ground(d, a), ground(d, b));
    }
    for (const auto i : needed(goals)) {
      const auto& form = theory_.forms()[instances_[i].form];
      const auto number = static_cast<std::uint32_t>(d.steps.size());
      d.steps.push_back({form.axiom, form.reversed});
      const auto left = side(d, form.equation.source, instances_[i].source, instances_[i]);
      const auto right = side(d, form.equation.target, instances_[i].target, instances_[i]);
      for (const auto& [from, to] : ranges::views::zip(left, right)) {
        d.ground.equalities.push_back({from, to, form.axiom, number, form.reversed});
      }
    }
    return d;
  }

 private:
  // Instances on the paths between the goals, instances that their premises depend on, and so on.
  std::vector<std::uint32_t> needed(const std::vector<std::pair<term_id, term_id>>& goals) const {
    std::vector<bool> seen;
    std::set<std::uint32_t> used;
    auto open = goals;
    while (!open.empty()) {
      const auto [a, b] = open.back();
      open.pop_back();
      graph_.explain(a, b, seen, [&](const equality_reason& r) {
        const bool congruent = r.instance == equality_reason::no_instance;
        if (congruent || used.insert(r.instance).second) {
          const auto premises = congruent ? graph_.premises(r) : instances_[r.instance].premises;
          open.insert(open.end(), premises.begin(), premises.end());
        }
      });
    }
    return {used.begin(), used.end()};
  }

  std::uint32_t label(derivation& d, operator_row op) {
    const auto found = std::find(labels_.begin(), labels_.end(), op);
    if (found != labels_.end()) {
      return static_cast<std::uint32_t>(found - labels_.begin());
    }
    labels_.push_back(op);
    d.ground.labels.push_back(tables_.algebra().signature(tables_.kind(op)).name);
    d.ground.commutative.push_back(tables_.commutative(op));
    return static_cast<std::uint32_t>(labels_.size() - 1);
  }
  std::uint32_t intern(derivation& d, ground_term t) {
    auto& terms = d.ground.terms;
    const auto found = std::find(terms.begin(), terms.end(), t);
    if (found == terms.end()) {
      terms.push_back(std::move(t));
      return static_cast<std::uint32_t>(terms.size() - 1);
    }
    return static_cast<std::uint32_t>(found - terms.begin());
  }
  std::uint32_t ground(derivation& d, term_id t) {
    if (known_.size() < graph_.term_count()) {
      known_.resize(graph_.term_count(), unknown);
    }
    if (known_[t.index()] == unknown) {
      const auto n = graph_.producer(t);
      ground_term g{label(d, graph_.op(n)), graph_.result_index(t), {}};
      for (const auto o : graph_.operands(n)) {
        g.operands.push_back(ground(d, o));
      }
      known_[t.index()] = intern(d, std::move(g));
    }
    return known_[t.index()];
  }
  std::vector<std::uint32_t> side(derivation& d, const pattern& p, const std::vector<operator_row>& ops,
                                  const axiom_instance& i) {
    std::vector<std::vector<std::uint32_t>> operands;  // of each node
    const auto term = [&](const pattern_operand& o) {
      return o.is_variable ? ground(d, i.variables[o.slot])
                           : intern(d, {label(d, ops[o.slot]), static_cast<std::uint32_t>(o.result), operands[o.slot]});
    };
    for (const auto& n : p.nodes) {
      std::vector<std::uint32_t> mine;
      for (const auto& o : n.operands) {
        mine.push_back(term(o));
      }
      operands.push_back(std::move(mine));
    }
    std::vector<std::uint32_t> roots;
    for (const auto& o : p.roots) {
      roots.push_back(term(o));
    }
    return roots;
  }

  static constexpr std::uint32_t unknown = ~std::uint32_t{0};
  const world_tables<Algebra>& tables_;
  const equality_graph<Algebra>& graph_;
  const theory& theory_;
  const std::vector<axiom_instance>& instances_;
  std::vector<operator_row> labels_;
  std::vector<std::uint32_t> known_;
};

}  // namespace detail

}  // namespace unity

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_REWRITE_VERIFICATION_DERIVATION)

namespace unity {

UNITY_INLINE std::vector<std::uint32_t> derivation::axioms() const {
  std::set<std::uint32_t> all;
  for (const auto& s : steps) {
    all.insert(s.axiom);
  }
  return {all.begin(), all.end()};
}

}  // namespace unity

#endif
