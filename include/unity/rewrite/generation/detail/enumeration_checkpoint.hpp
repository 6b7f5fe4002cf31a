// How an enumeration is kept in a file, and goes on from it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <unity/core/archive.hpp>
#include <unity/core/config.hpp>
#include <unity/rewrite/generation/enumerate.hpp>
#include <unity/rewrite/generation/known_rules.hpp>
#include <unity/rewrite/generation/language.hpp>
#include <unity/rewrite/generation/detail/stored_terms.hpp>
#include <unity/rewrite/generation/term_store.hpp>
#include <unity/rewrite/generation/variable_map.hpp>

namespace unity {

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
  // In an order that does not depend on the hash table.
  std::vector<std::pair<term, instance>> known{table_.begin(), table_.end()};
  const auto key = [](const term& t) {
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

template <term_language L>
void enumeration<L>::resume(const std::string& path, std::uint64_t of) {
  UNITY_EXPECTS(size_ == 0, "an enumeration that has not begun");
  archive_reader in{path, magic};
  std::uint64_t found = 0;
  in.get(found);
  if (found != of) {
    in.fail("an enumeration of other operators or options");
  }
  std::uint64_t size = 0;
  in.get(size);
  std::uint8_t ended = 0;
  in.get(ended);
  if (size > options_.most_operators) {
    in.fail("an enumeration of more operators than " + std::to_string(options_.most_operators));
  }
  // The classes of the last size were not stored.
  if (ended > 1 || (ended == 1 && size < options_.most_operators)) {
    in.fail("an enumeration that ends with " + std::to_string(size) + " operators");
  }
  last_ = ended == 1;
  in.get(counts_);
  // A language numbers types as it meets them, now in another order: types and fingerprints are not those of the file.
  stored_term_check check{language_, store_, options_.variables};
  const auto expect = [&](bool holds) {
    if (!holds) {
      in.fail("a term that is not over those before it");
    }
  };
  const auto type_of = [&](const term& t) {
    const auto& a = applications_(store_, t);
    if (!a) {
      in.fail("a term that the operators do not make");
    }
    return *a;
  };
  std::uint64_t count = 0;
  in.get(count);
  for (; count > 0; --count) {
    term t;
    term_facts facts;
    std::vector<variable_map> group;
    in.get(t);
    in.get(facts);
    in.get(group);
    expect(check.is_term(t, facts) && facts.size <= size && check.are_renamings(group, facts));
    const auto made = type_of(t);
    facts.type = made.type;
    static_cast<void>(samples_.permutations(facts));
    const auto value =
        samples_.fingerprint(store_, t, facts, made.program, meanings_.may_ignore(t), scratches_[0]).first;
    store_class(t, facts, value, group);
  }
  in.get(count);
  for (; count > 0; --count) {
    term t;
    instance i;
    in.get(t);
    in.get(i);
    expect(check.is_term(t) && check.is_over(i, t));
    table_.insert_or_assign(t, i);
  }
  std::vector<found_rule> rules;
  in.get(rules);
  for (auto& r : rules) {
    expect(check.is_term(r.left, r.facts) && check.is_over(r.right, r.facts));
    r.facts.type = type_of(r.left).type;
    rules_.add(r);
  }
  in.get(count);
  for (; count > 0; --count) {
    auto& j = joint_.emplace_back();
    in.get(j.left);
    in.get(j.facts);
    in.get(j.right);
    expect(!j.left.empty() && j.left[0].arity > 0 && j.left.size() == j.right.size());
    for (std::size_t i = 0; i < j.left.size(); ++i) {
      expect(check.is_term(j.left[i]) && check.is_over(j.left[i], j.facts) && check.is_over(j.right[i], j.facts));
    }
    j.facts.type = store_[j.left[0].operands[0].orbit].facts.type;
  }
  size_ = size;
}

}  // namespace unity
