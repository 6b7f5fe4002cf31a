// Equalities found so far, and whether they explain that a term equals an earlier one.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/rewrite/generation/language.hpp>
#include <unity/rewrite/generation/naming.hpp>
#include <unity/rewrite/generation/term_store.hpp>
#include <unity/rewrite/generation/variable_map.hpp>

namespace unity {

// A term equals an earlier one. Variables of `right` are numbered as those of `left`.
struct found_rule {
  term left{};
  term_facts facts{};  // of left
  term right{};        // op == term_node::variable: operands[0] is a variable
  std::uint8_t right_size = 0;
};

// Several results of one operation equal earlier terms. Variables of `right` are numbered as those of `left`.
struct found_joint_rule {
  std::vector<term> left{};
  term_facts facts{};
  std::vector<term> right{};
};

struct term_hash {
  std::size_t operator()(const term& t) const noexcept {
    auto h = hash_combine(t.op, static_cast<std::uint64_t>(t.operands[0].orbit) << 32U | t.operands[1].orbit);
    return hash_combine(h, t.operands[1].map.bits());
  }
};

// Terms before others: few operators, then all-different variables, so that general terms come before their instances.
[[nodiscard]] inline auto order_key(const term& t, const term_facts& f) noexcept {
  return std::tuple{f.size,        f.tree_size, f.repeats, t.op, t.operands[0].orbit, t.operands[1].orbit,
                    t.operands[1].map.bits()};
}

// The facts of op(operands) but for its type.
[[nodiscard]] inline term_facts facts_of(const term_store& store, const term& t, std::size_t size) {
  term_facts f;
  f.size = static_cast<std::uint8_t>(size);
  unsigned tree = 1;
  unsigned repeats = 0;
  unsigned occurrences = 0;
  for (std::size_t i = 0; i < t.arity; ++i) {
    const auto& o = store[t.operands[i].orbit].facts;
    tree += o.tree_size;
    repeats += o.repeats;
    occurrences += o.variables;
    for (std::size_t v = 0; v < o.variables; ++v) {
      const auto name = t.operands[i].map[v];
      f.sorts.set(name, o.sorts[v]);
      f.variables = std::max<std::uint8_t>(f.variables, static_cast<std::uint8_t>(name + 1));
    }
  }
  f.tree_size = static_cast<std::uint8_t>(std::min(255U, tree));
  f.repeats = static_cast<std::uint8_t>(repeats + occurrences - f.variables);
  return f;
}

// What every typed term below the current size is: an instance of a stored one.
using term_table = std::unordered_map<term, instance, term_hash>;


class known_rules {
 public:
  known_rules(const term_store& store, const term_table& table, std::vector<bool> commutative)
      : store_{store}, table_{table}, commutative_{std::move(commutative)}, by_op_(commutative_.size()) {}

  [[nodiscard]] std::span<const found_rule> all() const noexcept { return rules_; }

  void add(const found_rule& r) {
    by_op_[r.left.op].push_back({static_cast<std::uint32_t>(rules_.size()), head(r.left, 0), head(r.left, 1)});
    rules_.push_back(r);
  }

  // Whether some rule rewrites `t` at its root to a term of the same type that comes before it.
  // type_of(term): the type of a term as large as t, or nothing.
  template <class TypeOf>
  [[nodiscard]] bool explains(const term& t, const term_facts& f, const TypeOf& type_of) {
    const auto key = order_key(t, f);
    return rewritten(t, [&](const canonical_term& c) {
      if (c.term.op == term_node::variable) {
        return true;
      }
      store_.collect_nodes(c.term, nodes_);
      const auto size = nodes_.size() + 1;
      if (size < f.size) {
        return table_.contains(c.term);
      }
      return size == f.size && order_key(c.term, facts_of(store_, c.term, size)) < key && type_of(c.term) == f.type;
    });
  }
  // The renamings under which some rule rewrites `t` at its root to itself.
  void self_renamings(const term& t, std::vector<variable_map>& out) {
    static_cast<void>(rewritten(t, [&](const canonical_term& c) {
      if (c.term == t) {
        out.push_back(c.names);
      }
      return false;
    }));
  }

 private:
  struct entry {
    std::uint32_t rule = 0;
    std::uint16_t left = 0;
    std::uint16_t right = 0;
  };
  struct binding {
    std::array<instance, variable_map::most> to{};
    std::uint8_t bound = 0;
  };
  using goal = std::pair<instance, instance>;  // pattern, target
  using goals = std::vector<goal>;

  [[nodiscard]] std::uint16_t head(const term& t, std::size_t i) const {
    return i < t.arity ? store_[t.operands[i].orbit].term.op : term_node::variable;
  }
  // A pattern's variable fits anything.
  [[nodiscard]] static bool fits(std::uint16_t pattern, std::uint16_t target) noexcept {
    return pattern == term_node::variable || pattern == target;
  }

  // Calls accept(stored form) for each term that a rule makes of `t` at its root until it returns true.
  template <class Accept>
  [[nodiscard]] bool rewritten(const term& t, Accept&& accept) {
    const auto left = head(t, 0);
    const auto right = head(t, 1);
    const bool swaps = commutative_[t.op] && t.arity == 2;
    for (const auto& e : by_op_[t.op]) {
      const auto& r = rules_[e.rule];
      const auto attempt = [&](std::size_t first) {
        goals open;
        for (std::size_t i = 0; i < t.arity; ++i) {
          open.emplace_back(r.left.operands[i], t.operands[(i + first) % std::max<std::size_t>(1, t.arity)]);
        }
        return solve(std::move(open), {}, [&](const binding& b) {
          const auto made = build_root(r.right, b);
          return made && accept(*made);
        });
      };
      if (fits(e.left, left) && fits(e.right, right) && attempt(0)) {
        return true;
      }
      if (swaps && fits(e.left, right) && fits(e.right, left) && attempt(1)) {
        return true;
      }
    }
    return false;
  }

  [[nodiscard]] instance operand(const instance& of, std::size_t i) const {
    const auto& part = store_[of.orbit].term.operands[i];
    return {part.orbit, part.map.then(of.map, store_[part.orbit].facts.variables)};
  }

  template <class Done>
  [[nodiscard]] bool solve(goals open, binding b, const Done& done) const {
    while (!open.empty()) {
      const auto [pattern, target] = open.back();
      open.pop_back();
      const auto& p = store_[pattern.orbit];
      if (p.term.op == term_node::variable) {
        const auto v = pattern.map[0];
        const auto found = store_.canonical(target);
        if ((b.bound >> v & 1U) != 0) {
          if (!(b.to[v] == found)) {
            return false;
          }
        } else {
          b.bound |= static_cast<std::uint8_t>(1U << v);
          b.to[v] = found;
        }
        continue;
      }
      const auto& t = store_[target.orbit];
      if (t.term.op != p.term.op) {
        return false;
      }
      if (commutative_[p.term.op] && p.term.arity == 2) {
        auto other = open;
        other.emplace_back(operand(pattern, 0), operand(target, 1));
        other.emplace_back(operand(pattern, 1), operand(target, 0));
        if (solve(std::move(other), b, done)) {
          return true;
        }
      }
      for (std::size_t i = 0; i < p.term.arity; ++i) {
        open.emplace_back(operand(pattern, i), operand(target, i));
      }
    }
    return done(b);
  }

  // The stored instance that a pattern becomes.
  [[nodiscard]] std::optional<instance> build(instance pattern, const binding& b) const {
    const auto& p = store_[pattern.orbit];
    if (p.term.op == term_node::variable) {
      return b.to[pattern.map[0]];
    }
    std::array<instance, 2> made{};
    for (std::size_t i = 0; i < p.term.arity; ++i) {
      const auto part = build(operand(pattern, i), b);
      if (!part) {
        return std::nullopt;
      }
      made[i] = *part;
    }
    const auto c = canonical(store_, p.term.op, commutative_[p.term.op], std::span{made}.first(p.term.arity));
    const auto found = table_.find(c.term);
    if (found == table_.end()) {
      return std::nullopt;
    }
    return instance{found->second.orbit, found->second.map.then(c.names, store_[found->second.orbit].facts.variables)};
  }
  [[nodiscard]] std::optional<canonical_term> build_root(const term& right, const binding& b) const {
    std::array<instance, 2> made{};
    if (right.op == term_node::variable) {
      const auto found = b.to[right.operands[0].map[0]];
      const auto& o = store_[found.orbit];
      if (o.term.op == term_node::variable) {
        return canonical_term{{}, found.map, 1};
      }
      return canonical_term{o.term, found.map, o.facts.variables};
    }
    for (std::size_t i = 0; i < right.arity; ++i) {
      const auto part = build(right.operands[i], b);
      if (!part) {
        return std::nullopt;
      }
      made[i] = *part;
    }
    return canonical(store_, right.op, commutative_[right.op], std::span{made}.first(right.arity));
  }

  const term_store& store_;
  const term_table& table_;
  std::vector<bool> commutative_;
  std::vector<found_rule> rules_;
  std::vector<std::vector<entry>> by_op_;
  std::vector<instance> nodes_;
};

}  // namespace unity
