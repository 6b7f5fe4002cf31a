// From a rule about tensors of some ranks with numbers for attributes to the most general one that passes tests.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/generation/canonical_rule.hpp>
#include <unity/rewrite/generation/term_graph.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/generation/lifting.hpp>
#include <unity/tensor/generation/rank_expressions.hpp>
#include <unity/tensor/generation/ranks.hpp>
#include <unity/tensor/generation/widened_rule.hpp>
#include <unity/tensor/rule_test.hpp>

namespace unity::tensor {

// How much of what a specific rule says about its operands may go.
enum class generality : std::uint8_t {
  most,     // all that it does not need
  related,  // not what relates sizes of operands
  ranked    // nor their ranks: attributes alone become variables
};

struct generalize_options {
  generality wanted = generality::most;
  std::vector<std::string> kept{};  // attributes that stay as they are
  rule_test_options quick{.instances = 4, .attempts = 400, .varied = 0, .points = 1, .chained = true};
  rule_test_options thorough{.instances = 16, .attempts = 2000, .varied = 1, .points = 1, .chained = true};
  rule_test_options broadcasting{
      .instances = 4, .attempts = 2000, .varied = 0, .collapsed = 2, .points = 1, .chained = true};
  rule_test_options last{// of the result
                         .instances = 50, .attempts = 20000, .varied = 2, .collapsed = 2, .points = 2, .chained = true};
};

// The letters that rules use for attributes.
[[nodiscard]] inline const attribute_names& usual_attribute_names() {
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
    return start ? std::optional{start->rule} : std::nullopt;
  }
  [[nodiscard]] bool passes(const syntax::rule& r, const rule_test_options& o) const {
    try {
      return test_rule(algebra_, compile_rule(algebra_, r).at(0), o).found == rule_report::verdict::passes;
    } catch (const error&) {
      return false;  // it cannot be read in this direction
    }
  }

 private:
  struct start_rule {
    syntax::rule rule{};
    std::vector<syntax::expression> relations{};  // of operands, that the specific rule came with
  };

  // Conditions that say the same twice, or nothing, keep random instances from being found: so none, one or two of
  // those that relate operands are tried before all.
  [[nodiscard]] std::optional<start_rule> with_few_conditions(const syntax::rule& specific) const {
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
      if (passes(with, options_.quick) && passes(with, options_.last) && holds_beyond(with, c, relations)) {
        return start_rule{with, relations};
      }
    }
    return std::nullopt;
  }
  [[nodiscard]] std::vector<std::vector<syntax::expression>> choices_among(
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
  // Whether it holds where one of the relations that it does not keep does not, and where none of them does: most
  // random instances of it are not there.
  [[nodiscard]] bool holds_beyond(const syntax::rule& r, const std::vector<syntax::expression>& kept,
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
  [[nodiscard]] syntax::rule widened(const start_rule& start, std::size_t care) const {
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
      return !read_rank(c) && (options_.wanted == generality::most || !relates);
    };
    drop_conditions(wider, may_go);
    rank_lifting{wider}.run(options_.wanted != generality::ranked);
    drop_conditions(wider, may_go);
    if (options_.wanted != generality::ranked) {
      drop_conditions(wider, [](const syntax::expression& c) { return read_rank(c).has_value(); });
    }
    return to_rule(algebra_, wider.rule());
  }
  // Sizes that are still numbers become a relation that the rule came with (?w and ?v are 3x3: they have one shape), or
  // two that are the same number become equal ones.
  static void relate_sizes(widened_rule& r, const std::vector<syntax::expression>& relations) {
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
  static void relate(widened_rule& r, const syntax::expression& a, const syntax::expression& b) {
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
      wider.rest.conditions[which] =
          syntax::equal(syntax::measure("rank", rank->variable), syntax::measure("rank", other->variable));
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
