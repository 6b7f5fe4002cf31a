// One text for all rules that differ only in names, or in the order of commutative operands, outputs or sides.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/rewrite/algebra.hpp>
#include <unity/rewrite/generation/expressions.hpp>
#include <unity/rewrite/generation/term_graph.hpp>
#include <unity/rewrite/print.hpp>
#include <unity/rewrite/syntax.hpp>

namespace unity {

// Base names of attribute variables, by attribute; attributes that are missing here use their own name.
using attribute_names = std::map<std::string, std::string, std::less<>>;

namespace detail {

// Renames variables in order of their appearance in the text.
template <pattern_algebra Algebra>
class variable_renamer {
 public:
  variable_renamer(const Algebra& algebra, const attribute_names& names) : algebra_{algebra}, names_{names} {}

  void rename(syntax::rule& r) {
    for (auto* side : {&r.source, &r.target}) {
      for (auto& t : *side) {
        term(t);
      }
    }
    for (auto& c : r.conditions) {
      expression(c, "n");
    }
  }

 private:
  void term(syntax::term& t) {
    for (auto& a : t.attributes) {
      expression(a.value, a.name);
    }
    if (t.kind != syntax::term::form::application) {
      t.name = value_name(fmt::format("{}{}", (t.kind == syntax::term::form::variable ? "" : "?"), t.name));
    }
    for (auto& o : t.operands) {
      term(o);
    }
  }
  void expression(syntax::expression& e, const std::string& attribute) {
    using form = syntax::expression::form;
    if (e.kind == form::variable) {
      e.name = attribute_name(e.name, attribute);
      return;
    }
    const bool measures = e.kind == form::call && !e.arguments.empty() && algebra_.find_measure(e.name).has_value();
    for (std::size_t i = 0; i < e.arguments.size(); ++i) {
      auto& a = e.arguments[i];
      if (measures && i == 0 && (a.kind == form::variable || a.kind == form::indexed_variable)) {
        a.name = value_name(fmt::format("{}{}", (a.kind == form::variable ? "" : "?"), a.name));
      } else {
        expression(a, attribute);
      }
    }
  }
  std::string value_name(const std::string& old) {
    static constexpr std::array<const char*, 10> usual{"x", "y", "z", "w", "v", "u", "t", "s", "r", "q"};
    const auto n = values_.size();
    return values_.emplace(old, n < usual.size() ? usual[n] : fmt::format("v{}", n)).first->second;
  }
  std::string attribute_name(const std::string& old, const std::string& attribute) {
    const auto known = attributes_.find(old);
    if (known != attributes_.end()) {
      return known->second;
    }
    const auto preferred = names_.find(attribute);
    const auto base = preferred == names_.end() ? attribute : preferred->second;
    auto name = base;
    const auto taken = [&] {
      return std::any_of(attributes_.begin(), attributes_.end(), [&](const auto& a) { return a.second == name; });
    };
    for (int i = 2; taken(); ++i) {
      name = fmt::format("{}{}", base, i);
    }
    attributes_.emplace(old, name);
    return name;
  }

  const Algebra& algebra_;
  const attribute_names& names_;
  std::map<std::string, std::string> values_{};
  std::map<std::string, std::string> attributes_{};
};

// Sorts conditions, removes duplicates, and puts the longer side of equalities first.
void sort_conditions(syntax::rule& r);

template <pattern_algebra Algebra>
class canonical_search {
 public:
  canonical_search(const Algebra& algebra, const attribute_names& names) : algebra_{algebra}, names_{names} {}

  syntax::rule run(const syntax::rule& r) {
    auto g = to_graph(algebra_, r);
    spread_outputs(g);
    sides(g);
    if (r.both_ways) {
      std::swap(g.source, g.target);
      sides(g);
    }
    return std::move(best_->second);
  }

 private:
  static constexpr std::size_t most_flips = 6;
  static constexpr std::size_t most_orders = 4;  // all orders are tried for at most this many outputs

  void sides(const rule_graph& g) {
    std::vector<std::size_t> order(g.source.roots.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const bool all_orders = order.size() <= most_orders && g.source.roots.size() == g.target.roots.size();
    do {
      auto ordered = g;
      for (std::size_t i = 0; all_orders && i < order.size(); ++i) {
        ordered.source.roots[i] = g.source.roots[order[i]];
        ordered.target.roots[i] = g.target.roots[order[i]];
      }
      flips(ordered);
    } while (all_orders && std::next_permutation(order.begin(), order.end()));
  }
  void flips(rule_graph& g) {
    std::vector<graph_node*> free;
    for (auto* side : {&g.source, &g.target}) {
      for (auto& n : side->nodes) {
        const auto kind = algebra_.find_kind(n.name);
        const bool commutes = kind && algebra_.signature(*kind).commutative && n.operands.size() == 2;
        if (commutes && n.operands[0] != n.operands[1] && free.size() < most_flips) {
          free.push_back(&n);
        }
      }
    }
    for (std::size_t flipped = 0; flipped < (std::size_t{1} << free.size()); ++flipped) {
      // In Gray code order every step flips one node.
      if (flipped > 0) {
        std::size_t bit = 0;
        while ((flipped >> bit & 1U) == 0) {
          ++bit;
        }
        std::swap(free[bit]->operands[0], free[bit]->operands[1]);
      }
      propose(g);
    }
  }
  void propose(rule_graph g) {
    gather_outputs(g);
    auto r = to_rule(algebra_, g);
    variable_renamer<Algebra>{algebra_, names_}.rename(r);
    sort_conditions(r);
    const auto name = std::exchange(r.name, {});
    auto text = to_text(r);
    auto key = std::tuple{g.source.nodes.size() < g.target.nodes.size(), text.size(), std::move(text)};
    if (!best_ || key < best_->first) {
      r.name = name;
      best_.emplace(std::move(key), std::move(r));
    }
  }

  const Algebra& algebra_;
  const attribute_names& names_;
  std::optional<std::pair<std::tuple<bool, std::size_t, std::string>, syntax::rule>> best_{};
};

}  // namespace detail

// The rule with variables named in order of appearance, default values omitted, and every order that has no meaning
// (commutative operands, outputs, conditions, sides of ==) chosen so that rules that differ only in these are equal
// except for their names. The larger side of == comes first.
// Source: Jia's dissertation (TASO, 2020), section 2.5, input tensor renaming.
// Complexity: exponential in the number of commutative operators (at most six count) and outputs (at most four).
template <pattern_algebra Algebra>
[[nodiscard]] syntax::rule canonical_rule(const Algebra& algebra, const syntax::rule& r,
                                          const attribute_names& names = {}) {
  return detail::canonical_search<Algebra>{algebra, names}.run(r);
}

// Equal for equal statements, regardless of names and standing.
[[nodiscard]] std::string statement_text(const syntax::rule& r);

}  // namespace unity

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_REWRITE_GENERATION_CANONICAL_RULE)

#include <string_view>

namespace unity::detail {

UNITY_INLINE void sort_conditions(syntax::rule& r) {
  std::vector<std::pair<std::string, syntax::expression>> all;
  for (auto& c : r.conditions) {
    if (syntax::is_call(c, "==", 2) || syntax::is_call(c, "!=", 2)) {
      const auto key = [](const syntax::expression& e) { return std::pair{syntax::is_literal(e), to_text(e)}; };
      if (key(c.arguments[1]) < key(c.arguments[0])) {
        std::swap(c.arguments[0], c.arguments[1]);
      }
    }
    auto text = to_text(c);
    all.emplace_back(std::move(text), std::move(c));
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  r.conditions.clear();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i == 0 || all[i].first != all[i - 1].first) {
      r.conditions.push_back(std::move(all[i].second));
    }
  }
}

}  // namespace unity::detail

namespace unity {

UNITY_INLINE std::string statement_text(const syntax::rule& r) {
  auto bare = r;
  bare.name.clear();
  bare.known = syntax::standing::assumed;
  return to_text(bare);
}

}  // namespace unity

#endif
