// Saves an enumeration to a file and resumes it from there.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/archive.hpp>
#include <unity/core/config.hpp>
#include <unity/rewrite/generation/enumerate.hpp>
#include <unity/rewrite/generation/known_rules.hpp>
#include <unity/rewrite/generation/language.hpp>
#include <unity/rewrite/generation/term_store.hpp>

namespace unity {

// Checks terms over stored terms. Language and store must outlive it.
template <term_language L>
class stored_term_check {
 public:
  stored_term_check(const L& language, const term_store& store, std::size_t most_variables)
      : language_{language}, store_{store}, most_variables_{most_variables} {}

  // Whether it is an operator on stored terms, with variables numbered by first occurrence, as terms are stored.
  [[nodiscard]] bool is_term(const stored_term& t) {
    return applies(t) && (t.arity == 0 || is_numbered(t)) && has_few_variables(facts_of(t));
  }
  // The same, and the facts are its own; does not check their type.
  [[nodiscard]] bool is_term(const stored_term& t, term_facts facts) {
    if (!is_term(t)) {
      return false;
    }
    facts.type = 0;
    return same(facts, facts_of(t));
  }
  // Whether it is an operator on stored terms, or a variable, and its variables are among those of the facts.
  [[nodiscard]] bool is_over(const stored_term& t, const term_facts& facts) const {
    if (t.op != term_node::variable) {
      return applies(t) && names_operands(t, facts);
    }
    const bool is_variable = t.operands[0].orbit < language_.sorts().size();
    return is_variable && is_naming(store_[t.operands[0].orbit].facts, t.operands[0].map.cut(1), facts);
  }
  // Whether it is a stored term under a naming of its variables by those of `t`.
  [[nodiscard]] bool is_over(const term_instance& i, const stored_term& t) {
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
  [[nodiscard]] term_facts facts_of(const stored_term& t) {
    store_.collect_nodes(t, nodes_);
    return unity::facts_of(store_, t, nodes_.size() + 1);
  }
  // Whether it is an operator of the language on the right number of stored terms.
  [[nodiscard]] bool applies(const stored_term& t) const {
    if (t.op >= language_.operator_count() || t.arity != language_.arity(t.op)) {
      return false;
    }
    for (std::size_t i = 0; i < t.operands.size(); ++i) {
      if (i < t.arity ? t.operands[i].orbit >= store_.size() : t.operands[i] != term_instance{}) {
        return false;
      }
    }
    return true;
  }
  // Whether the left operand's variables come first, new ones of the right operand follow in order, and each has one
  // sort.
  [[nodiscard]] bool is_numbered(const stored_term& t) const {
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
  [[nodiscard]] bool names_operands(const stored_term& t, const term_facts& facts) const {
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
  std::vector<term_instance> nodes_{};
};

template <term_language L>
void enumeration<L>::save(const std::string& path, std::uint64_t of) const {
  archive_writer out;
  out.put(of);
  out.put(static_cast<std::uint64_t>(size_));
  out.put(last_);
  out.put(counts_);
  out.put(static_cast<std::uint64_t>(store_.size() - language_.sorts().size()));
  for (auto id = language_.sorts().size(); id < store_.size(); ++id) {
    const auto& o = store_[static_cast<orbit_id>(id)];
    out.put(o.term);
    out.put(o.facts);
    const auto group = store_.automorphisms(o);
    out.put(std::vector<variable_map>{group.begin(), group.end()});
  }
  // Sorted, to be independent of the hash table.
  std::vector<std::pair<stored_term, term_instance>> known{table_.begin(), table_.end()};
  const auto key = [](const stored_term& t) {
    return std::tuple{t.op, t.operands[0].orbit, t.operands[1].orbit, t.operands[1].map.bits()};
  };
  std::sort(known.begin(), known.end(), [&](const auto& a, const auto& b) { return key(a.first) < key(b.first); });
  out.put(static_cast<std::uint64_t>(known.size()));
  for (const auto& [t, i] : known) {
    out.put(t);
    out.put(i);
  }
  out.put(std::vector<found_rule>{rules().begin(), rules().end()});
  out.put(static_cast<std::uint64_t>(joint_.size()));
  for (const auto& j : joint_) {
    out.put(j.left);
    out.put(j.facts);
    out.put(j.right);
  }
  out.save(path, magic);
}

// Fills an enumeration that has not started, part by part in the order of the file. A language numbers types in the
// order in which it meets them, which differs now: types and fingerprints are not those of the file.
template <term_language L>
class enumeration<L>::checkpoint_reader {
 public:
  // Throws: unity::error if the file is not a checkpoint.
  checkpoint_reader(enumeration& e, const std::string& path)
      : e_{e}, in_{path, magic}, check_{e.language_, e.store_, e.options_.variables} {}

  // Throws: unity::error, like the other functions, if the content is not what an enumeration writes. The object is
  // unusable afterwards.
  void read_progress(std::uint64_t of) {
    if (get<std::uint64_t>() != of) {
      in_.fail("an enumeration of other operators or options");
    }
    const auto size = get<std::uint64_t>();
    const auto ended = get<std::uint8_t>();
    if (size > e_.options_.most_operators) {
      in_.fail(fmt::format("an enumeration of more operators than {}", e_.options_.most_operators));
    }
    // The classes of the last size were not stored.
    if (ended > 1 || (ended == 1 && size < e_.options_.most_operators)) {
      in_.fail(fmt::format("an enumeration that ends with {} operators", size));
    }
    e_.size_ = size;
    e_.last_ = ended == 1;
    in_.get(e_.counts_);
  }
  void read_classes() {
    for (auto left = get<std::uint64_t>(); left > 0; --left) {
      const auto t = get<stored_term>();
      auto facts = get<term_facts>();
      const auto group = get<std::vector<variable_map>>();
      expect(check_.is_term(t, facts) && facts.size <= e_.size_ && check_.are_renamings(group, facts));
      const auto made = type_of(t);
      facts.type = made.type;
      static_cast<void>(e_.samples_.permutations(facts));
      const auto value =
          e_.samples_.fingerprint(e_.store_, t, facts, made.program, e_.meanings_.may_ignore(t), e_.scratches_[0])
              .first;
      e_.store_class(t, facts, value, group);
    }
  }
  void read_equal_terms() {
    for (auto left = get<std::uint64_t>(); left > 0; --left) {
      const auto t = get<stored_term>();
      const auto i = get<term_instance>();
      expect(check_.is_term(t) && check_.is_over(i, t));
      e_.table_.insert_or_assign(t, i);
    }
  }
  void read_rules() {
    for (auto& r : get<std::vector<found_rule>>()) {
      expect(check_.is_term(r.left, r.facts) && check_.is_over(r.right, r.facts));
      r.facts.type = type_of(r.left).type;
      e_.rules_.add(r);
    }
  }
  void read_joint_rules() {
    for (auto left = get<std::uint64_t>(); left > 0; --left) {
      auto& j = e_.joint_.emplace_back();
      in_.get(j.left);
      in_.get(j.facts);
      in_.get(j.right);
      expect(!j.left.empty() && j.left[0].arity > 0 && j.left.size() == j.right.size());
      for (std::size_t i = 0; i < j.left.size(); ++i) {
        expect(check_.is_term(j.left[i]) && check_.is_over(j.left[i], j.facts) && check_.is_over(j.right[i], j.facts));
      }
      j.facts.type = e_.store_[j.left[0].operands[0].orbit].facts.type;
    }
  }

 private:
  template <class T>
  [[nodiscard]] T get() {
    T value{};
    in_.get(value);
    return value;
  }
  void expect(bool holds) const {
    if (!holds) {
      in_.fail("a term that is not over those before it");
    }
  }
  [[nodiscard]] auto type_of(const stored_term& t) const {
    const auto& a = e_.applications_(e_.store_, t);
    if (!a) {
      in_.fail("a term that the operators do not make");
    }
    return *a;
  }

  enumeration& e_;
  archive_reader in_;
  stored_term_check<L> check_;
};

template <term_language L>
void enumeration<L>::resume(const std::string& path, std::uint64_t of) {
  UNITY_EXPECTS(size_ == 0, "an enumeration that has not begun");
  checkpoint_reader in{*this, path};
  in.read_progress(of);
  in.read_classes();
  in.read_equal_terms();
  in.read_rules();
  in.read_joint_rules();
}

}  // namespace unity
