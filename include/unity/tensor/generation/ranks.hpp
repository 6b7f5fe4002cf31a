// Extends rules for one rank to all ranks: axes and permutations follow the rank.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <unity/rewrite/generation/term_graph.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/tensor/generation/lifting.hpp>
#include <unity/tensor/generation/widened_rule.hpp>

namespace unity::tensor::detail {

// Axes and permutations of a rule, written as variables or as expressions of ranks.

// Groups that became variables, with their variables.
using lifted_groups = std::vector<std::pair<const place_group*, syntax::expression>>;

// The value of the group as an expression of the rank of a variable, if possible.
[[nodiscard]] std::optional<syntax::expression> by_rank(const place_group& g, const known_rank* of);

// at(?p, ?c) or at(inverse(?p), ?c), if it equals the number.
[[nodiscard]] std::optional<syntax::expression> moved_axis(const place_group& g, const lifted_groups& free);

// Counts axes from the back: size(?x, 1) of a matrix becomes size(?x, -1) for tensors of any rank.
void count_from_back(syntax::expression& e, const std::vector<known_rank>& ranks);

// Keeps axes distinct that were different numbers.
void distinguish(rule_graph& r, const lifted_groups& free);

// Replaces an axis, and the same axis in sizes along it, as in split{axis=1, sizes=[size(?x, 1), ..]}.
void write_axis(rule_graph& r, const place_group& g, const syntax::expression& axis,
                const syntax::expression& in_sizes);

[[nodiscard]] inline bool is_name_character(const std::string& text, std::size_t at) {
  return at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) != 0 || text[at] == '_');
}
// Sorts ranks by the first appearance of their variables in the text of the side.
void sort_by_appearance(const term_graph& side, std::vector<known_rank>& all);

class rank_lifting {
 public:
  explicit rank_lifting(widened_rule& r) : rule_{r} {}

  // change_ranks: if false, keeps the conditions on ranks that do not follow from the operators.
  void run(bool change_ranks);

 private:
  // How to treat the conditions on ranks that do not follow from the operators.
  enum class form { any, one_for_all, as_they_are };
  // How a group is written, the most general first: any value, any value below a bound, an expression, the literal.
  enum class kind { free, bounded, expressed, number };
  static constexpr int kinds = 4;
  static constexpr std::size_t most_groups = 4;

  // Drops conditions on ranks that the operators imply independently of other ranks. A literal permutation fixes a
  // rank, but it may become a variable later.
  void drop_implied();
  [[nodiscard]] bool applies(form f) const {
    return f == form::as_they_are || (f == form::any ? !ranks_.empty() : ranks_.size() > 1);
  }

  // Tries all combinations of forms for the groups, the most general ones first.
  bool widen(form f);

  // The variable whose rank expresses an axis: one variable everywhere, or at each place the first operand there.
  struct rank_source {
    const known_rank* common = nullptr;
    bool own = false;
  };
  [[nodiscard]] const known_rank* rank_at(const place& p, const rank_source& of) const;

  struct candidate {
    rule_graph rule{};
    std::vector<syntax::expression> before{};
  };

  // Among the variables whose rank could be named, chooses the first unless a later one fits clearly better.
  bool widen(form f, const std::vector<kind>& way);
  static constexpr std::size_t clearly = 30;  // percent
  static constexpr std::size_t free_fitting = 30;
  // Whether an axis that occurs only in the target stays the same number for all ranks: often right for the first or
  // second axis, seldom for the last.
  [[nodiscard]] bool keeps_number(const std::vector<kind>& way) const;
  [[nodiscard]] static bool is_free(const std::vector<kind>& way) {
    return std::find(way.begin(), way.end(), kind::free) != way.end();
  }

  [[nodiscard]] std::vector<candidate> candidates(form f, const std::vector<kind>& way);

  // moves: maps numbers that occur only in the target through the permutation of the source.
  [[nodiscard]] std::optional<candidate> make(form f, const std::vector<kind>& way, const rank_source& of, bool moves);
  void apply(form f, candidate& c) const;

  [[nodiscard]] std::optional<syntax::expression> bound(const place_group& g, const known_rank* of) const;

  bool express(candidate& c, const place_group& g, kind k, const rank_source& of, lifted_groups& free);
  bool express_in_target(candidate& c, const place_group& g, kind k, const rank_source& of, bool moves,
                         const lifted_groups& free, bool& moved);
  // Replaces size(?x, 1) of a matrix by size(?x, -1) for any rank, except for sizes along an axis that stays a literal.
  void all_from_back(rule_graph& r, const std::vector<kind>& way) const;
  widened_rule& rule_;
  std::vector<known_rank> ranks_{};
  std::vector<place_group> groups_{};
  std::int64_t fixed_ = 0;
};

}  // namespace unity::tensor::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_GENERATION_RANKS)

#include <fmt/core.h>

namespace unity::tensor::detail {

UNITY_INLINE std::optional<syntax::expression> by_rank(const place_group& g, const known_rank* of) {
  if (of == nullptr) {
    return std::nullopt;
  }
  if (g.attribute == "axis") {
    const auto less = of->rank - g.value.integer;
    return less > 0 ? std::optional{below_rank(of->variable, less)} : std::nullopt;
  }
  const bool swaps = swaps_last_two(g.value) && static_cast<std::int64_t>(g.value.arguments.size()) == of->rank;
  return swaps ? std::optional{last_two_swapped(of->variable)} : std::nullopt;
}

UNITY_INLINE std::optional<syntax::expression> moved_axis(const place_group& g, const lifted_groups& free) {
  for (const auto& [permutation, p] : free) {
    for (const auto& [axis, a] : free) {
      if (permutation->attribute != "permutation" || axis->attribute != "axis") {
        continue;
      }
      const auto& list = permutation->value.arguments;
      const auto from = static_cast<std::size_t>(axis->value.integer);
      const auto to = static_cast<std::size_t>(g.value.integer);
      if (from < list.size() && list[from] == g.value) {
        return syntax::call("at", {p, a});
      }
      if (to < list.size() && list[to] == axis->value) {
        return syntax::call("at", {syntax::call("inverse", {p}), a});
      }
    }
  }
  return std::nullopt;
}

UNITY_INLINE void count_from_back(syntax::expression& e, const std::vector<known_rank>& ranks) {
  syntax::for_each_part(e, [&](syntax::expression& part) {
    if (!syntax::is_call(part, "size", 2) || part.arguments[1].kind != syntax::expression::form::integer) {
      return;
    }
    for (const auto& k : ranks) {
      if (k.variable == part.arguments[0].name && part.arguments[1].integer < k.rank) {
        part.arguments[1] = syntax::call("-", {syntax::integer(k.rank - part.arguments[1].integer)});
        return;
      }
    }
  });
}

UNITY_INLINE void distinguish(rule_graph& r, const lifted_groups& free) {
  for (std::size_t i = 0; i < free.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (free[i].first->attribute == "axis" && free[j].first->attribute == "axis") {
        r.rest.conditions.push_back(syntax::call("!=", {free[j].second, free[i].second}));
      }
    }
  }
}

UNITY_INLINE void write_axis(rule_graph& r, const place_group& g, const syntax::expression& axis,
                             const syntax::expression& in_sizes) {
  put(r, g.source, axis);
  put(r, g.target, axis);
  if (g.attribute != "axis") {
    return;
  }
  for (const auto* places : {&g.source, &g.target}) {
    for (const auto& p : *places) {
      auto& n = (p.in_target ? r.target : r.source).nodes[p.node];
      for (auto& a : n.attributes) {
        syntax::for_each_part(a.value, [&](syntax::expression& e) {
          if (syntax::is_call(e, "size", 2) && e.arguments[1] == g.value) {
            e.arguments[1] = in_sizes;
          }
        });
      }
    }
  }
}

UNITY_INLINE void sort_by_appearance(const term_graph& side, std::vector<known_rank>& all) {
  const auto text = to_text(to_terms(side));
  const auto place = [&](const known_rank& k) {
    auto at = text.find(fmt::format("?{}", k.variable));
    while (at != std::string::npos && is_name_character(text, at + 1 + k.variable.size())) {
      at = text.find(fmt::format("?{}", k.variable), at + 1);
    }
    return at;
  };
  std::sort(all.begin(), all.end(), [&](const auto& a, const auto& b) { return place(a) < place(b); });
}

UNITY_INLINE void rank_lifting::run(bool change_ranks) {
  drop_implied();
  groups_ = literal_groups(rule_.rule(), [](std::string_view name) { return name == "axis" || name == "permutation"; });
  for (const auto f : {form::any, form::one_for_all, form::as_they_are}) {
    if (applies(f) && (change_ranks || f == form::as_they_are) && widen(f)) {
      return;
    }
  }
}

UNITY_INLINE void rank_lifting::drop_implied() {
  auto bare = rule_.rule();
  std::vector<known_rank> all;
  std::erase_if(bare.rest.conditions, [&](const syntax::expression& c) {
    const auto known = read_rank(c);
    if (known) {
      all.push_back(*known);
    }
    return known.has_value();
  });
  sort_by_appearance(rule_.rule().source, all);
  auto any_permutation = bare;
  for (const auto& g : literal_groups(bare, [](std::string_view name) { return name == "permutation"; })) {
    put(any_permutation, g.source, rule_.fresh());
  }
  for (const auto& k : all) {
    const auto found = rule_.try_quickly(any_permutation, {k.condition});
    if (found.found == widening::verdict::not_wider && found.misfits == 0) {
      fixed_ = std::max(fixed_, k.rank);
    } else {
      ranks_.push_back(k);
    }
  }
  for (const auto& k : ranks_) {
    bare.rest.conditions.push_back(k.condition);
  }
  if (rule_.is_testable(bare)) {
    rule_.take(std::move(bare));
  } else {
    ranks_ = std::move(all);  // only the conditions make random instances feasible
  }
}

UNITY_INLINE bool rank_lifting::widen(form f) {
  const auto groups = groups_.size() <= most_groups ? groups_.size() : 0;
  const bool in_target_alone =
      std::all_of(groups_.begin(), groups_.end(), [](const auto& g) { return g.source.empty(); });
  std::vector<std::pair<int, std::vector<kind>>> ways;
  std::size_t count = 1;
  for (std::size_t g = 0; g < groups; ++g) {
    count *= kinds;
  }
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<kind> way;
    int cost = 0;
    for (std::size_t g = 0, rest = i; g < groups; ++g, rest /= kinds) {
      way.push_back(static_cast<kind>(rest % kinds));
      const bool simple = way.back() == kind::number && in_target_alone;
      cost += simple ? 0 : static_cast<int>(way.back());
    }
    ways.emplace_back(cost, std::move(way));
  }
  std::sort(ways.begin(), ways.end());
  return std::any_of(ways.begin(), ways.end(), [&](const auto& w) { return widen(f, w.second); });
}

UNITY_INLINE const known_rank* rank_lifting::rank_at(const place& p, const rank_source& of) const {
  if (!of.own) {
    return of.common;
  }
  const auto& side = p.in_target ? rule_.rule().target : rule_.rule().source;
  const auto* o = &side.nodes[p.node].operands;
  while (!o->empty() && o->front().is_node()) {
    o = &side.nodes[o->front().node].operands;
  }
  const auto known = std::find_if(ranks_.begin(), ranks_.end(),
                                  [&](const auto& k) { return !o->empty() && k.variable == o->front().variable; });
  return known == ranks_.end() ? nullptr : &*known;
}

UNITY_INLINE bool rank_lifting::widen(form f, const std::vector<kind>& way) {
  std::vector<candidate> good;
  for (auto& c : candidates(f, way)) {
    if (c.before.empty()) {
      rule_.take(std::move(c.rule));
      return true;
    }
    const auto found = rule_.try_quickly(c.rule, c.before);
    if (found.holds(0) && (!is_free(way) || rule_.fits(found, free_fitting)) &&
        (f == form::as_they_are || !keeps_number(way) || rule_.fits(found, free_fitting))) {
      good.push_back(std::move(c));
    }
  }
  std::size_t best = 0;
  std::size_t best_share = 0;
  for (std::size_t i = 0; good.size() > 1 && i < good.size(); ++i) {
    const auto found = rule_.try_thoroughly(good[i].rule, good[i].before);
    const auto share = found.holds(0) ? found.instances * 100 / (found.instances + found.misfits) : 0;
    if (share > best_share + (best_share == 0 ? 0 : clearly)) {
      best_share = share;
      best = i;
    }
  }
  return !good.empty() && rule_.accept_broadcasting(std::move(good[best].rule), good[best].before);
}

UNITY_INLINE bool rank_lifting::keeps_number(const std::vector<kind>& way) const {
  for (std::size_t g = 0; g < way.size(); ++g) {
    if (way[g] == kind::number && groups_[g].source.empty()) {
      return true;
    }
  }
  return false;
}

UNITY_INLINE auto rank_lifting::candidates(form f, const std::vector<kind>& way) -> std::vector<candidate> {
  const bool names_ranks =
      std::any_of(way.begin(), way.end(), [](kind k) { return k == kind::bounded || k == kind::expressed; });
  std::vector<candidate> all;
  for (const bool moves : {true, false}) {
    if (auto c = make(f, way, {nullptr, !ranks_.empty()}, moves)) {
      all.push_back(*std::move(c));
    }
  }
  for (std::size_t v = 0; names_ranks && v < ranks_.size(); ++v) {
    if (auto c = make(f, way, {&ranks_[v], false}, false)) {
      all.push_back(*std::move(c));
    }
  }
  return all;
}

UNITY_INLINE auto rank_lifting::make(form f, const std::vector<kind>& way, const rank_source& of, bool moves)
    -> std::optional<candidate> {
  candidate c{rule_.rule(), {}};
  apply(f, c);
  bool moved = false;
  lifted_groups free;
  for (std::size_t g = 0; g < way.size(); ++g) {
    const auto& group = groups_[g];
    if (way[g] == kind::number) {
      continue;
    }
    if (group.source.empty() ? !express_in_target(c, group, way[g], of, moves, free, moved)
                             : !express(c, group, way[g], of, free)) {
      return std::nullopt;
    }
  }
  distinguish(c.rule, free);
  if (f != form::as_they_are) {
    all_from_back(c.rule, way);
  }
  return moves && !moved ? std::nullopt : std::optional{std::move(c)};
}

UNITY_INLINE void rank_lifting::apply(form f, candidate& c) const {
  if (f == form::as_they_are) {
    return;
  }
  std::erase_if(c.rule.rest.conditions, [](const auto& e) { return read_rank(e).has_value(); });
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    c.before.push_back(ranks_[i].condition);
    const auto same =
        std::find_if(ranks_.begin(), ranks_.end(), [&](const auto& k) { return k.rank == ranks_[i].rank; });
    const auto first = static_cast<std::size_t>(same - ranks_.begin());
    if (f == form::one_for_all && first < i) {
      c.rule.rest.conditions.push_back(
          syntax::equal(syntax::measure("rank", ranks_[i].variable), syntax::measure("rank", ranks_[first].variable)));
    }
  }
}

UNITY_INLINE std::optional<syntax::expression> rank_lifting::bound(const place_group& g, const known_rank* of) const {
  if (g.attribute != "axis") {
    return std::nullopt;
  }
  if (of != nullptr) {
    return g.value.integer < of->rank - 1 ? std::optional{below_rank(of->variable, 1)} : std::nullopt;
  }
  return g.value.integer < 2 && fixed_ == 4 ? std::optional{syntax::integer(2)} : std::nullopt;
}

UNITY_INLINE bool rank_lifting::express(candidate& c, const place_group& g, kind k, const rank_source& of,
                                        lifted_groups& free) {
  const auto v = rule_.fresh();
  write_axis(c.rule, g, v, v);
  c.before.push_back(syntax::equal(v, g.value));
  if (k == kind::free) {
    free.emplace_back(&g, v);
    return true;
  }
  const auto* rank = rank_at(g.source[0], of);
  const auto e = k == kind::bounded ? bound(g, rank) : by_rank(g, rank);
  if (e) {
    c.rule.rest.conditions.push_back(syntax::call(k == kind::bounded ? "<" : "==", {v, *e}));
    free.emplace_back(&g, v);
  }
  return e.has_value();
}

UNITY_INLINE bool rank_lifting::express_in_target(candidate& c, const place_group& g, kind k, const rank_source& of,
                                                  bool moves, const lifted_groups& free, bool& moved) {
  if (k != kind::expressed) {
    return false;
  }
  if (moves && g.attribute == "axis") {
    if (const auto to = moved_axis(g, free)) {
      moved = true;
      write_axis(c.rule, g, *to, *to);
      return true;
    }
  }
  for (const auto& p : g.target) {
    const auto* rank = rank_at(p, of);
    const auto e = by_rank(g, rank);
    if (!e) {
      return false;
    }
    const auto less = g.attribute == "axis" ? rank->rank - g.value.integer : 0;
    write_axis(c.rule, {g.attribute, g.value, {}, {p}}, *e, syntax::call("-", {syntax::integer(less)}));
  }
  return true;
}

UNITY_INLINE void rank_lifting::all_from_back(rule_graph& r, const std::vector<kind>& way) const {
  std::vector<const graph_node*> kept;
  for (std::size_t g = 0; g < way.size(); ++g) {
    for (const auto* places : {&groups_[g].source, &groups_[g].target}) {
      for (const auto& p : *places) {
        if (way[g] == kind::number) {
          kept.push_back(&(p.in_target ? r.target : r.source).nodes[p.node]);
        }
      }
    }
  }
  for (auto* side : {&r.source, &r.target}) {
    for (auto& n : side->nodes) {
      const bool keeps = std::find(kept.begin(), kept.end(), &n) != kept.end();
      for (auto& a : n.attributes) {
        if (!keeps) {
          count_from_back(a.value, ranks_);
        }
      }
    }
  }
  for (auto& c : r.rest.conditions) {
    count_from_back(c, ranks_);
  }
}

}  // namespace unity::tensor::detail

#endif
