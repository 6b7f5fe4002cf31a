// Provers that decide whether ground instances of axioms entail an equation, and one that needs only this header.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <range/v3/view/zip.hpp>

namespace unity {

// The problem that a proof is checked on: terms without variables, instances of axioms over them, and the goals.

// Result `result` of operator `label` applied to earlier terms. Equal labels are the same operator in every world.
struct ground_term {
  std::uint32_t label = 0;
  std::uint32_t result = 0;
  std::vector<std::uint32_t> operands{};

  friend bool operator==(const ground_term&, const ground_term&) = default;
};

// An axiom instance: both sides are terms. An axiom with several outputs gives one equality per output.
struct ground_equality {
  std::uint32_t left = 0;
  std::uint32_t right = 0;
  std::uint32_t axiom = 0;     // in the theory
  std::uint32_t instance = 0;  // shared by the equalities of one instance
  bool reversed = false;       // used from the axiom's right side to its left

  friend bool operator==(const ground_equality&, const ground_equality&) = default;
};

// Do the equalities entail the goals for all interpretations of the labels as functions? Decidable (quantifier-free,
// uninterpreted functions). Labels marked as commutative commute.
struct ground_problem {
  std::vector<std::string> labels{};  // of operators, for messages
  std::vector<bool> commutative{};    // by label
  std::vector<ground_term> terms{};   // operands come before users; each term once
  std::vector<ground_equality> equalities{};
  std::vector<std::pair<std::uint32_t, std::uint32_t>> goals{};

  friend bool operator==(const ground_problem&, const ground_problem&) = default;
};

enum class verdict : std::uint8_t { proved, refuted, unknown };

struct prover_answer {
  verdict found = verdict::unknown;   // refuted: the equalities do not entail the goals
  std::vector<std::uint32_t> used{};  // if proved: sufficient equalities, ascending
};

// Decides ground problems.
//   name()          the prover and its version, as stated in rule files
//   decide(problem) within bounded work; unknown if the bound was reached
// Laws: decide is a pure function; proved only if the used equalities entail every goal.
// Models: congruence_prover; z3_prover (rewrite/z3_prover.hpp). Non-model: entailment, which searches for the problem.
template <class P>
concept prover = requires(const P& p, const ground_problem& problem) {
  { p.name() } -> std::convertible_to<std::string>;
  { p.decide(problem) } -> std::same_as<prover_answer>;
};

// The answers to several problems, in order. A prover with expensive setup may offer this as a member.
template <prover P>
[[nodiscard]] std::vector<prover_answer> decide_all(const P& p, std::span<const ground_problem> problems) {
  if constexpr (requires {
                  { p.decide_all(problems) } -> std::same_as<std::vector<prover_answer>>;
                }) {
    return p.decide_all(problems);
  } else {
    std::vector<prover_answer> answers;
    for (const auto& problem : problems) {
      answers.push_back(p.decide(problem));
    }
    return answers;
  }
}

namespace detail {

// Congruence closure by definition: merge until nothing changes. Complexity: quadratic; for problems of tens of terms.
class naive_closure {
 public:
  naive_closure(const ground_problem& problem, const std::vector<bool>& enabled);
  [[nodiscard]] bool goals_hold() const {
    return std::all_of(problem_.goals.begin(), problem_.goals.end(),
                       [&](const auto& g) { return find(g.first) == find(g.second); });
  }

 private:
  [[nodiscard]] std::uint32_t find(std::uint32_t t) const;
  bool unite(std::uint32_t a, std::uint32_t b);
  bool propagate();

  const ground_problem& problem_;
  std::vector<std::uint32_t> parent_;
};

}  // namespace detail

// Congruence closure, written to be evidently correct rather than fast: it shares no code with entailment.
class congruence_prover {
 public:
  [[nodiscard]] std::string name() const { return "congruence closure 1"; }

  [[nodiscard]] prover_answer decide(const ground_problem& problem) const;
};

}  // namespace unity

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_REWRITE_VERIFICATION_PROVER)

#include <map>
#include <numeric>

#include <unity/core/config.hpp>

namespace unity::detail {

UNITY_INLINE naive_closure::naive_closure(const ground_problem& problem, const std::vector<bool>& enabled)
    : problem_{problem}, parent_(problem.terms.size()) {
  std::iota(parent_.begin(), parent_.end(), std::uint32_t{0});
  for (const auto& [is_enabled, equality] : ranges::views::zip(enabled, problem.equalities)) {
    if (is_enabled) {
      unite(equality.left, equality.right);
    }
  }
  while (propagate()) {
  }
}

UNITY_INLINE std::uint32_t naive_closure::find(std::uint32_t t) const {
  while (parent_[t] != t) {
    t = parent_[t];
  }
  return t;
}

UNITY_INLINE bool naive_closure::unite(std::uint32_t a, std::uint32_t b) {
  const auto x = find(a);
  const auto y = find(b);
  parent_[std::max(x, y)] = std::min(x, y);
  return x != y;
}

UNITY_INLINE bool naive_closure::propagate() {
  std::map<std::vector<std::uint32_t>, std::uint32_t> known;
  bool changed = false;
  for (std::uint32_t t = 0; t < problem_.terms.size(); ++t) {
    const auto& term = problem_.terms[t];
    std::vector<std::uint32_t> key;
    for (const auto o : term.operands) {
      key.push_back(find(o));
    }
    if (problem_.commutative[term.label]) {
      std::sort(key.begin(), key.end());
    }
    key.push_back(term.label);
    key.push_back(term.result);
    const auto [place, fresh] = known.emplace(std::move(key), t);
    changed = (!fresh && unite(place->second, t)) || changed;
  }
  return changed;
}

}  // namespace unity::detail

namespace unity {

UNITY_INLINE prover_answer congruence_prover::decide(const ground_problem& problem) const {
  std::vector<bool> enabled(problem.equalities.size(), true);
  if (!detail::naive_closure{problem, enabled}.goals_hold()) {
    return {verdict::refuted, {}};
  }
  // Leaves out what is not needed, the last found first.
  for (auto i = enabled.size(); i-- > 0;) {
    enabled[i] = false;
    enabled[i] = !detail::naive_closure{problem, enabled}.goals_hold();
  }
  prover_answer answer{verdict::proved, {}};
  for (std::uint32_t i = 0; i < enabled.size(); ++i) {
    if (enabled[i]) {
      answer.used.push_back(i);
    }
  }
  return answer;
}

}  // namespace unity

#endif
