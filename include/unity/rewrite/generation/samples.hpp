// Values of stored terms at sample points, and fingerprints that do not depend on the names of variables.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/rewrite/generation/language.hpp>
#include <unity/rewrite/generation/residue.hpp>
#include <unity/rewrite/generation/sample_program.hpp>
#include <unity/rewrite/generation/term_store.hpp>
#include <unity/rewrite/generation/variable_map.hpp>

namespace unity {

// A fingerprint and the namings (variable to number within its sort) at which it is attained, least first.
struct named_fingerprint {
  std::uint64_t value = 0;
  std::vector<variable_map> names{};
  std::uint8_t relevant = 0;  // bit i: the value depends on variable i
};

// Sample values of stored terms for every choice of distinct variables. One scratch per thread.
template <term_language L>
class samples {
 public:
  struct scratch {
    std::vector<residue> temporaries{};
    std::vector<residue> probes{};
    std::vector<std::uint64_t> hashes{};
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

  // Of a variable, as of every other term.
  [[nodiscard]] std::uint64_t variable_fingerprint(const orbit& o) const {
    std::vector<residue> chosen;
    for (const auto e : language_.probe_elements(o.facts.type)) {
      chosen.push_back(values_[o.values + e]);
    }
    return hash_combine(o.facts.type, hash(chosen));
  }

  // Where the values of variables begin, by sort: orbit::values of the first orbits.
  [[nodiscard]] std::uint64_t variable_offset(std::size_t sort) const { return offsets_[sort]; }
  [[nodiscard]] std::size_t bytes() const noexcept { return values_.capacity() * sizeof(residue); }

  // How many choices of distinct variables there are, and the number of one.
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
    return found != permutations_.end() ? found->second : permutations_.emplace(key, make_permutations(f, most_, true)).first->second;
  }

  // Effects: computes and keeps the values of a stored term under every naming.
  void keep(term_store& store, orbit_id id, std::uint32_t program) {
    auto& o = store.at(id);
    const auto elements = language_.elements(o.facts.type);
    o.values = values_.size();
    const auto& p = language_.program(program);
    mine_.temporaries.resize(std::max(mine_.temporaries.size(), p.temporaries()));
    values_.resize(values_.size() + elements * choices(o.facts));
    for (const auto& names : injections(o.facts)) {
      auto* out = values_.data() + o.values + rank(o.facts, names) * elements;
      p.run(operands(store, o.term, names), mine_.temporaries.data(), out);
    }
  }

  // Of op(operands): least over the namings of its variables. Safe from several threads, each with its scratch, where
  // permutations(f) was asked for before.
  [[nodiscard]] std::uint64_t fingerprint(const term_store& store, const term& t, const term_facts& f,
                                          std::uint32_t program, bool may_ignore, scratch& s) const {
    if (may_ignore && f.variables > 0) {
      return name(store, t, f, program, may_ignore, s).value;
    }
    auto least = std::numeric_limits<std::uint64_t>::max();
    for (const auto names : permutations_.find(std::pair{f.sorts.bits(), f.variables})->second) {
      least = std::min(least, probe(store, t, names, program, s));
    }
    return hash_combine(f.type, least);
  }
  // The same, with the namings.
  [[nodiscard]] named_fingerprint name(const term_store& store, const term& t, const term_facts& f,
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
  [[nodiscard]] std::array<const residue*, sample_program::most_operands> operands(const term_store& store, const term& t,
                                                                                   variable_map names) const noexcept {
    std::array<const residue*, sample_program::most_operands> at{};
    for (std::size_t i = 0; i < t.arity; ++i) {
      const auto& o = store[t.operands[i].orbit];
      const auto row = rank(o.facts, t.operands[i].map.then(names, o.facts.variables));
      at[i] = values_.data() + o.values + row * language_.elements(o.facts.type);
    }
    return at;
  }
  [[nodiscard]] std::uint64_t probe(const term_store& store, const term& t, variable_map names, std::uint32_t program,
                                    scratch& s) const {
    const auto& p = language_.probe(program);
    if (s.temporaries.size() < p.temporaries()) {
      s.temporaries.resize(p.temporaries());
    }
    if (s.probes.size() < p.output_count()) {
      s.probes.resize(p.output_count());
    }
    p.run(operands(store, t, names), s.temporaries.data(), s.probes.data());
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
  // Which variables the value depends on: one that can be replaced by a fresh one without a change is ignored.
  [[nodiscard]] std::uint8_t relevant(const term_store& store, const term& t, const term_facts& f, std::uint32_t program,
                                      variable_map names, scratch& s) const {
    std::array<std::uint8_t, 16> used{};
    for (std::size_t i = 0; i < f.variables; ++i) {
      ++used[f.sorts[i]];
    }
    std::uint8_t bits = 0;
    const auto base = probe(store, t, names, program, s);
    for (std::size_t i = 0; i < f.variables; ++i) {
      auto other = names;
      other.set(i, used[f.sorts[i]]);
      const bool spare = used[f.sorts[i]] < most_;
      bits |= static_cast<std::uint8_t>(!spare || probe(store, t, other, program, s) != base ? 1U << i : 0U);
    }
    return bits;
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
  // Relevant variables take the first numbers in every order, ignored ones the rest in one.
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
    return found != injections_.end() ? found->second : injections_.emplace(key, make_permutations(f, most_, false)).first->second;
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
