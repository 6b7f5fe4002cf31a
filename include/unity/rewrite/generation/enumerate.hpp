// All terms up to a size, grouped by what they compute, and the equalities that generate the groups.
//
// Terms are counted up to renaming of variables, and only terms over representatives of their subterms are looked at:
// whatever contains a term that equals an earlier one equals a term that is looked at. Size counts shared operators once.
// Source: Jia's dissertation (2020), section 2.3.2, algorithm 1, which enumerates graphs; why terms, see
// docs/design/decisions.md.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/thread_pool.hpp>
#include <unity/rewrite/generation/candidates.hpp>
#include <unity/rewrite/generation/known_rules.hpp>
#include <unity/rewrite/generation/language.hpp>
#include <unity/rewrite/generation/naming.hpp>
#include <unity/rewrite/generation/samples.hpp>
#include <unity/rewrite/generation/term_store.hpp>
#include <unity/rewrite/generation/variable_map.hpp>

namespace unity {

struct enumeration_options {
  std::size_t most_operators = 3;
  std::size_t variables = 4;  // of each sort
  std::size_t threads = 1;
};

struct enumeration_counts {
  std::uint64_t terms = 0;        // typed, up to renaming
  std::uint64_t classes = 0;      // of different meaning, up to renaming; variables are not counted
  std::uint64_t hits = 0;         // terms that equal an earlier one
  std::uint64_t graphs_equal = 0; // the same, counted with every choice of variables
  std::uint64_t false_matches = 0;  // terms whose sample agreed with a different one's
  std::uint64_t value_bytes = 0;
  std::uint64_t term_bytes = 0;

  friend bool operator==(const enumeration_counts&, const enumeration_counts&) = default;
};

// Enumerates level by level; what it found stays readable. The language outlives it.
template <term_language L>
class enumeration {
 public:
  enumeration(L& language, const enumeration_options& options)
      : language_{language},
        options_{options},
        store_{language.sorts()},
        samples_{language, options.variables},
        rules_{store_, table_, commutative_operators(language)},
        pool_{options.threads},
        scratches_(pool_.size()) {
    UNITY_EXPECTS(options.variables >= 1 && options.variables <= variable_map::most, "1 to 8 variables of a sort");
    for (std::size_t s = 0; s < language.sorts().size(); ++s) {
      const auto id = static_cast<orbit_id>(s);
      store_.at(id).values = samples_.variable_offset(s);
      known_[samples_.variable_fingerprint(store_[id])].push_back(id);
      ignoring_.push_back(false);
    }
  }

  // Effects: enumerates the next size. Complexity: linear in its terms, but for those that need to be checked.
  void advance() {
    ++size_;
    last_ = size_ == options_.most_operators;
    index_occurrences();
    generate();
    std::sort(found_.begin(), found_.end(), [](const candidate& a, const candidate& b) { return before(a, b); });
    settle();
    found_ = {};
  }
  void run() {
    while (size_ < options_.most_operators) {
      advance();
    }
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] const enumeration_counts& counts() const noexcept { return counts_; }
  [[nodiscard]] std::span<const found_rule> rules() const noexcept { return rules_.all(); }
  [[nodiscard]] const term_store& store() const noexcept { return store_; }

  [[nodiscard]] std::span<const found_joint_rule> joint_rules() const noexcept { return joint_; }

  // The nodes of a term whose variable i is called names[i].
  [[nodiscard]] written_term write(const term& t, const sort_list& sorts, variable_map names) const {
    written_term out;
    write_term(t, sorts, names, out);
    return out;
  }
  // Terms over the variables of f, which are numbered from 0 within their sorts.
  [[nodiscard]] std::vector<written_term> write(std::span<const term> terms, const term_facts& f) const {
    std::array<std::uint8_t, 16> used{};
    variable_map names;
    for (std::size_t i = 0; i < f.variables; ++i) {
      names.set(i, used[f.sorts[i]]++);
    }
    std::vector<written_term> all;
    for (const auto& t : terms) {
      all.push_back(write(t, f.sorts, names));
    }
    return all;
  }

 private:
  // A term under the names that make its meaning comparable.
  struct meaning {
    std::uint64_t deep = 0;
    variable_map names{};
    std::vector<variable_map> all_names{};
    std::uint8_t relevant = 0;
  };
  // A term that stands for a class while its level is settled: a stored one, or one of this size.
  struct representative {
    bool stored = false;
    orbit_id orbit = 0;
    std::size_t position = 0;  // in found_
    std::optional<meaning> known{};
  };

  static std::vector<bool> commutative_operators(const L& language) {
    std::vector<bool> all;
    for (std::size_t op = 0; op < language.operator_count(); ++op) {
      all.push_back(language.commutative(op));
    }
    return all;
  }
  // By fingerprint, then in the order of terms.
  static bool before(const candidate& a, const candidate& b) {
    return a.fingerprint != b.fingerprint ? a.fingerprint < b.fingerprint : a.order() < b.order();
  }

  std::optional<application> infer(std::size_t op, std::uint16_t left, std::uint16_t right) {
    const auto key = static_cast<std::uint64_t>(op) << 32U | static_cast<std::uint64_t>(left) << 16U | right;
    const auto found = applications_.find(key);
    if (found != applications_.end()) {
      return found->second;
    }
    const std::array types{left, right};
    return applications_.emplace(key, language_.infer(op, std::span{types}.first(language_.arity(op)))).first->second;
  }
  std::optional<application> infer(const term& t) {
    const auto type = [&](std::size_t i) {
      return i < t.arity ? store_[t.operands[i].orbit].facts.type : std::uint16_t{0};
    };
    return infer(t.op, type(0), type(1));
  }
  [[nodiscard]] bool may_ignore(const term& t) const {
    bool may = language_.may_ignore(t.op);
    for (std::size_t i = 0; i < t.arity; ++i) {
      may = may || ignoring_[t.operands[i].orbit];
    }
    return may;
  }

  void index_occurrences() {
    by_size_type_.assign(size_, {});
    occurrences_.assign(store_.size(), {});
    for (orbit_id id = 0; id < store_.size(); ++id) {
      const auto& o = store_[id];
      by_size_type_[o.facts.size][o.facts.type].push_back(id);
      const auto nodes = store_.nodes(o);
      for (std::size_t n = 0; n < nodes.size(); ++n) {
        occurrences_[nodes[n].orbit].emplace_back(id, static_cast<std::uint8_t>(n));
      }
    }
  }

  void generate() {
    for (std::size_t op = 0; op < language_.operator_count(); ++op) {
      switch (language_.arity(op)) {
        case 0:
          if (size_ == 1) {
            offer(op, {}, infer(op, 0, 0));
          }
          break;
        case 1: generate_unary(op); break;
        default: generate_disjoint(op); generate_sharing(op); break;
      }
    }
    flush();
  }
  void generate_unary(std::size_t op) {
    for (const auto& [type, ids] : by_size_type_[size_ - 1]) {
      if (const auto a = infer(op, type, 0)) {
        for (const auto id : ids) {
          const auto own = variable_map::identity().cut(store_[id].facts.variables);
          offer(op, {static_cast<std::uint16_t>(op), 1, {instance{id, own}}}, a);
        }
      }
    }
  }
  void generate_disjoint(std::size_t op) {
    for (std::size_t p = 0; p < size_; ++p) {
      for (const auto& [left_type, lefts] : by_size_type_[p]) {
        for (const auto& [right_type, rights] : by_size_type_[size_ - 1 - p]) {
          const auto a = infer(op, left_type, right_type);
          if (!a) {
            continue;
          }
          for (const auto left : lefts) {
            for (const auto right : rights) {
              if (!language_.commutative(op) || left <= right) {
                for_each_naming(store_[left].facts, store_[right].facts, {}, options_.variables,
                                [&](variable_map map, std::size_t) { offer_pair(op, left, right, map, 0, a); });
              }
            }
          }
        }
      }
    }
  }
  // Operands that have operators in common.
  void generate_sharing(std::size_t op) {
    std::vector<std::pair<orbit_id, variable_map>> partners;
    for (orbit_id left = 0; left < store_.size(); ++left) {
      partners.clear();
      for (const auto& node : store_.nodes(store_[left])) {
        collect_partners(op, left, node, partners);
      }
      std::sort(partners.begin(), partners.end());
      partners.erase(std::unique(partners.begin(), partners.end()), partners.end());
      for (const auto& [right, map] : partners) {
        const auto shared = store_[left].facts.size + std::size_t{store_[right].facts.size} - (size_ - 1);
        offer_pair(op, left, right, map, shared, infer(op, store_[left].facts.type, store_[right].facts.type));
      }
    }
  }
  void collect_partners(std::size_t op, orbit_id left, instance node, std::vector<std::pair<orbit_id, variable_map>>& out) {
    const auto& l = store_[left];
    const auto& shared = store_[node.orbit];
    for (const auto& [right, at] : occurrences_[node.orbit]) {
      const auto& r = store_[right];
      const bool sizes_fit = l.facts.size + std::size_t{r.facts.size} >= size_;
      if (!sizes_fit || (language_.commutative(op) && right < left) || !infer(op, l.facts.type, r.facts.type)) {
        continue;
      }
      const auto inside = store_.nodes(r)[at].map;
      for (const auto same : store_.automorphisms(shared)) {
        std::array<std::int8_t, variable_map::most> forced{};
        forced.fill(-1);
        for (std::size_t v = 0; v < shared.facts.variables; ++v) {
          forced[inside[v]] = static_cast<std::int8_t>(same.then(node.map, shared.facts.variables)[v]);
        }
        for_each_naming(l.facts, r.facts, forced, options_.variables,
                        [&](variable_map map, std::size_t) { out.emplace_back(right, map); });
      }
    }
  }
  // Takes op(left, right under map) if just so many operators are shared and this is how it is written.
  void offer_pair(std::size_t op, orbit_id left, orbit_id right, variable_map map, std::size_t shared,
                  const std::optional<application>& a) {
    if (overlap(left, right, map) != shared) {
      return;
    }
    const auto& l = store_[left];
    const bool one_form = l.automorphism_count == 1 && store_[right].automorphism_count == 1 &&
                          !(language_.commutative(op) && left == right);
    const term t{static_cast<std::uint16_t>(op), 2,
                 {instance{left, variable_map::identity().cut(l.facts.variables)}, instance{right, map}}};
    if (one_form || canonical(store_, t.op, language_.commutative(op), t.operands).term == t) {
      offer(op, t, a);
    }
  }
  [[nodiscard]] std::size_t overlap(orbit_id left, orbit_id right, variable_map map) const {
    const auto mine = store_.nodes(store_[left]);
    std::size_t count = 0;
    for (const auto& n : store_.nodes(store_[right])) {
      for (const auto& m : mine) {
        if (m.orbit == n.orbit) {
          count += m == store_.canonical({n.orbit, n.map.then(map, store_[n.orbit].facts.variables)}) ? 1U : 0U;
        }
      }
    }
    return count;
  }

  void offer(std::size_t op, term t, const std::optional<application>& a) {
    if (!a) {
      return;
    }
    t.op = static_cast<std::uint16_t>(op);
    auto facts = facts_of(store_, t, size_);
    facts.type = a->type;
    static_cast<void>(samples_.permutations(facts));
    found_.push_back(candidate{t, facts, a->program});
    if (found_.size() - fingerprinted_ >= batch) {
      flush();
    }
  }
  // Fingerprints what was offered since, in parallel: each by itself, so threads do not change anything.
  void flush() {
    pool_.parallel_for(found_.size() - fingerprinted_, 256, [&](std::size_t worker, std::size_t from, std::size_t to) {
      for (auto i = fingerprinted_ + from; i < fingerprinted_ + to; ++i) {
        auto& c = found_[i];
        const auto t = c.get(store_);
        c.fingerprint = samples_.fingerprint(store_, t, c.facts(store_), c.program, may_ignore(t), scratches_[worker]);
      }
    });
    fingerprinted_ = found_.size();
  }

  // Groups equal fingerprints and decides, in the order of terms, what is new and what equals what.
  void settle() {
    counts_.terms += found_.size();
    groups_.clear();
    std::vector<std::pair<std::size_t, std::size_t>> hits;  // position, group
    std::vector<std::size_t> fresh;
    for (std::size_t i = 0; i < found_.size();) {
      auto end = i + 1;
      while (end < found_.size() && found_[end].fingerprint == found_[i].fingerprint) {
        ++end;
      }
      const auto known = known_.find(found_[i].fingerprint);
      auto next = i;
      if (known == known_.end()) {
        fresh.push_back(next++);
      }
      if (next < end) {
        auto& group = groups_.emplace_back();
        if (known == known_.end()) {
          group.push_back({false, 0, i, {}});
        } else {
          for (const auto id : known->second) {
            group.push_back({true, id, 0, {}});
          }
        }
        for (; next < end; ++next) {
          hits.emplace_back(next, groups_.size() - 1);
        }
      }
      i = end;
    }
    const auto order = [&](std::size_t a, std::size_t b) { return found_[a].order() < found_[b].order(); };
    std::sort(hits.begin(), hits.end(), [&](const auto& a, const auto& b) { return order(a.first, b.first); });
    std::sort(fresh.begin(), fresh.end(), order);
    counts_.hits += hits.size();
    std::vector<std::size_t> new_classes;
    std::vector<std::pair<std::size_t, std::size_t>> members;  // position, position or orbit of its representative
    settle_in_order(fresh, hits, new_classes, members);
    join_parts();
    counts_.classes += new_classes.size();
    if (!last_) {
      store_classes(new_classes, members);
    }
    counts_.value_bytes = samples_.bytes();
    counts_.term_bytes = store_.bytes() + found_.capacity() * sizeof(candidate);
    fingerprinted_ = 0;
  }

  void settle_in_order(std::span<const std::size_t> fresh, std::span<const std::pair<std::size_t, std::size_t>> hits,
                       std::vector<std::size_t>& new_classes, std::vector<std::pair<std::size_t, std::size_t>>& members) {
    std::size_t f = 0;
    for (std::size_t h = 0; h <= hits.size(); ++h) {
      for (; f < fresh.size() && (h == hits.size() || found_[fresh[f]].order() < found_[hits[h].first].order()); ++f) {
        new_classes.push_back(fresh[f]);
        emit_symmetries(found_[fresh[f]]);
      }
      if (h == hits.size()) {
        break;
      }
      const auto [position, group] = hits[h];
      const auto chosen = settle_hit(position, groups_[group]);
      if (!chosen) {
        groups_[group].push_back({false, 0, position, {}});
        new_classes.push_back(position);
        emit_symmetries(found_[position]);
      } else if (!last_) {
        const auto& r = groups_[group][*chosen];
        members.emplace_back(position, r.stored ? stored_mark | r.orbit : r.position);
      }
    }
  }
  // The representative that the term equals, or nothing where it is a class of its own.
  std::optional<std::size_t> settle_hit(std::size_t position, std::vector<representative>& group) {
    const auto c = found_[position];
    const auto t = c.get(store_);
    const auto facts = c.facts(store_);
    const bool explained = rules_.explains(t, facts, [&](const term& other) {
      const auto a = infer(other);
      return a ? std::optional{a->type} : std::nullopt;
    });
    const bool part = language_.may_ignore(t.op);
    if (explained && (last_ || group.size() == 1)) {
      return 0;
    }
    const auto mine = understand(t, facts, c.program);
    for (std::size_t r = 0; r < group.size(); ++r) {
      if (meaning_of(group[r]).deep == mine.deep && (explained || agree(t, facts, mine, group[r]))) {
        if (!explained) {
          emit(t, facts, mine, group[r]);
        }
        if (part && !explained) {
          remember_part(t, facts, mine, group[r]);
        }
        return r;
      }
    }
    ++counts_.false_matches;
    return std::nullopt;
  }

  [[nodiscard]] meaning understand(const term& t, const term_facts& facts, std::uint32_t program) {
    static_cast<void>(samples_.permutations(facts));
    const auto named = samples_.name(store_, t, facts, program, may_ignore(t), scratches_[0]);
    meaning m;
    m.all_names = named.names;
    m.relevant = named.relevant;
    bool first = true;
    for (const auto names : distinct_forms(t, facts, named.names)) {
      const auto deep = hash_combine(facts.type, language_.deep_fingerprint(write(t, facts.sorts, names), false));
      if (first || deep < m.deep) {
        m.deep = deep;
        m.names = names;
        first = false;
      }
    }
    return m;
  }
  // Namings that commutativity and the symmetries of subterms do not make the same.
  [[nodiscard]] std::vector<variable_map> distinct_forms(const term& t, const term_facts& f,
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

  const meaning& meaning_of(representative& r) {
    if (!r.known) {
      if (!r.stored) {
        const auto& c = found_[r.position];
        r.known = understand(c.get(store_), c.facts(store_), c.program);
      } else {
        const auto found = meanings_.find(r.orbit);
        r.known = found != meanings_.end() ? found->second : meanings_.emplace(r.orbit, understand_stored(r.orbit)).first->second;
      }
    }
    return *r.known;
  }
  meaning understand_stored(orbit_id id) {
    const auto& o = store_[id];
    if (o.term.op == term_node::variable) {
      meaning m;
      m.all_names = {variable_map{}};
      m.relevant = 1;
      m.deep = hash_combine(o.facts.type, language_.deep_fingerprint(write(stored_variable(id), o.facts.sorts, {}), false));
      return m;
    }
    return understand(o.term, o.facts, infer(o.term)->program);
  }
  [[nodiscard]] static term stored_variable(orbit_id id) {
    return {term_node::variable, 1, {instance{id, variable_map{}}}};
  }

  // The variables of `right` as variables of `left`, where both are called as their meanings say.
  [[nodiscard]] static std::optional<variable_map> translate(const term_facts& right, const meaning& r,
                                                            const term_facts& left, const meaning& l) {
    variable_map map;
    for (std::size_t j = 0; j < right.variables; ++j) {
      bool found = false;
      for (std::size_t i = 0; i < left.variables && !found; ++i) {
        if (left.sorts[i] == right.sorts[j] && l.names[i] == r.names[j]) {
          map.set(j, i);
          found = true;
        }
      }
      if (!found) {
        return std::nullopt;
      }
    }
    return map;
  }

  // Whether a term that agrees with a class at some sizes does so at others.
  [[nodiscard]] bool agree(const term& t, const term_facts& facts, const meaning& mine, representative& r) {
    const auto& other = meaning_of(r);
    return language_.deep_fingerprint(write(t, facts.sorts, mine.names), true) ==
           language_.deep_fingerprint(write(term_of_class(r), facts_of_class(r).sorts, other.names), true);
  }
  [[nodiscard]] term_facts facts_of_class(const representative& r) const {
    return r.stored ? store_[r.orbit].facts : found_[r.position].facts(store_);
  }
  [[nodiscard]] term term_of_class(const representative& r) const {
    if (!r.stored) {
      return found_[r.position].get(store_);
    }
    return store_[r.orbit].term.op == term_node::variable ? stored_variable(r.orbit) : store_[r.orbit].term;
  }
  // One result of an operation equals an earlier term; when all do, they make a rule together.
  void remember_part(const term& t, const term_facts& facts, const meaning& mine, representative& r) {
    if (const auto map = translate(facts_of_class(r), meaning_of(r), facts, mine)) {
      parts_[t] = renamed(term_of_class(r), *map);
    }
  }
  void join_parts() {
    std::vector<std::pair<term, term>> all{parts_.begin(), parts_.end()};
    const auto key = [](const term& t) { return std::tuple{t.operands[0].orbit, t.op}; };
    std::sort(all.begin(), all.end(), [&](const auto& a, const auto& b) { return key(a.first) < key(b.first); });
    for (const auto& [t, equal] : all) {
      found_joint_rule joint{{t}, store_[t.operands[0].orbit].facts, {equal}};
      for (auto next = language_.next_result(t.op); next && joint.left.size() == joint.right.size();
           next = language_.next_result(*next)) {
        auto other = t;
        other.op = static_cast<std::uint16_t>(*next);
        const auto found = parts_.find(other);
        joint.left.push_back(other);
        if (found != parts_.end()) {
          joint.right.push_back(found->second);
        }
      }
      // A rule cannot begin with a bare variable.
      const bool plain = std::any_of(joint.right.begin(), joint.right.end(),
                                     [](const term& r) { return r.op == term_node::variable; });
      if (joint.left.size() > 1 && joint.left.size() == joint.right.size() && !plain) {
        joint_.push_back(std::move(joint));
      }
    }
    parts_.clear();
  }
  void emit(const term& t, const term_facts& facts, const meaning& mine, representative& r) {
    const auto& other = meaning_of(r);
    const auto rep_facts = facts_of_class(r);
    const auto rep_term = term_of_class(r);
    if (const auto map = translate(rep_facts, other, facts, mine)) {
      rules_.add({t, facts, renamed(rep_term, *map), rep_facts.size});
    } else if (const auto back = translate(facts, mine, rep_facts, other); back && rep_term.op != term_node::variable) {
      rules_.add({rep_term, rep_facts, renamed(t, *back), facts.size});
    }
  }
  [[nodiscard]] term renamed(term t, variable_map names) const {
    for (std::size_t i = 0; i < t.arity; ++i) {
      t.operands[i].map = t.operands[i].map.then(names, store_[t.operands[i].orbit].facts.variables);
    }
    return t;
  }

  // A new class whose term equals itself under a renaming: a rule where commutativity does not say so already.
  void emit_symmetries(const candidate& c) {
    const auto t = c.get(store_);
    const auto facts = c.facts(store_);
    if (facts.variables < 2) {
      return;
    }
    const auto named = samples_.name(store_, t, facts, c.program, may_ignore(t), scratches_[0]);
    if (named.names.size() < 2) {
      return;
    }
    const auto group = symmetries(t, facts, named);
    if (!last_ && group.size() > 1) {
      symmetry_groups_[t] = group;
    }
  }
  // All renamings of a term to itself, the identity first.
  std::vector<variable_map> symmetries(const term& t, const term_facts& facts, const named_fingerprint& named) {
    const auto count = facts.variables;
    std::vector<variable_map> group{variable_map::identity().cut(count)};
    auto free_ones = plain_symmetries(store_, t, language_.commutative(t.op));
    rules_.self_renamings(t, free_ones);
    const auto deep = [&](variable_map names) { return language_.deep_fingerprint(write(t, facts.sorts, names), true); };
    std::optional<std::uint64_t> base;
    close(group, free_ones, count);
    for (const auto names : named.names) {
      const auto renaming = local_renaming(facts, named.names[0], names);
      if (std::find(group.begin(), group.end(), renaming) != group.end()) {
        continue;
      }
      base = base ? base : deep(named.names[0]);
      if (deep(names) == *base) {
        rules_.add({t, facts, renamed(t, renaming), facts.size});
        close(group, {renaming}, count);
      }
    }
    return group;
  }
  // The renaming of variables after which naming `first` calls them as `second` did.
  [[nodiscard]] static variable_map local_renaming(const term_facts& f, variable_map first, variable_map second) {
    variable_map map;
    for (std::size_t i = 0; i < f.variables; ++i) {
      for (std::size_t j = 0; j < f.variables; ++j) {
        if (f.sorts[i] == f.sorts[j] && first[j] == second[i]) {
          map.set(i, j);
        }
      }
    }
    return map;
  }
  static void close(std::vector<variable_map>& group, std::span<const variable_map> more, std::size_t count) {
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
  static void close(std::vector<variable_map>& group, std::initializer_list<variable_map> more, std::size_t count) {
    close(group, std::span{more.begin(), more.size()}, count);
  }

  // Effects: new classes become stored terms; every term of this size is remembered by what it is.
  void store_classes(std::span<const std::size_t> new_classes,
                     std::span<const std::pair<std::size_t, std::size_t>> members) {
    std::unordered_map<std::size_t, orbit_id> stored;
    const std::vector<variable_map> trivial{variable_map::identity()};
    for (const auto position : new_classes) {
      const auto& c = found_[position];
      const auto t = c.get(store_);
      const auto facts = c.facts(store_);
      const auto group = symmetry_groups_.find(t);
      const auto id = store_.add(t, facts, group == symmetry_groups_.end() ? trivial : group->second);
      stored.emplace(position, id);
      ignoring_.push_back(may_ignore(t));
      known_[c.fingerprint].push_back(id);
      table_.emplace(t, instance{id, variable_map::identity().cut(facts.variables)});
      samples_.keep(store_, id, c.program);
    }
    symmetry_groups_.clear();
    for (const auto& [position, to] : members) {
      const auto& c = found_[position];
      const auto id = (to & stored_mark) != 0 ? static_cast<orbit_id>(to & ~stored_mark) : stored.at(to);
      const auto& found = meanings_.find(id) != meanings_.end() ? meanings_.at(id)
                                                                : meanings_.emplace(id, understand_stored(id)).first->second;
      const auto mine = understand(c.get(store_), c.facts(store_), c.program);
      if (const auto map = translate(store_[id].facts, found, c.facts(store_), mine)) {
        table_.emplace(c.get(store_), instance{id, *map});
      }
    }
  }
  void write_term(const term& t, const sort_list& sorts, variable_map names, written_term& out) const {
    term_node n;
    if (t.op == term_node::variable) {
      add_variable(sorts[t.operands[0].map[0]], names[t.operands[0].map[0]], out);
      return;
    }
    n.op = t.op;
    for (std::size_t i = 0; i < t.arity; ++i) {
      n.operands.push_back(write_instance(t.operands[i], sorts, names, out));
    }
    static_cast<void>(place(n, out));
  }
  std::uint32_t write_instance(const instance& i, const sort_list& sorts, variable_map names, written_term& out) const {
    const auto& o = store_[i.orbit];
    if (o.term.op == term_node::variable) {
      return add_variable(sorts[i.map[0]], names[i.map[0]], out);
    }
    term_node n;
    n.op = o.term.op;
    for (std::size_t k = 0; k < o.term.arity; ++k) {
      const auto& part = o.term.operands[k];
      const instance moved{part.orbit, part.map.then(i.map, store_[part.orbit].facts.variables)};
      n.operands.push_back(write_instance(moved, sorts, names, out));
    }
    return place(n, out);
  }
  static std::uint32_t add_variable(std::size_t sort, std::size_t number, written_term& out) {
    return place({term_node::variable, static_cast<std::uint16_t>(sort), static_cast<std::uint16_t>(number), {}}, out);
  }
  static std::uint32_t place(const term_node& n, written_term& out) {
    const auto found = std::find(out.begin(), out.end(), n);
    if (found != out.end()) {
      return static_cast<std::uint32_t>(found - out.begin());
    }
    out.push_back(n);
    return static_cast<std::uint32_t>(out.size() - 1);
  }

  static constexpr std::size_t batch = std::size_t{1} << 16U;
  static constexpr std::size_t stored_mark = std::size_t{1} << 63U;

  L& language_;
  enumeration_options options_;
  term_store store_;
  term_table table_;
  samples<L> samples_;
  known_rules rules_;
  thread_pool pool_;
  std::vector<typename samples<L>::scratch> scratches_;
  std::vector<bool> ignoring_;  // by orbit: some variable may not matter
  std::size_t size_ = 0;
  bool last_ = false;
  enumeration_counts counts_;
  std::unordered_map<std::uint64_t, std::optional<application>> applications_;
  std::unordered_map<std::uint64_t, std::vector<orbit_id>> known_;
  std::unordered_map<orbit_id, meaning> meanings_;
  std::unordered_map<term, std::vector<variable_map>, term_hash> symmetry_groups_;
  std::vector<std::map<std::uint16_t, std::vector<orbit_id>>> by_size_type_;
  std::vector<std::vector<std::pair<orbit_id, std::uint8_t>>> occurrences_;
  std::vector<candidate> found_;
  std::size_t fingerprinted_ = 0;
  std::vector<std::vector<representative>> groups_;
  std::unordered_map<term, term, term_hash> parts_;  // results of operations with several, and what they equal
  std::vector<found_joint_rule> joint_;
};

}  // namespace unity
