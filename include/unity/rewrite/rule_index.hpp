// Substitutions prepared for matching: which of them can involve a node, and how to continue from there.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/rewrite/node_store.hpp>
#include <unity/rewrite/substitution.hpp>

namespace unity {

// One step from a value up to a node that uses it.
struct climb_step {
  std::int32_t result = 0;    // of the lower node; pattern_operand::each for any
  kind_id kind{};             // of the user
  std::int32_t operand = -1;  // index of the operand that reads the value; -1 for any
};
using climb = std::vector<climb_step>;

// How to find another root after some are matched.
struct root_link {
  std::size_t root = 0;    // index in source.roots
  bool connected = false;  // otherwise every node of the root's kind is tried
  pattern_operand from{};  // a variable or node that is already bound
  kind_id first_kind{};    // of the first node above a variable
  std::int32_t first_operand = -1;
  climb path{};  // from that node (or from.slot itself) up to the root
};

// A position in a pattern that a node of some kind can match.
struct anchor {
  std::uint32_t rule = 0;
  std::uint32_t slot = 0;
  std::size_t root = 0;  // that the path leads to
  climb path{};
};

struct prepared_rule {
  const substitution* rule = nullptr;
  bool repeats = false;
  std::vector<std::vector<attribute_check<attribute_id>>> checks{};  // by pattern node
  std::vector<std::vector<root_link>> links{};                       // by the root that is matched first
  // Roots that the source does not tell apart. A match is offered with their nodes in ascending order only, even where
  // the target tells them apart: both orders would double the candidates of rules such as the merging of two operators.
  std::vector<std::pair<std::size_t, std::size_t>> symmetric{};
  std::optional<root_link> sibling{};  // of a repeated root: from what the repetitions share up to each of them
};

namespace detail {

std::int32_t read_position(const pattern_node& n, std::size_t k);

// The path from pattern node `slot` up to a root, and which root.
std::pair<std::size_t, climb> path_to_root(const pattern& p, std::size_t slot);

// Finds a term below `slot` with bound(term), and the path from it up to `slot`.
template <class Bound>
std::optional<root_link> link_below(const pattern& p, std::size_t slot, const climb& above, const Bound& bound) {
  const auto& n = p.nodes[slot];
  for (std::size_t k = 0; k < n.operands.size(); ++k) {
    if (bound(n.operands[k])) {
      root_link link{0, true, n.operands[k], n.kind, read_position(n, k), above};
      if (!link.from.is_variable) {
        link.path.insert(link.path.begin(), {n.operands[k].result, n.kind, read_position(n, k)});
      }
      return link;
    }
  }
  for (std::size_t k = 0; k < n.operands.size(); ++k) {
    const auto& o = n.operands[k];
    if (!o.is_variable) {
      auto longer = above;
      longer.insert(longer.begin(), {o.result, n.kind, read_position(n, k)});
      if (auto link = link_below(p, o.slot, longer, bound)) {
        return link;
      }
    }
  }
  return std::nullopt;
}

void mark_below(const pattern& p, std::size_t slot, std::vector<bool>& nodes, std::vector<bool>& variables);

// The order in which the other roots are found after root `first` is matched.
std::vector<root_link> plan_roots(const substitution& s, std::size_t first);

// How the repetitions of an indexed root are connected.
std::optional<root_link> sibling_link(const substitution& s);

// Whether exchanging two roots maps the source to itself: an involution on variables and nodes.
class root_exchange {
 public:
  explicit root_exchange(const substitution& s)
      : s_{s}, variables_(s.variables, unset), attributes_(s.attribute_variables, unset) {}

  bool holds(std::size_t a, std::size_t b);

 private:
  static constexpr std::size_t unset = ~std::size_t{0};

  bool others_stay(std::size_t a, std::size_t b);
  static bool pair(std::vector<std::size_t>& map, std::size_t a, std::size_t b);
  bool nodes(std::size_t a, std::size_t b);
  [[nodiscard]] compiled_expression renamed(compiled_expression e) const;

  const substitution& s_;
  std::vector<std::size_t> variables_;
  std::vector<std::size_t> attributes_;
};

}  // namespace detail

// The rules of a search, indexed by operator kind. Keeps pointers into `rules`.
class rule_index {
 public:
  template <class Store>
  rule_index(const rule_set& rules, Store& store) {
    by_kind_.resize(store.algebra().kind_count());
    unconnected_kinds_.resize(store.algebra().kind_count());
    for (const auto& s : rules) {
      add(s, store);
    }
  }

  [[nodiscard]] const prepared_rule& rule(std::size_t i) const { return rules_[i]; }
  [[nodiscard]] std::size_t size() const noexcept { return rules_.size(); }
  // The positions that a node of this kind can match, in rules with connected roots.
  [[nodiscard]] std::span<const anchor> anchors(kind_id kind) const {
    return kind.valid() ? std::span<const anchor>{by_kind_[kind.index()]} : std::span<const anchor>{};
  }
  // The first roots of the rules with unconnected roots.
  [[nodiscard]] std::span<const anchor> unconnected() const noexcept { return unconnected_; }
  [[nodiscard]] bool is_unconnected_root(kind_id kind) const {
    return kind.valid() && unconnected_kinds_[kind.index()];
  }

 private:
  template <class Store>
  void add(const substitution& s, Store& store) {
    prepared_rule r;
    r.rule = &s;
    r.repeats = s.repeats();
    for (const auto& n : s.source.nodes) {
      r.checks.push_back(checks(n, store));
    }
    for (std::size_t first = 0; first < s.source.roots.size(); ++first) {
      r.links.push_back(detail::plan_roots(s, first));
      for (std::size_t other = first + 1; other < s.source.roots.size(); ++other) {
        if (detail::root_exchange{s}.holds(first, other)) {
          r.symmetric.emplace_back(first, other);
        }
      }
    }
    r.sibling = detail::sibling_link(s);
    const auto number = static_cast<std::uint32_t>(rules_.size());
    if (std::any_of(r.links[0].begin(), r.links[0].end(), [](const auto& link) { return !link.connected; })) {
      for (const auto& root : s.source.roots) {
        unconnected_kinds_[s.source.nodes[root.slot].kind.index()] = true;
      }
      unconnected_.push_back({number, s.source.roots[0].slot, 0, {}});
    } else {
      for (std::size_t slot = 0; slot < s.source.nodes.size(); ++slot) {
        auto [root, path] = detail::path_to_root(s.source, slot);
        by_kind_[s.source.nodes[slot].kind.index()].push_back(
            {number, static_cast<std::uint32_t>(slot), root, std::move(path)});
      }
    }
    rules_.push_back(std::move(r));
  }

  template <class Store>
  static std::vector<attribute_check<attribute_id>> checks(const pattern_node& n, Store& store) {
    std::vector<attribute_check<attribute_id>> all;
    for (std::uint32_t i = 0; i < n.attributes.size(); ++i) {
      const auto& a = n.attributes[i];
      if (a.kind == pattern_attribute::form::bind) {
        all.push_back({i, true, static_cast<std::uint32_t>(a.slot), {}});
      } else if (a.kind == pattern_attribute::form::value && a.value.kind == compiled_expression::form::literal) {
        all.push_back({i, false, 0, store.intern(a.value.literal)});
      }
    }
    return all;
  }

  std::vector<prepared_rule> rules_;
  std::vector<std::vector<anchor>> by_kind_;
  std::vector<anchor> unconnected_;
  std::vector<bool> unconnected_kinds_;
};

}  // namespace unity

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_REWRITE_RULE_INDEX)

#include <map>

namespace unity::detail {

UNITY_INLINE std::int32_t read_position(const pattern_node& n, std::size_t k) {
  const bool moves =
      n.commutative || std::any_of(n.operands.begin(), n.operands.end(), [](const auto& o) { return o.repeated; });
  return moves ? -1 : static_cast<std::int32_t>(k);
}

UNITY_INLINE std::pair<std::size_t, climb> path_to_root(const pattern& p, std::size_t slot) {
  for (std::size_t r = 0; r < p.roots.size(); ++r) {
    if (p.roots[r].slot == slot) {
      return {r, {}};
    }
  }
  for (std::size_t user = slot + 1; user < p.nodes.size(); ++user) {
    for (std::size_t k = 0; k < p.nodes[user].operands.size(); ++k) {
      const auto& o = p.nodes[user].operands[k];
      if (!o.is_variable && o.slot == slot) {
        auto [root, rest] = path_to_root(p, user);
        rest.insert(rest.begin(), {o.result, p.nodes[user].kind, read_position(p.nodes[user], k)});
        return {root, std::move(rest)};
      }
    }
  }
  return {p.roots.size(), {}};
}

UNITY_INLINE void mark_below(const pattern& p, std::size_t slot, std::vector<bool>& nodes,
                             std::vector<bool>& variables) {
  nodes[slot] = true;
  for (const auto& o : p.nodes[slot].operands) {
    if (o.is_variable) {
      variables[o.slot] = true;
    } else {
      mark_below(p, o.slot, nodes, variables);
    }
  }
}

UNITY_INLINE std::vector<root_link> plan_roots(const substitution& s, std::size_t first) {
  const auto& p = s.source;
  std::vector<bool> nodes(p.nodes.size());
  std::vector<bool> variables(s.variables);
  mark_below(p, p.roots[first].slot, nodes, variables);
  const auto bound = [&](const pattern_operand& o) {
    const bool own = o.is_variable ? s.indexed_variables[o.slot] : p.nodes[o.slot].indexed;
    return !own && (o.is_variable ? variables[o.slot] : nodes[o.slot]);
  };
  std::vector<root_link> plan;
  std::vector<std::size_t> waiting;
  for (std::size_t r = 0; r < p.roots.size(); ++r) {
    if (r != first) {
      waiting.push_back(r);
    }
  }
  while (!waiting.empty()) {
    auto chosen = waiting.begin();
    root_link link{*chosen, false, {}, {}, -1, {}};
    for (auto it = waiting.begin(); it != waiting.end() && !link.connected; ++it) {
      if (nodes[p.roots[*it].slot]) {
        link = {*it, true, p.roots[*it], {}, -1, {}};
        chosen = it;
      } else if (auto found = link_below(p, p.roots[*it].slot, {}, bound)) {
        link = *found;
        link.root = *it;
        chosen = it;
      }
    }
    mark_below(p, p.roots[link.root].slot, nodes, variables);
    plan.push_back(std::move(link));
    waiting.erase(chosen);
  }
  return plan;
}

UNITY_INLINE std::optional<root_link> sibling_link(const substitution& s) {
  const auto& root = s.source.roots[0];
  if (!root.repeated || !s.source.nodes[root.slot].indexed) {
    return std::nullopt;
  }
  // A shared node with one result per repetition determines which repetition is which.
  auto by_result = link_below(s.source, root.slot, {}, [&](const pattern_operand& o) {
    return !o.is_variable && o.result == pattern_operand::each && !s.source.nodes[o.slot].indexed;
  });
  return by_result ? by_result : link_below(s.source, root.slot, {}, [&](const pattern_operand& o) {
    return o.is_variable ? !s.indexed_variables[o.slot] : !s.source.nodes[o.slot].indexed;
  });
}

UNITY_INLINE bool root_exchange::holds(std::size_t a, std::size_t b) {
  const auto& roots = s_.source.roots;
  return roots[a].slot != roots[b].slot && roots[a].result == roots[b].result && nodes(roots[a].slot, roots[b].slot) &&
         others_stay(a, b) && std::all_of(s_.conditions.begin(), s_.conditions.end(), [&](const auto& c) {
           return std::find(s_.conditions.begin(), s_.conditions.end(), renamed(c)) != s_.conditions.end();
         });
}

UNITY_INLINE bool root_exchange::others_stay(std::size_t a, std::size_t b) {
  const auto& roots = s_.source.roots;
  for (std::size_t r = 0; r < roots.size(); ++r) {
    if (r != a && r != b && !nodes(roots[r].slot, roots[r].slot)) {
      return false;
    }
  }
  return true;
}

UNITY_INLINE bool root_exchange::pair(std::vector<std::size_t>& map, std::size_t a, std::size_t b) {
  if (map[a] == unset && map[b] == unset) {
    map[a] = b;
    map[b] = a;
  }
  return map[a] == b && map[b] == a;
}

UNITY_INLINE bool root_exchange::nodes(std::size_t a, std::size_t b) {
  const auto& x = s_.source.nodes[a];
  const auto& y = s_.source.nodes[b];
  if (x.kind != y.kind || x.operands.size() != y.operands.size()) {
    return false;
  }
  for (std::size_t i = 0; i < x.attributes.size(); ++i) {
    const auto& f = x.attributes[i];
    const auto& g = y.attributes[i];
    const bool same =
        f.kind == pattern_attribute::form::bind && g.kind == f.kind ? pair(attributes_, f.slot, g.slot) : f == g;
    if (!same) {
      return false;
    }
  }
  for (std::size_t k = 0; k < x.operands.size(); ++k) {
    const auto& o = x.operands[k];
    const auto& q = y.operands[k];
    const bool alike = o.is_variable == q.is_variable && o.result == q.result && o.repeated == q.repeated;
    if (!alike || !(o.is_variable ? pair(variables_, o.slot, q.slot) : nodes(o.slot, q.slot))) {
      return false;
    }
  }
  return true;
}

UNITY_INLINE compiled_expression root_exchange::renamed(compiled_expression e) const {
  if (e.kind == compiled_expression::form::measure && variables_[e.slot] != unset) {
    e.slot = variables_[e.slot];
  } else if (e.kind == compiled_expression::form::attribute_variable && attributes_[e.slot] != unset) {
    e.slot = attributes_[e.slot];
  }
  for (auto& a : e.arguments) {
    a = renamed(std::move(a));
  }
  return e;
}

}  // namespace unity::detail

#endif
