// Enumerates all terms up to a size, grouped by meaning, and the equalities that generate the groups.
//
// Terms are counted up to renaming of variables, and only terms over representatives of their subterms are considered:
// a term that contains a term equal to an earlier one is equal to a term that is considered. Size counts shared
// operators once.
// Source: Jia's dissertation (2020), section 2.3.2, algorithm 1, which enumerates graphs; the reasons for terms are in
// docs/design/decisions.md.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/external_sort.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/thread_pool.hpp>
#include <unity/rewrite/generation/known_rules.hpp>
#include <unity/rewrite/generation/language.hpp>
#include <unity/rewrite/generation/meaning.hpp>
#include <unity/rewrite/generation/naming.hpp>
#include <unity/rewrite/generation/samples.hpp>
#include <unity/rewrite/generation/term_generator.hpp>
#include <unity/rewrite/generation/term_store.hpp>

namespace unity {

struct enumeration_options {
  std::size_t most_operators = 3;
  std::size_t variables = 4;  // per sort, at most 8
  std::size_t threads = 1;
  std::size_t memory = std::size_t{1} << 30U;  // bytes of terms of one size in memory before they are written to disk
  std::filesystem::path folder{};              // for files on disk; empty: the system's temporary folder
};

struct enumeration_counts {
  std::uint64_t terms = 0;          // typed, up to renaming
  std::uint64_t classes = 0;        // of different meaning, up to renaming; without variables
  std::uint64_t equalities = 0;     // terms equal to an earlier one, up to renaming
  std::uint64_t named = 0;          // the same, with every choice of variables counted
  std::uint64_t false_matches = 0;  // terms whose sample equals that of a different term
  std::uint64_t value_bytes = 0;    // of samples
  std::uint64_t spilled_runs = 0;

  friend bool operator==(const enumeration_counts&, const enumeration_counts&) = default;
};

// Enumerates size by size; results stay readable. The language must outlive it.
// Two terms count as equal if ten elements of a sample agree modulo 2^31 - 1 and all elements agree modulo 2^61 - 1 at
// one other size, or, before a rule is made from it, at two other sizes. Terms of different meaning and degree at most
// d pass the last test with probability at most (d / 2^61)^2 for each choice of sizes (Schwartz, Zippel). That says
// nothing about sizes that were not tried, so rules are tested again and proved.
template <term_language L>
class enumeration {
 public:
  enumeration(L& language, enumeration_options options)
      : language_{language},
        options_{std::move(options)},
        store_{language.sorts()},
        samples_{language, options_.variables},
        applications_{language},
        meanings_{language, store_, samples_, applications_},
        rules_{store_, table_, commutative_operators(language)},
        pool_{options_.threads},
        scratches_(pool_.size()) {
    UNITY_EXPECTS(options_.variables >= 1 && options_.variables <= variable_map::most, "1 to 8 variables of a sort");
    for (std::size_t s = 0; s < language.sorts().size(); ++s) {
      const auto id = static_cast<orbit_id>(s);
      store_.at(id).values = samples_.variable_offset(s);
      meanings_.stored(id);
      known_[samples_.variable_fingerprint(store_[id])].push_back(id);
    }
  }

  // Effects: enumerates the next size. Complexity: linear in its terms, except for those that need to be checked.
  // Throws: unity::error if terms cannot be stored on disk.
  void advance() {
    ++size_;
    last_ = size_ == options_.most_operators;
    sorter by_fingerprint{before, options_.memory / 2, options_.folder};
    generate(by_fingerprint);
    settle(by_fingerprint);
  }
  void run() {
    while (size_ < options_.most_operators) {
      advance();
    }
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] const enumeration_counts& counts() const noexcept { return counts_; }
  [[nodiscard]] std::span<const found_rule> rules() const noexcept { return rules_.all(); }
  [[nodiscard]] std::span<const found_joint_rule> joint_rules() const noexcept { return joint_; }
  [[nodiscard]] const term_store& store() const noexcept { return store_; }

  // Effects: saves the results to a file from which resume() continues. `of` identifies language and options.
  // Throws: unity::error if the file cannot be written; an earlier file is kept.
  void save(const std::string& path, std::uint64_t of) const;
  // Precondition: nothing was enumerated yet.
  // Throws: unity::error if the file is not a checkpoint, or belongs to another language.
  void resume(const std::string& path, std::uint64_t of);

 private:
  static constexpr std::size_t batch = std::size_t{1} << 14U;
  static constexpr std::uint32_t no_group = ~std::uint32_t{0};
  static constexpr auto magic = "unity enumeration 2\n";
  class checkpoint_reader;

  // By fingerprint, then in the order of terms.
  static bool before(const candidate_term& a, const candidate_term& b) {
    return a.fingerprint != b.fingerprint ? a.fingerprint < b.fingerprint : a.order() < b.order();
  }
  using sorter = external_sorter<candidate_term, bool (*)(const candidate_term&, const candidate_term&)>;
  // A term together with the terms that have the same fingerprint, if there are any.
  struct event {
    candidate_term term;
    std::uint32_t group = no_group;
    bool first = false;  // of its fingerprint: it cannot equal an earlier term
  };
  static bool earlier(const event& a, const event& b) { return a.term.order() < b.term.order(); }
  using event_sorter = external_sorter<event, bool (*)(const event&, const event&)>;

  // A class while its size is processed: a stored term, or one of this size.
  struct representative {
    bool stored = false;
    orbit_id orbit = 0;
    candidate_term term{};
    std::optional<meaning> known{};
  };
  // A term of this size, and the earlier term that it equals, with its variables expressed in those of the first.
  struct member {
    stored_term equal{};
    canonical_term by{};
  };

  static std::vector<bool> commutative_operators(const L& language) {
    std::vector<bool> all;
    for (std::size_t op = 0; op < language.operator_count(); ++op) {
      all.push_back(language.commutative(op));
    }
    return all;
  }

  void generate(sorter& out) {
    std::vector<candidate_term> waiting;
    const auto flush = [&] {
      fingerprint(waiting);
      for (const auto& c : waiting) {
        out.push(c);
      }
      counts_.terms += waiting.size();
      waiting.clear();
    };
    const auto sink = [&](const candidate_term& c) {
      static_cast<void>(samples_.permutations(c.facts(store_)));
      waiting.push_back(c);
      if (waiting.size() == batch) {
        flush();
      }
    };
    term_generator<L, decltype(sink)>{language_, applications_, store_, size_, options_.variables, sink}.run();
    flush();
  }
  // In parallel: each term independently, so the number of threads does not affect results.
  void fingerprint(std::vector<candidate_term>& all) {
    pool_.parallel_for(all.size(), 256, [&](std::size_t worker, std::size_t from, std::size_t to) {
      for (auto i = from; i < to; ++i) {
        const auto t = all[i].get(store_);
        const auto [value, symmetric] = samples_.fingerprint(store_, t, all[i].facts(store_), all[i].program,
                                                             meanings_.may_ignore(t), scratches_[worker]);
        all[i].fingerprint = value;
        all[i].symmetric = symmetric ? 1 : 0;
      }
    });
  }

  // Groups equal fingerprints, then decides in the order of terms which terms are new and which equal an earlier one.
  void settle(sorter& by_fingerprint) {
    event_sorter events{earlier, options_.memory / 2, options_.folder};
    groups_.clear();
    std::optional<event> open;
    counts_.spilled_runs += by_fingerprint.runs();  // draining resets the number of runs
    by_fingerprint.drain([&](const candidate_term& c) {
      if (open && open->term.fingerprint == c.fingerprint) {
        if (open->group == no_group) {
          open->group = static_cast<std::uint32_t>(groups_.size());
          groups_.emplace_back();
        }
        events.push({c, open->group, false});
        return;
      }
      if (open) {
        events.push(*open);
      }
      open = event{c, no_group, true};
      if (const auto known = known_.find(c.fingerprint); known != known_.end()) {
        open->group = static_cast<std::uint32_t>(groups_.size());
        open->first = false;
        auto& group = groups_.emplace_back();
        for (const auto id : known->second) {
          group.push_back({true, id, {}, {}});
        }
      }
    });
    if (open) {
      events.push(*open);
    }
    counts_.spilled_runs += events.runs();
    events.drain([&](const event& e) { settle(e); });
    join_parts();
    if (!last_) {
      store_classes();
    }
    counts_.value_bytes = samples_.bytes();
  }
  void settle(const event& e) {
    auto* const group = e.group == no_group ? nullptr : &groups_[e.group];
    const auto t = e.term.get(store_);
    const auto facts = e.term.facts(store_);
    if (!e.first && equals_earlier(t, facts, e.term.program, *group)) {
      ++counts_.equalities;
      counts_.named += samples_.choices(facts);
      return;
    }
    ++counts_.classes;
    if (group != nullptr) {
      group->push_back({false, 0, e.term, {}});
    }
    add_class(t, facts, e.term);
  }
  // Whether the term equals an earlier one. A rule that rewrites it to an earlier term answers directly; otherwise
  // meanings are compared.
  bool equals_earlier(const stored_term& t, const term_facts& facts, std::uint32_t program,
                      std::vector<representative>& group) {
    const auto explained = rules_.explain(t, facts, [&](const stored_term& other) {
      const auto& a = applications_(store_, other);
      return a ? std::optional{a->type} : std::nullopt;
    });
    if (explained) {
      remember(t, *explained);
      return true;
    }
    const auto mine = meanings_.of(t, facts, program);
    for (auto& r : group) {
      if (meaning_of(r).deep == mine.deep && agree(t, facts, mine, r)) {
        emit(t, facts, mine, r);
        return true;
      }
    }
    ++counts_.false_matches;
    return false;
  }
  void remember(const stored_term& t, const canonical_term& by) {
    if (!last_) {
      members_.push_back({t, by});
    }
  }
  const meaning& meaning_of(representative& r) {
    if (!r.known) {
      r.known =
          r.stored ? meanings_.of(r.orbit) : meanings_.of(r.term.get(store_), r.term.facts(store_), r.term.program);
    }
    return *r.known;
  }
  [[nodiscard]] term_facts facts_of_class(const representative& r) const {
    return r.stored ? store_[r.orbit].facts : r.term.facts(store_);
  }
  [[nodiscard]] stored_term term_of_class(const representative& r) const {
    return r.stored ? meanings_.term_of(r.orbit) : r.term.get(store_);
  }
  // Whether a term that agrees with a class at some sizes also agrees at others.
  [[nodiscard]] bool agree(const stored_term& t, const term_facts& facts, const meaning& mine, representative& r) {
    return meanings_.deep_fingerprint(t, facts, mine.names, true) ==
           meanings_.deep_fingerprint(term_of_class(r), facts_of_class(r), meaning_of(r).names, true);
  }

  void emit(const stored_term& t, const term_facts& facts, const meaning& mine, representative& r) {
    const auto class_facts = facts_of_class(r);
    const auto class_term = term_of_class(r);
    if (const auto map = translate(class_facts, meaning_of(r), facts, mine)) {
      rules_.add({t, facts, renamed(class_term, *map), class_facts.size});
      remember(t, {class_term, *map, class_facts.variables});
      if (language_.may_ignore(t.op)) {
        parts_[t] = renamed(class_term, *map);
      }
    } else if (const auto back = translate(facts, mine, class_facts, meaning_of(r));
               back && class_term.op != term_node::variable) {
      rules_.add({class_term, class_facts, renamed(t, *back), facts.size});
    }
  }
  [[nodiscard]] stored_term renamed(stored_term t, variable_map names) const {
    for (std::size_t i = 0; i < t.arity; ++i) {
      t.operands[i].map = t.operands[i].map.then(names, store_[t.operands[i].orbit].facts.variables);
    }
    return t;
  }
  // If all results of an operation equal earlier terms, they form a rule together.
  void join_parts() {
    std::vector<std::pair<stored_term, stored_term>> all{parts_.begin(), parts_.end()};
    const auto key = [](const stored_term& t) { return std::tuple{t.operands[0].orbit, t.op}; };
    std::sort(all.begin(), all.end(), [&](const auto& a, const auto& b) { return key(a.first) < key(b.first); });
    for (const auto& [t, equal] : all) {
      found_joint_rule joint{{t}, store_[t.operands[0].orbit].facts, {equal}};
      for (auto next = language_.next_result(t.op); next; next = language_.next_result(*next)) {
        auto other = t;
        other.op = static_cast<std::uint16_t>(*next);
        joint.left.push_back(other);
        if (const auto found = parts_.find(other); found != parts_.end()) {
          joint.right.push_back(found->second);
        }
      }
      // A rule cannot begin with a bare variable.
      const bool plain = std::any_of(joint.right.begin(), joint.right.end(),
                                     [](const stored_term& r) { return r.op == term_node::variable; });
      if (joint.left.size() > 1 && joint.left.size() == joint.right.size() && !plain) {
        joint_.push_back(std::move(joint));
      }
    }
    parts_.clear();
  }

  // Adds a new class. If a term equals itself under a renaming, that is a rule, unless commutativity already implies
  // it.
  void add_class(const stored_term& t, const term_facts& facts, const candidate_term& c) {
    std::vector<variable_map> group{variable_map::identity().cut(facts.variables)};
    if (c.symmetric != 0) {
      const auto known = [&](std::vector<variable_map>& out) { rules_.self_renamings(t, out); };
      group = meanings_.symmetries(t, facts, c.program, known, [&](variable_map renaming) {
        rules_.add({t, facts, renamed(t, renaming), facts.size});
      });
    }
    if (!last_) {
      new_classes_.push_back({c, std::move(group)});
    }
  }
  // Effects: stores new classes as terms; records every term of this size with its class.
  void store_classes() {
    for (const auto& [c, group] : new_classes_) {
      store_class(c.get(store_), c.facts(store_), c.fingerprint, group);
    }
    // In the order of terms, so that the term it equals is present already.
    for (const auto& m : members_) {
      if (m.by.term.op == term_node::variable) {
        table_.emplace(m.equal, term_instance{m.by.term.operands[0].orbit, m.by.names});
      } else if (const auto found = table_.find(m.by.term); found != table_.end()) {
        const auto [id, map] = found->second;
        table_.emplace(m.equal, term_instance{id, map.then(m.by.names, store_[id].facts.variables)});
      }
    }
    new_classes_ = {};
    members_ = {};
  }
  void store_class(const stored_term& t, const term_facts& facts, std::uint64_t value,
                   std::span<const variable_map> group) {
    const auto id = store_.add(t, facts, applications_(store_, t)->program, group);
    meanings_.stored(id);
    known_[value].push_back(id);
    table_.emplace(t, term_instance{id, variable_map::identity().cut(facts.variables)});
    // Does not keep values of the last size but one: they would use the most memory, and are operands of few terms,
    // which are contiguous.
    if (facts.size + std::size_t{1} < options_.most_operators) {
      samples_.keep(store_, id);
    }
  }

  L& language_;
  enumeration_options options_;
  term_store store_;
  term_table table_;
  samples<L> samples_;
  application_table<L> applications_;
  meanings<L> meanings_;
  known_rules rules_;
  std::vector<found_joint_rule> joint_;
  thread_pool pool_;
  std::vector<typename samples<L>::scratch> scratches_;
  std::size_t size_ = 0;
  bool last_ = false;
  enumeration_counts counts_;
  std::unordered_map<std::uint64_t, std::vector<orbit_id>> known_;  // stored terms by fingerprint
  std::vector<std::vector<representative>> groups_;
  std::vector<std::pair<candidate_term, std::vector<variable_map>>> new_classes_;
  std::vector<member> members_;
  // results of operations with several results, and the terms they equal
  std::unordered_map<stored_term, stored_term, term_hash> parts_;
};

}  // namespace unity

#include <unity/rewrite/generation/detail/enumeration_checkpoint.hpp>
