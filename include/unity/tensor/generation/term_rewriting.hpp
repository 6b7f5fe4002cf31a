// Rewrites terms with variables, also for attributes, by equalities of operators: the results hold for all sizes, not
// only for those of a concrete graph.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <unity/rewrite/syntax.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/generation/term_measures.hpp>

namespace unity::tensor {

// The result of a rewrite, and when it is valid. Sizes in the conditions may be guesses (term_measures.hpp), so a rule
// that is made of it has to pass test_rule.
struct rewritten_term {
  syntax::term term{};
  std::vector<syntax::expression> conditions{};
};

class term_rewriting {
 public:
  explicit term_rewriting(const algebra& a) : algebra_{a} {}

  // Effects: uses the rule in each direction whose result is fully determined. Ignores rules with several roots or with
  // parts of a split.
  void add(const syntax::rule& r);

  // All terms that result from applying one equality to one data part of the term.
  [[nodiscard]] std::vector<rewritten_term> steps(const syntax::term& t, const term_measures& m) const;

  // The term with all attributes explicit, as required here.
  [[nodiscard]] syntax::term written_out(const syntax::term& t) const;

 private:
  struct equality {
    syntax::term from{};
    syntax::term to{};
    std::vector<syntax::expression> conditions{};
  };
  // reshape{dims=[size(?b, 0), 1, 1]}(?b) matches any weight of that shape.
  struct reshaped {
    std::string variable{};
    syntax::expression dims{};
    syntax::term subject{};
  };
  struct partial_match {
    term_bindings bound{};
    std::vector<std::pair<syntax::expression, syntax::expression>> equal{};
    std::vector<reshaped> reshapes{};
  };

  static void bind(const syntax::term& p, const syntax::term& t, const partial_match& so_far, bool repeats,
                   std::vector<partial_match>& all);
  static bool bind_attributes(const syntax::term& p, const syntax::term& t, partial_match& m);
  [[nodiscard]] std::vector<partial_match> match(const syntax::term& p, const syntax::term& t,
                                                 const partial_match& so_far, bool repeats,
                                                 const term_measures& m) const;
  [[nodiscard]] std::vector<partial_match> match_operands(const syntax::term& p, const syntax::term& t,
                                                          const partial_match& so_far, bool repeats, bool swapped,
                                                          const term_measures& m) const;
  [[nodiscard]] static bool resolve(const equality& e, const term_measures& m, partial_match& p,
                                    std::vector<syntax::expression>& conditions);
  void rewrite_root(const syntax::term& t, const term_measures& m, std::vector<rewritten_term>& all) const;

  const algebra& algebra_;
  std::map<std::string, std::vector<equality>> equalities_;  // by root operator
};

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_GENERATION_TERM_REWRITING)

#include <algorithm>

#include <unity/rewrite/generation/term_graph.hpp>

namespace unity::tensor::detail {

[[nodiscard]] inline bool takes_parts(const syntax::term& t) {
  return t.selector != syntax::term::whole || t.name == "split" || std::ranges::any_of(t.operands, takes_parts);
}

// Whether some attributes are unspecified.
[[nodiscard]] inline bool leaves_open(const syntax::term& t) {
  return t.open || std::ranges::any_of(t.operands, leaves_open);
}

}  // namespace unity::tensor::detail

namespace unity::tensor {

UNITY_INLINE syntax::term term_rewriting::written_out(const syntax::term& t) const {
  auto g = to_graph({t});
  write_defaults(algebra_, g);
  return to_terms(g)[0];
}

UNITY_INLINE void term_rewriting::add(const syntax::rule& r) {
  if (r.source.size() != 1 || r.target.size() != 1 || r.source[0].repeated || detail::takes_parts(r.source[0]) ||
      detail::takes_parts(r.target[0])) {
    return;
  }
  const auto source = written_out(r.source[0]);
  const auto target = written_out(r.target[0]);
  for (const auto& [from, to] : {std::pair{source, target}, std::pair{target, source}}) {
    if (from.kind == syntax::term::form::application && !detail::leaves_open(to)) {
      equalities_[from.name].push_back({from, to, r.conditions});
    }
  }
}

UNITY_INLINE std::vector<rewritten_term> term_rewriting::steps(const syntax::term& t, const term_measures& m) const {
  std::vector<rewritten_term> all;
  if (t.kind != syntax::term::form::application || !m.flows(t)) {
    return all;
  }
  rewrite_root(t, m, all);
  for (std::size_t i = 0; i < t.operands.size(); ++i) {
    for (auto& s : steps(t.operands[i], m)) {
      auto made = t;
      made.operands[i] = std::move(s.term);
      made.operands[i].repeated = t.operands[i].repeated;
      all.push_back({std::move(made), std::move(s.conditions)});
    }
  }
  return all;
}

UNITY_INLINE void term_rewriting::rewrite_root(const syntax::term& t, const term_measures& m,
                                               std::vector<rewritten_term>& all) const {
  const auto known = equalities_.find(t.name);
  if (known == equalities_.end()) {
    return;
  }
  for (const auto& e : known->second) {
    for (auto& found : match(e.from, t, {}, false, m)) {
      rewritten_term made;
      if (!resolve(e, m, found, made.conditions)) {
        continue;
      }
      if (auto to = m.replaced(e.to, found.bound)) {
        made.term = *std::move(to);
        made.term.repeated = t.repeated;
        all.push_back(std::move(made));
      }
    }
  }
}

UNITY_INLINE bool term_rewriting::resolve(const equality& e, const term_measures& m, partial_match& p,
                                          std::vector<syntax::expression>& conditions) {
  for (const auto& r : p.reshapes) {
    const auto whole = m.shape(r.subject);
    if (!whole) {
      return false;
    }
    auto dims = std::optional{syntax::list({detail::simplified_expression(syntax::call("product", {*whole}))})};
    for (const auto& c : e.conditions) {
      if (syntax::is_call(c, "==", 2) && c.arguments[0] == syntax::measure("shape", r.variable)) {
        dims = m.replaced(c.arguments[1], p.bound);
      }
    }
    if (!dims) {
      return false;
    }
    syntax::term flat;
    flat.name = "reshape";
    flat.attributes = {{"dims", *dims}};
    flat.operands = {r.subject};
    flat.operands[0].repeated = false;
    p.bound.values[r.variable] = std::move(flat);
    const auto back = m.replaced(r.dims, p.bound);
    if (!back) {
      return false;
    }
    conditions.push_back(detail::simplified_expression(syntax::equal(*whole, *back)));
  }
  for (const auto& [pattern, subject] : p.equal) {
    const auto value = m.replaced(pattern, p.bound);
    if (!value || *value != subject) {
      return false;
    }
  }
  for (const auto& c : e.conditions) {
    auto made = m.replaced(c, p.bound);
    if (!made) {
      return false;
    }
    conditions.push_back(*std::move(made));
  }
  std::erase(conditions, syntax::integer(1));
  return std::ranges::find(conditions, syntax::integer(0)) == conditions.end();
}

UNITY_INLINE void term_rewriting::bind(const syntax::term& p, const syntax::term& t, const partial_match& so_far,
                                       bool repeats, std::vector<partial_match>& all) {
  const bool each = p.kind == syntax::term::form::indexed_variable;
  if (repeats && each != detail::is_indexed(t)) {
    return;
  }
  auto m = so_far;
  auto bare = t;
  bare.repeated = false;
  const auto [place, is_new] = m.bound.values.try_emplace(detail::binding_name(p), bare);
  if (is_new || place->second == bare) {
    all.push_back(std::move(m));
  }
}

UNITY_INLINE bool term_rewriting::bind_attributes(const syntax::term& p, const syntax::term& t, partial_match& m) {
  for (const auto& a : p.attributes) {
    const auto* subject = detail::attribute_of(t, a.name);
    if (subject == nullptr) {
      return false;
    }
    if (a.value.kind != syntax::expression::form::variable) {
      m.equal.emplace_back(a.value, *subject);
      if (syntax::is_literal(a.value) && a.value != *subject) {
        return false;
      }
      continue;
    }
    const auto [place, is_new] = m.bound.attributes.try_emplace(a.value.name, *subject);
    if (!is_new && place->second != *subject) {
      return false;
    }
  }
  return true;
}

UNITY_INLINE auto term_rewriting::match(const syntax::term& p, const syntax::term& t, const partial_match& so_far,
                                        bool repeats, const term_measures& m) const -> std::vector<partial_match> {
  std::vector<partial_match> all;
  if (p.kind != syntax::term::form::application) {
    bind(p, t, so_far, repeats, all);
    return all;
  }
  const auto* dims = p.name == "reshape" ? detail::attribute_of(p, "dims") : nullptr;
  if (dims != nullptr && !repeats && so_far.reshapes.empty() && !m.flows(t) &&
      p.operands[0].kind == syntax::term::form::variable && !so_far.bound.values.contains(p.operands[0].name) &&
      !syntax::is_literal(*dims) && dims->kind == syntax::expression::form::list) {
    all.push_back(so_far);
    all.back().reshapes.push_back({p.operands[0].name, *dims, t});
    return all;
  }
  if (p.name != t.name || p.operands.size() != t.operands.size()) {
    return all;
  }
  auto with = so_far;
  if (!bind_attributes(p, t, with)) {
    return all;
  }
  all = match_operands(p, t, with, repeats, false, m);
  if (algebra_.signature(*algebra_.find_kind(p.name)).commutative && p.operands.size() == 2) {
    for (auto& other : match_operands(p, t, with, repeats, true, m)) {
      all.push_back(std::move(other));
    }
  }
  return all;
}

UNITY_INLINE auto term_rewriting::match_operands(const syntax::term& p, const syntax::term& t,
                                                 const partial_match& so_far, bool repeats, bool swapped,
                                                 const term_measures& m) const -> std::vector<partial_match> {
  std::vector<partial_match> all{so_far};
  for (std::size_t i = 0; i < p.operands.size() && !all.empty(); ++i) {
    const auto& operand = t.operands[swapped ? 1 - i : i];
    std::vector<partial_match> next;
    for (const auto& s : p.operands[i].repeated == operand.repeated ? all : std::vector<partial_match>{}) {
      for (auto& found : match(p.operands[i], operand, s, repeats || operand.repeated, m)) {
        next.push_back(std::move(found));
      }
    }
    all = std::move(next);
  }
  return all;
}

}  // namespace unity::tensor

#endif
