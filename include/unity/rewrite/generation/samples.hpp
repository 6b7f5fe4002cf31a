// Values of stored terms at sample points, and fingerprints that do not depend on the names of variables.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/rewrite/generation/language.hpp>
#include <unity/rewrite/generation/term_store.hpp>

namespace unity {

// Which variables the elements of a sample value are computed from.

// For every element the set of variables, bit i for variable i.
using variable_marks = std::vector<std::uint8_t>;

// The same with variable i renamed to map[i].
[[nodiscard]] variable_marks renamed(variable_marks marks, variable_map map);

// The marks of what a program computes from operands.
[[nodiscard]] variable_marks marks_of(const sample_program& p,
                                      const std::array<variable_marks, sample_program::most_operands>& operands);

// The marks of a stored term. Complexity: that of the programs of all of its operators.
template <term_language L>
[[nodiscard]] variable_marks marks_of(const L& language, const term_store& store, orbit_id id) {
  const auto& o = store[id];
  if (o.term.op == term_node::variable) {
    return variable_marks(language.elements(o.facts.type), std::uint8_t{1});
  }
  std::array<variable_marks, sample_program::most_operands> operands;
  for (std::size_t i = 0; i < o.term.arity; ++i) {
    operands[i] = renamed(marks_of(language, store, o.term.operands[i].orbit), o.term.operands[i].map);
  }
  return marks_of(language.program(o.program), operands);
}

// A fingerprint and the namings (variable to number within its sort) that yield it, least first.
struct named_fingerprint {
  std::uint64_t value = 0;
  std::vector<variable_map> names{};
  std::uint8_t relevant = 0;  // bit i: the value depends on variable i
};

// Sample values of stored terms for every choice of distinct variables. Values of kept terms are in memory; others are
// computed on demand, which is cheap if terms over the same operand are processed together. One scratch per thread.
template <term_language L>
class samples {
  // Values of one term that is not kept, by number of the choice of variables.
  struct computed_rows {
    std::optional<orbit_id> of{};
    std::vector<bool> have{};
    std::vector<residue> values{};
  };

 public:
  struct scratch {
    std::vector<residue> temporaries{};
    std::vector<residue> probes{};
    std::array<computed_rows, sample_program::most_operands> recent{};
    std::optional<orbit_id> marked{};
    variable_marks marks{};  // of the term `marked`
  };

  samples(const L& language, std::size_t variables) : language_{language}, most_{variables} {
    const auto sorts = language_.sorts();
    for (std::size_t s = 0; s < sorts.size(); ++s) {
      offsets_.push_back(values_.size());
      const auto elements = language_.elements(sorts[s]);
      values_.resize(values_.size() + elements * most_);
      for (std::size_t v = 0; v < most_; ++v) {
        language_.variable_value(s, v, values_.data() + offsets_.back() + v * elements);
      }
    }
  }

  // The fingerprint of a variable, consistent with that of other terms.
  [[nodiscard]] std::uint64_t variable_fingerprint(const term_orbit& o) const {
    std::vector<residue> chosen;
    for (const auto e : language_.probe_elements(o.facts.type)) {
      chosen.push_back(values_[o.values + e]);
    }
    return hash_combine(o.facts.type, hash(chosen));
  }

  // Offsets of the values of variables, by sort: orbit::values of the first orbits.
  [[nodiscard]] std::uint64_t variable_offset(std::size_t sort) const { return offsets_[sort]; }
  [[nodiscard]] std::size_t bytes() const noexcept { return values_.capacity() * sizeof(residue); }

  // The number of choices of distinct variables, and the index of one.
  [[nodiscard]] std::size_t choices(const term_facts& f) const {
    std::array<std::uint8_t, 16> used{};
    std::size_t count = 1;
    for (std::size_t i = 0; i < f.variables; ++i) {
      count *= most_ - used[f.sorts[i]]++;
    }
    return count;
  }
  [[nodiscard]] std::size_t rank(const term_facts& f, variable_map names) const noexcept {
    std::array<std::uint32_t, 16> taken{};
    std::array<std::uint8_t, 16> used{};
    std::size_t rank = 0;
    for (std::size_t i = 0; i < f.variables; ++i) {
      const auto sort = f.sorts[i];
      const auto name = names[i];
      const auto below = static_cast<std::size_t>(__builtin_popcount(taken[sort] & ((1U << name) - 1)));
      rank = rank * (most_ - used[sort]++) + (name - below);
      taken[sort] |= 1U << name;
    }
    return rank;
  }
  // The namings of f's variables by the first numbers of their sorts.
  [[nodiscard]] std::span<const variable_map> permutations(const term_facts& f) {
    const auto key = std::pair{f.sorts.bits(), f.variables};
    const auto found = permutations_.find(key);
    return found != permutations_.end() ? found->second
                                        : permutations_.emplace(key, make_permutations(f, most_, true)).first->second;
  }

  // Effects: computes and keeps the values of a stored term under every naming.
  void keep(term_store& store, orbit_id id) {
    auto& o = store.at(id);
    const auto elements = language_.elements(o.facts.type);
    const auto from = values_.size();
    values_.resize(from + elements * choices(o.facts));
    for (const auto& names : injections(o.facts)) {
      compute(store, o, names, mine_, values_.data() + from + rank(o.facts, names) * elements);
    }
    o.values = from;
  }

  // The fingerprint of op(operands): the least over the namings of its variables, and whether several namings yield it.
  // Thread-safe with one scratch per thread, if permutations(f) was called before.
  [[nodiscard]] std::pair<std::uint64_t, bool> fingerprint(const term_store& store, const stored_term& t,
                                                           const term_facts& f, std::uint32_t program, bool may_ignore,
                                                           scratch& s) const {
    if (may_ignore && f.variables > 0) {
      const auto named = name(store, t, f, program, may_ignore, s);
      return {named.value, named.names.size() > 1};
    }
    auto least = std::numeric_limits<std::uint64_t>::max();
    std::size_t attained = 0;
    for (const auto names : permutations_.find(std::pair{f.sorts.bits(), f.variables})->second) {
      const auto h = probe(store, t, names, program, s);
      attained = h < least ? 1 : attained + (h == least ? 1U : 0U);
      least = std::min(least, h);
    }
    return {hash_combine(f.type, least), attained > 1};
  }
  // The same, including the namings.
  [[nodiscard]] named_fingerprint name(const term_store& store, const stored_term& t, const term_facts& f,
                                       std::uint32_t program, bool may_ignore, scratch& s) const {
    named_fingerprint best;
    best.relevant = static_cast<std::uint8_t>((1U << f.variables) - 1);
    std::vector<variable_map> own;
    std::span<const variable_map> all = permutations_.find(std::pair{f.sorts.bits(), f.variables})->second;
    if (may_ignore) {
      best.relevant = relevant(store, t, f, program, all[0], s);
      if (best.relevant != (1U << f.variables) - 1) {
        own = partial_permutations(f, best.relevant);
        all = own;
      }
    }
    auto least = std::numeric_limits<std::uint64_t>::max();
    for (const auto names : all) {
      const auto h = probe(store, t, names, program, s);
      if (h < least) {
        least = h;
        best.names.clear();
      }
      if (h == least) {
        best.names.push_back(names);
      }
    }
    best.value = hash_combine(f.type, least);
    return best;
  }

 private:
  using operand_rows = std::array<const residue*, sample_program::most_operands>;

  [[nodiscard]] operand_rows operands(const term_store& store, const stored_term& t, variable_map names,
                                      scratch& s) const {
    operand_rows at{};
    computed_rows* used = nullptr;
    for (std::size_t i = 0; i < t.arity; ++i) {
      const auto& o = store[t.operands[i].orbit];
      const auto own = t.operands[i].map.then(names, o.facts.variables);
      const auto offset = rank(o.facts, own) * language_.elements(o.facts.type);
      if (o.values != term_orbit::not_kept) {
        at[i] = values_.data() + o.values + offset;
        continue;
      }
      auto& rows = rows_of(store, t.operands[i].orbit, used, s);
      used = &rows;
      at[i] = computed(store, o, own, offset, rows, s);
    }
    return at;
  }
  // The rows for the values of a term that is not kept; does not overwrite `used`.
  [[nodiscard]] computed_rows& rows_of(const term_store& store, orbit_id id, const computed_rows* used,
                                       scratch& s) const {
    for (auto& rows : s.recent) {
      if (rows.of == id) {
        return rows;
      }
    }
    auto& rows = s.recent[&s.recent[0] == used ? 1 : 0];
    const auto& facts = store[id].facts;
    rows.of = id;
    rows.have.assign(choices(facts), false);
    rows.values.resize(std::max(rows.values.size(), rows.have.size() * language_.elements(facts.type)));
    return rows;
  }
  // Precondition: the operands are kept.
  [[nodiscard]] const residue* computed(const term_store& store, const term_orbit& o, variable_map names,
                                        std::size_t offset, computed_rows& rows, scratch& s) const {
    auto* const out = rows.values.data() + offset;
    const auto number = offset / language_.elements(o.facts.type);
    if (!rows.have[number]) {
      compute(store, o, names, s, out);
      rows.have[number] = true;
    }
    return out;
  }
  void compute(const term_store& store, const term_orbit& o, variable_map names, scratch& s, residue* out) const {
    const auto& p = language_.program(o.program);
    const auto at = operands(store, o.term, names, s);
    s.temporaries.resize(std::max(s.temporaries.size(), p.temporaries()));
    p.run(at, s.temporaries.data(), out);
  }
  [[nodiscard]] std::uint64_t probe(const term_store& store, const stored_term& t, variable_map names,
                                    std::uint32_t program, scratch& s) const {
    const auto& p = language_.probe(program);
    const auto at = operands(store, t, names, s);
    s.temporaries.resize(std::max(s.temporaries.size(), p.temporaries()));
    s.probes.resize(std::max(s.probes.size(), p.output_count()));
    p.run(at, s.temporaries.data(), s.probes.data());
    return hash(std::span{s.probes}.first(p.output_count()));
  }
  [[nodiscard]] static std::uint64_t hash(std::span<const residue> values) noexcept {
    std::uint64_t h = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      h += (values[i].value() + std::uint64_t{1}) * (0x9e3779b97f4a7c15U * (2 * i + 1) ^ 0xd6e8feb86659fd93U);
      h ^= h >> 29U;
    }
    return mix64(h);
  }
  // The variables that the value depends on. A variable is irrelevant if replacing it by a fresh one changes nothing.
  // If no variable of its sort is left, it is irrelevant if the probed elements are not computed from it.
  [[nodiscard]] std::uint8_t relevant(const term_store& store, const stored_term& t, const term_facts& f,
                                      std::uint32_t program, variable_map names, scratch& s) const {
    std::array<std::uint8_t, 16> used{};
    for (std::size_t i = 0; i < f.variables; ++i) {
      ++used[f.sorts[i]];
    }
    std::uint8_t bits = 0;
    std::optional<std::uint8_t> reads;
    const auto base = probe(store, t, names, program, s);
    for (std::size_t i = 0; i < f.variables; ++i) {
      if (used[f.sorts[i]] < most_) {
        auto other = names;
        other.set(i, used[f.sorts[i]]);
        bits |= static_cast<std::uint8_t>(probe(store, t, other, program, s) != base ? 1U << i : 0U);
      } else {
        reads = reads ? reads : probed_variables(store, t, program, s);
        bits |= static_cast<std::uint8_t>(*reads & 1U << i);
      }
    }
    return bits;
  }
  // The variables that the probed elements of a term are computed from; all variables if the operator ignores none of
  // its operands.
  [[nodiscard]] std::uint8_t probed_variables(const term_store& store, const stored_term& t, std::uint32_t program,
                                              scratch& s) const {
    if (!language_.may_ignore(t.op)) {
      return 0xff;
    }
    std::array<variable_marks, sample_program::most_operands> operands;
    for (std::size_t i = 0; i < t.arity; ++i) {
      const auto id = t.operands[i].orbit;
      if (s.marked != id) {
        s.marks = marks_of(language_, store, id);
        s.marked = id;
      }
      operands[i] = renamed(s.marks, t.operands[i].map);
    }
    std::uint8_t all = 0;
    for (const auto m : marks_of(language_.probe(program), operands)) {
      all |= m;
    }
    return all;
  }

  [[nodiscard]] static std::vector<variable_map> make_permutations(const term_facts& f, std::size_t most, bool first) {
    std::array<std::uint8_t, 16> of_sort{};
    for (std::size_t i = 0; i < f.variables; ++i) {
      ++of_sort[f.sorts[i]];
    }
    std::vector<variable_map> all;
    std::array<std::uint32_t, 16> taken{};
    const auto choose = [&](const auto& self, std::size_t i, variable_map map) -> void {
      if (i == f.variables) {
        all.push_back(map);
        return;
      }
      const auto sort = f.sorts[i];
      for (std::size_t v = 0; v < (first ? of_sort[sort] : most); ++v) {
        if ((taken[sort] >> v & 1U) == 0) {
          taken[sort] |= 1U << v;
          map.set(i, v);
          self(self, i + 1, map);
          taken[sort] &= ~(1U << v);
        }
      }
    };
    choose(choose, 0, variable_map{});
    return all;
  }
  // Relevant variables take the first numbers in every order, irrelevant ones the rest in a single order.
  [[nodiscard]] static std::vector<variable_map> partial_permutations(const term_facts& f, std::uint8_t relevant) {
    term_facts kept;
    std::array<std::uint8_t, 16> of_sort{};
    for (std::size_t i = 0; i < f.variables; ++i) {
      if ((relevant >> i & 1U) != 0) {
        kept.sorts.set(kept.variables++, f.sorts[i]);
        ++of_sort[f.sorts[i]];
      }
    }
    std::vector<variable_map> all;
    for (const auto part : make_permutations(kept, 0, true)) {
      variable_map map;
      auto next = of_sort;
      for (std::size_t i = 0, k = 0; i < f.variables; ++i) {
        map.set(i, (relevant >> i & 1U) != 0 ? part[k++] : next[f.sorts[i]]++);
      }
      all.push_back(map);
    }
    return all;
  }
  [[nodiscard]] const std::vector<variable_map>& injections(const term_facts& f) {
    const auto key = std::pair{f.sorts.bits(), f.variables};
    const auto found = injections_.find(key);
    return found != injections_.end() ? found->second
                                      : injections_.emplace(key, make_permutations(f, most_, false)).first->second;
  }

  const L& language_;
  std::size_t most_;
  std::vector<residue> values_;
  std::vector<std::uint64_t> offsets_;
  std::map<std::pair<std::uint32_t, std::uint8_t>, std::vector<variable_map>> permutations_;
  std::map<std::pair<std::uint32_t, std::uint8_t>, std::vector<variable_map>> injections_;
  scratch mine_;
};

}  // namespace unity

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_REWRITE_GENERATION_SAMPLES)

namespace unity {

UNITY_INLINE variable_marks renamed(variable_marks marks, variable_map map) {
  for (auto& m : marks) {
    unsigned bits = 0;
    for (std::size_t v = 0; v < variable_map::most; ++v) {
      bits |= (m >> v & 1U) << map[v];
    }
    m = static_cast<std::uint8_t>(bits);
  }
  return marks;
}

UNITY_INLINE variable_marks marks_of(const sample_program& p,
                                     const std::array<variable_marks, sample_program::most_operands>& operands) {
  variable_marks temporaries(p.temporaries());
  variable_marks out(p.output_count());
  p.collect_marks({operands[0].data(), operands[1].data()}, temporaries.data(), out.data());
  return out;
}

}  // namespace unity

#endif
