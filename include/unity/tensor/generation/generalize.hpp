// From a rule about tensors of some ranks with numbers for attributes to the most general one that passes tests.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/generation/canonical_rule.hpp>
#include <unity/rewrite/generation/term_graph.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/generation/lifting.hpp>
#include <unity/tensor/generation/ranks.hpp>
#include <unity/tensor/generation/widened_rule.hpp>
#include <unity/tensor/rule_test.hpp>

namespace unity::tensor {

struct generalize_options {
  rule_test_options quick{.instances = 4, .attempts = 400, .varied = 0, .points = 1, .chained = true};
  rule_test_options thorough{.instances = 16, .attempts = 2000, .varied = 1, .points = 1, .chained = true};
  rule_test_options last{.instances = 50, .attempts = 20000, .varied = 2, .points = 2, .chained = true};  // of the result
};

// The letters that rules use for attributes.
[[nodiscard]] inline const attribute_names& usual_attribute_names() {
  static const attribute_names names{
      {"activation", "a"},        {"axis", "c"},     {"stride", "s"},   {"padding", "p"}, {"pads", "q"},
      {"dilation", "d"},          {"groups", "g"},   {"kernel", "k"},   {"sizes", "z"},   {"permutation", "o"},
      {"count_include_pad", "i"}, {"ceil_mode", "e"}, {"channels", "n"}, {"size", "n"},    {"dims", "m"},
      {"value", "f"},             {"axes", "r"},     {"element", "t"},  {"epsilon", "l"}};
  return names;
}

namespace detail {

// One direction.
class generalizer {
 public:
  generalizer(const algebra& a, const generalize_options& o) : algebra_{a}, options_{o} {}

  // Nothing where the rule is not true to begin with, or no instance of it is found.
  [[nodiscard]] std::optional<syntax::rule> run(const syntax::rule& specific) const {
    const auto start = with_few_conditions(specific);
    for (std::size_t care = 0; start && care < 3; ++care) {
      auto general = widened(*start, care);
      if (passes(general, options_.last)) {
        return general;
      }
    }
    return start;
  }
  [[nodiscard]] bool passes(const syntax::rule& r, const rule_test_options& o) const {
    try {
      return test_rule(algebra_, compile_rule(algebra_, r).at(0), o).found == rule_report::verdict::passes;
    } catch (const error&) {
      return false;  // it cannot be read in this direction
    }
  }

 private:
  // Conditions that say the same twice, or nothing, keep random instances from being found: so none, one or two of those
  // that relate operands are tried before all.
  [[nodiscard]] std::optional<syntax::rule> with_few_conditions(const syntax::rule& specific) const {
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
    for (const auto& c : choices) {
      auto with = name_unbound(r);
      with.conditions.insert(with.conditions.end(), c.begin(), c.end());
      if (passes(with, options_.quick) && passes(with, options_.last)) {
        return with;
      }
    }
    return std::nullopt;
  }
  // An attribute of the source that is computed of operands met later becomes a variable, with a condition.
  [[nodiscard]] syntax::rule name_unbound(const syntax::rule& r) const {
    if (compiles(r)) {
      return r;
    }
    auto g = to_graph(algebra_, r);
    std::size_t named = 0;
    for (auto& n : g.source.nodes) {
      for (auto& a : n.attributes) {
        if (is_computed(a.value)) {
          const auto v = syntax::variable("_n" + std::to_string(named++));
          g.rest.conditions.push_back(syntax::equal(v, a.value));
          replace_in_target(g, a, v);
          a.value = v;
        }
      }
    }
    return to_rule(algebra_, std::move(g));
  }
  static void replace_in_target(rule_graph& g, const syntax::attribute_binding& same, const syntax::expression& by) {
    for (auto& n : g.target.nodes) {
      for (auto& b : n.attributes) {
        b.value = b == same ? by : b.value;
      }
    }
  }
  [[nodiscard]] bool compiles(const syntax::rule& r) const {
    try {
      static_cast<void>(compile_rule(algebra_, r));
      return true;
    } catch (const error&) {
      return false;
    }
  }
  // A change that passed its tests and should not have shows in the last one: then all are tested with more care.
  [[nodiscard]] syntax::rule widened(const syntax::rule& r, std::size_t care) const {
    auto thorough = options_.thorough;
    thorough.instances *= 1 + 3 * care;
    thorough.attempts *= 1 + 3 * care;
    thorough.varied += 2 * care;
    thorough.seed += care;
    widened_rule wider{algebra_, with_whole_shapes(to_graph(algebra_, r)), options_.quick, thorough};
    free_computed(wider);
    attribute_lifting{wider}.run();
    drop_conditions(wider, [](const syntax::expression& c) { return !read_rank(c); });
    rank_lifting{wider}.run();
    drop_conditions(wider, [](const syntax::expression& c) { return !read_rank(c); });
    drop_conditions(wider, [](const syntax::expression& c) { return read_rank(c).has_value(); });
    return to_rule(algebra_, wider.rule());
  }
  // fill{dims=shape(?x)} in the source becomes fill{dims=?d}, where its users say all that matters.
  static void free_computed(widened_rule& r) {
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
  template <class Wanted>
  static void drop_conditions(widened_rule& r, const Wanted& wanted) {
    for (std::size_t i = 0; i < r.rule().rest.conditions.size();) {
      i += wanted(r.rule().rest.conditions[i]) && drop(r, i) ? 0 : 1;
    }
  }
  // Whether the condition is gone; one on a rank may become one on two ranks.
  static bool drop(widened_rule& r, std::size_t which) {
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
      wider.rest.conditions[which] = syntax::equal(syntax::measure("rank", rank->variable), syntax::measure("rank", other->variable));
      wider.rest.conditions.erase(wider.rest.conditions.begin() + static_cast<std::ptrdiff_t>(i));
      if (r.accept_or_equal(std::move(wider), {condition, other->condition})) {
        return true;
      }
    }
    return false;
  }

  const algebra& algebra_;
  const generalize_options& options_;
};

}  // namespace detail

// The most general rules that `specific` is an instance of and that pass tests: one, or one for each direction of `==`
// where the directions differ; none where `specific` is false or has no instances. Canonical (canonical_rule), with the
// name of `specific`; equal statements of different rules have equal texts. Deterministic.
//
// specific: literal attributes, `rank(?v) == r` for every variable, whatever else is known of the operands as further
// conditions (shape(?x) == shape(?y), suffix(shape(?w), 2) == [3, 3]). Every condition is dropped that the rule does
// not need.
[[nodiscard]] inline std::vector<syntax::rule> generalize(const algebra& a, const syntax::rule& specific,
                                                          const generalize_options& options = {}) {
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
    if (!all.empty() && g.passes(back, options.last)) {
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
