// Equalities found so far, and whether they explain that a term equals an earlier one.
#pragma once

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
#include <unity/core/small_vector.hpp>
#include <unity/rewrite/generation/language.hpp>
#include <unity/rewrite/generation/naming.hpp>
#include <unity/rewrite/generation/term_store.hpp>

namespace unity {

// A term equals an earlier one. Variables of `right` are numbered like those of `left`.
struct found_rule {
  stored_term left{};
  term_facts facts{};   // of left
  stored_term right{};  // op == term_node::variable: operands[0] is a variable
  std::uint8_t right_size = 0;
};

// Several results of one operation equal earlier terms. Variables of `right` are numbered like those of `left`.
struct found_joint_rule {
  std::vector<stored_term> left{};
  term_facts facts{};
  std::vector<stored_term> right{};
};

struct term_hash {
  std::size_t operator()(const stored_term& t) const noexcept {
    auto h = hash_combine(t.op, static_cast<std::uint64_t>(t.operands[0].orbit) << 32U | t.operands[1].orbit);
    return hash_combine(h, t.operands[1].map.bits());
  }
};

// The order of terms: fewer operators first, then terms with all-different variables, so general terms precede their
// instances.
[[nodiscard]] inline auto order_key(const stored_term& t, const term_facts& f) noexcept {
  return std::tuple{
      f.size, f.tree_size, f.repeats, t.op, t.operands[0].orbit, t.operands[1].orbit, t.operands[1].map.bits()};
}

// The facts of op(operands) without its type.
[[nodiscard]] term_facts facts_of(const term_store& store, const stored_term& t, std::size_t size);

// Maps every typed term below the current size to the instance of a stored term that it equals.
using term_table = std::unordered_map<stored_term, term_instance, term_hash>;

class known_rules {
 public:
  known_rules(const term_store& store, const term_table& table, std::vector<bool> commutative)
      : store_{store}, table_{table}, commutative_{std::move(commutative)}, by_op_(commutative_.size()) {}

  [[nodiscard]] std::span<const found_rule> all() const noexcept { return rules_; }

  void add(const found_rule& r);

  // A term of the same type before `t` that some rule derives from `t` at its root, and the variables of that term in
  // t; nothing if no rule does. A variable has its sort's orbit as operand.
  // type_of(term): the type of a term as large as t, or nothing.
  template <class TypeOf>
  [[nodiscard]] std::optional<canonical_term> explain(const stored_term& t, const term_facts& f,
                                                      const TypeOf& type_of) {
    const auto key = order_key(t, f);
    std::optional<canonical_term> earlier;
    rewrite(t, std::nullopt, [&](const canonical_term& c) {
      if (comes_before(c, f, key, type_of)) {
        earlier = c;
      }
      return earlier.has_value();
    });
    return earlier;
  }
  // The renamings with which some rule rewrites `t` at its root to itself.
  void self_renamings(const stored_term& t, std::vector<variable_map>& out);

 private:
  // A rule can only match a term if the operators of their outlines agree in the known bits.
  struct entry {
    std::uint64_t outline = 0;
    std::uint64_t known = 0;
    std::uint32_t rule = 0;
    std::uint16_t to = 0;  // root operator of the result
  };
  struct binding {
    std::array<term_instance, variable_map::most> to{};
    std::uint8_t bound = 0;
  };
  struct goal {
    term_instance pattern{};
    term_instance target{};
  };
  using goals = small_vector<goal, 8>;

  template <class Key, class TypeOf>
  [[nodiscard]] bool comes_before(const canonical_term& c, const term_facts& f, const Key& key, const TypeOf& type_of) {
    if (c.term.op == term_node::variable) {
      return store_[c.term.operands[0].orbit].facts.type == f.type;
    }
    store_.collect_nodes(c.term, nodes_);
    const auto size = nodes_.size() + 1;
    if (size < f.size) {
      const auto found = table_.find(c.term);
      return found != table_.end() && store_[found->second.orbit].facts.type == f.type;
    }
    return size == f.size && order_key(c.term, facts_of(store_, c.term, size)) < key && type_of(c.term) == f.type;
  }

  // The operators of the operands and of their operands, eight bits each, with the operands in order or `swapped`.
  // Different operators may have the same bits.
  [[nodiscard]] std::uint64_t outline(const stored_term& t, std::size_t swapped) const;
  // The bits of a pattern's outline that every matching term must share: a variable matches anything, and a commutative
  // operator matches its operands in both orders.
  [[nodiscard]] std::uint64_t known_below(const term_instance& pattern, std::size_t i) const;
  static constexpr std::uint64_t every_bit = 0xff;
  [[nodiscard]] static std::uint64_t bits_of(std::uint16_t op) noexcept { return op & every_bit; }
  [[nodiscard]] static std::size_t head_at(std::size_t i) noexcept { return 8 * i; }
  [[nodiscard]] static std::size_t part_at(std::size_t i, std::size_t k) noexcept { return 16 + 16 * i + 8 * k; }

  // Calls accept(stored form) for each term that a rule derives from `t` at its root, until it returns true. to: if
  // given, only terms with this root operator.
  template <class Accept>
  void rewrite(const stored_term& t, std::optional<std::uint16_t> to, const Accept& accept) {
    const std::array outlines{outline(t, 0), outline(t, 1)};
    const std::size_t orders = commutative_[t.op] && t.arity == 2 ? 2 : 1;
    for (const auto& e : by_op_[t.op]) {
      for (std::size_t first = 0; first < orders; ++first) {
        const bool may_fit = ((e.outline ^ outlines[first]) & e.known) == 0 && (!to || e.to == *to);
        if (may_fit && attempt(rules_[e.rule], t, first, accept)) {
          return;
        }
      }
    }
  }
  template <class Accept>
  [[nodiscard]] bool attempt(const found_rule& r, const stored_term& t, std::size_t first, const Accept& accept) const {
    goals open;
    for (std::size_t i = 0; i < t.arity; ++i) {
      open.push_back({r.left.operands[i], t.operands[t.arity == 2 ? i ^ first : i]});
    }
    return solve(open, {}, [&](const binding& b) {
      const auto made = build_root(r.right, b);
      return made && accept(*made);
    });
  }

  [[nodiscard]] term_instance operand(const term_instance& of, std::size_t i) const {
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
        other.push_back({operand(pattern, 0), operand(target, 1)});
        other.push_back({operand(pattern, 1), operand(target, 0)});
        if (solve(other, b, done)) {
          return true;
        }
      }
      for (std::size_t i = 0; i < p.term.arity; ++i) {
        open.push_back({operand(pattern, i), operand(target, i)});
      }
    }
    return done(b);
  }

  // The stored instance that a pattern becomes under a binding.
  [[nodiscard]] std::optional<term_instance> build(term_instance pattern, const binding& b) const;
  [[nodiscard]] std::optional<canonical_term> build_root(const stored_term& right, const binding& b) const;

  const term_store& store_;
  const term_table& table_;
  std::vector<bool> commutative_;
  std::vector<found_rule> rules_;
  std::vector<std::vector<entry>> by_op_;
  std::vector<term_instance> nodes_;
};

}  // namespace unity

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_REWRITE_GENERATION_KNOWN_RULES)

#include <algorithm>

namespace unity {

UNITY_INLINE term_facts facts_of(const term_store& store, const stored_term& t, std::size_t size) {
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

UNITY_INLINE void known_rules::add(const found_rule& r) {
  const auto mask = [&](std::size_t i) { return i < r.left.arity ? known_below(r.left.operands[i], i) : 0; };
  by_op_[r.left.op].push_back(
      {outline(r.left, 0), mask(0) | mask(1), static_cast<std::uint32_t>(rules_.size()), r.right.op});
  rules_.push_back(r);
}

UNITY_INLINE void known_rules::self_renamings(const stored_term& t, std::vector<variable_map>& out) {
  rewrite(t, t.op, [&](const canonical_term& c) {
    if (c.term == t) {
      out.push_back(c.names);
    }
    return false;
  });
}

UNITY_INLINE std::uint64_t known_rules::outline(const stored_term& t, std::size_t swapped) const {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < t.arity; ++i) {
    const auto& operand = store_[t.operands[t.arity == 2 ? i ^ swapped : i].orbit].term;
    bits |= bits_of(operand.op) << head_at(i);
    for (std::size_t k = 0; k < operand.arity; ++k) {
      bits |= bits_of(store_[operand.operands[k].orbit].term.op) << part_at(i, k);
    }
  }
  return bits;
}

UNITY_INLINE std::uint64_t known_rules::known_below(const term_instance& pattern, std::size_t i) const {
  const auto& p = store_[pattern.orbit].term;
  if (p.op == term_node::variable) {
    return 0;
  }
  auto bits = every_bit << head_at(i);
  for (std::size_t k = 0; k < p.arity && !(commutative_[p.op] && p.arity == 2); ++k) {
    bits |= store_[p.operands[k].orbit].term.op == term_node::variable ? 0 : every_bit << part_at(i, k);
  }
  return bits;
}

UNITY_INLINE std::optional<term_instance> known_rules::build(term_instance pattern, const binding& b) const {
  const auto& p = store_[pattern.orbit];
  if (p.term.op == term_node::variable) {
    return b.to[pattern.map[0]];
  }
  std::array<term_instance, 2> made{};
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
  return term_instance{found->second.orbit,
                       found->second.map.then(c.names, store_[found->second.orbit].facts.variables)};
}

UNITY_INLINE std::optional<canonical_term> known_rules::build_root(const stored_term& right, const binding& b) const {
  std::array<term_instance, 2> made{};
  if (right.op == term_node::variable) {
    const auto found = b.to[right.operands[0].map[0]];
    const auto& o = store_[found.orbit];
    if (o.term.op == term_node::variable) {
      return canonical_term{{term_node::variable, 0, {term_instance{found.orbit, {}}}}, found.map, 1};
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

}  // namespace unity

#endif
