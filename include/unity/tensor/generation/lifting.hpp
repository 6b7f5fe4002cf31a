// Replaces literal attributes by variables that both sides share, or by sizes of operands.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/rewrite/generation/term_graph.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/tensor/generation/widened_rule.hpp>

namespace unity::tensor::detail {

struct place {
  bool in_target = false;
  std::size_t node = 0;
  std::size_t attribute = 0;
};

[[nodiscard]] inline syntax::attribute_binding& at(rule_graph& r, const place& p) {
  return (p.in_target ? r.target : r.source).nodes[p.node].attributes[p.attribute];
}

[[nodiscard]] inline const syntax::attribute_binding& at(const rule_graph& r, const place& p) {
  return (p.in_target ? r.target : r.source).nodes[p.node].attributes[p.attribute];
}

// The places where one attribute has the same value.
struct place_group {
  std::string attribute;
  syntax::expression value;
  std::vector<place> source{};
  std::vector<place> target{};
};

// The groups of literal attributes accepted by `wanted(attribute name)`, in order of first appearance.
template <class Wanted>
[[nodiscard]] std::vector<place_group> literal_groups(const rule_graph& r, const Wanted& wanted) {
  std::vector<place_group> all;
  for (const bool in_target : {false, true}) {
    const auto& nodes = (in_target ? r.target : r.source).nodes;
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      for (std::size_t a = 0; a < nodes[n].attributes.size(); ++a) {
        const auto& binding = nodes[n].attributes[a];
        if (!wanted(binding.name) || !syntax::is_literal(binding.value)) {
          continue;
        }
        const auto same = [&](const auto& g) { return g.attribute == binding.name && g.value == binding.value; };
        auto group = std::find_if(all.begin(), all.end(), same);
        if (group == all.end()) {
          group = all.insert(all.end(), {binding.name, binding.value});
        }
        (in_target ? group->target : group->source).push_back({in_target, n, a});
      }
    }
  }
  return all;
}

void put(rule_graph& r, const std::vector<place>& places, const syntax::expression& e);

// Whether the expression depends on the match and is not just a variable.
[[nodiscard]] inline bool is_computed(const syntax::expression& e) {
  return !syntax::is_literal(e) && e.kind != syntax::expression::form::variable;
}

// All subsets of `all`, larger ones first. Complexity: 2^n subsets.
template <class T>
[[nodiscard]] std::vector<std::vector<T>> subsets(const std::vector<T>& all) {
  std::vector<std::vector<T>> found;
  for (std::size_t size = all.size() + 1; size-- > 0;) {
    for (std::size_t chosen = 0; chosen < (std::size_t{1} << all.size()); ++chosen) {
      std::vector<T> subset;
      for (std::size_t i = 0; i < all.size(); ++i) {
        if ((chosen >> i & 1U) != 0) {
          subset.push_back(all[i]);
        }
      }
      if (subset.size() == size) {
        found.push_back(std::move(subset));
      }
    }
  }
  return found;
}

// Attributes whose meaning depends on the rank of an operand.
[[nodiscard]] inline bool depends_on_rank(std::string_view attribute) {
  return attribute == "axis" || attribute == "permutation" || attribute == "axes";
}

// Ranks, and expressions that depend on them, in the notation of rules.

// A condition rank(?v) == r.
struct known_rank {
  std::string variable;
  std::int64_t rank = 0;
  syntax::expression condition{};
};

[[nodiscard]] std::optional<known_rank> read_rank(const syntax::expression& c);

// Replaces [size(?v, 0), .., size(?v, r - 1)] by shape(?v) if rank(?v) == r is known.
[[nodiscard]] rule_graph with_whole_shapes(rule_graph r);

// rank(?v) - less
[[nodiscard]] inline syntax::expression below_rank(const std::string& v, std::int64_t less) {
  return syntax::call("-", {syntax::measure("rank", v), syntax::integer(less)});
}
// concat(iota(rank(?v) - 2), [rank(?v) - 1, rank(?v) - 2])
[[nodiscard]] inline syntax::expression last_two_swapped(const std::string& v) {
  return syntax::call("concat",
                      {syntax::call("iota", {below_rank(v, 2)}), syntax::list({below_rank(v, 1), below_rank(v, 2)})});
}
[[nodiscard]] bool swaps_last_two(const syntax::expression& permutation);

class attribute_lifting {
 public:
  // kept: attributes that are not generalized.
  attribute_lifting(widened_rule& r, const std::vector<std::string>& kept) : rule_{r}, kept_{kept} {}

  void run();

 private:
  static constexpr std::size_t fitting = 50;  // percent: the target must fit most of the new instances of the source
  static constexpr std::size_t mostly = 80;
  static constexpr std::size_t seldom = 3;       // percent: not all kernels can be enlarged to the size of another
  static constexpr std::size_t most_places = 4;  // of groups whose subsets are tried

  // Whether random instances vary the attribute; otherwise tests are inconclusive.
  [[nodiscard]] bool is_tried(const place_group& g) const;

  void lift(const place_group& g);
  bool lift_together(const place_group& g, const std::vector<place>& source, const std::vector<place>& target);
  // Makes some places of the source independent of the others.
  void separate(const std::vector<place>& source, const std::vector<place>& target, const syntax::expression& together);
  void lift_parts(const place_group& g);
  static void remove(std::vector<place>& all, const std::vector<place>& some);
  // Replaces padding=same by padding=?p, with a condition that lists the valid choices unless all are valid. Tests each
  // choice separately: if a choice seldom fits, random instances may not refute it.
  bool lift_among_choices(const place_group& g);
  // Requires kernels at least as large as the stride: padding a smaller kernel with zeros moves its centre.
  bool lift_to_kernels(const place_group& g);
  // Replaces kernel=[3, 3] by kernel=?k with a condition if some operand is known to have these sizes.
  bool lift_to_sizes(const place_group& g);
  [[nodiscard]] std::vector<std::string> variables_of_source() const;
  [[nodiscard]] std::vector<syntax::expression> choices(const place_group& g) const;

  // Drops unnecessary size conditions, then generalizes strides that depended on these sizes.
  void drop_sizes();

  // Drops suffix(shape(?v), 2) == [3, 3] if the size itself can replace [3, 3] in the target.
  void replace_sizes();
  bool replace_size(std::size_t which);

  widened_rule& rule_;
  const std::vector<std::string>& kept_;
};

}  // namespace unity::tensor::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_GENERATION_LIFTING)

namespace unity::tensor::detail {

UNITY_INLINE void put(rule_graph& r, const std::vector<place>& places, const syntax::expression& e) {
  for (const auto& p : places) {
    at(r, p).value = e;
  }
}

UNITY_INLINE std::optional<known_rank> read_rank(const syntax::expression& c) {
  const bool is_rank = syntax::is_call(c, "==", 2) && syntax::is_call(c.arguments[0], "rank", 1) &&
                       c.arguments[0].arguments[0].kind == syntax::expression::form::variable &&
                       c.arguments[1].kind == syntax::expression::form::integer;
  return is_rank ? std::optional{known_rank{c.arguments[0].arguments[0].name, c.arguments[1].integer, c}}
                 : std::nullopt;
}

UNITY_INLINE rule_graph with_whole_shapes(rule_graph r) {
  std::vector<known_rank> ranks;
  for (const auto& c : r.rest.conditions) {
    if (auto known = read_rank(c)) {
      ranks.push_back(*std::move(known));
    }
  }
  for_each_expression(r, [&](syntax::expression& e) {
    for (const auto& k : ranks) {
      std::vector<syntax::expression> sizes;
      for (std::int64_t d = 0; d < k.rank; ++d) {
        sizes.push_back(syntax::measure("size", k.variable, {syntax::integer(d)}));
      }
      const auto whole = syntax::list(std::move(sizes));
      syntax::for_each_part(e, [&](syntax::expression& part) {
        part = k.rank > 0 && part == whole ? syntax::measure("shape", k.variable) : part;
      });
    }
  });
  return r;
}

UNITY_INLINE bool swaps_last_two(const syntax::expression& permutation) {
  const auto n = permutation.arguments.size();
  for (std::size_t i = 0; i < n; ++i) {
    const auto expected = i + 2 < n ? i : i + 1 == n ? i - 1 : i + 1;
    if (permutation.arguments[i] != syntax::integer(static_cast<std::int64_t>(expected))) {
      return false;
    }
  }
  return n >= 2;
}

UNITY_INLINE void attribute_lifting::run() {
  const auto wanted = [&](std::string_view name) {
    return !depends_on_rank(name) && std::find(kept_.begin(), kept_.end(), name) == kept_.end();
  };
  for (const auto& g : literal_groups(rule_.rule(), wanted)) {
    if (!g.source.empty() && is_tried(g)) {
      lift(g);
    }
  }
  replace_sizes();
  drop_sizes();
}

UNITY_INLINE bool attribute_lifting::is_tried(const place_group& g) const {
  const auto& n = rule_.rule().source.nodes[g.source[0].node];
  const auto& signature = rule_.operators().signature(rule_.operators().kind(n.name));
  for (const auto& a : signature.attributes) {
    if (a.name == g.attribute) {
      return a.form != attribute_form::word && a.choices.size() <= 5;
    }
  }
  return false;
}

UNITY_INLINE void attribute_lifting::lift(const place_group& g) {
  const bool lifted = g.attribute == "padding" ? lift_among_choices(g) : lift_together(g, g.source, g.target);
  if (lifted) {
    return;
  }
  const bool limited = (g.attribute == "stride" && lift_to_kernels(g)) || (g.attribute == "kernel" && lift_to_sizes(g));
  if (!limited && g.source.size() <= most_places && g.target.size() <= most_places) {
    lift_parts(g);
  }
}

UNITY_INLINE bool attribute_lifting::lift_together(const place_group& g, const std::vector<place>& source,
                                                   const std::vector<place>& target) {
  auto wider = rule_.rule();
  const auto v = rule_.fresh();
  put(wider, source, v);
  put(wider, target, v);
  const bool lifted = rule_.accept(std::move(wider), {syntax::equal(v, g.value)}, fitting);
  if (lifted && source.size() > 1 && source.size() <= most_places && target.size() <= most_places) {
    separate(source, target, v);
  }
  return lifted;
}

UNITY_INLINE void attribute_lifting::separate(const std::vector<place>& source, const std::vector<place>& target,
                                              const syntax::expression& together) {
  for (const auto& s : source) {
    for (const auto& with : subsets(target)) {
      if (with.empty() || with.size() == target.size()) {
        continue;  // a variable on one side only prevents the other direction
      }
      auto wider = rule_.rule();
      const auto v = rule_.fresh();
      put(wider, {s}, v);
      put(wider, with, v);
      if (rule_.accept(std::move(wider), {syntax::equal(v, together)}, fitting)) {
        return;
      }
    }
  }
}

UNITY_INLINE void attribute_lifting::lift_parts(const place_group& g) {
  auto source = g.source;
  auto target = g.target;
  std::reverse(target.begin(), target.end());  // nearest to the outputs first
  for (bool lifted = true; lifted && !source.empty();) {
    lifted = false;
    auto parts = subsets(source);
    std::reverse(parts.begin(), parts.end());  // smallest subsets first: they are the most general
    for (const auto& from : parts) {
      for (const auto& to : subsets(target)) {
        const bool tried = from.empty() || (from.size() == g.source.size() && to.size() == g.target.size());
        if (!lifted && !tried && lift_together(g, from, to)) {
          remove(source, from);
          remove(target, to);
          lifted = true;
        }
      }
    }
  }
}

UNITY_INLINE void attribute_lifting::remove(std::vector<place>& all, const std::vector<place>& some) {
  std::erase_if(all, [&](const place& p) {
    return std::any_of(some.begin(), some.end(),
                       [&](const place& q) { return p.node == q.node && p.attribute == q.attribute; });
  });
}

UNITY_INLINE bool attribute_lifting::lift_among_choices(const place_group& g) {
  auto wider = rule_.rule();
  const auto v = rule_.fresh();
  put(wider, g.source, v);
  put(wider, g.target, v);
  const auto here = syntax::equal(v, g.value);
  auto among = here;
  bool all = true;
  for (const auto& choice : choices(g)) {
    auto one = wider;
    one.rest.conditions.push_back(syntax::equal(v, choice));
    const auto holds = choice == g.value || rule_.fits(rule_.try_thoroughly(one, {here}), mostly);
    all = all && holds;
    if (holds && choice != g.value) {
      among = syntax::call("||", {among, syntax::equal(v, choice)});
    }
  }
  if (among == here) {
    return false;
  }
  if (!all) {
    wider.rest.conditions.push_back(among);
  }
  rule_.take(std::move(wider));
  if (all && g.source.size() > 1 && g.source.size() <= most_places && g.target.size() <= most_places) {
    separate(g.source, g.target, v);
  }
  return true;
}

UNITY_INLINE bool attribute_lifting::lift_to_kernels(const place_group& g) {
  for (const auto& kernel : variables_of_source()) {
    auto wider = rule_.rule();
    const auto v = rule_.fresh();
    put(wider, g.source, v);
    put(wider, g.target, v);
    const auto size = syntax::call("suffix", {syntax::measure("shape", kernel), syntax::integer(2)});
    wider.rest.conditions.push_back(syntax::call(">=", {size, v}));
    if (rule_.accept(std::move(wider), {syntax::equal(v, g.value)}, fitting)) {
      return true;
    }
  }
  return false;
}

UNITY_INLINE bool attribute_lifting::lift_to_sizes(const place_group& g) {
  for (std::size_t c = 0; c < rule_.rule().rest.conditions.size(); ++c) {
    const auto known = rule_.rule().rest.conditions[c];
    if (!fixes_size(known) || known.arguments[1] != g.value) {
      continue;
    }
    auto wider = rule_.rule();
    const auto v = rule_.fresh();
    put(wider, g.source, v);
    put(wider, g.target, v);
    wider.rest.conditions[c] = syntax::equal(v, known.arguments[0]);
    if (rule_.accept(std::move(wider), {known}, fitting)) {
      return true;
    }
  }
  return false;
}

UNITY_INLINE std::vector<std::string> attribute_lifting::variables_of_source() const {
  std::vector<std::string> all;
  for (const auto& n : rule_.rule().source.nodes) {
    for (const auto& o : n.operands) {
      if (!o.is_node() && std::find(all.begin(), all.end(), o.variable) == all.end()) {
        all.push_back(o.variable);
      }
    }
  }
  return all;
}

UNITY_INLINE std::vector<syntax::expression> attribute_lifting::choices(const place_group& g) const {
  std::vector<syntax::expression> all;
  const auto& n = rule_.rule().source.nodes[g.source[0].node];
  for (const auto& a : rule_.operators().signature(rule_.operators().kind(n.name)).attributes) {
    for (const auto& c : a.choices) {
      if (a.name == g.attribute) {
        all.push_back({syntax::expression::form::word, 0, c, {}});
      }
    }
  }
  return all;
}

UNITY_INLINE void attribute_lifting::drop_sizes() {
  bool dropped = false;
  for (std::size_t c = 0; c < rule_.rule().rest.conditions.size();) {
    const auto condition = rule_.rule().rest.conditions[c];
    const bool gone = fixes_size(condition) && rule_.accept_or_equal(without(rule_.rule(), c), {condition});
    c += gone ? 0 : 1;
    dropped = dropped || gone;
  }
  for (const auto& g : literal_groups(rule_.rule(), [](std::string_view name) { return name == "stride"; })) {
    if (dropped && !g.source.empty()) {
      lift_to_kernels(g);
    }
  }
}

UNITY_INLINE void attribute_lifting::replace_sizes() {
  for (std::size_t c = 0; c < rule_.rule().rest.conditions.size();) {
    c += replace_size(c) ? 0 : 1;
  }
}

UNITY_INLINE bool attribute_lifting::replace_size(std::size_t which) {
  const auto condition = rule_.rule().rest.conditions[which];
  if (!fixes_size(condition)) {
    return false;
  }
  for (const auto& g :
       literal_groups(rule_.rule(), [](std::string_view name) { return name != "stride" && !depends_on_rank(name); })) {
    if (g.value != condition.arguments[1] || g.target.size() > most_places) {
      continue;
    }
    for (const auto& places : subsets(g.target)) {
      auto wider = without(rule_.rule(), which);
      put(wider, places, condition.arguments[0]);
      if (!places.empty() && rule_.accept(std::move(wider), {condition}, seldom)) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace unity::tensor::detail

#endif
