// Checks whether the terms in a file are consistent, which the checksum of a checkpoint does not guarantee.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include <unity/rewrite/generation/known_rules.hpp>
#include <unity/rewrite/generation/language.hpp>
#include <unity/rewrite/generation/term_store.hpp>
#include <unity/rewrite/generation/variable_map.hpp>

namespace unity {

// Checks terms over stored terms. Language and store must outlive it.
template <term_language L>
class stored_term_check {
 public:
  stored_term_check(const L& language, const term_store& store, std::size_t most_variables)
      : language_{language}, store_{store}, most_variables_{most_variables} {}

  // Whether it is an operator on stored terms, with variables numbered by first occurrence, as terms are stored.
  [[nodiscard]] bool is_term(const term& t) {
    return applies(t) && (t.arity == 0 || is_numbered(t)) && has_few_variables(facts_of(t));
  }
  // The same, and the facts are its own; does not check their type.
  [[nodiscard]] bool is_term(const term& t, term_facts facts) {
    if (!is_term(t)) {
      return false;
    }
    facts.type = 0;
    return same(facts, facts_of(t));
  }
  // Whether it is an operator on stored terms, or a variable, and its variables are among those of the facts.
  [[nodiscard]] bool is_over(const term& t, const term_facts& facts) const {
    if (t.op != term_node::variable) {
      return applies(t) && names_operands(t, facts);
    }
    const bool is_variable = t.operands[0].orbit < language_.sorts().size();
    return is_variable && is_naming(store_[t.operands[0].orbit].facts, t.operands[0].map.cut(1), facts);
  }
  // Whether it is a stored term under a naming of its variables by those of `t`.
  [[nodiscard]] bool is_over(const instance& i, const term& t) {
    return i.orbit < store_.size() && is_naming(store_[i.orbit].facts, i.map, facts_of(t));
  }
  // Whether they are permutations of the variables of the facts, the identity first.
  [[nodiscard]] static bool are_renamings(std::span<const variable_map> group, const term_facts& facts) {
    for (const auto g : group) {
      if (!is_naming(facts, g.cut(facts.variables), facts)) {
        return false;
      }
    }
    return !group.empty() && group[0].cut(facts.variables) == variable_map::identity().cut(facts.variables);
  }

 private:
  [[nodiscard]] static bool same(const term_facts& a, const term_facts& b) noexcept {
    return a.sorts.bits() == b.sorts.bits() && a.type == b.type && a.variables == b.variables && a.size == b.size &&
           a.tree_size == b.tree_size && a.repeats == b.repeats;
  }
  // Without the type.
  [[nodiscard]] term_facts facts_of(const term& t) {
    store_.collect_nodes(t, nodes_);
    return unity::facts_of(store_, t, nodes_.size() + 1);
  }
  // Whether it is an operator of the language on the right number of stored terms.
  [[nodiscard]] bool applies(const term& t) const {
    if (t.op >= language_.operator_count() || t.arity != language_.arity(t.op)) {
      return false;
    }
    for (std::size_t i = 0; i < t.operands.size(); ++i) {
      if (i < t.arity ? t.operands[i].orbit >= store_.size() : t.operands[i] != instance{}) {
        return false;
      }
    }
    return true;
  }
  // Whether the left operand's variables come first, new ones of the right operand follow in order, and each has one
  // sort.
  [[nodiscard]] bool is_numbered(const term& t) const {
    term_facts all;
    for (std::size_t i = 0; i < t.arity; ++i) {
      const auto& f = store_[t.operands[i].orbit].facts;
      for (std::size_t v = 0; v < f.variables; ++v) {
        const auto name = t.operands[i].map[v];
        if (name > all.variables || name >= variable_map::most) {
          return false;
        }
        if (name == all.variables) {
          all.sorts.set(all.variables++, f.sorts[v]);
        }
      }
      if (i == 0 && all.variables != f.variables) {
        return false;
      }
    }
    return names_operands(t, all);
  }
  [[nodiscard]] bool names_operands(const term& t, const term_facts& facts) const {
    for (std::size_t i = 0; i < t.arity; ++i) {
      if (!is_naming(store_[t.operands[i].orbit].facts, t.operands[i].map, facts)) {
        return false;
      }
    }
    return true;
  }
  // Whether different variables have different names, each one that of a variable of the same sort, and nothing else
  // has a name.
  [[nodiscard]] static bool is_naming(const term_facts& of, variable_map names, const term_facts& by) {
    unsigned taken = 0;
    for (std::size_t v = 0; v < of.variables; ++v) {
      const auto name = names[v];
      if (name >= by.variables || by.sorts[name] != of.sorts[v] || (taken >> name & 1U) != 0) {
        return false;
      }
      taken |= 1U << name;
    }
    return names == names.cut(of.variables);
  }
  [[nodiscard]] bool has_few_variables(const term_facts& f) const {
    std::array<std::size_t, 16> of_sort{};
    for (std::size_t v = 0; v < f.variables; ++v) {
      if (++of_sort[f.sorts[v]] > most_variables_) {
        return false;
      }
    }
    return true;
  }

  const L& language_;
  const term_store& store_;
  std::size_t most_variables_;
  std::vector<instance> nodes_{};
};

}  // namespace unity
