// Generalizes a rule about tensors of certain ranks, with literal attributes, to the most general rule that passes
// tests.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include <unity/rewrite/generation/redundancy.hpp>
#include <unity/rewrite/generation/term_graph.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/generation/widened_rule.hpp>
#include <unity/tensor/rules/comparison.hpp>

namespace unity::tensor::detail {

// The start of generalizing a rule: the rule with as few conditions as possible.

struct start_rule {
  syntax::rule rule{};
  std::vector<syntax::expression> relations{};  // conditions of the specific rule that relate operands
};

void replace_in_target(rule_graph& g, const syntax::attribute_binding& same, const syntax::expression& by);

class start_search {
 public:
  start_search(const algebra& a, const generalize_options& o) : algebra_{a}, options_{o} {}

  // Redundant conditions make random instances hard to find. So none, one or two of the conditions that relate operands
  // are tried before all of them.
  [[nodiscard]] std::optional<start_rule> run(const syntax::rule& specific) const;

 private:
  [[nodiscard]] std::vector<std::vector<syntax::expression>> choices_among(
      const std::vector<syntax::expression>& relations) const;
  // Whether the rule holds in instances that violate one of the dropped relations, and in those that violate all of
  // them: most random instances do not.
  [[nodiscard]] bool holds_beyond(const syntax::rule& r, const std::vector<syntax::expression>& kept,
                                  const std::vector<syntax::expression>& relations) const;
  // Replaces an attribute of the source that is computed from operands bound later by a variable with a condition.
  [[nodiscard]] syntax::rule name_unbound(const syntax::rule& r) const;
  [[nodiscard]] bool compiles(const syntax::rule& r) const;

  const algebra& algebra_;
  const generalize_options& options_;
};

}  // namespace unity::tensor::detail

namespace unity::tensor {

// The letters that rules use for attributes.
[[nodiscard]] const attribute_names& usual_attribute_names();

namespace detail {

// Generalizes one direction.
class generalizer {
 public:
  generalizer(const algebra& a, const generalize_options& o) : algebra_{a}, options_{o} {}

  // Nothing if the specific rule is false or no instance of it is found.
  [[nodiscard]] std::optional<syntax::rule> run(const syntax::rule& specific) const;
  [[nodiscard]] bool passes(const syntax::rule& r) const { return tensor::detail::passes(algebra_, r, options_.last); }

 private:
  // A wrong change that passed its own tests fails the final test; then all changes are tested again with more care.
  [[nodiscard]] syntax::rule widened(const start_rule& start, std::size_t care) const;
  // Replaces remaining literal sizes by a relation of the original rule (?w and ?v are 3x3: they have equal shapes), or
  // equates two sizes with the same number.
  static void relate_sizes(widened_rule& r, const std::vector<syntax::expression>& relations);
  static void relate(widened_rule& r, const syntax::expression& a, const syntax::expression& b);
  // Replaces fill{dims=shape(?x)} in the source by fill{dims=?d} if its users constrain it enough.
  static void free_computed(widened_rule& r);
  // Conditions that were added because the rule failed without them.
  static bool is_known_to_be_needed(const syntax::expression& c) {
    return syntax::is_call(c, "||", 2) || syntax::is_call(c, ">=", 2) || syntax::is_call(c, "<", 2);
  }
  template <class Wanted>
  static void drop_conditions(widened_rule& r, const Wanted& wanted) {
    for (std::size_t i = 0; i < r.rule().rest.conditions.size();) {
      i += wanted(r.rule().rest.conditions[i]) && drop(r, i) ? 0 : 1;
    }
  }
  // Whether the condition could be dropped; a condition on one rank may be replaced by one on two ranks.
  static bool drop(widened_rule& r, std::size_t which);

  const algebra& algebra_;
  const generalize_options& options_;
};

}  // namespace detail

// The most general rules that have `specific` as an instance and pass tests: one rule, or one for each direction of
// `==` if the directions differ; none if `specific` is false or has no instances. The results are canonical
// (canonical_rule) and keep the name of `specific`; equal statements of different rules have equal texts.
// Deterministic.
//
// specific: has literal attributes, `rank(?v) == r` for every variable, and anything else known about the operands as
// further conditions (shape(?x) == shape(?y), suffix(shape(?w), 2) == [3, 3]). Conditions that the rule does not need
// are dropped.
[[nodiscard]] std::vector<syntax::rule> generalize(const algebra& a, const syntax::rule& specific,
                                                   const generalize_options& options = {});

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_GENERATION_GENERALIZE)

#include <algorithm>
#include <string>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/tensor/generation/lifting.hpp>
#include <unity/tensor/generation/ranks.hpp>

namespace unity::tensor::detail {

UNITY_INLINE void replace_in_target(rule_graph& g, const syntax::attribute_binding& same,
                                    const syntax::expression& by) {
  for (auto& n : g.target.nodes) {
    for (auto& b : n.attributes) {
      b.value = b == same ? by : b.value;
    }
  }
}

UNITY_INLINE std::optional<start_rule> start_search::run(const syntax::rule& specific) const {
  auto r = specific;
  r.both_ways = false;
  std::vector<syntax::expression> relations;
  std::erase_if(r.conditions, [&](const syntax::expression& c) {
    const bool relates = !read_rank(c) && !fixes_size(c);
    if (relates) {
      relations.push_back(c);
    }
    return relates;
  });
  for (const auto& c : choices_among(relations)) {
    auto with = name_unbound(r);
    with.conditions.insert(with.conditions.end(), c.begin(), c.end());
    if (passes(algebra_, with, options_.quick) && passes(algebra_, with, options_.last) &&
        holds_beyond(with, c, relations)) {
      return start_rule{with, relations};
    }
  }
  return std::nullopt;
}

UNITY_INLINE std::vector<std::vector<syntax::expression>> start_search::choices_among(
    const std::vector<syntax::expression>& relations) const {
  if (options_.wanted != generality::most) {
    return {relations};
  }
  std::vector<std::vector<syntax::expression>> choices{{}};
  for (const auto& c : relations) {
    choices.push_back({c});
  }
  for (std::size_t i = 0; i < relations.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      choices.push_back({relations[j], relations[i]});
    }
  }
  choices.push_back(relations);
  return choices;
}

UNITY_INLINE bool start_search::holds_beyond(const syntax::rule& r, const std::vector<syntax::expression>& kept,
                                             const std::vector<syntax::expression>& relations) const {
  auto o = options_.thorough;
  o.attempts = options_.quick.attempts;
  const widening_test test{algebra_, o};
  const auto g = to_graph(algebra_, r);
  auto none = g;
  for (const auto& c : relations) {
    if (std::find(kept.begin(), kept.end(), c) != kept.end()) {
      continue;
    }
    if (test(g, {c}).found == widening::verdict::false_there) {
      return false;
    }
    if (syntax::is_call(c.arguments[0], "shape", 1)) {
      none.rest.conditions.push_back(syntax::call("!", {c}));
    }
  }
  return test(none, {syntax::integer(0)}).found != widening::verdict::false_there;
}

UNITY_INLINE syntax::rule start_search::name_unbound(const syntax::rule& r) const {
  if (compiles(r)) {
    return r;
  }
  auto g = to_graph(algebra_, r);
  std::size_t named = 0;
  for (auto& n : g.source.nodes) {
    for (auto& a : n.attributes) {
      if (is_computed(a.value)) {
        const auto v = syntax::variable(fmt::format("_n{}", named++));
        g.rest.conditions.push_back(syntax::equal(v, a.value));
        replace_in_target(g, a, v);
        a.value = v;
      }
    }
  }
  return to_rule(algebra_, std::move(g));
}

UNITY_INLINE bool start_search::compiles(const syntax::rule& r) const {
  try {
    static_cast<void>(compile_rule(algebra_, r));
    return true;
  } catch (const error&) {
    return false;
  }
}

}  // namespace unity::tensor::detail

namespace unity::tensor {

UNITY_INLINE const attribute_names& usual_attribute_names() {
  static const attribute_names names{{"activation", "a"},
                                     {"axis", "c"},
                                     {"stride", "s"},
                                     {"padding", "p"},
                                     {"pads", "q"},
                                     {"dilation", "d"},
                                     {"groups", "g"},
                                     {"kernel", "k"},
                                     {"sizes", "z"},
                                     {"permutation", "o"},
                                     {"count_include_pad", "i"},
                                     {"ceil_mode", "e"},
                                     {"channels", "n"},
                                     {"size", "n"},
                                     {"dims", "m"},
                                     {"value", "f"},
                                     {"axes", "r"},
                                     {"element", "t"},
                                     {"epsilon", "l"}};
  return names;
}

}  // namespace unity::tensor

namespace unity::tensor::detail {

UNITY_INLINE std::optional<syntax::rule> generalizer::run(const syntax::rule& specific) const {
  const auto start = start_search{algebra_, options_}.run(specific);
  for (std::size_t care = 0; start && care < 3; ++care) {
    auto general = widened(*start, care);
    if (passes(general)) {
      return general;
    }
  }
  return start ? std::optional{start->rule} : std::nullopt;
}

UNITY_INLINE syntax::rule generalizer::widened(const start_rule& start, std::size_t care) const {
  auto thorough = options_.thorough;
  thorough.instances *= 1 + 3 * care;
  thorough.attempts *= 1 + 3 * care;
  thorough.varied += 2 * care;
  thorough.seed += care;
  widened_rule wider{algebra_, with_whole_shapes(to_graph(algebra_, start.rule)), options_.quick, thorough,
                     options_.broadcasting};
  free_computed(wider);
  attribute_lifting{wider, options_.kept}.run();
  relate_sizes(wider, start.relations);
  const auto may_go = [&](const syntax::expression& c) {
    const bool relates = std::find(start.relations.begin(), start.relations.end(), c) != start.relations.end();
    return !read_rank(c) && !is_known_to_be_needed(c) && (options_.wanted == generality::most || !relates);
  };
  drop_conditions(wider, may_go);
  rank_lifting{wider}.run(options_.wanted != generality::ranked);
  drop_conditions(wider, may_go);
  if (options_.wanted != generality::ranked) {
    drop_conditions(wider, [](const syntax::expression& c) { return read_rank(c).has_value(); });
  }
  return to_rule(algebra_, wider.rule());
}

UNITY_INLINE void generalizer::relate_sizes(widened_rule& r, const std::vector<syntax::expression>& relations) {
  std::vector<syntax::expression> sizes;
  auto free = r.rule();
  std::erase_if(free.rest.conditions, [&](const syntax::expression& c) {
    if (fixes_size(c)) {
      sizes.push_back(c);
    }
    return fixes_size(c);
  });
  for (std::size_t i = 0; !sizes.empty() && i < relations.size(); ++i) {
    auto related = free;
    related.rest.conditions.push_back(relations[i]);
    if (r.accept_or_equal(std::move(related), sizes)) {
      return;
    }
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      relate(r, sizes[j], sizes[i]);
    }
  }
}

UNITY_INLINE void generalizer::relate(widened_rule& r, const syntax::expression& a, const syntax::expression& b) {
  const auto& all = r.rule().rest.conditions;
  const auto has = [&](const syntax::expression& c) { return std::find(all.begin(), all.end(), c) != all.end(); };
  if (a.arguments[1] != b.arguments[1] || !has(a) || !has(b)) {
    return;
  }
  auto related = r.rule();
  std::erase_if(related.rest.conditions, [&](const syntax::expression& c) { return c == a || c == b; });
  related.rest.conditions.push_back(syntax::equal(a.arguments[0], b.arguments[0]));
  r.accept_or_equal(std::move(related), {a, b});
}

UNITY_INLINE void generalizer::free_computed(widened_rule& r) {
  const auto source = r.rule().source;
  for (std::size_t n = 0; n < source.nodes.size(); ++n) {
    for (std::size_t a = 0; a < source.nodes[n].attributes.size(); ++a) {
      const auto& [name, value] = source.nodes[n].attributes[a];
      if (!is_computed(value) || name == "sizes") {
        continue;
      }
      auto wider = r.rule();
      const auto v = r.fresh();
      wider.source.nodes[n].attributes[a].value = v;
      replace_in_target(wider, source.nodes[n].attributes[a], v);
      r.accept_or_equal(std::move(wider), {syntax::equal(v, value)});
    }
  }
}

UNITY_INLINE bool generalizer::drop(widened_rule& r, std::size_t which) {
  const auto condition = r.rule().rest.conditions[which];
  if (r.accept_or_equal(without(r.rule(), which), {condition})) {
    return true;
  }
  const auto rank = read_rank(condition);
  for (std::size_t i = 0; rank && i < r.rule().rest.conditions.size(); ++i) {
    const auto other = read_rank(r.rule().rest.conditions[i]);
    if (!other || i == which || other->rank != rank->rank) {
      continue;
    }
    auto wider = r.rule();
    wider.rest.conditions[which] =
        syntax::equal(syntax::measure("rank", rank->variable), syntax::measure("rank", other->variable));
    wider.rest.conditions.erase(wider.rest.conditions.begin() + static_cast<std::ptrdiff_t>(i));
    if (r.accept_or_equal(std::move(wider), {condition, other->condition})) {
      return true;
    }
  }
  return false;
}

}  // namespace unity::tensor::detail

namespace unity::tensor {

UNITY_INLINE std::vector<syntax::rule> generalize(const algebra& a, const syntax::rule& specific,
                                                  const generalize_options& options) {
  detail::generalizer g{a, options};
  const auto& names = usual_attribute_names();
  const auto first = canonical_rule(a, specific, names);
  std::vector<syntax::rule> all;
  if (auto forward = g.run(first)) {
    all.push_back(*std::move(forward));
  }
  if (specific.both_ways) {
    auto back = all.empty() ? first : all[0];
    std::swap(back.source, back.target);
    if (!all.empty() && g.passes(back)) {
      all[0].both_ways = true;
    } else {
      back = first;
      std::swap(back.source, back.target);
      if (auto backward = g.run(back)) {
        all.push_back(*std::move(backward));
      }
    }
  }
  for (auto& r : all) {
    r = canonical_rule(a, r, names);
  }
  return all;
}

}  // namespace unity::tensor

#endif
