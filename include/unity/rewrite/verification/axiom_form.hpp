// One way to instantiate an axiom: the nodes that must exist, and those that are built from them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/rewrite/substitution.hpp>

namespace unity {

namespace detail {

class repetition_expander {
 public:
  repetition_expander(const substitution& s, std::size_t times);

  substitution run() const;

 private:
  [[nodiscard]] pattern side(const pattern& p) const;
  [[nodiscard]] pattern_node copy(const pattern& p, const std::vector<std::uint32_t>& first, const pattern_node& n,
                                  std::size_t i) const;
  void append(const pattern& p, const std::vector<std::uint32_t>& first, const pattern_operand& o, std::size_t index,
              std::vector<pattern_operand>& all) const;
  [[nodiscard]] compiled_expression expanded(const compiled_expression& e, std::size_t index) const;

  const substitution& s_;
  std::size_t times_;
  std::vector<std::size_t> variables_;  // first slot of each
  std::size_t count_ = 0;
};

}  // namespace detail

// `s` with `times` copies of each repeated part; no part of the result repeats. Equal to `s` if it does not repeat.
[[nodiscard]] inline substitution expand_repetitions(const substitution& s, std::size_t times) {
  return s.repeats() ? detail::repetition_expander{s, times}.run() : s;
}

// How many results each node of `p` must have exactly because the pattern takes all of them (t.*), or 0.
[[nodiscard]] std::vector<std::size_t> exact_results(const substitution& s, const pattern& p, std::size_t times);

// The axiom's equation as a substitution without repetition. Some source nodes are matched (the trigger) and all others
// are built. The trigger is all of the source, or a part of it that binds every variable. The second case allows axioms
// whose other side is a variable from right to left: concat(split(x).0, split(x).1) = x wherever split(x) exists.
struct axiom_form {
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  // Where to look for a matched node: below a node that is matched before it, above a value that is bound before it, or
  // anywhere.
  struct step {
    std::uint32_t node = 0;
    std::uint32_t parent = none;  // below: result `result` of this node is operand `operand` of that one
    std::uint32_t operand = 0;
    std::uint32_t result = 0;
    std::uint32_t user_of = none;  // above: operand `operand` of this node is this variable
    std::uint32_t after = none;    // the root of the previous repetition of the same term
  };
  struct reference {
    std::uint32_t parent;
    std::uint32_t operand;
    std::uint32_t result;
  };

  std::uint32_t axiom = 0;
  bool reversed = false;
  bool joint = false;  // several roots: tried late, because every pair of nodes is a candidate
  substitution equation{};
  std::vector<std::size_t> results{};                // exact number of results of each source node, or 0
  std::vector<step> steps{};                         // the first has neither parent nor user_of
  std::vector<std::uint32_t> built{};                // source nodes that no step matches, operands first
  std::vector<std::vector<reference>> references{};  // by source node: the matched nodes that read it
  std::size_t free_variable = none;                  // a value variable that no step binds: any value of the graph
};

namespace detail {

// Finds the forms of one direction of an axiom.
class form_finder {
 public:
  form_finder(const substitution& s, std::uint32_t axiom, bool reversed, std::size_t times)
      : axiom_{axiom},
        reversed_{reversed},
        repeated_roots_{!s.source.roots.empty() && s.source.roots[0].repeated},
        equation_{expand_repetitions(s, times)},
        results_{exact_results(s, s.source, times)} {}

  [[nodiscard]] axiom_form whole() const {
    std::vector<bool> matched(nodes().size(), true);
    return form(matched);
  }
  // The form with the smallest trigger that is a proper part of the source; nothing if no part binds all variables or
  // if what lies above it cannot be built.
  [[nodiscard]] std::optional<axiom_form> partial() const;
  // The form for a source that is an operator on a variable and an existing constant: ?x = matmul(?x, identity()).
  [[nodiscard]] std::optional<axiom_form> with_constant() const;

 private:
  [[nodiscard]] const std::vector<pattern_node>& nodes() const { return equation_.source.nodes; }
  static std::size_t count(const std::vector<bool>& part) {
    return static_cast<std::size_t>(std::count(part.begin(), part.end(), true));
  }
  [[nodiscard]] std::vector<bool> below(std::uint32_t top) const;
  [[nodiscard]] bool binds_all(const std::vector<bool>& part) const;
  // Whether the attributes of nodes outside the part follow from those inside.
  [[nodiscard]] bool buildable(const std::vector<bool>& part) const;

  [[nodiscard]] axiom_form form(const std::vector<bool>& matched) const;

  void order(axiom_form& f, std::vector<bool> tops) const;
  [[nodiscard]] std::optional<axiom_form::step> next_top(const axiom_form& f, const std::vector<bool>& tops,
                                                         const std::vector<bool>& placed,
                                                         const std::vector<bool>& bound) const;
  // The root of the previous repetition, which is placed earlier: roots of a repeated term have consecutive numbers.
  [[nodiscard]] std::uint32_t twin(std::uint32_t slot) const {
    const bool repeated = repeated_roots_ && slot > 0 && nodes()[slot - 1].kind == nodes()[slot].kind;
    return repeated && is_root(slot) && is_root(slot - 1) ? slot - 1 : axiom_form::none;
  }
  [[nodiscard]] bool is_root(std::uint32_t slot) const {
    return std::any_of(equation_.source.roots.begin(), equation_.source.roots.end(),
                       [&](const auto& r) { return !r.is_variable && r.slot == slot; });
  }
  void place(axiom_form& f, const axiom_form::step& first, std::vector<bool>& placed, std::vector<bool>& bound) const;

  std::uint32_t axiom_;
  bool reversed_;
  bool repeated_roots_;
  substitution equation_;
  std::vector<std::size_t> results_;
};

}  // namespace detail

}  // namespace unity

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_REWRITE_VERIFICATION_AXIOM_FORM)

namespace unity::detail {

UNITY_INLINE repetition_expander::repetition_expander(const substitution& s, std::size_t times) : s_{s}, times_{times} {
  for (std::size_t v = 0; v < s.variables; ++v) {
    variables_.push_back(count_);
    count_ += s.indexed_variables[v] ? times : 1;
  }
}

UNITY_INLINE substitution repetition_expander::run() const {
  substitution r;
  r.name = s_.name;
  r.rule = s_.rule;
  r.source = side(s_.source);
  r.target = side(s_.target);
  r.variables = count_;
  r.indexed_variables.assign(count_, false);
  r.attribute_variables = s_.attribute_variables;
  for (const auto& c : s_.conditions) {
    for (std::size_t i = 0; i < (c.indexed ? times_ : 1); ++i) {
      r.conditions.push_back(expanded(c, i));
    }
  }
  return r;
}

UNITY_INLINE pattern repetition_expander::side(const pattern& p) const {
  pattern r;
  std::vector<std::uint32_t> first;  // copy of each node
  for (const auto& n : p.nodes) {
    first.push_back(static_cast<std::uint32_t>(r.nodes.size()));
    for (std::size_t i = 0; i < (n.indexed ? times_ : 1); ++i) {
      r.nodes.push_back(copy(p, first, n, i));
    }
  }
  for (const auto& root : p.roots) {
    append(p, first, root, 0, r.roots);
  }
  return r;
}

UNITY_INLINE pattern_node repetition_expander::copy(const pattern& p, const std::vector<std::uint32_t>& first,
                                                    const pattern_node& n, std::size_t i) const {
  pattern_node r{n.kind, n.commutative, false, {}, {}};
  for (const auto& a : n.attributes) {
    r.attributes.push_back({a.kind, a.slot, expanded(a.value, i)});
  }
  for (const auto& o : n.operands) {
    append(p, first, o, i, r.operands);
  }
  return r;
}

UNITY_INLINE void repetition_expander::append(const pattern& p, const std::vector<std::uint32_t>& first,
                                              const pattern_operand& o, std::size_t index,
                                              std::vector<pattern_operand>& all) const {
  for (std::size_t k = 0; k < (o.repeated ? times_ : 1); ++k) {
    const auto i = static_cast<std::uint32_t>(o.repeated ? k : index);
    pattern_operand r{o.is_variable, 0, 0, false};
    if (o.is_variable) {
      r.slot = static_cast<std::uint32_t>(variables_[o.slot]) + (s_.indexed_variables[o.slot] ? i : 0);
    } else {
      r.slot = first[o.slot] + (p.nodes[o.slot].indexed ? i : 0);
      r.result = o.result == pattern_operand::each ? static_cast<std::int32_t>(i) : o.result;
    }
    all.push_back(r);
  }
}

UNITY_INLINE compiled_expression repetition_expander::expanded(const compiled_expression& e, std::size_t index) const {
  auto r = e;
  r.arguments.clear();
  r.indexed = false;
  if (e.kind == compiled_expression::form::measure) {
    r.slot = variables_[e.slot] + (s_.indexed_variables[e.slot] ? index : 0);
  }
  for (const auto& a : e.arguments) {
    const bool pack = a.kind == compiled_expression::form::pack;
    for (std::size_t i = 0; i < (pack ? times_ : 1); ++i) {
      r.arguments.push_back(pack ? expanded(a.arguments[0], i) : expanded(a, index));
    }
  }
  return r;
}

}  // namespace unity::detail

namespace unity {

UNITY_INLINE std::vector<std::size_t> exact_results(const substitution& s, const pattern& p, std::size_t times) {
  std::vector<std::size_t> counts;
  for (std::size_t slot = 0; slot < p.nodes.size(); ++slot) {
    const auto takes_all = [&](const pattern_operand& o) {
      return !o.is_variable && o.slot == slot && o.result == pattern_operand::each;
    };
    const bool all = std::any_of(p.roots.begin(), p.roots.end(), takes_all) ||
                     std::any_of(p.nodes.begin(), p.nodes.end(), [&](const pattern_node& n) {
                       return std::any_of(n.operands.begin(), n.operands.end(), takes_all);
                     });
    counts.insert(counts.end(), p.nodes[slot].indexed ? times : 1, all && s.repeats() ? times : 0);
  }
  return counts;
}

}  // namespace unity

namespace unity::detail {

UNITY_INLINE std::optional<axiom_form> form_finder::partial() const {
  std::optional<std::vector<bool>> best;
  for (std::uint32_t slot = 0; slot < nodes().size(); ++slot) {
    auto part = below(slot);
    if (count(part) < nodes().size() && (!best || count(part) < count(*best)) && binds_all(part) && buildable(part)) {
      best = std::move(part);
    }
  }
  return best ? std::optional{form(*best)} : std::nullopt;
}

UNITY_INLINE std::optional<axiom_form> form_finder::with_constant() const {
  if (equation_.variables != 1 || equation_.target.nodes.size() != 0 || nodes().size() < 2) {
    return std::nullopt;
  }
  std::vector<bool> part(nodes().size());
  for (std::uint32_t slot = 0; slot < nodes().size(); ++slot) {
    part[slot] = nodes()[slot].operands.empty();
  }
  if (count(part) == 0 || !buildable(part)) {
    return std::nullopt;
  }
  auto f = form(part);
  f.free_variable = 0;
  f.joint = true;
  return f;
}

UNITY_INLINE std::vector<bool> form_finder::below(std::uint32_t top) const {
  std::vector<bool> part(nodes().size());
  part[top] = true;
  for (auto slot = top + 1; slot-- > 0;) {
    for (const auto& o : nodes()[slot].operands) {
      part[o.slot] = part[o.slot] || (part[slot] && !o.is_variable);
    }
  }
  return part;
}

UNITY_INLINE bool form_finder::binds_all(const std::vector<bool>& part) const {
  std::vector<bool> bound(equation_.variables);
  for (std::size_t slot = 0; slot < nodes().size(); ++slot) {
    for (const auto& o : nodes()[slot].operands) {
      if (part[slot] && o.is_variable) {
        bound[o.slot] = true;
      }
    }
  }
  return std::find(bound.begin(), bound.end(), false) == bound.end();
}

UNITY_INLINE bool form_finder::buildable(const std::vector<bool>& part) const {
  std::vector<bool> bound(equation_.attribute_variables);
  for (std::size_t slot = 0; slot < nodes().size(); ++slot) {
    for (const auto& a : nodes()[slot].attributes) {
      if (part[slot] && a.kind == pattern_attribute::form::bind) {
        bound[a.slot] = true;
      }
      if (!part[slot] && a.kind == pattern_attribute::form::any) {
        return false;
      }
    }
  }
  return std::find(bound.begin(), bound.end(), false) == bound.end();
}

UNITY_INLINE axiom_form form_finder::form(const std::vector<bool>& matched) const {
  axiom_form f;
  f.axiom = axiom_;
  f.reversed = reversed_;
  f.equation = equation_;
  f.results = results_;
  f.references.resize(nodes().size());
  std::vector<bool> top = matched;
  for (std::uint32_t slot = 0; slot < nodes().size(); ++slot) {
    if (!matched[slot]) {
      f.built.push_back(slot);
      continue;
    }
    for (std::uint32_t k = 0; k < nodes()[slot].operands.size(); ++k) {
      const auto& o = nodes()[slot].operands[k];
      if (!o.is_variable) {
        f.references[o.slot].push_back({slot, k, static_cast<std::uint32_t>(o.result)});
        top[o.slot] = false;
      }
    }
  }
  order(f, top);
  return f;
}

UNITY_INLINE void form_finder::order(axiom_form& f, std::vector<bool> tops) const {
  std::vector<bool> placed(nodes().size());
  std::vector<bool> bound(equation_.variables);
  // The top with the most nodes below it first: it is the most selective.
  while (const auto next = next_top(f, tops, placed, bound)) {
    tops[next->node] = false;
    f.joint = f.joint || !f.steps.empty();
    place(f, *next, placed, bound);
  }
}

UNITY_INLINE auto form_finder::next_top(const axiom_form& f, const std::vector<bool>& tops,
                                        const std::vector<bool>& placed, const std::vector<bool>& bound) const
    -> std::optional<axiom_form::step> {
  std::optional<axiom_form::step> best;
  std::size_t best_size = 0;
  for (std::uint32_t slot = 0; slot < nodes().size(); ++slot) {
    if (!tops[slot]) {
      continue;
    }
    axiom_form::step s{slot};
    for (std::uint32_t k = 0; k < nodes()[slot].operands.size() && !f.steps.empty(); ++k) {
      const auto& o = nodes()[slot].operands[k];
      if (o.is_variable && bound[o.slot] && !nodes()[slot].commutative) {
        s.user_of = o.slot;
        s.operand = k;
      }
    }
    const auto size = count(below(slot)) + (s.user_of != axiom_form::none ? nodes().size() : 0);
    if (size > best_size) {
      best = s;
      best_size = size;
    }
  }
  static_cast<void>(placed);
  return best;
}

UNITY_INLINE void form_finder::place(axiom_form& f, const axiom_form::step& first, std::vector<bool>& placed,
                                     std::vector<bool>& bound) const {
  auto next = f.steps.size();
  f.steps.push_back(first);
  f.steps.back().after = twin(first.node);
  placed[first.node] = true;
  for (; next < f.steps.size(); ++next) {
    const auto slot = f.steps[next].node;
    for (std::uint32_t k = 0; k < nodes()[slot].operands.size(); ++k) {
      const auto& o = nodes()[slot].operands[k];
      if (o.is_variable) {
        bound[o.slot] = true;
      } else if (!placed[o.slot]) {
        placed[o.slot] = true;
        f.steps.push_back({o.slot, slot, k, static_cast<std::uint32_t>(o.result)});
      }
    }
  }
}

}  // namespace unity::detail

#endif
