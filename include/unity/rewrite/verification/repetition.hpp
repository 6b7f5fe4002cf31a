// Expands the repetitions of a substitution a fixed number of times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <unity/rewrite/expression.hpp>
#include <unity/rewrite/pattern.hpp>
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
  [[nodiscard]] expression expanded(const expression& e, std::size_t index) const;

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

}  // namespace unity

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_REWRITE_VERIFICATION_REPETITION)

#include <algorithm>

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

UNITY_INLINE expression repetition_expander::expanded(const expression& e, std::size_t index) const {
  auto r = e;
  r.arguments.clear();
  r.indexed = false;
  if (e.kind == expression::form::measure) {
    r.slot = variables_[e.slot] + (s_.indexed_variables[e.slot] ? index : 0);
  }
  for (const auto& a : e.arguments) {
    const bool pack = a.kind == expression::form::pack;
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

#endif
