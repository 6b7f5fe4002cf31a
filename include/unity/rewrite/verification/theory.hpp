// A set of equations as a theory: entailment.hpp decides what follows from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/rewrite/verification/axiom_form.hpp>

namespace unity {

enum class theory_reading : std::uint8_t {
  equations,  // used from both sides if a side binds its variables, written with == or =>
  rewrites    // used like in a search: => only from its left side
};

struct theory_options {
  std::size_t most_repetitions = 6;  // the most repetitions that `t...` stands for; at least one
  theory_reading reading = theory_reading::equations;
};

// Axioms, or rules taken as axioms, ready to be instantiated.
// Commutativity of operators that are declared commutative is built in and needs no axiom.
class theory {
 public:
  theory() = default;
  explicit theory(theory_options options) : options_{options} {}
  // Throws: unity::error if a rule does not fit the algebra.
  template <pattern_algebra Algebra>
  theory(const Algebra& algebra, std::span<const syntax::rule> rules, theory_options options = {}) : options_{options} {
    for (const auto& r : rules) {
      add(algebra, r);
    }
  }

  // Adds an axiom; returns its number.
  // Throws: unity::error if the rule does not fit the algebra.
  template <pattern_algebra Algebra>
  std::uint32_t add(const Algebra& algebra, const syntax::rule& rule) {
    const auto axiom = static_cast<std::uint32_t>(rules_.size());
    auto one_way = rule;
    one_way.both_ways = false;
    const bool rewrites = options_.reading == theory_reading::rewrites;
    const auto forward = one_direction(algebra, one_way);
    std::swap(one_way.source, one_way.target);
    std::optional<substitution> backward;
    try {
      if (!rewrites || rule.both_ways) {
        backward = one_direction(algebra, one_way);
      }
    } catch (const error&) {
      // The right side does not bind all variables by itself: a part of the left side may.
    }
    rules_.push_back(rule);
    add_direction(forward, {.axiom = axiom, .has_partial_forms = !backward && !rewrites});
    if (backward) {
      add_direction(*backward, {.axiom = axiom, .is_reversed = true});
    }
    return axiom;
  }

  [[nodiscard]] std::span<const syntax::rule> rules() const noexcept { return rules_; }
  [[nodiscard]] std::span<const axiom_form> forms() const noexcept { return forms_; }
  // The largest depth of nested operators that a form looks for.
  [[nodiscard]] std::size_t depth() const noexcept { return depth_; }
  // The forms whose first step looks for a node of this kind.
  [[nodiscard]] std::span<const std::uint32_t> forms_at(kind_id kind) const noexcept {
    return kind.index() < by_kind_.size() ? std::span<const std::uint32_t>{by_kind_[kind.index()]}
                                          : std::span<const std::uint32_t>{};
  }

 private:
  struct direction {
    std::uint32_t axiom = 0;
    bool is_reversed = false;
    bool has_partial_forms = false;  // see form_finder::partial
  };

  template <pattern_algebra Algebra>
  static substitution one_direction(const Algebra& algebra, const syntax::rule& rule) {
    return std::move(compile_rule(algebra, rule).front());
  }
  void add_direction(const substitution& s, direction d);
  void add_form(axiom_form f);

  theory_options options_{};
  std::vector<syntax::rule> rules_;
  std::vector<axiom_form> forms_;
  std::vector<std::vector<std::uint32_t>> by_kind_;
  std::size_t depth_ = 1;
};

}  // namespace unity

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_REWRITE_VERIFICATION_THEORY)

#include <algorithm>

namespace unity {

UNITY_INLINE void theory::add_direction(const substitution& s, direction d) {
  const bool repeats = s.repeats();
  const auto& root = s.source.roots[0];
  const bool siblings = root.repeated && s.source.nodes[root.slot].indexed;
  const std::size_t least = siblings ? 2 : 1;  // a single one would be joined with nothing
  for (auto times = repeats ? least : 1; times <= (repeats ? options_.most_repetitions : 1); ++times) {
    const detail::form_finder find{s, d.axiom, d.is_reversed, times};
    add_form(find.whole());
    auto part = d.has_partial_forms ? find.partial() : std::nullopt;
    if (!part && d.has_partial_forms) {
      part = find.with_constant();
    }
    if (part) {
      add_form(*std::move(part));
    }
  }
}

UNITY_INLINE void theory::add_form(axiom_form f) {
  const auto kind = f.equation.source.nodes[f.steps.front().node].kind;
  if (by_kind_.size() <= kind.index()) {
    by_kind_.resize(kind.index() + 1);
  }
  by_kind_[kind.index()].push_back(static_cast<std::uint32_t>(forms_.size()));
  std::vector<std::size_t> below(f.equation.source.nodes.size(), 1);
  for (std::size_t slot = 0; slot < below.size(); ++slot) {
    for (const auto& o : f.equation.source.nodes[slot].operands) {
      below[slot] = o.is_variable ? below[slot] : std::max(below[slot], below[o.slot] + 1);
    }
    depth_ = std::max(depth_, below[slot]);
  }
  forms_.push_back(std::move(f));
}

}  // namespace unity

#endif
