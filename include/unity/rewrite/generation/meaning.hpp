// The meaning of a term in comparable form: values at other sizes, and the identity of its variables.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/rewrite/generation/language.hpp>
#include <unity/rewrite/generation/naming.hpp>
#include <unity/rewrite/generation/samples.hpp>
#include <unity/rewrite/generation/term_generator.hpp>
#include <unity/rewrite/generation/term_store.hpp>

namespace unity {

// Terms of equal meaning have equal `deep`, and equal names stand for equal variables.
struct meaning {
  std::uint64_t deep = 0;
  variable_map names{};
};

// The variables of `right` as variables of `left`, or nothing if `right` has others.
[[nodiscard]] std::optional<variable_map> translate(const term_facts& right, const meaning& r, const term_facts& left,
                                                    const meaning& l);

// Effects: closes a set of renamings of `count` variables to a group.
void close_group(std::vector<variable_map>& group, std::span<const variable_map> more, std::size_t count);

// Computes meanings; caches those of stored terms.
template <term_language L>
class meanings {
 public:
  meanings(L& language, const term_store& store, samples<L>& values, application_table<L>& applications)
      : language_{language}, store_{store}, samples_{values}, applications_{applications} {}

  // Whether some variables may be irrelevant: the term contains an operator that ignores some of its operands.
  [[nodiscard]] bool may_ignore(const stored_term& t) const {
    bool may = t.op != term_node::variable && language_.may_ignore(t.op);
    for (std::size_t i = 0; i < t.arity && t.op != term_node::variable; ++i) {
      may = may || ignoring_[t.operands[i].orbit];
    }
    return may;
  }
  // Effects: to be called for every orbit, in order.
  void stored(orbit_id id) { ignoring_.push_back(may_ignore(store_[id].term)); }

  [[nodiscard]] meaning of(const stored_term& t, const term_facts& f, std::uint32_t program) {
    const auto named = name(t, f, program);
    meaning m;
    bool first = true;
    for (const auto names : distinct_forms(t, f, named.names)) {
      const auto deep = deep_fingerprint(t, f, names, false);
      if (first || deep < m.deep) {
        m = {deep, names};
        first = false;
      }
    }
    return m;
  }
  [[nodiscard]] const meaning& of(orbit_id id) {
    const auto found = known_.find(id);
    if (found != known_.end()) {
      return found->second;
    }
    const auto& o = store_[id];
    const auto m = o.term.op == term_node::variable
                       ? meaning{deep_fingerprint(term_of(id), o.facts, variable_map{}, false), variable_map{}}
                       : of(o.term, o.facts, applications_(store_, o.term)->program);
    return known_.emplace(id, m).first->second;
  }
  // A stored term as an independent term, variables included.
  [[nodiscard]] stored_term term_of(orbit_id id) const {
    auto t = store_[id].term;
    if (t.op == term_node::variable) {
      t.arity = 1;
      t.operands[0].orbit = id;
    }
    return t;
  }
  [[nodiscard]] std::uint64_t deep_fingerprint(const stored_term& t, const term_facts& f, variable_map names,
                                               bool thorough) {
    return hash_combine(f.type, language_.deep_fingerprint(write_term(store_, t, f.sorts, names), thorough));
  }

  // All renamings under which a term computes the same, the identity first. known(out) adds some of them; it is called
  // if commutativity does not explain all symmetries of the samples. found(renaming) is called for each renaming that
  // those and commutativity do not generate.
  template <class Known, class Found>
  [[nodiscard]] std::vector<variable_map> symmetries(const stored_term& t, const term_facts& f, std::uint32_t program,
                                                     Known&& known, Found&& found) {
    std::vector<variable_map> group{variable_map::identity().cut(f.variables)};
    const auto named = f.variables < 2 ? named_fingerprint{} : name(t, f, program);
    if (named.names.size() < 2) {
      return group;
    }
    close_group(group, plain_symmetries(store_, t, language_.commutative(t.op)), f.variables);
    const bool uses_all = named.relevant == (1U << f.variables) - 1;
    if (uses_all && group.size() == named.names.size()) {
      return group;
    }
    std::vector<variable_map> given;
    known(given);
    close_group(group, given, f.variables);
    std::optional<std::uint64_t> base;
    for (const auto names : named.names) {
      const auto renaming = *translate(f, meaning{0, names}, f, meaning{0, named.names[0]});
      if (std::find(group.begin(), group.end(), renaming) == group.end()) {
        base = base ? base : deep_fingerprint(t, f, named.names[0], true);
        if (deep_fingerprint(t, f, names, true) == *base) {
          found(renaming);
          close_group(group, std::span{&renaming, 1}, f.variables);
        }
      }
    }
    return group;
  }

 private:
  [[nodiscard]] named_fingerprint name(const stored_term& t, const term_facts& f, std::uint32_t program) {
    static_cast<void>(samples_.permutations(f));
    return samples_.name(store_, t, f, program, may_ignore(t), scratch_);
  }
  // Namings that are not equivalent by commutativity and the symmetries of operands.
  [[nodiscard]] std::vector<variable_map> distinct_forms(const stored_term& t, const term_facts& f,
                                                         std::span<const variable_map> names) const {
    const auto same = plain_symmetries(store_, t, language_.commutative(t.op));
    std::vector<variable_map> chosen;
    for (const auto n : names) {
      const bool new_form = std::none_of(same.begin(), same.end(), [&](variable_map s) {
        return std::find(chosen.begin(), chosen.end(), s.then(n, f.variables)) != chosen.end();
      });
      if (new_form) {
        chosen.push_back(n);
      }
    }
    return chosen;
  }

  L& language_;
  const term_store& store_;
  samples<L>& samples_;
  application_table<L>& applications_;
  std::vector<bool> ignoring_;  // by orbit
  std::unordered_map<orbit_id, meaning> known_;
  typename samples<L>::scratch scratch_;
};

}  // namespace unity

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_REWRITE_GENERATION_MEANING)

namespace unity {

UNITY_INLINE std::optional<variable_map> translate(const term_facts& right, const meaning& r, const term_facts& left,
                                                   const meaning& l) {
  variable_map map;
  for (std::size_t j = 0; j < right.variables; ++j) {
    std::size_t i = 0;
    while (i < left.variables && (left.sorts[i] != right.sorts[j] || l.names[i] != r.names[j])) {
      ++i;
    }
    if (i == left.variables) {
      return std::nullopt;
    }
    map.set(j, i);
  }
  return map;
}

UNITY_INLINE void close_group(std::vector<variable_map>& group, std::span<const variable_map> more, std::size_t count) {
  std::vector<variable_map> generators{more.begin(), more.end()};
  generators.insert(generators.end(), group.begin(), group.end());
  for (std::size_t i = 0; i < group.size(); ++i) {
    for (const auto g : generators) {
      const auto product = group[i].then(g, count);
      if (std::find(group.begin(), group.end(), product) == group.end()) {
        group.push_back(product);
      }
    }
  }
  std::sort(group.begin() + 1, group.end());
}

}  // namespace unity

#endif
