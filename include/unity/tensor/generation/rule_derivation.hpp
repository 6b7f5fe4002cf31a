// Rules with more operators than term enumeration can reach: for small compositions of given operators, derives equal
// terms with fewer operators on data from the properties of operators. Terms of weights alone cost nothing, because
// they are computed once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/rewrite/syntax.hpp>
#include <unity/rewrite/verification/prover.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/generation/compositions.hpp>
#include <unity/tensor/generation/rule_collection.hpp>
#include <unity/tensor/generation/term_measures.hpp>
#include <unity/tensor/generation/term_rewriting.hpp>

namespace unity::tensor {

struct derivation_options {
  std::size_t most_operators = 3;  // per composition
  std::size_t most_terms = 200;    // examined per composition
  std::size_t more_flowing = 3;    // data operators that an intermediate term may have beyond those of the composition
  std::size_t attempts = 3;        // best terms to try until one passes tests and is proved
};

namespace detail {

class rule_derivation {
 public:
  rule_derivation(const algebra& a, const std::vector<syntax::rule>& properties, const std::vector<syntax::rule>& known,
                  const std::vector<composed_operator>& operators, rule_collection::prover_function prove,
                  const derivation_options& o);

  [[nodiscard]] std::vector<collected_rule> run();

 private:
  struct composition {
    syntax::term term{};
    std::set<std::string> flowing{};
  };
  struct cost {
    std::size_t flowing = 0;
    std::size_t all = 0;
    friend auto operator<=>(const cost&, const cost&) = default;
  };
  struct state {
    cost costs{};
    std::size_t steps = 0;
    rewritten_term at{};
  };

  [[nodiscard]] static cost cost_of(const syntax::term& t, const term_measures& m);
  [[nodiscard]] std::vector<composition> finished(const syntax::term& t) const;
  void derive(const composition& c);
  bool derive_joint(const composition& c);
  bool accept_best(const syntax::term& source, const std::vector<state>& found,
                   const std::function<syntax::term(const syntax::term&)>& whole);
  // Terms with fewer data operators, the best first.
  [[nodiscard]] std::vector<state> better(const syntax::term& t, const term_measures& m, cost limit) const;
  [[nodiscard]] std::size_t reached(const syntax::term& t, const term_measures& m) const;
  bool accept(syntax::rule r);
  [[nodiscard]] static bool replace_activation(syntax::rule& r, std::string_view by);
  bool add_proved(const syntax::rule& r);
  [[nodiscard]] std::string named(const syntax::rule& r);

  static constexpr std::size_t most_more = 16;  // operators in total, beyond those of the composition

  const algebra& algebra_;
  term_rewriting properties_;
  term_rewriting found_;
  const std::vector<composed_operator>& operators_;
  rule_collection::prover_function prove_;
  const derivation_options& options_;
  std::set<std::string> names_;
  std::set<std::string> statements_;
  std::vector<std::vector<syntax::term>> by_size_;
  std::vector<collected_rule> rules_;
};

}  // namespace detail

// For each composition of the operators: the rule to the term with the fewest data operators. For single operators and
// compositions that end in an activation also: the rule that joins any number of them on the same operand. Rules must
// pass tests and be proved. Attributes are variables from the start, and conditions come from the properties used, so
// no generalization is needed. Deterministic.
//
// properties: the equalities for rewriting terms, about the listed operators and a few that act on weights. known:
// rules that are not derived again. Rules that combine several steps are still derived, even if each step is an
// improvement: a limited search gets further with larger steps.
[[nodiscard]] inline std::vector<collected_rule> derive_rules(const algebra& a,
                                                              const std::vector<syntax::rule>& properties,
                                                              const std::vector<syntax::rule>& known,
                                                              const std::vector<composed_operator>& operators,
                                                              rule_collection::prover_function prove,
                                                              const derivation_options& options = {}) {
  return detail::rule_derivation{a, properties, known, operators, std::move(prove), options}.run();
}

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_GENERATION_RULE_DERIVATION)

#include <algorithm>
#include <array>
#include <tuple>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/hash.hpp>
#include <unity/rewrite/generation/redundancy.hpp>
#include <unity/rewrite/generation/term_graph.hpp>
#include <unity/tensor/generation/generalize.hpp>
#include <unity/tensor/generation/widened_rule.hpp>

namespace unity::tensor::detail {

[[nodiscard]] inline bool is_over(const syntax::term& t, const std::set<std::string>& kinds) {
  return (t.kind != syntax::term::form::application || kinds.contains(t.name)) &&
         std::ranges::all_of(t.operands, [&](const auto& o) { return is_over(o, kinds); });
}

UNITY_INLINE rule_derivation::rule_derivation(const algebra& a, const std::vector<syntax::rule>& properties,
                                              const std::vector<syntax::rule>& known,
                                              const std::vector<composed_operator>& operators,
                                              rule_collection::prover_function prove, const derivation_options& o)
    : algebra_{a}, properties_{a}, found_{a}, operators_{operators}, prove_{std::move(prove)}, options_{o} {
  std::set<std::string> kinds{"add", "concat", "fill", "mul", "negate", "reciprocal", "reshape", "sqrt"};
  for (const auto& op : operators) {
    kinds.insert(op.kind);
  }
  for (const auto& p : properties) {
    const auto fits = [&](const syntax::term& t) { return is_over(t, kinds); };
    if (std::ranges::all_of(p.source, fits) && std::ranges::all_of(p.target, fits)) {
      properties_.add(p);
      if (p.target[0].kind == syntax::term::form::variable) {
        found_.add(p);
      }
    }
  }
  for (const auto& k : known) {
    found_.add(k);
    names_.insert(k.name);
    statements_.insert(statement_text(k));
  }
}

// Rules that hold for one activation are also tried with the others.
inline constexpr std::string_view usual_activation = "relu";
inline constexpr std::array<std::string_view, 3> other_activations{"sigmoid", "tanh", "gelu"};

UNITY_INLINE std::vector<collected_rule> rule_derivation::run() {
  by_size_.push_back({open_operand(true)});
  for (std::size_t n = 1; n <= options_.most_operators; ++n) {
    by_size_.push_back(detail::larger_compositions(operators_, by_size_));
    for (const auto& t : by_size_[n]) {
      bool joined = false;
      for (const auto& c : finished(t)) {
        derive(c);
        joined = joined || derive_joint(c);
      }
    }
  }
  return std::move(rules_);
}

// Names variables and attributes of a composition: inputs all different or all the same; attributes as variables, or
// groups at its default.
UNITY_INLINE auto rule_derivation::finished(const syntax::term& t) const -> std::vector<composition> {
  std::vector<composition> all;
  std::set<std::string> texts;
  for (const bool one_input : {false, true}) {
    if (one_input && by_size_.size() > 3) {
      break;  // few larger ones are useful
    }
    for (const std::string_view defaults : {"", "groups"}) {
      composition c;
      std::map<std::string, std::size_t> numbers;
      const std::function<void(syntax::term&)> name = [&](syntax::term& n) {
        if (n.kind == syntax::term::form::variable) {
          const bool flows = n.name == "i";
          const auto number = numbers[n.name]++;
          n.name = fmt::format("{}{}", flows ? "x" : "w", flows && one_input ? 0 : number);
          if (flows) {
            c.flowing.insert(n.name);
          }
          return;
        }
        for (const auto& a : algebra_.signature(*algebra_.find_kind(n.name)).attributes) {
          const bool kept =
              a.name == "activation" || a.name == "element" || (!a.default_value.empty() && defaults == a.name);
          if (!kept) {
            n.attributes.push_back({a.name, syntax::variable(fmt::format("a{}", numbers["a"]++))});
          }
        }
        for (auto& o : n.operands) {
          name(o);
        }
      };
      c.term = t;
      name(c.term);
      c.term = properties_.written_out(c.term);
      if (texts.insert(to_text(c.term)).second) {
        all.push_back(std::move(c));
      }
    }
  }
  return all;
}

[[nodiscard]] inline std::uint64_t term_hash(const syntax::expression& e) {
  auto h = hash_combine(hash_bytes(e.name),
                        hash_combine(static_cast<std::uint64_t>(e.kind), static_cast<std::uint64_t>(e.integer)));
  for (const auto& a : e.arguments) {
    h = hash_combine(h, term_hash(a));
  }
  return h;
}
[[nodiscard]] inline std::uint64_t term_hash(const syntax::term& t) {
  auto h = hash_combine(hash_bytes(t.name), static_cast<std::uint64_t>(t.kind) << 1U | (t.repeated ? 1U : 0U));
  for (const auto& a : t.attributes) {
    h = hash_combine(h, term_hash(a.value));
  }
  for (const auto& o : t.operands) {
    h = hash_combine(h, term_hash(o));
  }
  return h;
}

UNITY_INLINE auto rule_derivation::cost_of(const syntax::term& t, const term_measures& m) -> cost {
  cost total;
  std::set<std::uint64_t> seen;
  const std::function<void(const syntax::term&, std::size_t)> visit = [&](const syntax::term& n, std::size_t times) {
    if (n.kind == syntax::term::form::application && seen.insert(term_hash(n)).second) {
      total.all += times;
      total.flowing += m.flows(n) ? times : 0;
      for (const auto& o : n.operands) {
        visit(o, o.repeated ? 2 * times : times);
      }
    }
  };
  visit(t, 1);
  return total;
}

UNITY_INLINE auto rule_derivation::better(const syntax::term& t, const term_measures& m, cost limit) const
    -> std::vector<state> {
  std::set<std::uint64_t> seen{term_hash(t)};
  std::vector<state> states{{cost_of(t, m), 0, {t, {}}}};
  const auto promise = [](const state& s) { return s.steps + s.costs.flowing + s.at.conditions.size(); };
  std::set<std::tuple<std::size_t, cost, std::size_t>> open{{promise(states[0]), states[0].costs, 0}};
  const auto most_flowing = states[0].costs.flowing + options_.more_flowing;
  std::vector<state> found;
  for (std::size_t looked = 0; !open.empty() && looked < options_.most_terms; ++looked) {
    const auto from = states[std::get<2>(*open.begin())];
    open.erase(open.begin());
    for (auto& s : properties_.steps(from.at.term, m)) {
      const auto costs = cost_of(s.term, m);
      if (costs.flowing > most_flowing || costs.all > limit.all + most_more || !seen.insert(term_hash(s.term)).second) {
        continue;
      }
      for (const auto& c : from.at.conditions) {
        if (std::ranges::find(s.conditions, c) == s.conditions.end()) {
          s.conditions.push_back(c);
        }
      }
      states.push_back({costs, from.steps + 1, std::move(s)});
      open.emplace(promise(states.back()), costs, states.size() - 1);
      if (costs.flowing < limit.flowing) {
        found.push_back(states.back());
      }
    }
  }
  std::ranges::stable_sort(found, {},
                           [](const state& s) { return std::tuple{s.costs, s.at.conditions.size(), s.steps}; });
  return found;
}

// The fewest data operators after one application of a known rule, of a rule derived earlier, or of a property that
// only removes operators.
UNITY_INLINE std::size_t rule_derivation::reached(const syntax::term& t, const term_measures& m) const {
  auto best = cost_of(t, m).flowing;
  for (const auto& s : found_.steps(t, m)) {
    best = std::min(best, cost_of(s.term, m).flowing);
  }
  return best;
}

UNITY_INLINE void rule_derivation::derive(const composition& c) {
  const term_measures m{c.flowing};
  auto limit = cost_of(c.term, m);
  limit.flowing = std::min(limit.flowing, reached(c.term, m));
  if (limit.flowing > 1) {
    accept_best({c.term}, better(c.term, m, limit), [](const syntax::term& t) { return t; });
  }
}

// Accepts the best term that passes, or, for joint rules, up to two equally good ones. Returns whether there was one.
UNITY_INLINE bool rule_derivation::accept_best(const syntax::term& source, const std::vector<state>& found,
                                               const std::function<syntax::term(const syntax::term&)>& whole) {
  std::optional<cost> accepted;
  std::size_t taken = 0;
  for (std::size_t i = 0; i < std::min(found.size(), options_.attempts); ++i) {
    if (accepted && found[i].costs != *accepted) {
      break;
    }
    syntax::rule r;
    r.source = {source};
    r.target = {whole(found[i].at.term)};
    r.conditions = found[i].at.conditions;
    if (accept(std::move(r))) {
      accepted = found[i].costs;
      if (!source.repeated || ++taken == 2) {
        break;  // joint rules differ in the ranks of the joined operands
      }
    }
  }
  return accepted.has_value();
}

[[nodiscard]] inline bool is_indexed(const syntax::expression& e) {
  return e.kind == syntax::expression::form::indexed_variable ||
         std::ranges::any_of(e.arguments, [](const auto& a) { return is_indexed(a); });
}

// Whether data flows through several parallel copies.
[[nodiscard]] inline bool repeats_flow(const syntax::term& t, const term_measures& m) {
  return std::ranges::any_of(t.operands,
                             [&](const auto& o) { return (o.repeated && m.flows(o)) || repeats_flow(o, m); });
}

// Whether each data operator has a separate instance per part.
[[nodiscard]] inline bool is_each_ones_own(const syntax::term& t) {
  return t.kind != syntax::term::form::application ||
         (is_indexed(t) && std::ranges::all_of(t.operands, is_each_ones_own));
}

// Derives the rule for any number of copies of the composition side by side, with shared inputs and separate weights.
// Only for single operators and compositions that end in an activation: for others, the activations after the joined
// copies could not be joined.
UNITY_INLINE bool rule_derivation::derive_joint(const composition& c) {
  const std::function<syntax::term(syntax::term)> each = [&](syntax::term t) {
    if (t.kind == syntax::term::form::variable && !c.flowing.contains(t.name)) {
      t.kind = syntax::term::form::indexed_variable;
    }
    for (auto& o : t.operands) {
      o = each(std::move(o));
    }
    return t;
  };
  const bool ends = by_size_.size() == 2 || c.term.name == usual_activation;
  auto one = each(c.term);
  one.repeated = true;
  const term_measures m{c.flowing};
  const auto rank = m.rank(one);
  if (!ends || !is_each_ones_own(one) || !rank) {
    return false;
  }
  const auto axis = *rank == syntax::integer(4) ? syntax::integer(1) : syntax::call("-", {*rank, syntax::integer(1)});
  const auto size = m.size(one, axis);
  if (!size || !is_indexed(*size)) {
    return false;  // otherwise each part has the size of a shared operand
  }
  syntax::term joined;
  joined.name = "concat";
  joined.attributes = {{"axis", axis}};
  joined.operands = {one};
  auto limit = cost_of(joined, m);
  limit.flowing -= 1;  // excludes the concat; splits are free because the parts are contiguous
  auto found = better(joined, m, limit);
  std::erase_if(found, [&](const state& f) { return repeats_flow(f.at.term, m); });
  return accept_best(one, found, [&](const syntax::term& t) {
    syntax::term split;
    split.name = "split";
    split.attributes = {{"axis", axis}, {"sizes", syntax::list({{syntax::expression::form::pack, 0, {}, {*size}}})}};
    split.operands = {t};
    return split;
  });
}

UNITY_INLINE bool rule_derivation::accept(syntax::rule r) {
  const generalize_options tests;
  r = to_rule(algebra_, to_graph(algebra_, r));
  if (!passes(algebra_, r, tests.quick)) {
    return false;
  }
  if (!add_proved(r)) {
    return false;
  }
  for (const auto other : other_activations) {
    auto changed = r;
    if (replace_activation(changed, other)) {
      add_proved(changed);
    }
  }
  return true;
}

// Returns whether there was an activation to replace.
UNITY_INLINE bool rule_derivation::replace_activation(syntax::rule& r, std::string_view by) {
  bool replaced = false;
  const std::function<void(syntax::term&)> replace = [&](syntax::term& t) {
    if (t.kind == syntax::term::form::application && t.name == usual_activation) {
      t.name = by;
      replaced = true;
    }
    for (auto& a : t.attributes) {
      if (a.name == "activation" && a.value.name == usual_activation) {
        a.value.name = by;
      }
    }
    for (auto& o : t.operands) {
      replace(o);
    }
  };
  replace(r.source[0]);
  replace(r.target[0]);
  return replaced;
}

UNITY_INLINE bool rule_derivation::add_proved(const syntax::rule& r) {
  auto made = canonical_rule(algebra_, r, usual_attribute_names());
  auto proof = prove_(made);
  if (proof.found != verdict::proved || !statements_.insert(statement_text(made)).second) {
    return false;
  }
  found_.add(made);
  made.name = named(made);
  rules_.push_back({std::move(made), std::move(proof)});
  return true;
}

// derived_relu_of_batch_norm; for rules that join several: joined_relu_of_matmul.
UNITY_INLINE std::string rule_derivation::named(const syntax::rule& r) {
  std::string name = r.source[0].repeated ? "joined" : "derived";
  std::size_t depth = 0;
  const std::function<void(const syntax::term&)> visit = [&](const syntax::term& t) {
    if (t.kind == syntax::term::form::application) {
      name += fmt::format("_{}{}", depth++ == 1 ? "of_" : "", t.name);
    }
    std::ranges::for_each(t.operands, visit);
  };
  visit(r.source[0]);
  auto unique = name;
  for (std::size_t number = 2; !names_.insert(unique).second; ++number) {
    unique = fmt::format("{}_{}", name, number);
  }
  return unique;
}

}  // namespace unity::tensor::detail

#endif
